"""Tables whose columns go by priority as the width shrinks, so that a narrow terminal loses what matters least."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.glyphs import Glyphs, cells, fit, pad
from infermaxx_tui.core.panels.row import Piece, Role, Row, row


class Column(msgspec.Struct, frozen=True):
    """One column. The one with the highest `rank` goes first when the room is short; rank 0 stays."""

    name: str
    head: str
    width: int
    """Least cells."""
    rank: int
    right: bool = False
    grow: int = 0
    """Cells by which it may grow beyond `width` where there is room."""


GAP = 1
"""Blanks between two columns."""


def chosen(columns: Sequence[Column], width: int) -> tuple[tuple[Column, int], ...]:
    """The columns that fit and how wide each of them is, in their order."""
    kept = list(columns)
    while len(kept) > 1 and _wanted(kept) > width:
        last = max(kept, key=lambda column: column.rank)
        if last.rank == 0:
            break
        kept.remove(last)
    spare = max(width - _wanted(kept), 0)
    sizes = []
    for column in kept:
        more = min(column.grow, spare)
        spare -= more
        sizes.append((column, column.width + more))
    return tuple(sizes)


def _wanted(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def head(sizes: Sequence[tuple[Column, int]], width: int, glyphs: Glyphs, heads: dict[str, str] | None = None) -> Row:
    """The line of names; `heads` gives other texts by column name."""
    texts = heads or {}
    pieces: list[Piece] = []
    for column, size in sizes:
        pieces.append((pad(texts.get(column.name, column.head), size, glyphs, column.right) + " " * GAP, "dim"))
    return row(pieces, width, glyphs)


def line(sizes: Sequence[tuple[Column, int]], cell: dict[str, Piece], glyphs: Glyphs) -> list[Piece]:
    """One line's pieces from its cells by column name; a missing cell is blank. The cells must be settled already."""
    pieces: list[Piece] = []
    for column, size in sizes:
        text, role = cell.get(column.name, ("", None))
        cut = fit(text, size, glyphs)
        blanks = " " * (size - cells(cut))
        pieces += [(blanks, None), (cut, role)] if column.right else [(cut, role), (blanks, None)]
        pieces.append((" " * GAP, None))
    return pieces


def figure(value: float | None, digits: int = 0, unit: str = "") -> str:
    """A number, or `n/a`."""
    return "n/a" if value is None else f"{value:,.{digits}f}{unit}"


def share(value: float | None) -> str:
    """A share in whole percent, or `n/a`; what is neither none nor all is never shown as 0 % or 100 %."""
    if value is None:
        return "n/a"
    percent = round(value * 100)
    if percent <= 0 < value:
        return "<1%"
    return ">99%" if percent >= 100 and value < 1 else f"{percent}%"


def role_if(on: object, role: Role) -> Role | None:
    """The role where it applies."""
    return role if on else None
