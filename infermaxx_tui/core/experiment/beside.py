"""One figure of an arm beside the same figure of another, start by start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infermaxx_tui.core.experiment.levers import differing
from infermaxx_tui.core.experiment.moved import Movement, moved
from infermaxx_tui.core.experiment.rows import ArmRow

Key = tuple[str, int | None, int | None]
"""Name, depth in tokens and streams of a measure."""


def by_boot(rows: Iterable[ArmRow], key: Key) -> list[tuple[float, ...]]:
    """The values of each start that has any, those of all of its probes together: two probes are no two starts."""
    found = (tuple(value for one in row.measures if one.key == key for value in one.values) for row in rows)
    return [values for values in found if values]


def _unseen_lever(control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> str | None:
    """Why it is not known that the two were under different conditions; None where that is known, or no lever.

    A gate as a lever (a power limit that somebody else sets) is one only where it was seen to hold.
    """
    levers = differing(control[0].settings.levers, arm[0].settings.levers) if control and arm else ()
    gates = ", ".join(name.removeprefix("set ") for name in levers if name.startswith("set gates."))
    blind = next((row for row in (*control, *arm) if "gates" in row.unjudged), None)
    if not gates or blind is None:
        return None
    return f"nobody could see whether {gates} held in {blind.arm}, start {blind.boot + 1}"


def movement(control: Sequence[ArmRow], arm: Sequence[ArmRow], key: Key, margin: float) -> Movement:
    """How one figure moved; a speed of an arm whose quality failed, and a lever that nobody saw pulled, say nothing."""
    if (unseen := _unseen_lever(control, arm)) is not None:
        return Movement(outcome="missing", reason=unseen)
    speed = any(one.is_speed for row in (*control, *arm) for one in row.measures if one.key == key)
    for side, rows in (("the control", control), ("the arm", arm)):
        why = next((row.hidden for row in rows if row.hidden is not None), None)
        if speed and why is not None:
            return Movement(outcome="missing", reason=f"speed of {side} is withheld: {why}")
    return moved(by_boot(control, key), by_boot(arm, key), margin)
