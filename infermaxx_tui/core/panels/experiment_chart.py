"""Curves of an experiment in characters: a letter an arm, so that no meaning hangs on a colour or on a font.

Both axes begin at 0, so that no difference looks larger than it is. What is withheld stands struck through below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from string import ascii_uppercase
from typing import Final

from infermaxx_tui.core.experiment.curves import Chart, Point, apart_text, points_text
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, fine_ceiling, settle
from infermaxx_tui.core.measures import number_text
from infermaxx_tui.core.panels.row import Piece, Row, row, title, wrapped

_LABEL: Final = 8
"""Cells of the numbers beside the y axis."""
_LINES: Final = 11
_WIDEST: Final = 96
_SEVERAL: Final = "*"
"""Where several arms share a cell."""
_JOINED: Final = {"unicode": "·", "ascii": "."}


def rows_charts(charts: Sequence[Chart], width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """All of them, one below the other."""
    rows: list[Row] = []
    for chart in charts:
        rows += [*([Row("")] if rows else []), *rows_chart(chart, width, glyphs)]
    return tuple(rows) or (row([("nothing was measured that a picture could show", "dim")], width, glyphs),)


def rows_chart(chart: Chart, width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """Its title, the plot, what each letter stands for with its figures, and what has no speed to be drawn."""
    rows = [title(chart.title, width, glyphs, chart.y)]
    if not (chart.crossed or any(curve.points for curve in chart.curves)):
        rows += wrapped(chart.empty, width, glyphs, role="dim")
    else:
        rows += _plot(chart, width, glyphs)
        rows += _legend(chart, width, glyphs)
    for text in chart.struck:
        rows += wrapped(f"{glyphs.bad} {text}", width, glyphs, role="struck")
    return tuple(rows)


class _Field:
    """Cells of a plot, from values to places."""

    def __init__(self, chart: Chart, columns: int) -> None:
        points = [point for curve in chart.curves for point in curve.points]
        xs = [point.x for point in points] + [x for _, x in (*chart.crossed, *chart.marks)]
        self.right = fine_ceiling(max(xs))
        self.top = fine_ceiling(max((point.high for point in points), default=0.0))
        self.columns = columns
        self.cells = [[" "] * columns for _ in range(_LINES)]

    def place(self, x: float, y: float) -> tuple[int, int]:
        """Column and line."""
        column = round(min(max(x / self.right, 0.0), 1.0) * (self.columns - 1))
        line = round((1.0 - min(max(y / self.top, 0.0), 1.0)) * (_LINES - 1))
        return column, line

    def join(self, left: Point, right: Point, sign: str) -> None:
        """A row of signs from one to the other, where nothing stands yet."""
        (first, _), (last, _) = self.place(left.x, left.y), self.place(right.x, right.y)
        for column in range(first + 1, last):
            share = (column - first) / (last - first)
            _, line = self.place(0.0, left.y + (right.y - left.y) * share)
            if self.cells[line][column] == " ":
                self.cells[line][column] = sign

    def spread(self, point: Point, sign: str) -> None:
        """From the least to the greatest value."""
        column, top = self.place(point.x, point.high)
        _, bottom = self.place(point.x, point.low)
        for line in range(top, bottom + 1):
            self.cells[line][column] = sign

    def mark(self, point: Point, letter: str, taken: dict[tuple[int, int], str]) -> None:
        """The letter, or the sign of several where another arm's stands."""
        at = self.place(point.x, point.y)
        before = taken.setdefault(at, letter)
        self.cells[at[1]][at[0]] = letter if before.upper() == letter.upper() else _SEVERAL


def _plot(chart: Chart, width: int, glyphs: Glyphs) -> Iterator[Row]:
    field = _Field(chart, max(min(width, _WIDEST) - _LABEL - 2, 8))
    for _, value in chart.marks:
        for line in range(_LINES):
            field.cells[line][field.place(value, 0.0)[0]] = _JOINED[glyphs.name]
    for curve in chart.curves:
        for together in curve.lines if chart.joined else ():
            for left, right in pairwise(together):
                field.join(left, right, _JOINED[glyphs.name])
    for curve in chart.curves:
        for point in curve.points:
            field.spread(point, glyphs.vertical)
    taken: dict[tuple[int, int], str] = {}
    letters = _letters(chart)
    for number, curve in enumerate(chart.curves):
        for point in curve.points:
            field.mark(point, _letter(letters[number], point), taken)
    for _, value in chart.crossed:
        column, line = field.place(value, 0.0)
        field.cells[line][column] = glyphs.bad
    for line, signs in enumerate(field.cells):
        share = 1.0 - line / (_LINES - 1)
        label = _number(field.top * share) if line % 5 == 0 else ""
        pieces: list[Piece] = [(f"{label:>{_LABEL}} {glyphs.vertical}", "dim"), ("".join(signs), None)]
        yield row(pieces, width, glyphs)
    ends = (_number(0.0), settle(chart.x, glyphs), _number(field.right))
    middle = ends[1].center(max(field.columns - len(ends[0]) - len(ends[2]), 0))
    yield row([(f"{'':{_LABEL + 2}}{ends[0]}{middle}{ends[2]}", "dim")], width, glyphs)


def _letters(chart: Chart) -> list[str]:
    """A letter a curve: an arm that is called by one has that one, so that no other arm is taken for it."""
    own = [curve.name.partition(" ")[0] for curve in chart.curves]
    taken = {name for name in own if len(name) == 1 and name in ascii_uppercase}
    free = [letter for letter in ascii_uppercase if letter not in taken] or list(ascii_uppercase)
    rest = 0
    letters = []
    for name in own:
        if name in taken:
            letters.append(name)
        else:
            letters.append(free[rest % len(free)])
            rest += 1
    return letters


def _letter(letter: str, point: Point) -> str:
    """Capital for a figure with a spread, small for one that was taken once."""
    return letter if point.n > 1 else letter.lower()


def _legend(chart: Chart, width: int, glyphs: Glyphs) -> Iterator[Row]:
    curves = chart.curves
    for letter, curve in zip(_letters(chart), curves, strict=True):
        yield from wrapped(f"{letter} {curve.name}: {points_text(curve)}", width, glyphs)
    for name, value in chart.crossed:
        yield from wrapped(f"{glyphs.bad} {name}: no speed at {number_text(value)}", width, glyphs, role="struck")
    if chart.marks:
        said = ", ".join(f"{name} {number_text(value)}" for name, value in chart.marks)
        yield from wrapped(f"{_JOINED[glyphs.name]} {said}", width, glyphs, role="dim")
    if any(point.n == 1 for curve in curves for point in curve.points):
        yield from wrapped("a small letter: taken once, so nobody knows its spread", width, glyphs, role="dim")
    if (apart := apart_text(chart)) is not None:
        yield from wrapped(apart, width, glyphs, role="dim")


def _number(value: float) -> str:
    return f"{value / 1000:,.4g}k" if value >= 10_000 else f"{value:,.4g}"
