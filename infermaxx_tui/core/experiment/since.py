"""The same experiment once more: what moved since the last time, where the two are like for like, and what did not.

No movement is an answer and is written as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer, unlike
from infermaxx_tui.core.experiment.beside import movement
from infermaxx_tui.core.experiment.lines import movement_text
from infermaxx_tui.core.experiment.moved import Movement
from infermaxx_tui.core.measures import Measure, measure_text


class ArmSince(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, now and the last time."""

    arm: str
    unlike: tuple[str, ...] = ()
    """Keys of the regime that differ: figures are not compared then."""
    reason: str | None = None
    """Why nothing is compared; None if something is."""
    moved: tuple[tuple[Measure, Movement], ...] = ()
    """Up or down."""
    unresolved: int = 0
    same: int = 0
    """Figures that did not move."""
    single: int = 0
    """Figures with one value a side, which show neither."""


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """A whole experiment, now and the last time."""

    experiment: str
    now: str
    last: str | None
    """The folder that it is compared with; None if there is none."""
    arms: tuple[ArmSince, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether any figure did."""
        return any(arm.moved for arm in self.arms)


def same_question(left: Answer, right: Answer) -> bool:
    """Whether both had the same arms in the same order; the words around them do not matter."""
    return left.registered.arms == right.registered.arms and left.registered.order == right.registered.order


def since(now_id: str, now: Answer, last_id: str | None, last: Answer | None) -> Since:
    """Arm by arm, by name."""
    name = now.registered.experiment
    if last is None or last_id is None:
        return Since(experiment=name, now=now_id, last=None)
    before = {arm.name: arm for arm in last.arms}
    return Since(
        experiment=name,
        now=now_id,
        last=last_id,
        arms=tuple(_arm(arm, before.get(arm.name), now.registered.margin) for arm in now.arms),
    )


def _arm(now: ArmAnswer, last: ArmAnswer | None, margin: float) -> ArmSince:
    if last is None or not last.rows or not now.rows:
        return ArmSince(arm=now.name, reason="it has no rows on both sides")
    differing = unlike(last.rows, now.rows, 0)
    if differing:
        return ArmSince(arm=now.name, unlike=differing, reason=f"not like for like: {', '.join(differing)}")
    if now.failed or last.failed:
        return ArmSince(arm=now.name, reason=(now.failed or last.failed)[0])
    found = [(one, movement(last.rows, now.rows, one.key, margin)) for one in now.measures]
    outcomes = [change.outcome for _, change in found]
    return ArmSince(
        arm=now.name,
        moved=tuple((one, change) for one, change in found if change.outcome in ("up", "down")),
        unresolved=outcomes.count("unresolved"),
        same=outcomes.count("no_movement"),
        single=outcomes.count("single"),
    )


def since_lines(one: Since) -> Iterator[str]:
    """For people and for a cron mail."""
    if one.last is None:
        yield f"{one.experiment}: {one.now}: the first of its kind, there is nothing to hold it against"
        return
    word = "MOVED" if one.moved else "no movement"
    yield f"{one.experiment}: {one.now} against {one.last}: {word}"
    yield from (f"  {_arm_text(arm)}" for arm in one.arms)
    yield from _figures(one.arms)


def _arm_text(arm: ArmSince) -> str:
    if arm.reason is not None:
        return f"{arm.arm}: not compared: {arm.reason}"
    return (
        f"{arm.arm}: {len(arm.moved)} moved, {arm.same} did not, {arm.unresolved} not resolved,"
        f" {arm.single} with one value a side"
    )


def _figures(arms: Sequence[ArmSince]) -> Iterator[str]:
    for arm in arms:
        for one, change in arm.moved:
            yield f"  {arm.arm}: {measure_text(one)}; {movement_text(change)}"
