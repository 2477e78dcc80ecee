"""What one control came to, in the shape that all of them share."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from infermaxx_tui.core.events_controls import ControlName
from infermaxx_tui.core.judges.check import Evidence

WITNESSES: Final = 2
"""Comparisons of a control that are shown."""
Outcome = Literal["same", "differs", "healthy", "sick", "not_evaluable", "not_applicable"]


class ControlFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one control came to."""

    control: ControlName
    outcome: Outcome
    """`differs`: a lead, never a failure. `sick`: what failed is judged by the checks that it belongs to."""
    n: int
    """Comparisons, or replies, that could be judged."""
    n_planned: int
    differing: int = 0
    method: str | None = None
    """What was compared."""
    said: str
    """For people: what it means, or why nothing can be said."""
    evidence: tuple[Evidence, ...] = ()


TITLES: Final[dict[ControlName, str]] = {
    "repeat": "off against off",
    "cache": "cache hit against miss",
    "alike": "identical prompts at once",
    "salt": "shared against salted prefix",
    "solo": "one conversation alone, before and after the load",
    "after": "trivial prompts after the run",
}


def blind(control: ControlName, planned: int, why: str, outcome: Outcome = "not_evaluable") -> ControlFinding:
    """A control of which nothing can be said, and why."""
    said = f"{TITLES[control]}: {why}"
    return ControlFinding(control=control, outcome=outcome, n=0, n_planned=planned, said=said)
