"""Signs that panels are drawn with, in Unicode and in ASCII, and text that fits its cells exactly.

A terminal counts cells, not characters: a wide character takes two, a combining one none, and where terminals disagree
the columns of a table break. So text is settled first: what no two terminals measure alike is shown by its number.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.display import harmless

MARKS_KEPT = 2
"""Combining marks that stay on one character; more of them only hide the lines above and below."""


class Glyphs(msgspec.Struct, frozen=True, kw_only=True):
    """One set of signs, each of them one cell wide unless said otherwise."""

    name: Literal["unicode", "ascii"]
    levels: str
    """From nothing to full, for sparklines; the first one means a measured minimum, not a gap."""
    gap: str
    """Where nothing was measured."""
    full: str
    empty: str
    parts: str
    """Filled parts of a bar's last cell, ascending, without empty and full; may be empty."""
    target: str
    """A target on a bar."""
    horizontal: str
    vertical: str
    cursor: str
    """Marks the common time of all lines."""
    ok: str
    bad: str
    unsure: str
    event: str
    """A mark on a time axis."""
    unread: str
    ellipsis: str
    dot: str
    """Between parts of a line."""
    arrow: str
    """From one value to another."""
    phases: dict[str, str]
    """A sign for each phase of a conversation, and one for each way it can be over."""


UNICODE: Final = Glyphs(
    name="unicode",
    levels="▁▂▃▄▅▆▇█",
    gap=" ",
    full="█",
    empty="░",
    parts="▏▎▍▌▋▊▉",
    target="┃",
    horizontal="─",
    vertical="│",
    cursor="▲",
    ok="✓",
    bad="✗",
    unsure="?",
    event="•",
    unread="●",
    ellipsis="…",
    dot="·",
    arrow="→",
    phases={"prefill": "◌", "decoding": "▶", "between": "·", "ended": "■", "broken": "✗"},
)
ASCII: Final = Glyphs(
    name="ascii",
    levels=".:-=+*#@",
    gap=" ",
    full="#",
    empty=".",
    parts="",
    target="|",
    horizontal="-",
    vertical="|",
    cursor="^",
    ok="+",
    bad="x",
    unsure="?",
    event="o",
    unread="*",
    ellipsis="~",
    dot="|",
    arrow=">",
    phases={"prefill": "o", "decoding": ">", "between": ".", "ended": "=", "broken": "x"},
)


_TO_ASCII: Final = str.maketrans(
    {
        "…": "...",
        "·": "|",
        "–": "-",
        "—": "-",
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "×": "x",
        "≤": "<=",
        "≥": ">=",
        "‹": "<",
        "›": ">",
        "\u2421": "^?",
        **{chr(0x2400 + code): f"^{chr(64 + code)}" for code in range(32)},
    }
)
_DROPPED: Final = frozenset(range(0xFE00, 0xFE10)) | frozenset(range(0xE0100, 0xE01F0))
"""Variation selectors: they change how wide the character before them is drawn, on some terminals."""
_UNSURE: Final = (
    (0x1160, 0x11FF),  # Hangul vowels and finals, which join or do not
    (0x2630, 0x2637),  # trigrams and monograms, wide since Unicode 16 only
    (0x268A, 0x268F),
    (0x302E, 0x302F),  # Hangul tone marks
    (0x3164, 0x3164),  # Hangul filler
    (0x4DC0, 0x4DFF),  # hexagrams, wide since Unicode 16 only
    (0xD7B0, 0xD7FF),
    (0xFFA0, 0xFFA0),
    (0x16FE4, 0x16FE4),
    (0x16FF0, 0x16FF1),
    (0x1D300, 0x1D37F),  # divination and counting-rod signs, wide since Unicode 16 only
    (0x1F3FB, 0x1F3FF),  # skin tones, which join or do not
)
"""Assigned characters on whose width terminals differ."""
_Kind = Literal["narrow", "wide", "mark", "drop", "show"]


@lru_cache(maxsize=8192)
def _kind(char: str) -> _Kind:
    code, category = ord(char), unicodedata.category(char)
    if code in _DROPPED:
        return "drop"
    if category in ("Cn", "Cf", "Cs", "Cc", "Zl", "Zp") or any(lo <= code <= hi for lo, hi in _UNSURE):
        return "show"
    if category in ("Mn", "Me", "Mc"):
        return "mark"
    return "wide" if unicodedata.east_asian_width(char) in ("W", "F") else "narrow"


@lru_cache(maxsize=8192)
def _width(char: str) -> int:
    kind = _kind(char)
    return 2 if kind == "wide" else 1 if kind == "narrow" else 0


def cells(text: str) -> int:
    """Terminal cells that settled text takes: 2 for a wide character, 0 for a combining one, else 1."""
    return len(text) if text.isascii() else sum(map(_width, text))


def settle(text: str, glyphs: Glyphs = UNICODE) -> str:
    """Text for one line of a panel: harmless, no newline or tab, and of a width on which all terminals agree.

    What terminals measure differently is shown as `‹U+1F3FD›`; with ASCII signs the result is pure ASCII.
    """
    flat = " ".join(harmless(text).split())
    if flat.isascii():
        return flat
    sure = _sure(flat)
    if glyphs.name == "unicode":
        return sure
    return sure.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def _sure(text: str) -> str:
    out: list[str] = []
    marks = MARKS_KEPT
    for char in text:
        match _kind(char):
            case "narrow" | "wide":
                out.append(char)
                marks = 0 if char != " " else MARKS_KEPT
            case "mark" if not out or out[-1] == " ":
                out.append(f"‹U+{ord(char):04X}›")
            case "mark":
                marks += 1
                if marks <= MARKS_KEPT:
                    out.append(char)
            case "show":
                out.append(f"‹U+{ord(char):04X}›")
                marks = 0
            case "drop":
                pass
    return "".join(out)


def fit(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Settled text cut to at most `width` cells; what was cut is marked by an ellipsis."""
    if width <= 0:
        return ""
    if (len(text) if text.isascii() else cells(text)) <= width:
        return text
    taken, end = 0, 0
    for end, char in enumerate(text):  # noqa: B007 -- the index at which the room ended is what is wanted
        size = _width(char)
        if taken + size > width - 1:
            break
        taken += size
    return text[:end] + glyphs.ellipsis


def pad(text: str, width: int, glyphs: Glyphs = UNICODE, right: bool = False) -> str:
    """Settled text cut or filled with blanks to exactly `width` cells; `right` puts the text at the right end."""
    cut = fit(text, width, glyphs)
    blanks = " " * (width - cells(cut)) if width > 0 else ""
    return blanks + cut if right else cut + blanks


def sparkline(values: Sequence[float | None], width: int, lo: float, hi: float, glyphs: Glyphs) -> str:
    """Exactly `width` cells, the newest value last, one value a cell, on the fixed axis from `lo` to `hi`.

    A value that was not measured is a gap, never the lowest level; values beyond the axis are drawn at its ends. Fewer
    values than cells stand at the right end. Raises ValueError unless lo < hi.
    """
    if not lo < hi:
        raise ValueError(f"an axis goes up, not from {lo} to {hi}")
    shown = values[-width:] if width > 0 else ()
    top = len(glyphs.levels) - 1
    scale = (top + 1) / (hi - lo)
    line = "".join(
        glyphs.gap if value is None or value != value else glyphs.levels[min(max(int((value - lo) * scale), 0), top)]
        for value in shown
    )
    return glyphs.gap * (width - len(line)) + line


def bar(value: float | None, of: float | None, width: int, glyphs: Glyphs, target: float | None = None) -> str:
    """Exactly `width` cells: `value` against the whole `of`, with a sign where `target` lies.

    Blank where value or whole is not known. More than the whole is a full bar.
    """
    if width <= 0:
        return ""
    if value is None or not of or of < 0:
        return " " * width
    steps = len(glyphs.parts) + 1
    filled = round(min(max(value / of, 0.0), 1.0) * width * steps)
    whole, part = divmod(filled, steps)
    line = glyphs.full * whole + (glyphs.parts[part - 1] if part else "")
    line += glyphs.empty * (width - len(line))
    if target is None or not 0 < target < of:
        return line
    at = min(int(target / of * width), width - 1)
    return line[:at] + glyphs.target + line[at + 1 :]


_FINE: Final = (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0)


def fine_ceiling(value: float) -> float:
    """The next round number at or above, finer than for axes that must stand still; 1 for what is not above 0."""
    if not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in _FINE if value <= step * power), 10.0 * power)


def nice_ceiling(value: float | None) -> float:
    """The next of 1, 2, 5, 10, 20, 50 … at or above the value, so that an axis stays as it is while values wander.

    1 for no value, or none above 0.
    """
    if value is None or not 0 < value < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1.0, 2.0, 5.0) if value <= step * power), 10.0 * power)
