"""A table that is wider than the screen: the first columns stay, the others go by sideways, and long cells are wrapped.

Nothing is dropped for want of room here, since the figure in the last column may be the one that moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, cells, fit, settle
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, wrapped

if TYPE_CHECKING:
    from infermaxx_tui.core.experiment.cells import Cell, Table

HEAD_LINES: Final = 2
"""Lines of the head, always."""
_WIDEST: Final = 30
_STAYS: Final = 26
"""Most cells of a column that stays."""
_TALLEST: Final = 3
"""Lines of a cell; the list below the table has all of it."""
_SHORT_TITLE: Final = 18
"""Up to so many cells a head stands on one line."""
_GAP: Final = 2
_WORDS: Final[tuple[tuple[str, Role], ...]] = (("FAIL", "bad"), ("INCONCLUSIVE", "warn"), ("PASS", "ok"))
"""The gravest first."""


class Part(msgspec.Struct, frozen=True):
    """What is seen of a table."""

    rows: tuple[Row, ...]
    """HEAD_LINES of head, then some for each row of the table; the first one of each has the row's key."""
    first: int
    """Number of the first column that moves and is seen, from 0."""
    after: int
    """The one after the last that is seen."""
    moving: int
    """How many move."""

    def note(self) -> str:
        """`columns 3-4 of 9`; empty where all are seen."""
        if self.after - self.first >= self.moving:
            return ""
        return f"columns {self.first + 1}-{self.after} of {self.moving}"


def part_of(
    table: Table, width: int, glyphs: Glyphs = UNICODE, first: int = 0, stay: int = 1, keys: Sequence[str] = ()
) -> Part:
    """The columns from `first` on that fit beside the `stay` ones that stay. `keys` are put on the rows, in order."""
    sizes = [_size(table, column, _STAYS if column < stay else _WIDEST, glyphs) for column in range(len(table.head))]
    moving = max(len(sizes) - stay, 0)
    first = min(max(first, 0), max(moving - 1, 0))
    seen = list(range(min(stay, len(sizes))))
    room = width - sum(sizes[column] + _GAP for column in seen)
    after = first
    for column in range(stay + first, len(sizes)):
        if sizes[column] > room and after > first:
            break
        sizes[column] = min(sizes[column], max(room, 1))
        seen.append(column)
        after += 1
        room -= sizes[column] + _GAP
    shown = [(column, sizes[column]) for column in seen]
    rows = list(_head(table, shown, width, glyphs))
    for at, one in enumerate(table.rows):
        rows += _lines(one, shown, width, glyphs, keys[at] if at < len(keys) else f"{at}")
    return Part(tuple(rows), first, after, moving)


def last_first(table: Table, width: int, glyphs: Glyphs = UNICODE, stay: int = 1) -> int:
    """The smallest first column from which all others to the right are seen."""
    moving = max(len(table.head) - stay, 0)
    for first in range(moving):
        if part_of(table, width, glyphs, first, stay).after >= moving:
            return first
    return 0


def _size(table: Table, column: int, most: int, glyphs: Glyphs) -> int:
    """Cells that a column takes: what its longest text needs, up to `most`; a long head is broken in two."""
    texts = [text for one in table.rows for text in (_text(one[column], glyphs), one[column].below)]
    longest = max((cells(settle(text, glyphs)) for text in texts), default=0)
    title = cells(settle(table.head[column], glyphs))
    return min(max(longest, -(-title // HEAD_LINES) + 4 if title > _SHORT_TITLE else title, 3), most)


def _head(table: Table, shown: Sequence[tuple[int, int]], width: int, glyphs: Glyphs) -> tuple[Row, ...]:
    texts = [[line.text for line in wrapped(table.head[column], size, glyphs)] for column, size in shown]
    rows = []
    for at in range(HEAD_LINES):
        pieces: list[Piece] = []
        for (_, size), lines in zip(shown, texts, strict=True):
            place = at + min(len(lines) - HEAD_LINES, 0)  # a short head stands next to what it is the head of
            text = lines[place] if 0 <= place < len(lines) else ""
            if at == HEAD_LINES - 1 and len(lines) > HEAD_LINES:
                text = fit(f"{text} {lines[HEAD_LINES]}", size, glyphs)
            pieces.append((text + " " * (size - cells(text) + _GAP), "dim"))
        rows.append(row(pieces, width, glyphs))
    return tuple(rows)


def _lines(found: Sequence[Cell], shown: Sequence[tuple[int, int]], width: int, glyphs: Glyphs, key: str) -> list[Row]:
    columns = [_cell(found[column], size, glyphs, column == 0) for column, size in shown]
    rows = []
    for at in range(max(map(len, columns), default=0)):
        pieces: list[Piece] = []
        for (_, size), lines in zip(shown, columns, strict=True):
            text, role = lines[at] if at < len(lines) else ("", None)
            pieces += [(text, role), (" " * (size - cells(text) + _GAP), None)]
        rows.append(row(pieces, width, glyphs, key=key if at == 0 else f"{key}\n{at}"))
    return rows


def _cell(cell: Cell, size: int, glyphs: Glyphs, name: bool) -> list[Piece]:
    """The lines of one cell; what is worth nothing is struck through, and has a sign where there are no styles."""
    role: Role | None = "struck" if cell.struck else "title" if name else role_of(cell.text)
    below: Role = "accent" if cell.below.startswith("moved") else "dim"
    lines: list[Piece] = [(line.text, role) for line in wrapped(_text(cell, glyphs), size, glyphs)]
    lines += [(line.text, below) for line in wrapped(cell.below, size, glyphs)]
    if len(lines) > _TALLEST:
        last, kind = lines[_TALLEST - 1]
        lines[_TALLEST - 1 :] = [(fit(f"{last} {lines[_TALLEST][0]}", size, glyphs), kind)]
    return lines


def _text(cell: Cell, glyphs: Glyphs) -> str:
    text = f"{glyphs.bad} {cell.text}" if cell.struck else cell.text
    return f"{text} ({cell.badge})" if cell.badge else text


def role_of(text: str) -> Role | None:
    """Of a cell that begins with a verdict: that of the gravest in it."""
    if not text.startswith(tuple(word for word, _ in _WORDS)):
        return None
    return next((role for word, role in _WORDS if word in text), None)
