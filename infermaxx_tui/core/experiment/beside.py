"""One figure of an arm beside the same figure of another, start by start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infermaxx_tui.core.experiment.moved import Movement, moved
from infermaxx_tui.core.experiment.rows import ArmRow

Key = tuple[str, int | None, int | None]
"""Name, depth in tokens and streams of a measure."""


def by_boot(rows: Iterable[ArmRow], key: Key) -> list[tuple[float, ...]]:
    """The values of each start that has any, those of all of its probes together: two probes are no two starts."""
    found = (tuple(value for one in row.measures if one.key == key for value in one.values) for row in rows)
    return [values for values in found if values]


def movement(control: Sequence[ArmRow], arm: Sequence[ArmRow], key: Key, margin: float) -> Movement:
    """How one figure moved; a speed of an arm whose gate failed is not compared."""
    speed = any(one.is_speed for row in (*control, *arm) for one in row.measures if one.key == key)
    for side, rows in (("the control", control), ("the arm", arm)):
        why = next((row.hidden for row in rows if row.hidden is not None), None)
        if speed and why is not None:
            return Movement(outcome="missing", reason=f"speed of {side} is withheld: {why}")
    return moved(by_boot(control, key), by_boot(arm, key), margin)
