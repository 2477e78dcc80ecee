"""Made-up runs with controls: a history, and replies of comparisons before it and after it as the caller wants them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.events_controls import Arm
from infermaxx_tui.core.histories.shape import Shape

REGIME = msgspec.structs.replace(Shape().regime, temperature=0.0)
SHAPE = Shape(regime=REGIME)
TAG = "ACDE-3467"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a comparison."""

    arm: Arm
    pair: int = 0
    text: str | None = "It is the parser that runs twice."
    ids: str | None = "a"
    cached: int | None = 0
    outcome: e.Outcome = "ok"
    finish: str = "stop"
    degenerate: str | None = None
    tag: str = ""
    beside: bool = False
    """Whether another request is open meanwhile."""
    running: float = 1.0
    """What the server says it runs meanwhile."""


def cold_pair(pair: int = 0, again: str | None = None) -> list[Side]:
    """The same prompt twice, uncached; `again` is another text for the second time."""
    second = (
        Side(arm="cold_again", pair=pair) if again is None else Side(arm="cold_again", pair=pair, text=again, ids="b")
    )
    return [Side(arm="cold", pair=pair), second]


def cached(pair: int = 0, **fields: object) -> Side:
    """The same prompt once more, from the cache."""
    return msgspec.structs.replace(Side(arm="cached", pair=pair, cached=960), **fields)


def with_controls(
    history: Sequence[e.AnyEvent], sides: Sequence[Side], planned: Controls, after: Sequence[Side] = ()
) -> list[e.AnyEvent]:
    """The history as it would be if these controls had been planned and had got these replies."""
    events = list(history)
    start = events[0]
    assert isinstance(start, e.RunStarted)
    events[0] = msgspec.structs.replace(start, controls=planned)
    first = next(n for n, event in enumerate(events) if isinstance(event, e.SessionStarted))
    last = next(n for n, event in enumerate(events) if isinstance(event, e.CountsReconciled))
    before = [e.StageBegan(stage="controls"), *_played(sides, 70_000), e.StageBegan(stage="waves")]
    later = [e.StageBegan(stage="after"), *_played(after, 80_000)] if after else []
    return [*events[:first], *before, *events[first:last], *later, *events[last:]]


def _played(sides: Sequence[Side], numbers_from: int) -> list[e.AnyEvent]:
    events: list[e.AnyEvent] = []
    for req, side in enumerate(sides, numbers_from):
        started = e.RequestStarted(req=req, session=-1, turn=0, kind="control", prompt_tokens=1000, max_tokens=64)
        events += [started, e.ControlAsked(req=req, arm=side.arm, pair=side.pair, label="paper lantern", tag=side.tag)]
        if side.beside:
            other = msgspec.structs.replace(started, req=90_000 + req, session=0, kind="turn")
            events += [other, _ended(other.req, "turn", Side(arm="cold"))]
        events += [*[e.MetricsRead(running=side.running)] * 3, _ended(req, "control", side)]
        digest = None if side.ids is None else side.ids * 64
        answered = e.ControlAnswered(
            req=req, ids_sha256=digest, cached_tokens=side.cached, cached_by=None if side.cached is None else "usage"
        )
        events.append(answered)
    return events


def _ended(req: int, kind: e.RequestKind, side: Side) -> e.RequestEnded:
    return e.RequestEnded(
        req=req,
        session=-1 if kind == "control" else 0,
        turn=0,
        kind=kind,
        outcome=side.outcome,
        finish_reason=side.finish,
        max_tokens=64,
        prompt_tokens=1000,
        completion_tokens=12,
        content=side.text,
        content_chars=len(side.text or ""),
        text_sha256=None if not side.text else hashlib.sha256(side.text.encode()).hexdigest(),
        degenerate=side.degenerate,
    )
