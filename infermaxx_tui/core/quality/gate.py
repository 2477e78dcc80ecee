"""What the marks of all phases mean together: whether the server answers as well under load and after it as before.

The same tasks are asked each time, so a task is compared with itself. Judge, panels and the withheld speed all look at
this one answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.quality.compare import ALPHA, below_by_chance, fall_by_chance
from infermaxx_tui.core.quality.outcome import QualityAnswer

BETWEEN: Final = -1
"""The wave of what is asked before and after all waves."""
Phase = Literal["before", "during", "after"]
Cause = Literal["under_load", "alone_too"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was planned and answered."""

    tasks: int = 0
    """Tasks of a set; 0 if the scenario wants none."""
    when: tuple[Phase, ...] = ()
    waves: int = 1
    """Waves of conversations that the plan has."""
    beside: bool = True
    """Whether more than one conversation was to run at once."""
    answers: tuple[QualityAnswer, ...] = ()
    """The newest answer to each task of each phase, in the order in which they were first asked."""


class PhaseCount(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of one phase; `right`, `wrong` and all of `excluded` add up to `planned`."""

    phase: Phase
    wave: int
    planned: int
    right: int
    wrong: int
    excluded: dict[str, int]
    """`capped`, `error` and `not_asked`."""
    overlapped: int
    """Right and wrong answers that were given while another session's stream was decoding."""
    fell: int = 0
    """Tasks right before and wrong here."""
    rose: int = 0
    """Tasks wrong before and right here."""
    held: int = 0
    """Tasks right before and here."""

    @property
    def evaluated(self) -> int:
        """Right and wrong answers."""
        return self.right + self.wrong

    @property
    def name(self) -> str:
        """For people."""
        return f"during wave {self.wave}" if self.phase == "during" else self.phase


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    outcome: Literal["pass", "fail", "not_evaluable"]
    phases: tuple[PhaseCount, ...]
    failures: tuple[str, ...]
    """Why it fails."""
    blind: tuple[str, ...]
    """Why it could not pass."""
    fallen: tuple[QualityAnswer, ...]
    """Wrong answers during and after, those to tasks that were right before first."""
    cause: Cause | None


def gate(asked: Asked, limits: Limits) -> Gate:
    """Fails if a phase is significantly below `before`, or below a demand; cannot say if that could not be seen.

    Each wave of `during`, and `after`, is one comparison by the exact sign test on the tasks that changed; the demand
    `min_quality` is held against each phase by the exact binomial test. All of them share ALPHA. A phase can be passed
    only if few enough of its tasks are left out, if (under load) another stream decoded beside enough of them, and if
    losing half of the tasks that were right before would have been noticed: a server that answers badly from the start
    cannot be seen to fall. Then only a demand taken from a control run can tell.
    """
    phases = _phases(asked)
    compared = asked.waves * ("during" in asked.when) + ("after" in asked.when)
    alpha = ALPHA / max(compared + (limits.min_quality is not None), 1)
    failures = [said for phase in phases for said in _failures(phase, limits, alpha)]
    blind = _blind(asked, phases, limits, alpha)
    right_before = {one.task for one in asked.answers if one.phase == "before" and one.mark == "right"}
    wrong = [one for one in asked.answers if one.phase in ("during", "after") and one.mark == "wrong"]
    fallen = tuple(sorted(wrong, key=lambda one: one.task not in right_before))
    return Gate(
        outcome="fail" if failures else "not_evaluable" if blind else "pass",
        phases=phases,
        failures=tuple(failures),
        blind=tuple(blind),
        fallen=fallen,
        cause=_cause(asked) if failures else None,
    )


def _phases(asked: Asked) -> tuple[PhaseCount, ...]:
    marks: dict[tuple[str, int], list[QualityAnswer]] = {}
    for one in asked.answers:
        marks.setdefault((one.phase, one.wave), []).append(one)
    before = {one.task: one.mark for one in marks.get(("before", BETWEEN), ())}
    waves = sorted(wave for phase, wave in marks if phase == "during") or [0]
    return tuple(
        _count(phase, wave, asked.tasks, marks.get((phase, wave), []), before)
        for phase in asked.when
        for wave in (waves if phase == "during" else [BETWEEN])
    )


def _count(
    phase: Phase, wave: int, planned: int, answers: list[QualityAnswer], before: Mapping[str, str]
) -> PhaseCount:
    marks = Counter[str](one.mark for one in answers)
    excluded = {name: marks[name] for name in ("capped", "error") if marks[name]}
    if len(answers) < planned:
        excluded["not_asked"] = planned - len(answers)
    changes = Counter((before.get(one.task), one.mark) for one in answers) if phase != "before" else Counter()
    return PhaseCount(
        phase=phase,
        wave=wave,
        planned=max(planned, len(answers)),
        right=marks["right"],
        wrong=marks["wrong"],
        excluded=excluded,
        overlapped=sum(one.overlapped for one in answers if one.mark in ("right", "wrong")),
        fell=changes["right", "wrong"],
        rose=changes["wrong", "right"],
        held=changes["right", "right"],
    )


def _failures(phase: PhaseCount, limits: Limits, alpha: float) -> list[str]:
    out = []
    if phase.fell and fall_by_chance(phase.fell, phase.rose) <= alpha:
        out.append(
            f"{phase.name}: {phase.fell} of {phase.fell + phase.held} tasks that were right before are wrong,"
            f" {phase.rose} the other way (chance {fall_by_chance(phase.fell, phase.rose):.2g})"
        )
    demanded = limits.min_quality
    if demanded is not None and phase.evaluated:
        chance = below_by_chance(phase.right, phase.evaluated, demanded)
        if chance <= alpha and phase.right < demanded * phase.evaluated:
            out.append(
                f"{phase.name}: {phase.right} of {phase.evaluated} right, limits.min_quality={demanded:g}"
                f" (chance {chance:.2g})"
            )
    return out


def _blind(asked: Asked, phases: tuple[PhaseCount, ...], limits: Limits, alpha: float) -> list[str]:
    """Why the gate cannot pass; empty if it can."""
    reasons = []
    if limits.min_quality is None and "before" not in asked.when:
        reasons.append("nothing to compare with: quality.when has no before, and limits.min_quality is not set")
    if not {"during", "after"} & set(asked.when):
        reasons.append("neither during nor after stands in quality.when, so no fall could be seen")
    cut = _cut_short(phases)
    for phase in phases:
        if phase is not cut:
            reasons += _unseen(asked, phase, limits, alpha)
    return reasons


def _cut_short(phases: tuple[PhaseCount, ...]) -> PhaseCount | None:
    """The last wave, if the run ended before all of its tasks were asked and an earlier one had all of them."""
    during = [phase for phase in phases if phase.phase == "during"]
    whole = any("not_asked" not in phase.excluded for phase in during[:-1])
    return during[-1] if whole and "not_asked" in during[-1].excluded else None


def _unseen(asked: Asked, phase: PhaseCount, limits: Limits, alpha: float) -> list[str]:
    reasons = []
    left_out = sum(phase.excluded.values())
    if not phase.evaluated or left_out > limits.max_quality_excluded * phase.planned:
        why = ", ".join(f"{n} {name}" for name, n in phase.excluded.items())
        reasons.append(
            f"{phase.name}: {left_out} of {phase.planned} tasks left out ({why}),"
            f" limits.max_quality_excluded={limits.max_quality_excluded:g}"
            + ("; raise quality.max_tokens" if phase.excluded.get("capped") else "")
        )
        return reasons
    if phase.phase == "during" and asked.beside and phase.overlapped < limits.min_overlap * phase.evaluated:
        reasons.append(
            f"{phase.name}: {phase.overlapped} of {phase.evaluated} answers overlapped another stream's decoding,"
            f" limits.min_overlap={limits.min_overlap:g}"
        )
    if limits.min_quality is not None:
        if phase.right < limits.min_quality * phase.evaluated:
            reasons.append(
                f"{phase.name}: {phase.right} of {phase.evaluated} right is below"
                f" limits.min_quality={limits.min_quality:g}, but may be chance: raise quality.tasks"
            )
    elif phase.phase != "before":
        half = -(-(phase.held + phase.fell) // 2)
        if not half or fall_by_chance(half, phase.rose) > alpha:
            reasons.append(
                f"{phase.name}: {phase.held + phase.fell} tasks that were right before were answered, so few that"
                " losing half of them would not be noticed: raise quality.tasks, use an abler model, or set"
                " limits.min_quality from a control run"
            )
    return reasons


def _cause(asked: Asked) -> Cause | None:
    """What asking those that were wrong under load again said, the same prompts with nothing beside."""
    under_load = {(one.wave, one.task) for one in asked.answers if one.phase == "during" and one.mark == "wrong"}
    again = [
        one.mark
        for one in asked.answers
        if one.phase == "alone" and (one.wave, one.task) in under_load and one.mark in ("right", "wrong")
    ]
    if not again:
        return None
    return "under_load" if 2 * again.count("right") > len(again) else "alone_too"


def withheld(asked: Asked, limits: Limits) -> str | None:
    """Why the run's speed is not to be shown; None if it may be.

    A failed gate, or one degenerate reply among its replies (gpu-and-verdicts §2.7): such tokens are cheap to make.
    """
    if not asked.tasks:
        return None
    degenerate = sum(one.degenerate is not None for one in asked.answers)
    if degenerate:
        return f"{degenerate} of {len(asked.answers)} quality replies degenerate"
    return "the quality gate failed" if gate(asked, limits).outcome == "fail" else None
