"""Does the server still answer rightly under load, and after it? Else its speed and its memory are worth nothing.

The demand comes from gpu-and-verdicts §2.7 (at least 24 exact-match tasks with budgets of their own), the tests from
`core.quality.gate`. A pass says that each phase was seen well enough to notice the loss of half of what the server
could do before; it does not say that the model is good, and it does not compare it with another one.
"""

from __future__ import annotations

from collections import Counter

from infermaxx_tui.core.judges.check import Check, Evidence, shown
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.quality.gate import Gate, PhaseCount, gate
from infermaxx_tui.core.quality.outcome import QualityAnswer
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95


def judge(state: RunState, limits: Limits) -> Check:
    """Fails when a phase is significantly below `before` or below `min_quality`; required if tasks were asked for.

    Not evaluable when too many tasks are capped, in error or never asked, when load was missing, or when the server was
    so bad before that a fall could not be noticed and no `min_quality` was given. `bound95` is of the share of tasks
    right before that are wrong during or after.
    """
    asked = state.quality
    if not asked.tasks:
        advice = "no quality tasks were asked for: a [quality] table in the scenario does"
        return Check(name="quality", outcome="not_evaluable", required=False, n_evaluated=0, advice=advice)
    seen = gate(asked, limits)
    excluded = Counter[str]()
    for phase in seen.phases:
        excluded.update(phase.excluded)
    fell = sum(phase.fell for phase in seen.phases)
    pairs = fell + sum(phase.held for phase in seen.phases)
    wrong = seen.fallen or tuple(one for one in asked.answers if one.mark == "wrong")
    return Check(
        name="quality",
        outcome=seen.outcome,
        n_evaluated=sum(phase.evaluated for phase in seen.phases),
        n_planned=sum(phase.planned for phase in seen.phases),
        excluded=dict(sorted(excluded.items())),
        bound95=bound95(fell, pairs) if pairs else None,
        cause=seen.cause,
        evidence=shown(_witness(one) for one in wrong),
        advice="; ".join((_figures(seen.phases), *_advice(seen))),
    )


def _figures(phases: tuple[PhaseCount, ...]) -> str:
    return "right " + ", ".join(f"{phase.name} {phase.right}/{phase.evaluated}" for phase in phases)


def _advice(seen: Gate) -> tuple[str, ...]:
    if seen.outcome != "fail":
        return seen.blind
    cause = {
        "under_load": ("asked again alone they are right: look at what concurrency shares",),
        "alone_too": ("asked again alone at that depth they are wrong too, so concurrency is cleared",),
        None: (),
    }[seen.cause]
    return (*seen.failures, *cause, "speeds of this run are withheld")


def _witness(one: QualityAnswer) -> Evidence:
    where = f"during wave {one.wave}" if one.phase == "during" else one.phase
    return Evidence(
        event=one.at,
        session=one.session if one.session >= 0 else None,
        turn=one.turn if one.session >= 0 else None,
        said=one.said,
        what=f"wrong {where}",
        label=one.task,
        depth_tokens=one.depth_tokens,
        overlapped=one.overlapped,
        question=one.question,
        expected=one.expected,
    )
