"""One line of a panel: settled text, spans with a role, and what it points at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.glyphs import Glyphs, cells, fit, settle

Role = Literal["ok", "bad", "warn", "dim", "accent", "title", "cursor", "struck"]
"""What a span means. Words and signs say the same, so that no meaning hangs on a colour. `cursor`: the common time.
`struck`: worth nothing, and there so that nobody looks for it."""
Span = tuple[int, int, Role]
"""(first character, character after the last, role); spans do not overlap and are in order."""
Piece = tuple[str, Role | None]
"""A stretch of settled text and its role."""


class Row(msgspec.Struct, frozen=True):
    """A line of at most the asked width in cells, without trailing blanks, newlines or anything hostile."""

    text: str
    spans: tuple[Span, ...] = ()
    ref: Ref | None = None
    """The event that the line is about, to jump to."""
    session: int | None = None
    """The conversation that the line is about."""
    key: str | None = None
    """What else the line stands for: a run's id, a scenario's name, a check's name."""


def row(
    pieces: Iterable[Piece],
    width: int,
    glyphs: Glyphs,
    ref: Ref | None = None,
    session: int | None = None,
    key: str | None = None,
) -> Row:
    """The pieces one after another as a line, cut to `width` cells. The pieces must be settled already."""
    text, spans = "", list[Span]()
    for piece, role in pieces:
        if role is not None and piece:
            spans.append((len(text), len(text) + len(piece), role))
        text += piece
    text = fit(text.rstrip(), width, glyphs)
    end = len(text)
    kept = tuple((start, min(stop, end), role) for start, stop, role in spans if start < end)
    return Row(text, kept, ref, session, key)


def title(text: str, width: int, glyphs: Glyphs, note: str = "") -> Row:
    """A heading, with a dim note behind it. Both may be hostile."""
    pieces: list[Piece] = [(settle(text, glyphs), "title")]
    if note:
        pieces.append(("  " + settle(note, glyphs), "dim"))
    return row(pieces, width, glyphs)


def wrapped(text: str, width: int, glyphs: Glyphs, indent: str = "", role: Role | None = None) -> tuple[Row, ...]:
    """Any text as lines of at most `width` cells, broken at blanks where that is possible."""
    room = max(width - len(indent), 1)
    lines, line, taken = list[str](), "", 0
    for word in settle(text, glyphs).split(" "):
        for part in _parts(word, room):
            size = cells(part)
            if line and taken + 1 + size > room:
                lines.append(line)
                line, taken = part, size
            else:
                line, taken = (f"{line} {part}", taken + 1 + size) if line else (part, size)
    if line:
        lines.append(line)
    return tuple(row([(indent, None), (line, role)], width, glyphs) for line in lines)


def _parts(word: str, room: int) -> Iterable[str]:
    """A word in pieces that fit; a wide character in a room of one cell is left to the cut of the line."""
    if cells(word) <= room:
        return (word,)
    parts, part, taken = list[str](), "", 0
    for char in word:
        size = cells(char)
        if part and taken + size > room:
            parts.append(part)
            part, taken = "", 0
        part += char
        taken += size
    return (*parts, part)


def matches(row: Row, needle: str) -> bool:
    """Whether a line contains what was searched, case ignored."""
    return needle.casefold() in row.text.casefold()
