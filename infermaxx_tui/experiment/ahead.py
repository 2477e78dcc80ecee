"""What an experiment would do, before anything is started: its arms, their levers, how many starts and how long."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from infermaxx_tui.core.experiment.forecast import forecast_lines
from infermaxx_tui.core.experiment.levers import Settings, settings
from infermaxx_tui.core.experiment.order import steps
from infermaxx_tui.core.experiment.rows import ArmRow, arm_rows
from infermaxx_tui.core.model_facts import facts_lines
from infermaxx_tui.experiment.conduct import Asked
from infermaxx_tui.experiment.folder import list_experiments
from infermaxx_tui.experiment.forecasting import known_before, local_card
from infermaxx_tui.rundir import RunError
from infermaxx_tui.server.check_args import missing_model


def ahead_lines(asked: Asked, root: Path, no_gpu: bool = False) -> Iterator[str]:
    """Lines for people; hours only from starts like these that are in `root` already, else not known.

    `no_gpu`: the cards of this machine are not asked.
    """
    experiment = asked.experiment
    order = steps(experiment)
    yield f"{experiment.name}: {experiment.question}"
    count = len(experiment.arms)
    yield f"{len(order)} boots: {count} {'arm' if count == 1 else 'arms'}, {experiment.boots} each, {experiment.order}"
    known = known_starts(root, experiment.name)
    shown: dict[_Part, str] = {}
    for one in settings(experiment):
        yield f"  {one.arm}: {_what(one)}"
        yield from (f"    {text}" for part in known_parts(one, no_gpu) for text in _once(part, one.arm, shown))
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
        moved = ", ".join(f"{name}={one.lever(name)}" for name in one.moved)
        return f"against {one.parent}, moves {moved}"
    where = one.url or " ".join(one.launch) or f"embedded server ({' '.join(one.sim)})"
    return f"control; {' '.join(where.split())}"


class _Part(NamedTuple):
    """Lines about one thing, which stand there once however many arms share them."""

    about: str
    lines: tuple[str, ...]


def _once(part: _Part, arm: str, shown: dict[_Part, str]) -> tuple[str, ...]:
    first = shown.setdefault(part, arm)
    return part.lines if first == arm or len(part.lines) < 2 else (f"{part.about}: as of {first}",)


def known_parts(one: Settings, no_gpu: bool) -> Iterator[_Part]:
    """What is known beforehand of an arm that starts a server: of its checkpoint, and of the pool and speed to come."""
    if not one.launch:
        return
    env = {**os.environ, **one.env}
    if shutil.which(one.launch[0], path=env.get("PATH")) is None:
        yield _Part("", (f"WILL NOT START: there is no {one.launch[0]} here",))
    if (gone := missing_model(one.launch, env)) is not None:
        yield _Part("", (f"WILL NOT START: {gone}",))
        return
    facts, follows = known_before(one, no_gpu)
    if facts is None:
        yield _Part("", ("checkpoint: not known before the start, its command names no folder that lies here",))
        return
    card = None if no_gpu else local_card()
    compute = None if card is None else card.compute
    yield _Part("checkpoint", (facts,) if isinstance(facts, str) else facts_lines(facts, compute))
    if follows is not None:
        yield _Part("pool", tuple(forecast_lines(follows)))


class Start(NamedTuple):
    """How long the newest start of an arm took."""

    seconds: float
    failed: bool
    """Whether it did not come up."""


def known_starts(root: Path, name: str) -> dict[str, Start]:
    """The newest start of each arm in earlier experiments of that name that was judged, refused or failed."""
    found: dict[str, Start] = {}
    for folder in list_experiments(root):
        try:
            rows: Sequence[ArmRow] = arm_rows(folder.rows())
        except RunError:
            continue
        for row in rows:
            if row.experiment == name and row.outcome in ("judged", "boot_failed", "refused"):
                found.setdefault(row.arm, Start((row.at_ms - row.began_ms) / 1000, row.outcome != "judged"))
    return found


def hours_text(starts: Sequence[Start | None]) -> str:
    """The sum of what is known, and what is not."""
    known = [one for one in starts if one is not None]
    if not known:
        return "hours: not known, no arm of it has run here yet"
    seconds = sum(one.seconds for one in known)
    said = [f"hours: {seconds / 3600:.2g} ({seconds / 60:.2g} min) by the newest starts here"]
    if failed := sum(one.failed for one in known):
        said.append(f"{failed} of them failed then, and would take longer if they came up")
    if unknown := len(starts) - len(known):
        said.append(f"and {unknown} of arms that never ran here")
    return ", ".join(said)
