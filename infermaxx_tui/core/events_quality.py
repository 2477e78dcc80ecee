"""The event of a quality task: all that is needed to mark its answer again, whatever later versions would ask."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.event import Event

QualityPhase = Literal["before", "during", "after", "alone"]
"""`before` and `after` the soak with nothing beside; `during` it under load and at depth; `alone`: a task that was
answered wrongly during it, the same prompt again with nothing beside."""


class QualityAsked(Event, frozen=True, kw_only=True):
    """A task with one right answer went out with request `req`."""

    req: int
    session: int
    phase: QualityPhase
    wave: int
    """Of the conversations that were played then; -1 before and after them."""
    task: str
    question: str
    form: Literal["number", "text", "list", "json"]
    expected: str
    tolerance: float
    units: tuple[str, ...]
    depth_tokens: int
    """Tokens of the conversation that it was a side branch of."""
