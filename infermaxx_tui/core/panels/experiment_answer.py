"""The words of an experiment as rows: the same lines as `infermaxx experiment --show`, wrapped, the gravest marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from infermaxx_tui.core.glyphs import UNICODE, Glyphs
from infermaxx_tui.core.panels.row import Role, Row, wrapped

_INDENT: Final = "  "
_MARKS: Final[tuple[tuple[str, Role], ...]] = (
    ("speed withheld:", "struck"),
    ("SIMULATED", "warn"),
    ("not finished", "warn"),
    ("CONFOUNDED", "bad"),
    ("its content checks fail", "bad"),
    ("MISS", "bad"),
    ("REFUTED", "bad"),
    ("UNTESTED", "warn"),
    ("HIT", "ok"),
)
"""What a line begins with, and what it means then."""


def rows_answer(lines: Iterable[str], width: int, glyphs: Glyphs = UNICODE, match: str = "") -> tuple[Row, ...]:
    """Each line wrapped within its indent; `match` keeps lines that hold it (case ignored)."""
    rows: list[Row] = []
    wanted = match.casefold()
    for line in lines:
        if wanted and wanted not in line.casefold():
            continue
        if not line.strip():
            rows.append(Row(""))
            continue
        rows += wrapped(line, width, glyphs, _INDENT if line.startswith(" ") else "", _role(line))
    return tuple(rows)


def _role(line: str) -> Role | None:
    said = line.strip()
    for word, role in _MARKS:
        if said.startswith(word):
            return role
    if "; moved" in said:
        return "accent"
    return None if line.startswith(" ") else "title"
