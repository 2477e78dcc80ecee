"""Arms as a table: one row an arm, one column a figure, each with its spread; the same rows for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.experiment.curves import right_text
from infermaxx_tui.core.experiment.lines import lever_text, movement_text, word_text
from infermaxx_tui.core.measures import Measure, number_text

Key = tuple[str, int | None, int | None]
_LESS_SAID = ("server.preemptions", "depth.reached_tokens", "recall.counted")
"""Figures that stand in the list and in no column of their own."""


class Cell(msgspec.Struct, frozen=True):
    """What stands in one place; `struck`: it is worth nothing, and stands there so that nobody looks for it."""

    text: str
    below: str = ""
    struck: bool = False


class Table(msgspec.Struct, frozen=True):
    """A head, and a row for each arm."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def arms_table(found: Answer) -> Table:
    """The arm, its lever, its verdicts, its right answers, and each figure that any arm has."""
    columns = _columns(found.arms)
    head = ("arm", "lever", "verdicts", "answers", *(_title(one) for one in columns.values()))
    return Table(head, tuple(_row(arm, tuple(columns)) for arm in found.arms))


def _columns(arms: Iterable[ArmAnswer]) -> dict[Key, Measure]:
    found: dict[Key, Measure] = {}
    for arm in arms:
        for one in arm.measures:
            if one.name not in _LESS_SAID and not one.name.startswith("quality."):
                found.setdefault(one.key, one)
    return dict(
        sorted(found.items(), key=lambda item: (not item[1].is_speed, item[0][0], item[0][1] or 0, item[0][2] or 0))
    )


def _title(one: Measure) -> str:
    where = f" @{one.depth_tokens:,}" if one.depth_tokens else ""
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
        change = moved.get(key)
        figures.append(Cell(_value(one), "" if change is None else movement_text(change)))
    lever = "control" if arm.settings.parent is None else f"{lever_text(arm)} (against {arm.settings.parent})"
    return (Cell(arm.name, struck=arm.worthless), Cell(lever), Cell(words), Cell(right_text(arm)), *figures)


def _value(one: Measure) -> str:
    if one.median is None or one.spread is None:
        return f"n/a ({one.reason or 'not measured'})"
    n = len(one.values)
    low, high = one.spread
    return (
        f"{number_text(one.median)} ({number_text(low)} to {number_text(high)}, n {n})"
        if n > 1
        else f"{number_text(one.median)} (n 1)"
    )


def markdown_table(table: Table) -> Iterable[str]:
    """Lines of Markdown; what is worth nothing is struck through."""
    yield f"| {' | '.join(map(_escaped, table.head))} |"
    yield f"|{'---|' * len(table.head)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    text = f"~~{text}~~" if cell.struck else text
    return f"{text}<br>{_escaped(cell.below)}" if cell.below else text


def _escaped(text: str) -> str:
    """No markup, no cell and no line of the table ends by what a server or a file said."""
    plain = harmless(text).replace("\n", " ")
    for char in ("\\", "|", "<", ">", "`", "*", "_", "[", "]"):
        plain = plain.replace(char, f"\\{char}" if char not in "<>" else {"<": "&lt;", ">": "&gt;"}[char])
    return plain
