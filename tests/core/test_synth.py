"""Synthetic sessions: the same for a seed, as long as they should be, shaped as real ones, no block again and again."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.segments import tokenise
from infermaxx_tui.core.stats import quantile
from infermaxx_tui.core.synth import check, code, logs, prose
from infermaxx_tui.core.synth.compose import Composer
from infermaxx_tui.core.synth.draw import Draw, exponential, natural_log
from infermaxx_tui.core.synth.fitting import fitted, overhead_of
from infermaxx_tui.core.synth.presets import PRESETS, Target
from infermaxx_tui.core.synth.shapes import MIDWAY_TOKENS, Shape, shapes
from infermaxx_tui.core.synth.tools import Source, tool_list
from infermaxx_tui.core.transcript import Message, Session
from infermaxx_tui.vocabulary import shipped

SOURCES = (
    code.python, code.typescript, code.go, code.diff, code.data, code.numbered, prose.sentences, prose.document,
    prose.asking, prose.saying, logs.service, logs.tests, logs.search, logs.listing, logs.history, logs.odd,
)  # fmt: skip


def count(text: str) -> int:
    """Tokens of the shipped vocabulary."""
    return len(shipped().encode(text))


@functools.lru_cache
def _small(preset: str, seed: int = 1) -> Shape:
    return min(shapes(PRESETS[preset], 4, seed), key=lambda shape: (shape.peak_tokens > 40_000, len(shape.steps)))


@functools.lru_cache
def family(preset: str, seed: int = 1) -> tuple[Session, ...]:
    """One small session of a preset, and its subagents."""
    return Composer(PRESETS[preset], seed, shipped()).sessions(_small(preset, seed), 0)


def test_the_numbers_of_a_seed_are_fixed() -> None:
    draw = Draw("fixed", 7)
    assert [draw.bits() for _ in range(3)] == [6325426352712008103, 15768217692795381789, 7314862124894968752]
    assert Draw("fixed", 8).bits() != 6325426352712008103


def test_the_shapes_of_a_seed_are_fixed() -> None:
    raw = msgspec.json.encode(shapes(PRESETS["field-note"], 5, 42))
    assert hashlib.sha256(raw).hexdigest()[:16] == "acb3156c46e3442e"


def test_the_text_of_a_seed_is_fixed() -> None:
    raw = msgspec.json.encode(family("swe-eval", 3))
    assert raw == msgspec.json.encode(family("swe-eval", 3))
    assert raw != msgspec.json.encode(family("swe-eval", 4))
    assert hashlib.sha256(raw).hexdigest()[:16] == "d3d3c28a6e0bb4a5"


_SAME = """
import hashlib, msgspec
from infermaxx_tui.core.synth.compose import Composer
from infermaxx_tui.core.synth.presets import PRESETS
from infermaxx_tui.core.synth.shapes import shapes

class Bytes:
    name = sha256 = template_sha256 = "bytes"

    def encode(self, text):
        return tuple(text.encode())

    def render(self, messages, tools, opens):
        return tuple((tools + "".join(message.content for message in messages)).encode())

total = hashlib.sha256()
for name in ("swe-eval",):
    made = shapes(PRESETS[name], 300, 42)
    total.update(msgspec.json.encode(made))
smallest = min(made, key=lambda shape: shape.peak_tokens)
total.update(msgspec.json.encode(Composer(PRESETS["swe-eval"], 42, Bytes()).sessions(smallest, 0)))
print(total.hexdigest())
"""


@functools.lru_cache
def _digest(python: str, hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([python, "-c", _SAME], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["INFERMAXX_PY312", "INFERMAXX_PY313"])
def test_what_is_made_does_not_depend_on_the_python(name: str) -> None:
    python = os.environ.get(name)
    if python is None:
        pytest.skip(f"{name} names no Python with msgspec and orjson")
    assert _digest(python, "7") == _digest(sys.executable, "8")


@given(st.floats(1e-12, 1e12))
def test_the_logarithm_is_the_real_one(x: float) -> None:
    assert natural_log(x) == pytest.approx(math.log(x), rel=1e-12, abs=1e-12)


@given(st.floats(-30, 30))
def test_the_exponential_is_the_real_one(x: float) -> None:
    assert exponential(x) == pytest.approx(math.exp(x), rel=1e-12)


def test_normal_draws_are_normal() -> None:
    draw = Draw("normal")
    values = sorted(draw.normal() for _ in range(20_000))
    assert abs(sum(values) / len(values)) < 0.03
    for share, expected in ((0.1, -1.2816), (0.5, 0.0), (0.9, 1.2816), (0.99, 2.3263)):
        assert quantile(values, share) == pytest.approx(expected, abs=0.08)


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 2**32))
def test_draws_stay_inside_their_bounds(limit: int, number: int, seed: int) -> None:
    draw = Draw(seed)
    assert all(0 <= draw.below(limit) < limit for _ in range(20))
    items = list(range(limit))
    assert sorted(set(taken := draw.some(items, number))) == sorted(taken)
    assert len(taken) == min(number, limit)


@pytest.mark.parametrize("source", SOURCES)
def test_text_has_the_length_that_was_asked_for(source: Source) -> None:
    for wanted in (0, 1, 9, 60, 700):
        text = fitted(source(Draw("length", wanted)), wanted, count)
        assert abs(count(text) - wanted) <= max(3, wanted // 100)


@pytest.mark.parametrize("source", SOURCES)
def test_no_line_fills_a_text(source: Source) -> None:
    lines = list(islice(source(Draw("lines")), 400))
    text = "\n".join(lines)
    line, times = Counter(line for line in lines if len(line) > 40).most_common(1)[0]
    assert times * len(line) < len(text) / 20
    assert check.largest_repeat(text) < len(text) / 20


@pytest.mark.parametrize("preset", PRESETS)
def test_sessions_weigh_what_their_shapes_say(preset: str) -> None:
    drawn = _small(preset)
    for session, shape in zip(family(preset), (drawn, *drawn.children), strict=True):
        tokens = tokenise(session, shipped(), "none")
        assert tokens.peak_tokens == pytest.approx(shape.peak_tokens, rel=0.02)
        assert len(session.requests) == sum(not step.history for step in shape.steps)
        assert tokens.wrapped_arguments == 0


class Bytes:
    """A tokenizer that is not the shipped one: a token a byte, three for what stands around a message."""

    name = sha256 = template_sha256 = "bytes"

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """Each message between marks, its calls after its text."""
        ids = [*tools.encode()]
        for message in messages:
            calls = "".join(call.name + call.arguments for call in message.tool_calls)
            ids += [256, *f"{message.role[0]}{message.reasoning}{message.content}{calls}".encode(), 257]
        return (*ids, 256, ord("a")) if add_generation_prompt else tuple(ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """The bytes."""
        return tuple(text.encode())

    def decode(self, ids: tuple[int, ...]) -> str:
        """The text of the bytes."""
        return bytes(token for token in ids if token < 256).decode()

    def special_id(self, token: str) -> int | None:
        """There are none."""
        return None


def test_any_tokenizer_weighs_what_was_asked_for() -> None:
    chosen = PRESETS["swe-eval"]
    drawn = _small("swe-eval")
    (session,) = Composer(chosen, 1, Bytes()).sessions(drawn, 0)
    weight = sum(len(Bytes().render((*request.delta, request.reply), "", False)) for request in session.requests) + len(
        session.tools.encode()
    )
    steps = sum(step.new_tokens + step.reply_tokens for step in drawn.steps)
    # the last reply may carry a call that is longer than its few bytes
    assert weight == pytest.approx(steps, rel=0.06)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_result_answers_a_call_of_the_reply_before_it(preset: str) -> None:
    for session in family(preset):
        seen: set[str] = set()
        for window in session.windows:
            asked: list[str] = []
            for request in window.requests:
                for message in (*request.delta, request.reply):
                    if message.role == "tool":
                        assert message.tool_call_id == asked.pop(0)
                        continue
                    assert not asked
                    asked = [call.id for call in message.tool_calls]
                    assert not seen & set(asked)
                    seen.update(asked)
                    assert all(isinstance(json.loads(call.arguments), dict) for call in message.tool_calls)
                    known = {tool["function"]["name"] for tool in json.loads(session.tools)}
                    assert {call.name for call in message.tool_calls} <= known


@pytest.mark.parametrize("preset", PRESETS)
def test_no_block_stands_twice_that_fills_a_session(preset: str) -> None:
    for session in family(preset)[:1]:
        text = check.session_text(session)
        assert check.largest_repeat(text) < len(text) / 20


def _peaks(drawn: tuple[Shape, ...]) -> list[int]:
    return [shape.peak_tokens for shape in drawn]


@pytest.mark.parametrize(
    ("preset", "share", "expected"),
    [
        ("field-note", 0.5, 49_867),
        ("field-note", 0.9, 105_794),
        ("field-note", 1.0, 106_767),
        ("claude-code-local", 0.1, 40_000),
        ("claude-code-local", 0.5, 92_800),
        ("claude-code-local", 0.9, 126_000),
        ("swe-eval", 0.56, 28_000),
        ("swe-eval", 0.91, 120_000),
        ("codex-pro", 0.5, 80_000),
    ],
)
def test_peaks_are_the_published_ones(preset: str, share: float, expected: int) -> None:
    drawn = shapes(PRESETS[preset], 60, 2)
    assert quantile(_peaks(drawn), share) == pytest.approx(expected, rel=0.12)
    assert max(_peaks(drawn)) <= PRESETS[preset].window_tokens


def test_nasty_sessions_have_all_that_is_promised() -> None:
    for shape in (*shapes(PRESETS["nasty"], 4, 9), *shapes(PRESETS["nasty"], 3, 1)):
        assert len(shape.children) == 5
        assert any(step.before == "compaction" for step in shape.steps)
        assert max(step.think_s for step in shape.steps) == 3600
        assert max(step.new_tokens for step in shape.steps if step.before == "tool") == 25_000
    parent, *children = family("nasty")
    assert [child.parent for child in children] == [parent.id] * 5
    spawning = [number for number, request in enumerate(parent.requests, 1) if len(request.reply.tool_calls) == 5]
    assert {child.spawned_after for child in children} == {spawning[0]}
    assert all(child.windows[0].reason == "subagent" for child in children)


def test_a_resumed_session_brings_its_history_in_its_first_prompt() -> None:
    chosen = PRESETS["claude-code-local"]
    shape = next(shape for shape in shapes(chosen, 6, 1) if shape.steps[0].history)
    (session,) = Composer(chosen, 1, shipped()).sessions(shape, 0)
    assert any(message.role == "assistant" for message in session.requests[0].delta)
    assert tokenise(session, shipped(), "none").requests[0].prompt_tokens > MIDWAY_TOKENS * 0.6


def test_sessions_of_a_set_share_tools_and_system_prompt_and_no_more() -> None:
    chosen = PRESETS["swe-eval"]
    composer = Composer(chosen, 1, shipped())
    first, second = (composer.sessions(shape, number)[0] for number, shape in enumerate(shapes(chosen, 2, 1)))
    assert first.tools == second.tools
    assert first.requests[0].delta[0] == second.requests[0].delta[0]
    assert first.requests[0].delta[1] != second.requests[0].delta[1]


@settings(max_examples=10)
@given(st.integers(60, 3000), st.integers(0, 2**32))
def test_a_tool_list_is_as_long_as_asked_and_valid(tokens: int, seed: int) -> None:
    text = tool_list(Draw(seed), tokens, count)
    assert tokens <= count(text) < tokens + 900
    names = [tool["function"]["name"] for tool in json.loads(text)]
    assert len(names) == len(set(names))


def test_a_template_that_refuses_gets_a_guess() -> None:
    over = overhead_of(shipped())
    ask = over.message, over.call, over.result
    assert all(0 < tokens < 30 for tokens in ask)


@given(st.text("ab", min_size=150, max_size=400), st.text("cd", max_size=300), st.text("ef", max_size=300))
def test_a_block_that_stands_twice_is_found(block: str, before: str, between: str) -> None:
    assert check.largest_repeat(f"{before}{block}{between}.{block}") >= len(block) - 63


def test_text_without_a_repeat_has_none() -> None:
    draw = Draw("unique")
    assert check.largest_repeat("".join(f"{draw.bits():016x}" for _ in range(500))) == 0


def test_the_check_says_what_came_out_and_what_did_not() -> None:
    (session,) = family("swe-eval")
    tokens = tokenise(session, shipped(), "none")
    targets = (
        Target("requests p50", 10, "x"),
        Target("peak max", 10, "x"),
        Target("context at 30 p50", 5, "x"),
        Target("prefix hit %", 50, "x"),
    )
    found = check.rows([check.made(session, tokens, 0)], targets)
    assert found[0].made == len(session.requests)
    assert found[1].made == tokens.peak_tokens
    assert found[2].made is None if len(session.requests) < 30 else found[2].made
    assert found[3].made is not None
    assert 0 <= found[3].made < 100
    lines = check.table(found)
    assert lines[1].split()[:4] == ["requests", "p50", "10.0", f"{len(session.requests):.1f}"]
    with pytest.raises(KeyError):
        check.rows([check.made(session, tokens, 0)], [Target("nothing p50", 1, "x")])


def test_every_target_is_measured() -> None:
    sessions = [
        check.made(session, tokenise(session, shipped(), "none"), 5 if not number else 0)
        for number, session in enumerate(family("nasty"))
    ]
    for preset in PRESETS.values():
        found = check.rows(sessions, preset.targets)
        assert [row.measure for row in found] == [target.measure for target in preset.targets]
