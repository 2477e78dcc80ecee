"""Tables of cells, as HTML, Markdown and the TUI draw them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from infermaxx_tui.core.display import harmless


class Cell(msgspec.Struct, frozen=True):
    """What stands in one place; `struck`: it is worth nothing, and stands there so that nobody looks for it."""

    text: str
    below: str = ""
    struck: bool = False
    badge: str = ""
    """What must not be overlooked beside it, e.g. `n 1`: a figure that was taken once."""


class Table(msgspec.Struct, frozen=True):
    """A head, and a row for each arm or figure."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def markdown_table(table: Table) -> Iterable[str]:
    """Lines of Markdown; what is worth nothing is struck through."""
    yield f"| {' | '.join(map(escaped, table.head))} |"
    yield f"|{'---|' * len(table.head)}"
    for row in table.rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(cell: Cell) -> str:
    text = escaped(cell.text)
    text = f"~~{text}~~" if cell.struck else text
    text = f"{text} **{escaped(cell.badge)}**" if cell.badge else text
    return f"{text}<br>{escaped(cell.below)}" if cell.below else text


def escaped(text: str) -> str:
    """No markup, and no cell and no line of a table ends, by what a server or a file said."""
    plain = harmless(text).replace("\n", " ")
    for char in ("\\", "|", "<", ">", "`", "*", "_", "[", "]"):
        plain = plain.replace(char, f"\\{char}" if char not in "<>" else {"<": "&lt;", ">": "&gt;"}[char])
    return plain
