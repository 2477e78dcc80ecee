"""The same experiment once more: what moved since the last time, where the two are like for like, and what did not.

No movement is an answer and is written as one; that nothing could be compared, or resolved, is another answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer, unlike
from infermaxx_tui.core.experiment.beside import movement
from infermaxx_tui.core.experiment.lines import movement_text, word_text
from infermaxx_tui.core.experiment.moved import ONE_START, Movement
from infermaxx_tui.core.measures import Measure, measure_text

Drift = Literal["first", "moved", "none", "partly", "unresolved", "not_compared"]
"""`none`: of every arm some figure resolves, and none of those moved. `partly`: the same of some arms alone; the others
were not compared, or no figure of theirs resolves. `unresolved`: nothing resolves. `not_compared`: no arm is like for
like."""


_NO_ROWS: Final = "it has no rows on both sides"


class ArmSince(msgspec.Struct, frozen=True, kw_only=True):
    """One arm, now and the last time."""

    arm: str
    unlike: tuple[str, ...] = ()
    """Keys of the regime that differ: figures are not compared then."""
    reason: str | None = None
    """Why no figure is compared; None if some are."""
    moved: tuple[tuple[Measure, Movement], ...] = ()
    """Up or down."""
    unresolved: int = 0
    same: int = 0
    """Figures that did not move."""
    single: int = 0
    """Figures with one value a side, which show neither."""
    missing: int = 0
    """Figures that one side has no value of, a withheld speed and one that is not even named now among them."""
    one_start: bool = False
    """Whether any figure rests on one start a side, whose interval holds nothing that another start would change."""
    words: tuple[str, ...] = ()
    """Verdicts of its starts now, with the checks that stand against them."""
    words_last: tuple[str, ...] | None = None
    """Those of the last time; None where there was none."""

    @property
    def turned(self) -> bool:
        """Whether its verdicts are others than the last time, in whatever order."""
        return self.words_last is not None and set(self.words) != set(self.words_last)

    @property
    def open(self) -> int:
        """Figures that show neither a movement nor its absence."""
        return self.unresolved + self.single + self.missing

    @property
    def worse(self) -> bool:
        """Whether any figure moved the wrong way."""
        return not all(_better(*pair) for pair in self.moved)

    @property
    def undecided(self) -> bool:
        """Whether it was compared, and nothing came of it."""
        return self.reason is None and not (self.moved or self.same)


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """A whole experiment, now and the last time."""

    experiment: str
    now: str
    last: str | None
    """The folder that it is compared with; None if there is none."""
    skipped: int = 0
    """Newer ones than that, which are not like for like."""
    arms: tuple[ArmSince, ...] = ()

    @property
    def drift(self) -> Drift:
        """What the comparison comes to."""
        if self.last is None:
            return "first"
        if any(arm.moved or arm.turned for arm in self.arms):
            return "moved"
        compared = [arm for arm in self.arms if arm.reason is None]
        if not compared:
            return "not_compared"
        decided = [arm for arm in compared if not arm.undecided]
        if not decided:
            return "unresolved"
        return "none" if len(decided) == len(self.arms) else "partly"


def same_question(left: Answer, right: Answer) -> bool:
    """Whether both had the same arms in the same order, and played the same; the words around them do not matter."""
    a, b = left.registered, right.registered
    played = {one.scenario_sha256 for one in (a, b)} - {""}
    return a.arms == b.arms and a.order == b.order and len(played) < 2


def like_for_like(now: Answer, other: Answer) -> bool:
    """Whether every arm can be held against the other's: the same regime, and started then if it is now."""
    if not (other.finished and same_question(now, other)):
        return False
    before = {arm.name: arm for arm in other.arms}
    return all(
        not unlike(before[arm.name].rows, arm.rows, 0) and not (before[arm.name].failed and not arm.failed)
        for arm in now.arms
    )


def since(now_id: str, now: Answer, last_id: str | None, last: Answer | None, skipped: int = 0) -> Since:
    """Arm by arm, by name."""
    name = now.registered.experiment
    before = {} if last is None else {arm.name: arm for arm in last.arms}
    return Since(
        experiment=name,
        now=now_id,
        last=None if last is None else last_id,
        skipped=skipped,
        arms=tuple(_arm(arm, before.get(arm.name), now.registered.margin) for arm in now.arms),
    )


def _arm(now: ArmAnswer, last: ArmAnswer | None, margin: float) -> ArmSince:
    words = tuple(word_text(row) for row in now.rows)
    if last is None or not last.rows or not now.rows:
        return ArmSince(arm=now.name, words=words, reason=(now.failed or (_NO_ROWS,))[0])
    said = ArmSince(arm=now.name, words=words, words_last=tuple(word_text(row) for row in last.rows))
    replace = msgspec.structs.replace
    differing = unlike(last.rows, now.rows, 0)
    if differing:
        return replace(said, unlike=differing, words_last=None, reason=f"not like for like: {', '.join(differing)}")
    if now.failed or last.failed:
        return replace(said, reason=(now.failed or (f"the last time, {last.failed[0]}",))[0])
    judged = [one for one in now.measures if one.better != "neither"]
    found = [(one, movement(last.rows, now.rows, one.key, margin)) for one in judged]
    outcomes = [change.outcome for _, change in found]
    known = {one.key for one in judged}
    gone = [one for one in last.measures if one.better != "neither" and one.values and one.key not in known]
    return replace(
        said,
        moved=tuple((one, change) for one, change in found if change.outcome in ("up", "down")),
        unresolved=outcomes.count("unresolved"),
        same=outcomes.count("no_movement"),
        single=outcomes.count("single"),
        missing=outcomes.count("missing") + len(gone),
        one_start=any(change.reason == ONE_START for _, change in found),
    )


def since_lines(one: Since) -> Iterator[str]:
    """For people and for a cron mail."""
    if one.last is None:
        yield f"{one.experiment}: {one.now}: the first of its kind, there is nothing to hold it against"
        yield from (f"  {arm.arm}: {_words(arm)}{_failed(arm)}" for arm in one.arms)
        return
    yield f"{one.experiment}: {one.now} against {one.last}{_skipped(one)}: {_headline(one)}"
    yield from (f"  {_arm_text(arm)}" for arm in one.arms)
    yield from figure_lines(one.arms)


def _skipped(one: Since) -> str:
    return f" ({one.skipped} newer, not like for like)" if one.skipped else ""


def _headline(one: Since) -> str:
    same, open_ = sum(arm.same for arm in one.arms), sum(arm.open for arm in one.arms)
    none = f"no movement in {_figures(same)}" + (f", {open_} cannot say" if open_ else "")
    match one.drift:
        case "moved":
            return "MOVED"
        case "none":
            return none
        case "partly":
            left_out = sum(arm.reason is not None for arm in one.arms)
            unresolved = sum(arm.undecided for arm in one.arms)
            counts = ((left_out, "NOT COMPARED"), (unresolved, "CANNOT SAY"))
            return none + "".join(f"; {count} of {len(one.arms)} arms {word}" for count, word in counts if count)
        case "unresolved":
            return f"CANNOT SAY: none of {_figures(open_)} resolves"
        case "not_compared" | "first":
            return "NOT COMPARED"


def _figures(count: int) -> str:
    return f"{count} figure" if count == 1 else f"{count} figures"


def _failed(arm: ArmSince) -> str:
    return "" if arm.reason in (None, _NO_ROWS) else f"; {arm.reason}"


def _words(arm: ArmSince) -> str:
    return ", ".join(arm.words) or "not started"


def _arm_text(arm: ArmSince) -> str:
    said = f"{arm.arm}: {_words(arm)}"
    if arm.turned:
        said += f" (VERDICT MOVED: was {', '.join(arm.words_last or ())})"
    if arm.reason is not None:
        return f"{said}; not compared: {arm.reason}"
    counts = ((arm.unresolved, "not resolved"), (arm.single, "with one value a side"), (arm.missing, "without a value"))
    rest = "".join(f", {count} {word}" for count, word in counts if count)
    once = f"; {ONE_START}" if arm.one_start else ""
    return f"{said}; {len(arm.moved)} moved, {arm.same} did not{rest}{once}"


def figure_lines(arms: Sequence[ArmSince]) -> Iterator[str]:
    """A line for each figure that moved."""
    for arm in arms:
        for one, change in arm.moved:
            word = "better" if _better(one, change) else "WORSE"
            yield f"  {arm.arm}: {word}: {measure_text(one)}; {movement_text(change)}"


def _better(one: Measure, change: Movement) -> bool:
    return (change.outcome == "up") == (one.better == "more")
