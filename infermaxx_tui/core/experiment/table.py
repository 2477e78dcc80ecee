"""Arms as a table: one row an arm, one column a figure, each with its spread; the same rows for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.experiment.cells import Cell, Table
from infermaxx_tui.core.experiment.curves import right_text
from infermaxx_tui.core.experiment.drafted import AT
from infermaxx_tui.core.experiment.lines import lever_text, movement_text, word_text
from infermaxx_tui.core.experiment.moved import ONE_START, Movement
from infermaxx_tui.core.measures import Measure, coverage_text, number_text

Key = tuple[str, int | None, int | None]
_LESS_SAID = ("depth.reached_tokens", "recall.counted", "pool.held_tokens", "draft.mean_length")
_FIRST = ("decode.", "ttft.", "prefill.", "aggregate.tokens", "aggregate.", "turns.")
"""Beginnings of names whose columns stand before all others, in this order."""
_WHEN_ANY = ("isolation.leaked", "recall.lost", "server.preemptions")
"""Figures that have a column only where any of them is not 0."""
_REASON = 80
"""Characters of a reason in a cell; the words below the table have all of it."""
_LESS_SAID_KINDS = ("quality.", "fit.", AT)
"""Figures that stand in the list or in a table of their own, and in no column of this one: their names, and the
beginnings of their names."""


def arms_table(found: Answer) -> Table:
    """The arm, its lever, its verdicts, its right answers, and each figure that any arm has."""
    columns = _columns(found.arms)
    head = ("arm", "lever", "verdicts", "answers", *(_title(one) for one in columns.values()))
    return Table(head, tuple(_row(arm, tuple(columns)) for arm in found.arms))


def _columns(arms: Iterable[ArmAnswer]) -> dict[Key, Measure]:
    """Figures that any arm has a value of, and speeds that are withheld wherever they were asked for.

    What nobody has a value of stands in the words, with its reason.
    """
    found: dict[Key, Measure] = {}
    valued: set[Key] = set()
    open_: set[Key] = set()
    for arm in arms:
        for one in arm.measures:
            if one.name not in _LESS_SAID and not one.name.startswith(_LESS_SAID_KINDS):
                found.setdefault(one.key, one)
                if not (one.is_speed and arm.withheld is not None):
                    shown = any(one.values) if one.name in _WHEN_ANY else bool(one.values)
                    (valued if shown else open_).add(one.key)
    found = {key: one for key, one in found.items() if key in valued or key not in open_}
    return dict(sorted(found.items(), key=lambda item: _place(item[1])))


def _place(one: Measure) -> tuple[int, str, int, int]:
    """What most look for stands first, and one figure's depths and streams stand together."""
    first = next((at for at, name in enumerate(_FIRST) if one.name.startswith(name)), len(_FIRST) + (not one.is_speed))
    return first, one.name, one.depth_tokens or 0, one.streams or 0


def _title(one: Measure) -> str:
    where = "" if one.depth_tokens is None else f" @{one.depth_tokens:,}"
    where += f" x{one.streams}" if one.streams not in (None, 1) else ""
    return f"{one.name}{where}, {one.unit}"


def _row(arm: ArmAnswer, keys: Sequence[Key]) -> tuple[Cell, ...]:
    by_key = {one.key: one for one in arm.measures}
    moved = {pair.measure.key: pair.movement for pair in arm.compared}
    words = ", ".join(word_text(row) for row in arm.rows) or "not started"
    figures = []
    for key in keys:
        one = by_key.get(key)
        if one is None or (one.is_speed and arm.withheld is not None):
            figures.append(
                Cell("withheld" if arm.withheld is not None and one is not None else "n/a", struck=arm.worthless)
            )
            continue
        if not one.values:
            figures.append(Cell("n/a", _cut(one.reason or "not measured")))
            continue
        below = "; ".join(filter(None, (_moved(moved.get(key)), one.note)))
        figures.append(Cell(_value(one), below, badge="n 1" if len(one.values) == 1 else ""))
    lever = "control" if arm.settings.parent is None else f"{lever_text(arm)} (against {arm.settings.parent})"
    return (
        Cell(arm.name, struck=arm.worthless),
        Cell(lever, badge=_doubts(arm)),
        Cell(words),
        Cell(right_text(arm)),
        *figures,
    )


def _doubts(arm: ArmAnswer) -> str:
    """What takes the lever its meaning, in words that cannot be overlooked; what it is stands in the words below."""
    confounded = arm.unlike or (arm.settings.confounded and len(arm.settings.moved) > 1)
    return ", ".join(("CONFOUNDED",) * bool(confounded) + ("LEVER NOT SEEN",) * bool(arm.unmoved))


def _moved(change: Movement | None) -> str:
    """Beside the parent's; with one start a side that is said here too, since a table is read without its words."""
    if change is None:
        return ""
    said = movement_text(change)
    return said.replace(" (", ", one start (", 1) if change.reason == ONE_START else said


def _cut(reason: str) -> str:
    return reason if len(reason) <= _REASON else f"{reason[: _REASON - 1]}…"


def _value(one: Measure) -> str:
    if one.median is None or one.spread is None:
        return "n/a"
    said = [coverage_text(one)]
    if len(one.values) > 1:
        low, high = one.spread
        said = [f"{number_text(low)} to {number_text(high)}, n {len(one.values)}", *said]
    inside = ", ".join(filter(None, said))
    return f"{number_text(one.median)} ({inside})" if inside else number_text(one.median)
