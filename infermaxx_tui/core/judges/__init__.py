"""All judges by name, and the one rule that makes a verdict of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal

from infermaxx_tui.core.judges import (
    availability,
    budget,
    controls,
    degeneration,
    delivery,
    drift,
    gates,
    instrument,
    isolation,
    quality,
    recall,
    timing,
    vacuity,
)
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]

JUDGES: Final[dict[str, Callable[[RunState, Limits], Check]]] = {
    "recall": recall.judge,
    "isolation": isolation.judge,
    "delivery": delivery.judge,
    "availability": availability.judge,
    "degeneration": degeneration.judge,
    "quality": quality.judge,
    "budget": budget.judge,
    "vacuity": vacuity.judge,
    "controls": controls.judge,
    "instrument": instrument.judge,
    "gates": gates.judge,
    "timing": timing.judge,
    "drift": drift.judge,
}
"""In the order in which a verdict lists them."""


def judge_all(state: RunState, limits: Limits) -> tuple[Check, ...]:
    """Every judge's answer."""
    return tuple(judge(state, limits) for judge in JUDGES.values())


def overall(checks: Iterable[Check]) -> Word:
    """FAIL if any check fails; else INCONCLUSIVE if a required one cannot say, or there is none; else PASS."""
    answers = tuple(checks)
    if any(check.outcome == "fail" for check in answers):
        return "FAIL"
    required = [check for check in answers if check.required]
    if not required or any(check.outcome != "pass" for check in required):
        return "INCONCLUSIVE"
    return "PASS"
