"""Sessions as bare numbers: how long each prompt's new part and each reply is, who waits how long, when it compacts.

Drawn apart from any text, thousands of them cost little, so that those are taken whose peaks lie as real ones do: a
dozen independent draws would seldom hold a long session, and its peak is what the KV pool meets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from infermaxx_tui.core.synth.draw import Draw
from infermaxx_tui.core.synth.presets import Fit, Preset

KEPT_SHARE, KEPT_TOKENS = 0.22, 14_000
"""What is left of a context after compaction: this share and these tokens (transcripts.md §7.1)."""
MOST_NEW, MOST_REPLY, LEAST_REPLY = 25_000, 16_000, 20
MIDWAY_TOKENS = 40_000
"""A longer first prompt brings a history along (transcripts.md §3.6)."""
SUBAGENTS = 5
IDLE_S = 3600.0
_CANDIDATES, _LEAST_CANDIDATES = 600, 4
_RESUME_TO = 115_000


class Step(msgspec.Struct, frozen=True):
    """One request."""

    before: Literal["start", "user", "tool", "compaction"]
    """What the prompt's new part is."""
    new_tokens: int
    reply_tokens: int
    calls: int
    """Tool calls of the reply; 0: it is the end of the agent's turn."""
    think_s: float = 0.0
    tool_delay_s: float = 0.0
    history: bool = False
    """Was asked before the recording began: part of the first prompt, no request of its own."""
    spawns: int = 0
    """How many of the calls start a subagent."""


class Shape(msgspec.Struct, frozen=True):
    """One session and those that it starts."""

    steps: tuple[Step, ...]
    peak_tokens: int
    children: tuple[Shape, ...] = ()


def shapes(preset: Preset, sessions: int, seed: int) -> tuple[Shape, ...]:
    """That many sessions, whose peaks lie as the preset's do."""
    each = max(_LEAST_CANDIDATES, _CANDIDATES // sessions)
    drawn = [_shape(preset, Draw(preset.name, seed, "shape", n)) for n in range(each * sessions)]
    if preset.nasty:
        drawn = [shape for shape in drawn if _roomy(shape.steps, preset) and _windows(shape.steps) > 1]
    each = len(drawn) // sessions
    drawn.sort(key=lambda shape: shape.peak_tokens)
    draw = Draw(preset.name, seed, "choice")
    if preset.peaks:
        chosen = _nearest(drawn, [_quantile(preset.peaks, (n + 0.5) / sessions) for n in range(sessions)])
    else:
        chosen = [drawn[n * each + draw.below(each)] for n in range(sessions)]
    mixed = draw.some(chosen, sessions)
    if preset.nasty:
        mixed = [_nasty(shape, preset, Draw(preset.name, seed, "nasty", n)) for n, shape in enumerate(mixed)]
    return tuple(mixed)


def _nearest(drawn: Sequence[Shape], wanted: Sequence[float]) -> list[Shape]:
    """For each peak, the largest first, the session not yet taken that is nearest to it."""
    left = list(drawn)
    out = []
    for peak in reversed(wanted):
        place = min(range(len(left)), key=lambda n: abs(left[n].peak_tokens - peak))
        out.append(left.pop(place))
    return out


def _quantile(points: Sequence[tuple[float, float]], share: float) -> float:
    """The value at `share`, on straight lines between the points."""
    for (low, small), (high, large) in pairwise(points):
        if share <= high:
            return small + (large - small) * (share - low) / (high - low)
    return points[-1][1]


def _shape(preset: Preset, draw: Draw) -> Shape:
    turns = _within(draw.lognormal(preset.turns.mu, preset.turns.sigma), 3, preset.most_turns)
    return _Walk(preset, draw).walk(turns)


class _Walk:
    """A session as it grows."""

    def __init__(self, preset: Preset, draw: Draw) -> None:
        self._preset = preset
        self._draw = draw
        self._factor = draw.lognormal(0.0, preset.spread) if preset.spread else 1.0
        self._limit = int(preset.window_tokens * (preset.compacts_at or 1.0)) - 200
        self._steps: list[Step] = []
        self._context = self._peak = 0
        self._left = 0
        """Requests until the agent's turn ends."""
        self._idle = True
        """Whether the last reply ended a turn."""

    def walk(self, turns: int) -> Shape:
        """Steps until that many requests were made, or until the window is full and nothing is summarised."""
        preset, draw = self._preset, self._draw
        midway = draw.between(MIDWAY_TOKENS, _RESUME_TO) if draw.chance(preset.resumed) else 0
        while self._context < midway and len(self._steps) < preset.most_turns:
            if not self._step(last=False, history=True):
                break
        made = 0
        while made < turns and self._step(last=made == turns - 1, history=False):
            made += 1
        return Shape(tuple(self._steps), self._peak)

    def _step(self, last: bool, history: bool) -> bool:
        preset, draw = self._preset, self._draw
        reply = _within(self._length(preset.reply), LEAST_REPLY, int(MOST_REPLY * preset.scale))
        if self._idle:
            self._left = _within(draw.lognormal(preset.steps.mu, preset.steps.sigma), 1, 10_000)
        first = not self._steps
        before: Literal["start", "user", "tool", "compaction"]
        before = "start" if first else "user" if self._idle else "tool"
        new = self._first() if first else self._new(preset.new_user if self._idle else preset.new_tool)
        waited = draw.lognormal(preset.think_s.mu, preset.think_s.sigma)
        took = draw.lognormal(preset.tool_delay_s.mu, preset.tool_delay_s.sigma)
        if self._context + new + reply > self._limit:
            if preset.compacts_at is None or history or first:
                return False
            before, new = "compaction", int(KEPT_SHARE * self._context + KEPT_TOKENS * preset.scale)
            self._context = 0
        self._left -= 1
        calls = 0 if last or self._left <= 0 else _calls(draw)
        self._idle = calls == 0
        self._context += new + reply
        if not history:
            self._peak = max(self._peak, self._context)
        think_s = round(waited, 1) if before == "user" else 0.0
        delay_s = round(took, 1) if before == "tool" else 0.0
        self._steps.append(Step(before, new, reply, calls, think_s, delay_s, history))
        return True

    def _first(self) -> int:
        preset = self._preset
        fixed = int((preset.tools_tokens + preset.system_tokens) * preset.scale)
        return max(int(self._length(preset.start)), fixed + 60)

    def _new(self, fit: Fit) -> int:
        if self._draw.chance(fit.zeros):
            return 0
        return _within(self._length(fit) * self._factor, 1, int(MOST_NEW * self._preset.scale))

    def _length(self, fit: Fit) -> float:
        return self._draw.lognormal(fit.mu, fit.sigma) * self._preset.scale


def _calls(draw: Draw) -> int:
    """Tool calls at once: mean 1.2, p90 2, p99 4 (TraceLab)."""
    share = draw.share()
    return 1 if share < 0.86 else 2 if share < 0.965 else 3 if share < 0.985 else 4


def _within(value: float, least: int, most: int) -> int:
    return max(least, min(most, round(value)))


def _nasty(shape: Shape, preset: Preset, draw: Draw) -> Shape:
    """The session with a huge result, an idle hour, five subagents at once, and always a compaction."""
    steps = list(shape.steps)
    tools = [n for n in range(1, len(steps)) if steps[n].before == "tool"]
    roomy = _roomy(shape.steps, preset)
    steps[roomy[len(roomy) // 2]] = msgspec.structs.replace(steps[roomy[len(roomy) // 2]], new_tokens=MOST_NEW)
    spot = tools[0]
    steps[spot - 1] = msgspec.structs.replace(steps[spot - 1], calls=SUBAGENTS, spawns=SUBAGENTS)
    users = [n for n in range(1, len(steps)) if steps[n].before == "user"]
    if users:
        steps[users[-1]] = msgspec.structs.replace(steps[users[-1]], think_s=IDLE_S)
    small = msgspec.structs.replace(
        preset,
        start=Fit(9.1, 0.2),
        tools_tokens=preset.tools_tokens // 2,
        system_tokens=900,
        turns=Fit(2.4, 0.45),
        compacts_at=None,
        steps=Fit(9.0, 0.1),
        resumed=0.0,
    )
    children = tuple(_Walk(small, draw).walk(_within(draw.lognormal(2.4, 0.45), 3, 24)) for _ in range(SUBAGENTS))
    return _recompacted(tuple(steps), preset, children)


def _roomy(steps: tuple[Step, ...], preset: Preset) -> list[int]:
    """Places of the first window, but the first with a tool's result, where a huge one leaves room for what follows."""
    limit = preset.window_tokens * 9 // 10 - MOST_NEW
    context, out, seen = 0, [], False
    for place, step in enumerate(steps):
        if step.before == "compaction":
            break
        if step.before == "tool":
            if seen and context + step.reply_tokens < limit:
                out.append(place)
            seen = True
        context += step.new_tokens + step.reply_tokens
    return out


def _windows(steps: tuple[Step, ...]) -> int:
    return 1 + sum(step.before == "compaction" for step in steps)


def _recompacted(steps: tuple[Step, ...], preset: Preset, children: tuple[Shape, ...]) -> Shape:
    """The steps with windows where they are due after lengths were changed."""
    limit = int(preset.window_tokens * (preset.compacts_at or 1.0)) - 200
    out: list[Step] = []
    context = peak = 0
    for step in steps:
        if step.before == "compaction":
            step = msgspec.structs.replace(step, before="tool", new_tokens=MOST_REPLY // 16)
        if context + step.new_tokens + step.reply_tokens > limit and out:
            kept = int(KEPT_SHARE * context + KEPT_TOKENS * preset.scale)
            step = msgspec.structs.replace(step, before="compaction", new_tokens=kept, tool_delay_s=0.0, think_s=0.0)
            context = 0
        context += step.new_tokens + step.reply_tokens
        peak = max(peak, context)
        out.append(step)
    return Shape(tuple(out), peak, children)
