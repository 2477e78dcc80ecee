"""A recorded session as a server sees it: prompts and replies in tokens, and the waits between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from infermaxx_tui.core.transcript import Request, Session

TOOL_S: Final = 9.0
THINK_S: Final = 132.0
"""Seconds that tools and people take where a recording does not say: medians of 48,658 requests (transcripts.md §7)."""
WAIT_CAP_S: Final = 600.0
"""A longer wait is taken as this long: over lunch nobody's cache is held for the lunch's sake."""


class Step(msgspec.Struct, frozen=True):
    """One request."""

    wait_s: float
    """Before it, after the end of the one before."""
    prompt_tokens: int
    reply_tokens: int
    kept_tokens: int
    """How much of the prompt is the previous prompt and reply, and so may still be in the cache."""

    @property
    def tokens(self) -> int:
        """Prompt and reply."""
        return self.prompt_tokens + self.reply_tokens


class Load(msgspec.Struct, frozen=True):
    """One session."""

    id: str
    steps: tuple[Step, ...]
    timed: bool
    """Whether the waits are recorded; else they are assumed."""

    @property
    def peak_tokens(self) -> int:
        """Tokens of its largest request."""
        return max((step.tokens for step in self.steps), default=0)


def load_of(session: Session, sizes: Sequence[tuple[int, int]]) -> Load:
    """The session's load; `sizes`: prompt and reply of each request, in order."""
    requests = session.requests
    opens = _openings(session)
    timed = any(request.think_s or request.tool_delay_s for request in requests)
    kept = [0] + [sum(before) for before, _ in pairwise(sizes)]
    steps = tuple(
        Step(_wait_s(request, timed, first=at == 0), prompt, reply, 0 if at in opens else min(kept[at], prompt))
        for at, (request, (prompt, reply)) in enumerate(zip(requests, sizes, strict=True))
    )
    return Load(session.id, steps, timed)


def _openings(session: Session) -> set[int]:
    """Numbers of the requests that begin a window, whose prompt does not go on from the one before."""
    out, at = set[int](), 0
    for window in session.windows:
        out.add(at)
        at += len(window.requests)
    return out


def _wait_s(request: Request, timed: bool, first: bool) -> float:
    if first:
        return 0.0
    if timed:
        return min(max(request.think_s + request.tool_delay_s, 0.0), WAIT_CAP_S)
    return THINK_S if any(message.role == "user" for message in request.delta) else TOOL_S
