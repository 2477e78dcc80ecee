"""A list cut into columns that are written by themselves.

Textual writes a line that changed from the left edge of its widget to the last cell that is dirty. Where cells change
here and there, narrow widgets side by side are a fraction of that.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from infermaxx_tui.core.glyphs import cells
from infermaxx_tui.core.panels.row import Row

SLICE_CELLS = 16
HEAD_CELLS = 28
"""For the lines on top, where little changes at a time."""
LEAST_CELLS = 80
"""Slices are made for a terminal at least this wide."""

Line = tuple[Row, bool]
"""A row, and whether it is under the cursor."""


Paint = Callable[[int, int, int], Strip]
"""Paints some cells of a line: which line, the first cell, and the one after the last."""


class Slice(Widget):
    """Some columns of a list. What it has painted stays until it is told that it changed."""

    def __init__(self, paint: Paint, first: int, width: int | None) -> None:
        """Without a width it takes what is left."""
        super().__init__()
        self._paint = paint
        self._first = first
        self._painted: dict[int, Strip] = {}
        self.styles.width = "1fr" if width is None else width

    def changed(self, y: int, end: int) -> None:
        """A line is another one, up to this cell of the list."""
        self._painted.pop(y, None)
        self.refresh(Region(0, y, end - self._first, 1))

    def forget(self) -> None:
        """Every line is another one."""
        self._painted = {}

    def on_resize(self) -> None:
        """The last slice may be wider or narrower than it was."""
        self.forget()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The slice's part of the list's lines."""
        return [self._line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def _line(self, y: int) -> Strip:
        strip = self._painted.get(y)
        if strip is None:
            strip = self._painted[y] = self._paint(y, self._first, self._first + self.size.width)
        return strip


def make_slices(paint: Paint, width: int, line_cells: int) -> tuple[Slice, ...]:
    """Slices for lines of that many cells; should they become longer, the last one takes the rest. None for 0."""
    if not width:
        return ()
    starts = range(0, max(line_cells, LEAST_CELLS), width)
    return tuple(Slice(paint, first, None if first == starts[-1] else width) for first in starts)


def change_slices(slices: tuple[Slice, ...], width: int, y: int, old: Line | None, new: Line, line_cells: int) -> None:
    """Has those parts of a line of `line_cells` cells written that differ; all of them where characters are wide."""
    if old is None or old[1] != new[1] or not (is_plain(old[0]) and is_plain(new[0])):
        for part in slices[: -(-line_cells // width)]:  # those that are not beyond the right edge
            part.changed(y, line_cells)
        return
    for number, end in changes(old[0], new[0], width).items():
        slices[min(number, len(slices) - 1)].changed(y, end)


def changes(old: Row, new: Row, width: int) -> dict[int, int]:
    """Numbers of the slices in which two rows differ, and up to which character they do."""
    ends: dict[int, int] = {}
    size = max(len(old.text), len(new.text))
    before, now = old.text.ljust(size), new.text.ljust(size)
    for first in range(0, size, width):
        end = min(first + width, size)
        if before[first:end] != now[first:end]:
            while before[end - 1] == now[end - 1]:
                end -= 1
            ends[first // width] = end
    if old.spans != new.spans:
        for start, stop, _ in set(old.spans) ^ set(new.spans):
            for number in range(start // width, -(-stop // width)):
                ends[number] = max(ends.get(number, 0), min(stop, (number + 1) * width))
    return ends


def is_plain(row: Row) -> bool:
    """Whether each character takes one cell."""
    return len(row.text) == cells(row.text)
