"""What chat templates do to a growing conversation is found before a run, and told with its worst single miss."""

from __future__ import annotations

from importlib import resources

import pytest

from infermaxx_tui.core.events import RequestEnded
from infermaxx_tui.core.fold_prefix import Prefixes
from infermaxx_tui.core.prefix_truth import (
    cost_lines,
    findings_line,
    prefix_cost,
    template_findings,
    truth_lines,
)
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall, Window
from infermaxx_tui.core.volatile_prompts import PromptWatch, parting_lines, partings
from infermaxx_tui.vocabulary import Vocabulary, shipped

_QWEN = """
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{ (tool | tojson) + '\\n' }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning and loop.index0 > ns.last %}
{{- '<think>\\n' + message.reasoning + '\\n</think>\\n\\n' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
{{- (call.function.arguments | tojson) + '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
"""In the manner of Qwen3: reasoning is kept after the last user's message alone."""


def _with_template(name: str, template: str) -> Vocabulary:
    data = resources.files("infermaxx_tui") / "data"
    return Vocabulary(name, (data / "tokenizer.json").read_text(encoding="utf-8"), template)


STRIPS = _with_template("strips", _QWEN)
DATED = _with_template("dated", "{{ '<|im_start|>system\\nToday is 26 Jul 2024.<|im_end|>\\n' }}" + _QWEN)
MOVES = _with_template(
    "moves",
    _QWEN.replace(
        "{%- for message in messages %}\n{%- if message.role == 'assistant' %}",
        "{%- for message in messages %}\n{%- if tools and loop.index0 == ns.last %}{{ (tools[0] | tojson) }}{% endif %}"
        "\n{%- if message.role == 'assistant' %}",
    ).replace("{%- if tools %}", "{%- if false %}"),
)


def session(steps: int, users: int) -> Session:
    """A session that thinks at each step: `users` messages, each followed by so many tool steps and an answer."""
    requests = []
    for user in range(users):
        for step in range(steps + 1):
            delta: tuple[Message, ...] = (
                Message("tool", f"{step} of {user} is done", tool_call_id=f"c{user}-{step - 1}"),
            )
            if not step:
                delta = (Message("user", f"Do part {user}."),)
            if not step and not user:
                delta = (Message("system", "You work."), *delta)
            calls = (ToolCall(f"c{user}-{step}", "walk", '{"far": 3}'),) if step < steps else ()
            thought = "I look at the next part, since the one before it is done. " * 3
            requests.append(Request(delta, Message("assistant", "Next.", reasoning=thought, tool_calls=calls)))
    return Session("s", "openai-chat", "s.jsonl", (Window("start", tuple(requests)),))


def test_the_shipped_template_loses_nothing() -> None:
    findings = template_findings(shipped())
    assert not any(one.breaks for one in findings)
    cost = prefix_cost(session(3, 3), shipped())
    assert (cost.missed_tokens, cost.share, cost.worst) == (0, 1.0, None)
    assert len(cost.turns) == 11
    assert truth_lines((session(3, 3),), shipped(), chat=True) == ()


@pytest.mark.parametrize(
    ("renderer", "names"),
    [
        (STRIPS, {"strips_thinking"}),
        (DATED, {"strips_thinking", "inserts_date"}),
        (MOVES, {"strips_thinking", "moves_tools"}),
    ],
    ids=["strips", "dated", "moves"],
)
def test_what_a_template_does_is_found(renderer: Vocabulary, names: set[str]) -> None:
    assert {one.name for one in template_findings(renderer) if one.breaks} == names


def test_stripped_thinking_costs_at_each_user_message_and_nothing_at_tools() -> None:
    cost = prefix_cost(session(4, 3), STRIPS)
    by_user = [turn for turn in cost.turns if turn.after_user]
    assert len(by_user) == 2
    assert all(turn.missed_tokens == 0 for turn in cost.turns if not turn.after_user)
    thought = len(STRIPS.encode("I look at the next part, since the one before it is done. " * 3))
    assert all(turn.missed_tokens > 5 * thought for turn in by_user)
    assert cost.worst is max(by_user, key=lambda turn: turn.missed_tokens)
    assert cost.per_user_message == sum(turn.missed_tokens for turn in by_user) / 2
    (head, line) = cost_lines([cost], 100.0)
    assert "worst" in head
    assert f"{cost.worst.missed_tokens / 100:.3g} s" in line


def test_the_remark_before_a_run_names_the_worst_miss_and_who_pays() -> None:
    (chat,) = truth_lines((session(4, 3),), STRIPS, chat=True)
    (tokens,) = truth_lines((session(4, 3),), STRIPS, chat=False)
    worst = prefix_cost(session(4, 3), STRIPS).worst
    assert worst is not None
    for line in (chat, tokens):
        assert "takes the reasoning out of earlier replies" in line
        assert f"{worst.missed_tokens} of {worst.kept_tokens + worst.missed_tokens} tokens" in line
        assert "seconds not known" in line
    assert "the server pays" in chat
    assert "by token ids nothing of that is paid" in tokens
    (unmeasured,) = truth_lines((session(4, 3),), STRIPS, chat=True, most_tokens=0)
    assert "was not measured" in unmeasured


def test_a_check_of_limited_size_says_what_it_left_out() -> None:
    whole = prefix_cost(session(4, 4), STRIPS)
    part = prefix_cost(session(4, 4), STRIPS, most_tokens=600)
    assert 0 < len(part.turns) < len(whole.turns)
    assert part.turns == whole.turns[: len(part.turns)]
    assert len(part.turns) + part.left_out == len(whole.turns)
    assert findings_line(shipped(), ()).endswith("leaves earlier turns as they are")


def _prompted(name: str, *prompts: str) -> Session:
    ask = (Message("user", "Go."), Message("assistant", "Done."))
    windows = tuple(
        Window("start" if not n else "compaction", (Request((Message("system", text), ask[0]), ask[1]),))
        for n, text in enumerate(prompts)
    )
    return Session(name, "openai-chat", "x.jsonl", windows)


_RULES = "\n".join(f"Rule {n}: leave part {n} as it is unless you are asked to change it." for n in range(12))


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        ("a date", "Today is 2026-05-01.", "Today is 2026-05-02."),
        ("a date", "Today is 3 May 2026.", "Today is 4 May 2026."),
        ("a time", "It is 10:41 now.", "It is 10:42 now."),
        ("an id", "Session 0b9e7c1a-11aa-4b5c-9d8e-0123456789ab.", "Session 1c9e7c1a-11aa-4b5c-9d8e-0123456789ab."),
        ("a folder", "You work in /home/dev/one here.", "You work in /home/dev/two here."),
        ("the state of a repository", "On branch main", "On branch fix-loop"),
        ("a nonce", "cch=a81f90bc22d1;", "cch=77e1d0ffab02;"),
        ("a text", "You are brief.", "You are verbose."),
    ],
)
def test_the_place_where_prompts_part_is_named_and_priced(kind: str, here: str, there: str) -> None:
    one, other = (_prompted(name, f"You help.\n{text}\n{_RULES}") for name, text in (("a", here), ("b", there)))
    (found,) = partings((one, other), shipped())
    assert (found.kind, found.first, found.second, found.inside) == (kind, "a", "b", False)
    whole = len(shipped().encode(f"You help.\n{there}\n{_RULES}"))
    assert abs(found.shared_tokens + found.lost_tokens - whole) <= 2
    assert found.lost_tokens > len(shipped().encode(_RULES)) - 2
    lines = parting_lines((found,), 0)
    assert f"part at {kind} from session to session, 1 times, {found.lost_tokens:,} tokens computed anew" in lines[0]


def test_a_prompt_that_changes_inside_a_session_is_told_apart() -> None:
    changed = _prompted("a", f"It is 10:41 now.\n{_RULES}", f"It is 10:42 now.\n{_RULES}")
    (found,) = partings((changed,), shipped())
    assert found.inside
    assert "inside a session" in parting_lines((found,), 0)[0]


def test_other_prompts_equal_prompts_and_changes_at_the_end_lose_nothing() -> None:
    same = _prompted("a", _RULES), _prompted("b", _RULES)
    other = _prompted("c", "You translate poems and nothing else. " * 20)
    late = _prompted("d", f"{_RULES}\nToday is 2026-05-01."), _prompted("e", f"{_RULES}\nToday is 2026-05-02.")
    assert partings((*same, other), shipped()) == ()
    assert partings(late, shipped()) == ()
    watch = PromptWatch(shipped())
    watch.take(session(0, 1))
    watch.take(
        Session(
            "bare",
            "claude-code",
            "x",
            (Window("start", (Request((Message("user", "a"),), Message("assistant", "b")),)),),
        )
    )
    assert watch.without == 1
    assert "1 sessions have none" in parting_lines((), watch.without)[0]


def _ended(turn: int, kept: int | None, missed: int | None, cached: int | None) -> RequestEnded:
    return RequestEnded(
        req=turn, session=0, turn=turn, kind="turn", outcome="ok", prompt_tokens=1000, cached_tokens=cached,
        ttft_ms=500.0, prefix_tokens=kept, prefix_missed=missed,
    )  # fmt: skip


def test_the_worst_single_miss_stands_beside_what_the_server_had_cached() -> None:
    sums = Prefixes()
    for turn, (kept, missed, cached) in enumerate([(None, None, 0), (900, 0, 896), (100, 850, 96), (700, 20, 688)]):
        sums.ended((0, turn), _ended(turn, kept, missed, cached))
    seen = sums.seen()
    assert (seen.turns, seen.whole, seen.missed_tokens) == (3, 1, 870)
    assert seen.worst is not None
    assert (seen.worst.turn, seen.worst.missed_tokens, seen.worst.of_tokens, seen.worst.cached_tokens) == (
        2,
        850,
        950,
        96,
    )
    assert (seen.could_tokens, seen.cached_tokens) == (1700, 1680)
    # only the first turn, of 1,000 tokens, the third, of 904, and the last, of 312, were large enough to tell a speed
    assert seen.prefill_tokens_per_s == pytest.approx((1000 + 904 + 312) / 1.5)
    assert seen.missed_s == pytest.approx(870 * 1.5 / (1000 + 904 + 312))
    assert seen.said is not None
    assert "850 of 950" in seen.said


def test_without_ids_or_counts_nothing_is_made_up() -> None:
    sums = Prefixes()
    sums.ended((0, 1), _ended(1, None, None, None))
    seen = sums.seen()
    assert (seen.turns, seen.share, seen.said, seen.prefill_tokens_per_s, seen.missed_s) == (0, None, None, None, None)
    sums.ended((0, 2), _ended(2, 100, 50, None))
    assert sums.seen().told_turns == 0
    assert sums.seen().missed_s is None
