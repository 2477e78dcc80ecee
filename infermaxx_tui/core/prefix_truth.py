"""What a chat template does to prompts that a client renders anew for each request, and what that costs in prefill.

A prefix cache gives what a prompt shares with the last one and its reply. Templates that take reasoning out of earlier
turns, that write dates, or that move the tool list break that inside a conversation, and the aggregate hit rate hides
it: what hurts is the worst single miss (transcripts.md §4.3). By token ids nothing is rendered twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.segments import TemplateRefused, TokenizerError, brief_system, reply_ids
from infermaxx_tui.core.transcript import Message, Session, ToolCall, Window

RENDERED_AT_MOST: Final = 600_000
"""Tokens that a check before a run renders, about a second's worth; the rest of the transcripts is left out."""

_THOUGHT: Final = "Perhaps the meadow gate."
_USER, _AGAIN = Message("user", "Look at it."), Message("user", "And now?")
_SYSTEM: Final = Message("system", "You answer in one line.")
_CALL: Final = ToolCall("call00001", "walk", '{"far":3,"near":[1,2]}')
_THINKS: Final = Message("assistant", "It is open.", reasoning=_THOUGHT)
_CALLS: Final = Message("assistant", "", reasoning=_THOUGHT, tool_calls=(_CALL,))
_RESULT: Final = Message("tool", "done", tool_call_id=_CALL.id, name=_CALL.name)
_TOOL: Final = '{{"type": "function", "function": {{"name": "{}", "description": "d", "parameters": {{}}}}}}'
_TOOLS: Final = f"[{_TOOL.format('walk')}, {_TOOL.format('climb')}]"
_DATE: Final = re.compile(
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d{4}\b"
)


class TemplateFinding(msgspec.Struct, frozen=True):
    """One thing that a template does to a growing conversation."""

    name: str
    """`strips_thinking`, `strips_thinking_at_tools`, `drops_reasoning`, `inserts_date`, `ignores_tools`,
    `reorders_tools`, `moves_tools`, `rewrites_arguments` or `prompts_think`."""
    said: str
    breaks: bool
    """Whether it breaks the prefix of a conversation whose prompts are rendered anew."""


def template_findings(renderer: Renderer) -> tuple[TemplateFinding, ...]:
    """What the template does to stand-in conversations; a probe that it refuses says nothing."""
    return (*_thinking(renderer), *_dates(renderer), *_tools(renderer), *_arguments(renderer))


def _text(renderer: Renderer, messages: tuple[Message, ...], tools: str = "", prompt: bool = True) -> str | None:
    try:
        return renderer.decode(renderer.render(messages, tools, prompt))
    except TemplateRefused:
        return None


def _thinking(renderer: Renderer) -> Iterator[TemplateFinding]:
    last = _text(renderer, (_USER, _THINKS), prompt=False)
    later = _text(renderer, (_USER, _THINKS, _AGAIN))
    if last is not None and _THOUGHT not in last:
        yield TemplateFinding(
            "drops_reasoning", "leaves out the reasoning of every reply that it is given", breaks=True
        )
        return
    if last is not None and later is not None and _THOUGHT not in later:
        said = "takes the reasoning out of earlier replies when a user's message comes"
        yield TemplateFinding("strips_thinking", said, breaks=True)
    at_tools = _text(renderer, (_USER, _CALLS, _RESULT), _TOOLS)
    if at_tools is not None and _THOUGHT not in at_tools:
        said = "takes the reasoning out of earlier replies when a tool's result comes"
        yield TemplateFinding("strips_thinking_at_tools", said, breaks=True)
    asked, answered = (
        _text(renderer, (_USER,)),
        _text(renderer, (_USER, Message("assistant", "It is open.")), "", False),
    )
    if asked is not None and answered is not None and not answered.startswith(asked):
        said = "ends a prompt with something that is gone once it is answered, such as an empty think block"
        yield TemplateFinding("prompts_think", said, breaks=True)


def _dates(renderer: Renderer) -> Iterator[TemplateFinding]:
    for messages in ((_USER,), (_SYSTEM, _USER)):
        found = _DATE.search(_text(renderer, messages) or "")
        if found is not None:
            said = f"writes a date into the prompt ({found.group(0)}): every prefix is lost when it changes"
            yield TemplateFinding("inserts_date", said, breaks=True)
            return


def _tools(renderer: Renderer) -> Iterator[TemplateFinding]:
    with_tools, without = _text(renderer, (_SYSTEM, _USER), _TOOLS), _text(renderer, (_SYSTEM, _USER))
    if with_tools is None or without is None:
        return
    if with_tools == without:
        yield TemplateFinding("ignores_tools", "leaves the tool list out", breaks=False)
        return
    if with_tools.find('"climb"') < with_tools.find('"walk"'):
        yield TemplateFinding("reorders_tools", "puts the tool list into another order", breaks=False)
    more = _text(renderer, (_SYSTEM, _USER, Message("assistant", "It is open."), _AGAIN), _TOOLS)
    if more is not None and more.find('"walk"') > more.find(_USER.content) >= 0:
        moved = with_tools.find('"walk"') < with_tools.find(_USER.content)
        if moved:
            yield TemplateFinding("moves_tools", "moves the tool list behind earlier turns", breaks=True)


def _arguments(renderer: Renderer) -> Iterator[TemplateFinding]:
    rendered = _text(renderer, (_USER, _CALLS, _RESULT), _TOOLS)
    if rendered is not None and '"far"' in rendered and _CALL.arguments not in rendered:
        said = "writes the JSON of calls anew, with other blanks than a model writes"
        yield TemplateFinding("rewrites_arguments", said, breaks=False)


class TurnPrefix(msgspec.Struct, frozen=True):
    """How a rendered prompt goes on with the one before it and its reply."""

    request: int
    """Which request of its session, from 0."""
    kept_tokens: int
    missed_tokens: int
    after_user: bool
    """Whether a user's message came before it, and no tool's result alone."""

    @property
    def share(self) -> float:
        """Share of the last prompt and reply that it begins with."""
        both = self.kept_tokens + self.missed_tokens
        return self.kept_tokens / both if both else 1.0


class PrefixCost(msgspec.Struct, frozen=True):
    """What rendering the prompts of one session anew loses."""

    session: str
    turns: tuple[TurnPrefix, ...]
    left_out: int
    """Requests that were not rendered."""
    rendered_tokens: int

    @property
    def missed_tokens(self) -> int:
        """All that was sent before and has to be computed again."""
        return sum(turn.missed_tokens for turn in self.turns)

    @property
    def worst(self) -> TurnPrefix | None:
        """The turn that loses most, None if none loses anything."""
        return max((t for t in self.turns if t.missed_tokens), key=lambda turn: turn.missed_tokens, default=None)

    @property
    def per_user_message(self) -> float | None:
        """Mean loss of the turns that a user's message began; None without one."""
        lost = [turn.missed_tokens for turn in self.turns if turn.after_user]
        return sum(lost) / len(lost) if lost else None

    @property
    def share(self) -> float | None:
        """Share of the last prompts and replies that is kept; None without a turn."""
        both = sum(turn.kept_tokens + turn.missed_tokens for turn in self.turns)
        return sum(turn.kept_tokens for turn in self.turns) / both if both else None


def prefix_cost(session: Session, renderer: Renderer, most_tokens: int | None = None) -> PrefixCost:
    """Renders each prompt whole and compares it with the one before it and its reply.

    Costs the square of the length; beyond `most_tokens` rendered tokens the rest is left out. Raises TokenizerError.
    """
    turns: list[TurnPrefix] = []
    number = rendered = left_out = 0
    for window in session.windows:
        if most_tokens is not None and rendered >= most_tokens:
            left_out += max(len(window.requests) - 1, 0)
        else:
            found, spent, skipped = _window(window, session.tools, renderer, number, most_tokens, rendered)
            turns += found
            rendered, left_out = spent, left_out + skipped
        number += len(window.requests)
    return PrefixCost(session.id, tuple(turns), left_out, rendered)


def _window(
    window: Window, tools: str, renderer: Renderer, first: int, most_tokens: int | None, rendered: int
) -> tuple[list[TurnPrefix], int, int]:
    turns: list[TurnPrefix] = []
    history: list[Message] = []
    before: tuple[int, ...] = ()
    system: Message | None = None
    for place, request in enumerate(window.requests):
        if most_tokens is not None and rendered >= most_tokens:
            return turns, rendered, len(window.requests) - max(place, 1)
        if not place:
            system = brief_system(renderer, next((m for m in request.delta if m.role == "system"), None))
        history += request.delta
        prompt = renderer.render(tuple(history), tools, True)
        rendered += len(prompt)
        if place:
            kept = _common(before, prompt)
            after_user = any(message.role == "user" for message in request.delta)
            turns.append(TurnPrefix(first + place, kept, len(before) - kept, after_user))
        before = (*prompt, *reply_ids(renderer, system, request.reply))
        history.append(request.reply)
    return turns, rendered, 0


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def findings_line(renderer: Renderer, findings: Sequence[TemplateFinding]) -> str:
    """What the template does, in one line."""
    name = f"the chat template of {renderer.name} (sha256 {renderer.template_sha256[:12]})"
    breaking = [one.said for one in findings if one.breaks]
    if not breaking:
        return f"{name} leaves earlier turns as they are"
    return f"{name} {'; it '.join(breaking)}"


def seconds_text(tokens: int, tokens_per_s: float | None) -> str:
    """What computing them takes, or why nobody knows."""
    if tokens_per_s is None:
        return "seconds not known, since no speed of prefill is"
    return f"{tokens / tokens_per_s:.3g} s"


def cost_lines(costs: Sequence[PrefixCost], tokens_per_s: float | None) -> tuple[str, ...]:
    """A table of sessions: how much of each last prompt and reply is kept, and the worst single miss."""
    heads = f"{'turns':>5} {'kept':>7} {'missed':>9} {'by user':>9} {'worst':>9} {'of':>9} {'request':>7}"
    return (f"{'session':28} {heads}  prefill of the worst", *(_cost_line(cost, tokens_per_s) for cost in costs))


def _cost_line(cost: PrefixCost, tokens_per_s: float | None) -> str:
    worst, by_user = cost.worst, cost.per_user_message
    kept = "n/a" if cost.share is None else f"{cost.share:.2%}"
    each = "n/a" if by_user is None else f"{by_user:,.0f}"
    line = f"{cost.session[:28]:28} {len(cost.turns):5} {kept:>7} {cost.missed_tokens:9,} {each:>9}"
    if worst is None:
        line += f" {0:9} {'':9} {'':7}  none"
    else:
        both = worst.kept_tokens + worst.missed_tokens
        line += f" {worst.missed_tokens:9,} {both:9,} {worst.request:7}  "
        line += seconds_text(worst.missed_tokens, tokens_per_s)
    return line + (f"; {cost.left_out} requests not rendered" if cost.left_out else "")


def costs_of(
    sessions: Sequence[Session], renderer: Renderer, most_tokens: int | None = None
) -> tuple[tuple[PrefixCost, ...], int]:
    """The costs of sessions, and how many were left out; traces without text have no template to pass through."""
    costs: list[PrefixCost] = []
    spent = 0
    with_text = [session for session in sessions if not session.content_free]
    for session in with_text:
        left = None if most_tokens is None else most_tokens - spent
        if left is not None and left <= 0:
            break
        try:
            costs.append(prefix_cost(session, renderer, left))
        except TokenizerError:
            continue
        spent += costs[-1].rendered_tokens
    return tuple(costs), len(sessions) - len(costs)


def truth_lines(
    sessions: Sequence[Session], renderer: Renderer, chat: bool, most_tokens: int = RENDERED_AT_MOST
) -> tuple[str, ...]:
    """Before a run, in one line: what the template does to its transcripts, and who pays for that; none if it does
    nothing. Nothing is known yet of the speed of prefill, so the cost is in tokens.
    """
    findings = template_findings(renderer)
    if not any(one.breaks for one in findings):
        return ()
    who = "with messages the server pays for that" if chat else "by token ids nothing of that is paid"
    line = f"{findings_line(renderer, findings)}: {who}"
    if not most_tokens:
        return (f"{line}; what it would come to was not measured, since each rendering asks the server",)
    costs, left_out = costs_of(sessions, renderer, most_tokens)
    misses = [(cost.worst, cost.session) for cost in costs if cost.worst is not None]
    rest = f"; {left_out} transcripts were not rendered" if left_out else ""
    if not misses:
        return (f"{line}; in these transcripts nothing is lost by it{rest}",)
    worst, name = max(misses, key=lambda one: one[0].missed_tokens)
    said = (
        f"the worst single miss is {worst.missed_tokens} of {worst.kept_tokens + worst.missed_tokens} tokens"
        f" ({name}, request {worst.request}; {seconds_text(worst.missed_tokens, None)})"
    )
    return (f"{line}; {said}{rest}",)
