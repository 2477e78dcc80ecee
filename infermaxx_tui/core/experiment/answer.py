"""What the rows of an experiment say together: what moved against the control, by how much, and what nobody can say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from infermaxx_tui.core.comparison import DEMANDED
from infermaxx_tui.core.experiment.beside import Key, movement
from infermaxx_tui.core.experiment.flips import Flips, flips
from infermaxx_tui.core.experiment.follows import following, unforeseen, unmoved
from infermaxx_tui.core.experiment.identity import Identity, identity
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.experiment.matrix import Interaction, interactions
from infermaxx_tui.core.experiment.moved import Movement
from infermaxx_tui.core.experiment.roofline import over_roofline
from infermaxx_tui.core.experiment.rows import AnyRow, ArmRow, Registered, arm_rows, registered
from infermaxx_tui.core.experiment.scored import ScoredClaim, score_claims
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.regime import FOLLOWS, Regime


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of an arm beside its parent's."""

    measure: Measure
    """Of the arm, its values pooled over the starts."""
    movement: Movement


class ArmAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One arm over all of its starts."""

    settings: Settings
    planned: int
    rows: tuple[ArmRow, ...]
    measures: tuple[Measure, ...]
    """Values of all starts pooled, in order; none of a speed that is withheld."""
    compared: tuple[Compared, ...] = ()
    """Against the parent; empty for a control."""
    flips: Flips | None = None
    """Answers that changed against the parent's."""
    identity: Identity | None = None
    """Whether its texts are the parent's, of a control its own; None where nobody asked."""
    withheld: str | None = None
    """Why no speed of this arm may be quoted."""
    unlike: tuple[str, ...] = ()
    """Keys of the regime that differ although they are no lever of this arm: the pair is confounded by them."""
    unmoved: tuple[str, ...] = ()
    """Levers of which the server says the same in both arms: nothing that moved can have come of them."""
    over_roofline: tuple[str, ...] = ()
    """Rates that its cards cannot reach."""
    failed: tuple[str, ...] = ()
    """Starts without a verdict, with their reasons."""

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.settings.arm

    @property
    def worthless(self) -> bool:
        """Whether a check of content failed in any start: its speed is the speed of nothing."""
        return any(row.checks.get(name) == "fail" for row in self.rows for name in ("degeneration", "quality"))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole experiment as far as it has come."""

    registered: Registered
    arms: tuple[ArmAnswer, ...]
    claims: tuple[ScoredClaim, ...]
    finished: bool
    matrix: tuple[Interaction, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any arm was played on the embedded server."""
        return any(row.simulated for arm in self.arms for row in arm.rows)


def answer(rows: Sequence[AnyRow]) -> Answer:
    """Folds the rows. Raises ValueError where the first line is missing: nobody knows what was asked."""
    first = registered(rows)
    if first is None:
        raise ValueError("the results have no first line")
    done = arm_rows(rows)
    by_arm = {one.arm: tuple(row for row in done if row.arm == one.arm) for one in first.arms}
    asked = frozenset(measure.key for row in done for measure in row.measures if measure.planned or measure.values)
    arms = tuple(_arm(one, by_arm, first, asked) for one in first.arms)
    whole = {arm: counted(some) for arm, some in by_arm.items()}
    return Answer(
        registered=first,
        arms=arms,
        claims=score_claims(first, whole),
        matrix=() if first.matrix is None else interactions(first.matrix, whole, first.margin),
        finished=all((arm, boot) in {(row.arm, row.boot) for row in done} for arm, boot in first.order),
    )


def _arm(one: Settings, by_arm: dict[str, tuple[ArmRow, ...]], first: Registered, asked: frozenset[Key]) -> ArmAnswer:
    rows = by_arm[one.arm]
    parent = counted(by_arm[one.parent]) if one.parent is not None else ()
    whole = counted(rows)
    withheld = next((row.hidden for row in rows if row.hidden is not None), None)
    measures = tuple(_shown(measure, withheld) for measure in pooled(whole) if measure.key in asked)
    return ArmAnswer(
        settings=one,
        planned=sum(arm == one.arm for arm, _ in first.order),
        rows=rows,
        measures=measures,
        compared=tuple(
            Compared(measure=measure, movement=movement(parent, whole, measure.key, first.margin))
            for measure in measures
            if one.parent is not None
        ),
        flips=flips(parent, whole) if one.parent is not None else None,
        identity=identity(whole if one.parent is None else parent, whole),
        withheld=withheld,
        unlike=unlike(parent, whole, unforeseen(one.moved), following(one)),
        unmoved=tuple(unmoved(one, parent, whole)),
        over_roofline=() if withheld is not None else tuple(over_roofline(whole)),
        failed=tuple(_failed(row) for row in rows if row.outcome != "judged"),
    )


def _shown(measure: Measure, withheld: str | None) -> Measure:
    """The figure of an arm; a speed is none if that of any start is withheld, whatever the other starts came to."""
    if withheld is None or not measure.is_speed:
        return measure
    return msgspec.structs.replace(measure, values=(), counts=(), reason=f"withheld: {withheld}")


def _failed(row: ArmRow) -> str:
    return f"start {row.boot + 1}: {row.outcome.replace('_', ' ')}: {row.reason}"


def counted(rows: Sequence[ArmRow]) -> tuple[ArmRow, ...]:
    """Starts whose figures count: one that somebody broke off, or that a gate held up, measured half of it."""
    return tuple(row for row in rows if row.outcome in ("judged", "died"))


def pooled(rows: Iterable[ArmRow]) -> tuple[Measure, ...]:
    """Each measure once, with the values of all starts one after another."""
    found: dict[Key, list[Measure]] = {}
    for row in rows:
        for one in row.measures:
            found.setdefault(one.key, []).append(one)
    return tuple(map(pool, found.values()))


def pool(some: Sequence[Measure]) -> Measure:
    """One measure of several with one key; if several probes took it, that is said beside it."""
    probes = dict.fromkeys(one.probe for one in some if one.values)
    reasons = dict.fromkeys(one.reason for one in some if one.reason is not None)
    notes = [part for one in some if one.note is not None for part in one.note.split("; ")]
    notes += [f"taken by {len(probes)} probes, at different times of the run"] if len(probes) > 1 else []
    return msgspec.structs.replace(
        some[0],
        values=tuple(value for one in some for value in one.values),
        planned=sum(one.planned for one in some),
        reason="; ".join(reasons) or None,
        note="; ".join(dict.fromkeys(notes)) or None,
        counts=tuple(count for one in some for count in one.counts),
        probe=None if len(probes) > 1 else next(iter(probes), some[0].probe),
    )


def unlike(
    control: Sequence[ArmRow], arm: Sequence[ArmRow], levers: int, follows: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Regime keys that tell the two apart beyond what the arm's levers may: empty if none does.

    A lever may move one key of the regime that no other key follows from; within one arm none may move. `follows` are
    keys that follow from the levers of this arm besides.
    """
    sides = [[row.regime for row in rows if row.regime is not None] for rows in (control, arm)]
    within = {key for regimes in sides for key in _differing(regimes)}
    across = set(_differing([regime for regimes in sides for regime in regimes[:1]])) - within - follows
    return tuple(sorted(within | (across if len(across) > levers else set())))


def _differing(regimes: Sequence[Regime]) -> list[str]:
    names = [
        key
        for key in (*Regime.__struct_fields__, *DEMANDED)
        if key not in FOLLOWS | {"missing", "at_once", "interleaved"}
    ]
    return [key for key in names if any(getattr(one, key) != getattr(regimes[0], key) for one in regimes)]
