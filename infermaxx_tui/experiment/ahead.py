"""What an experiment would do, before anything is started: its arms, their levers, how many starts and how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from infermaxx_tui.core.experiment.levers import Settings, settings
from infermaxx_tui.core.experiment.order import steps
from infermaxx_tui.core.experiment.rows import ArmRow, arm_rows
from infermaxx_tui.core.model_facts import facts_lines
from infermaxx_tui.experiment.conduct import Asked
from infermaxx_tui.experiment.folder import list_experiments
from infermaxx_tui.model_folder import facts_of, model_of
from infermaxx_tui.rundir import RunError


def ahead_lines(asked: Asked, root: Path) -> Iterator[str]:
    """Lines for people; hours only from starts like these that are in `root` already, else not known."""
    experiment = asked.experiment
    order = steps(experiment)
    yield f"{experiment.name}: {experiment.question}"
    count = len(experiment.arms)
    yield f"{len(order)} boots: {count} {'arm' if count == 1 else 'arms'}, {experiment.boots} each, {experiment.order}"
    known = known_seconds(root, experiment.name)
    for one in settings(experiment):
        yield f"  {one.arm}: {_what(one)}"
        yield from (f"    {text}" for text in model_lines(one))
        if len(one.moved) > 1:
            yield f"    CONFOUNDED: {len(one.moved)} levers move; {one.confounded}"
    yield hours_text([known.get(step.arm) for step in order])
    for claim in experiment.predictions:
        yield f"claim: {claim.claim} ({claim.measure}, {claim.arm} / {claim.against}; refuted if {claim.refuted_if})"
    if experiment.boots == 1:
        yield "one start an arm: what another start would change cannot be seen; a claim across boots needs two"


def _what(one: Settings) -> str:
    """A control by its whole server, any other arm by what it changes."""
    if one.parent is not None:
        moved = ", ".join(f"{name}={one.levers.get(name, 'without')}" for name in one.moved)
        return f"against {one.parent}, moves {moved}"
    where = one.url or " ".join(one.launch) or f"embedded server ({' '.join(one.sim)})"
    return f"control; {' '.join(where.split())}"


def model_lines(one: Settings) -> tuple[str, ...]:
    """What the checkpoint says beforehand, if the arm starts a server on one that lies here."""
    folder = model_of(one.launch)
    if folder is None:
        return ()
    found = facts_of(folder)
    return (found,) if isinstance(found, str) else facts_lines(found)


def known_seconds(root: Path, name: str) -> dict[str, float]:
    """Seconds that the newest judged start of each arm took in earlier experiments of that name."""
    found: dict[str, float] = {}
    for folder in list_experiments(root):
        try:
            rows: Sequence[ArmRow] = arm_rows(folder.rows())
        except RunError:
            continue
        for row in rows:
            if row.experiment == name and row.outcome == "judged":
                found.setdefault(row.arm, (row.at_ms - row.began_ms) / 1000)
    return found


def hours_text(seconds: Sequence[float | None]) -> str:
    """The sum of what is known, and what is not."""
    known = [one for one in seconds if one is not None]
    if not known:
        return "hours: not known, no arm of it has run here yet"
    said = f"hours: {sum(known) / 3600:.2g} by the newest starts here"
    unknown = len(seconds) - len(known)
    return said if not unknown else f"{said}, and {unknown} starts of arms that never ran here"
