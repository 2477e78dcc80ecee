"""Small texts that several panels share: times, durations, outcomes. None of them holds anything from outside."""

from __future__ import annotations

from typing import Final

from infermaxx_tui.core.glyphs import Glyphs
from infermaxx_tui.core.judges import Word
from infermaxx_tui.core.panels.row import Piece, Role
from infermaxx_tui.core.rows import duration_text

NONE: Final = "-"
"""Does not apply here; what could not be measured is `n/a`."""
ROLE_OF_WORD: Final[dict[Word, Role]] = {"PASS": "ok", "FAIL": "bad", "INCONCLUSIVE": "warn"}


def clock_text(at_us: int) -> str:
    """Log time as `0:12:05`."""
    seconds = max(at_us, 0) // 1_000_000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def ms_text(ms: float | None) -> str:
    """`823ms`, `1.2s`, `12m05s`, or `-`."""
    if ms is None:
        return NONE
    if ms < 999.5:
        return f"{ms:.0f}ms"
    return f"{ms / 1000:.1f}s" if ms < 99_950 else duration_text(ms)


def word_piece(word: Word, glyphs: Glyphs) -> Piece:
    """`PASS ✓`, `FAIL ✗`, `INCONCLUSIVE ?`: word and sign say the same as the colour."""
    sign = {"PASS": glyphs.ok, "FAIL": glyphs.bad, "INCONCLUSIVE": glyphs.unsure}[word]
    return f"{word} {sign}", ROLE_OF_WORD[word]


def number_text(value: object) -> str:
    """A value of a regime or of limits; numbers have at most six digits."""
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}"
        case None:
            return "n/a"
        case _:
            return str(value)
