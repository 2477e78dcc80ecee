"""How long a run will take, by how long the last one of the same scenario took: known before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.power import hours_for, hours_text
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.stats import bound95
from infermaxx_tui.rundir import RUN_ID, RunError

_RUNS_LOOKED_AT = 20


class _Check(msgspec.Struct):
    name: str
    n_evaluated: int


class _Regime(msgspec.Struct):
    duration_s: float
    simulated: bool = False
    at_once: int | None = None
    target_depth: int | None = None


class _Verdict(msgspec.Struct):
    """What is read of a verdict here, whatever else a newer or older program wrote into it."""

    run: str | None
    checks: tuple[_Check, ...]
    regime: _Regime


def plan_lines(scenario: Scenario, planned: Plan, root: Path | None) -> Iterator[str]:
    """What the planned recalls are worth, by recall and by session, and the hours they take where a pace is known."""
    recalls, sessions = planned.planned_recalls, len(planned.conversations)
    by_recall, by_session = bound95(0, recalls), bound95(0, sessions)
    if by_recall is None or by_session is None:
        return
    yield (
        f"{recalls} recalls planned: if all come back, a miss rate above {100 * by_recall:.3g} % is excluded with 95 %"
        f" confidence ({100 * by_session:.3g} % with the {sessions} whole conversations as the units)"
    )
    seen = None if root is None else last_pace(scenario, planned.at_once, root)
    if seen is None:
        return
    run, done, duration_s = seen
    hours = hours_for(recalls, done, duration_s * 1000)
    if hours is not None:
        took = f"{done} recalls in {hours_text(duration_s / 3600)}"
        yield f"they take about {hours_text(hours)} at the pace of {run} ({took})"
        planned_s = scenario.duration_s
        if planned_s is not None and planned_s < hours * 3600:
            advice = f"--duration {_whole_minutes(hours)}m"
            yield f"stop.duration={scenario.stop.duration} ends the run before that: {advice}"


def _whole_minutes(hours: float) -> int:
    """With a quarter to spare."""
    return max(round(hours * 60 * 1.25), 1)


def last_pace(scenario: Scenario, at_once: int, root: Path) -> tuple[str, int, float] | None:
    """The newest run of the same scenario at the same depth and load: its name, recalls, seconds; None without one."""
    try:
        runs = rundir.list_runs(root)
    except RunError:
        return None
    named = [run for run in runs if (match := RUN_ID.fullmatch(run.id)) and match[2] == scenario.name]
    for run in named[:_RUNS_LOOKED_AT]:
        try:
            verdict = msgspec.json.decode(run.verdict.read_bytes(), type=_Verdict)
        except (OSError, msgspec.DecodeError):
            continue
        regime = verdict.regime
        done = next((check.n_evaluated for check in verdict.checks if check.name == "recall"), 0)
        alike = (regime.at_once, regime.target_depth) == (at_once, scenario.sessions.target_depth)
        if alike and regime.simulated == bool(scenario.server.sim) and done and regime.duration_s > 0:
            return run.id, done, regime.duration_s
    return None
