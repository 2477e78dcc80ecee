"""Made sessions held against what is known of real ones: a generator that nobody measures is a guess with a seed.

Counted is what was written, by the tokenizer, and not what was meant to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.stats import quantile
from infermaxx_tui.core.synth.presets import Target
from infermaxx_tui.core.transcript import Message, Session

_POOL: Final = 65_536
_BLOCK: Final = 64


class Asked(msgspec.Struct, frozen=True):
    """One made request."""

    prompt: int
    cached: int
    """Tokens that the prompt shares with the one before and its reply."""
    output: int
    added: int
    after: str
    """The role of what is new in it; `start` where it opens a window."""
    calls: int
    think_s: float
    tool_delay_s: float


class Made(msgspec.Struct, frozen=True):
    """One made session."""

    asked: tuple[Asked, ...]
    compacted: bool
    subagent: bool
    subagents: int = 0

    @property
    def peak(self) -> int:
        """The most tokens that prompt and reply of one request take."""
        return max(one.prompt + one.output for one in self.asked)


class Row(msgspec.Struct, frozen=True):
    """One quantity: what it should be and what it is. `made` is None where no session had any of it."""

    measure: str
    target: float
    made: float | None
    source: str


def made(session: Session, tokens: TokenisedTranscript, subagents: int) -> Made:
    """What one session came out as."""
    asked = []
    before = 0
    for request, counted in zip(session.requests, tokens.requests, strict=True):
        opens, output = counted.opens_window, len(counted.reply_ids)
        cached = 0 if opens else before
        after = "start" if opens else request.delta[-1].role
        calls, delay_s = len(request.reply.tool_calls), request.tool_delay_s
        asked.append(
            Asked(
                counted.prompt_tokens,
                cached,
                output,
                len(counted.delta_ids),
                after,
                calls,
                request.think_s,
                delay_s,
            )
        )
        before = counted.prompt_tokens + output
    reasons = [window.reason for window in session.windows]
    return Made(tuple(asked), "compaction" in reasons, session.parent is not None, subagents)


class _Set:
    """All sessions of a set and the lists that figures are taken from."""

    def __init__(self, sessions: Sequence[Made]) -> None:
        self.main = [one for one in sessions if not one.subagent]
        self.asked = [one for session in self.main for one in session.asked]
        self.peaks = [float(session.peak) for session in self.main]

    def added(self, role: str) -> list[float]:
        """New tokens after that role."""
        return [float(one.added) for one in self.asked if one.after == role]

    def lists(self) -> dict[str, list[float]]:
        """Numbers by name, for quantiles, means and maxima."""
        return {
            "peak": self.peaks,
            "requests": [float(len(session.asked)) for session in self.main],
            "peak / mean": [s.peak * len(s.asked) / sum(a.prompt + a.output for a in s.asked) for s in self.main],
            "input": [float(one.prompt) for one in self.asked],
            "output": [float(one.output) for one in self.asked],
            "new after tool": self.added("tool"),
            "new after user": self.added("user"),
            "tool delay s": [one.tool_delay_s for one in self.asked if one.after == "tool"],
            "think s": [one.think_s for one in self.asked if one.after == "user"],
            "calls": [float(sum(one.calls for one in session.asked)) for session in self.main],
            "calls per step": [float(one.calls) for one in self.asked if one.calls],
            "context at 30": [float(s.asked[29].prompt + s.asked[29].output) for s in self.main if len(s.asked) > 29],
            "subagents at once": [float(session.subagents) for session in self.main],
        }

    def shares(self) -> dict[str, Callable[[], float]]:
        """Single figures by name."""
        count, asked = len(self.main), self.asked
        return {
            "exceed 65,536 %": lambda: 100 * sum(peak > _POOL for peak in self.peaks) / count,
            "sessions compacted %": lambda: 100 * sum(session.compacted for session in self.main) / count,
            "ends in a call %": lambda: 100 * sum(one.calls > 0 for one in asked) / len(asked),
            "prefix hit %": lambda: 100 * sum(one.cached for one in asked) / sum(one.prompt for one in asked),
            "input : output": lambda: sum(one.prompt for one in asked) / sum(one.output for one in asked),
        }


def rows(sessions: Sequence[Made], targets: Sequence[Target]) -> tuple[Row, ...]:
    """Each target beside what came out. Raises KeyError for a measure that there is not."""
    whole = _Set(sessions)
    lists, shares = whole.lists(), whole.shares()
    out = []
    for target in targets:
        if target.measure in shares:
            value: float | None = shares[target.measure]()
        else:
            name, _, which = target.measure.rpartition(" ")
            value = _figure(lists[name], which)
        out.append(Row(target.measure, target.value, value, target.source))
    return tuple(out)


def _figure(values: Sequence[float], which: str) -> float | None:
    """`p50`, `mean` or `max` of the values, None if there are none."""
    if not values:
        return None
    match which:
        case "mean":
            return sum(values) / len(values)
        case "max":
            return max(values)
        case _:
            return quantile(values, int(which[1:]) / 100)


def table(found: Sequence[Row]) -> tuple[str, ...]:
    """The same for people."""
    lines = [f"{'measure':24} {'target':>10} {'made':>10} {'made/target':>11}  source"]
    for row in found:
        came = "-" if row.made is None else _number(row.made)
        ratio = "-" if row.made is None else f"{row.made / row.target:.2f}"
        lines.append(f"{row.measure:24} {_number(row.target):>10} {came:>10} {ratio:>11}  {row.source}")
    return tuple(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


def session_text(session: Session) -> str:
    """All text of a session, each once, in order."""
    return "\n".join(
        part for request in session.requests for message in (*request.delta, request.reply) for part in _parts(message)
    )


def _parts(message: Message) -> tuple[str, ...]:
    return (message.reasoning, message.content, *(call.arguments for call in message.tool_calls))


def largest_repeat(text: str) -> int:
    """Characters of the largest block that stands twice in the text, or nearly: up to 63 at each end may be missed.

    A block of 127 characters or more holds a whole aligned piece of 64 wherever it stands, so only those are looked up.
    """
    best, place = 0, 0
    while place + _BLOCK <= len(text):
        again = text.find(text[place : place + _BLOCK], place + 1)
        if again < 0:
            place += _BLOCK
            continue
        length = _BLOCK
        while again + length < len(text) and text[place + length] == text[again + length]:
            length += 1
        best = max(best, length)
        place += length // _BLOCK * _BLOCK
    return best
