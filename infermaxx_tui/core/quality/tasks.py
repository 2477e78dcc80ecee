"""The set of tasks of a run: six families in turn, so that a set of any size holds a bit of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from infermaxx_tui.core.quality.reading import extraction, json_task
from infermaxx_tui.core.quality.reasoning import ordering, tracing
from infermaxx_tui.core.quality.reckoning import arithmetic, units
from infermaxx_tui.core.quality.task import Draw, Family, Task

FULL_SET: Final = 24
"""Tasks of a gate: six families of four kinds (gpu-and-verdicts §2.7)."""
KINDS: Final = 4
FAMILIES: Final[dict[Family, Callable[[Draw, int, str], Task]]] = {
    "arithmetic": arithmetic,
    "extraction": extraction,
    "tracing": tracing,
    "units": units,
    "json": json_task,
    "ordering": ordering,
}


def tasks(seed: int, count: int = FULL_SET) -> tuple[Task, ...]:
    """So many tasks with their keys, the same for the same seed; the first 24 are one of each kind."""
    families = list(FAMILIES.items())
    made = []
    for number in range(count):
        family, make = families[number % len(families)]
        nth = number // len(families)
        name = f"{family}-{nth + 1}"
        made.append(make(Draw(seed, name), nth % KINDS, name))
    return tuple(made)
