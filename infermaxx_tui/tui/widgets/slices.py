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
MOST_CELLS = 320
"""Of a wider terminal, the last slice takes what is left."""

Line = tuple[Row, bool]
"""A row, and whether it is under the cursor."""


class Slice(Widget):
    """Some columns of a list, whose painted lines it asks for."""

    def __init__(self, strip: Callable[[int], Strip], first: int, width: int) -> None:
        super().__init__()
        self._strip = strip
        self._first = first
        self.styles.width = "1fr" if first + width >= MOST_CELLS else width

    def render_line(self, y: int) -> Strip:
        """The slice's part of the list's line."""
        return self._strip(y).crop(self._first, self._first + self.size.width)


def make_slices(strip: Callable[[int], Strip], width: int) -> tuple[Slice, ...]:
    """Slices of this width; none for 0."""
    return tuple(Slice(strip, first, width) for first in range(0, MOST_CELLS, width)) if width else ()


def refresh_slices(slices: tuple[Slice, ...], width: int, y: int, old: Line | None, new: Line, line_cells: int) -> None:
    """Has those parts of a line of `line_cells` cells written that differ; all of them where characters are wide."""
    if old is None or old[1] != new[1] or not (_plain(old[0]) and _plain(new[0])):
        for number, part in enumerate(slices[: -(-line_cells // width)]):
            part.refresh(Region(0, y, line_cells - number * width, 1))
        return
    for number, end in changes(old[0], new[0], width).items():
        place = min(number, len(slices) - 1)
        slices[place].refresh(Region(0, y, end - place * width, 1))


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


def _plain(row: Row) -> bool:
    """Whether each character takes one cell."""
    return len(row.text) == cells(row.text)
