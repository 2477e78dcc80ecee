"""Which arm is started when: the order is fixed before the first start, and each step knows its place."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.experiment.file import Experiment


class Step(msgspec.Struct, frozen=True):
    """One start of one arm."""

    place: int
    arm: str
    boot: int
    """Which start of this arm it is, from 0."""


def steps(experiment: Experiment) -> tuple[Step, ...]:
    """All starts. Interleaved: every arm once, then every arm again, so that time and warmth touch all alike."""
    names = [arm.name for arm in experiment.arms]
    match experiment.order:
        case "interleaved":
            pairs = [(name, boot) for boot in range(experiment.boots) for name in names]
        case "sequence":
            pairs = [(name, boot) for name in names for boot in range(experiment.boots)]
    return tuple(Step(place, name, boot) for place, (name, boot) in enumerate(pairs))
