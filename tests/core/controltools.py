"""Made-up runs with controls, as tests want them."""

from __future__ import annotations

from collections.abc import Sequence

from infermaxx_tui.core import events as e
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.histories import Shape, history, state_of
from infermaxx_tui.core.histories.control_sides import REGIME, SHAPE, TAG, Side, cached, cold_pair
from infermaxx_tui.core.histories.control_sides import with_controls as put_into
from infermaxx_tui.core.state import RunState

__all__ = ["REGIME", "SHAPE", "TAG", "Side", "cached", "cold_pair", "paced_turn", "seen", "with_controls"]


def with_controls(
    sides: Sequence[Side], planned: Controls, after: Sequence[Side] = (), shape: Shape = SHAPE
) -> list[e.AnyEvent]:
    """A run that planned these controls and got these replies."""
    return put_into(history(shape), sides, planned, after)


def seen(sides: Sequence[Side], planned: Controls, after: Sequence[Side] = (), shape: Shape = SHAPE) -> RunState:
    """What such a run says."""
    return state_of(with_controls(sides, planned, after, shape))


def paced_turn(req: int, session: int, turn: int, sick: bool) -> e.RequestEnded:
    """A turn of a hundred tokens in a second, or, where the model babbles, in less than half of that."""
    return e.RequestEnded(
        req=req,
        session=session,
        turn=turn,
        kind="turn",
        outcome="ok",
        finish_reason="stop",
        prompt_tokens=8000,
        completion_tokens=101,
        first_chunk_tokens=1,
        decode_ms=400.0 if sick else 1000.0,
        content_chars=300,
        distinct_trigrams=0.3 if sick else 0.97,
    )
