"""Everything a server says is hostile to a terminal: this is the one edge where it becomes text for display."""

from __future__ import annotations

import re

_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\xad\u061c\u180e\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Control characters, soft hyphen and zero-width characters, bidirectional marks, embeddings, overrides and isolates,
line and paragraph separators, byte order mark, interlinear marks, lone surrogates, invisible tag characters."""


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return f"‹U+{code:04X}›"


def harmless(text: str) -> str:
    """The text with every character that could steer a terminal shown instead of sent: `␛`, `‹U+202E›`.

    Newlines and tabs stay. The result holds no lone surrogate, so it can be encoded.
    """
    return _HOSTILE.sub(_visible, text)


def one_line(text: str, width: int) -> str:
    """Harmless text on one line of at most `width` characters; what was cut is marked by an ellipsis."""
    flat = " ".join(harmless(text).split())
    return flat if len(flat) <= width else f"{flat[: width - 1]}…"


def excerpt(text: str, around: str = "", width: int = 240) -> str:
    """At most `width` characters of the text, with the first occurrence of `around` among them; cuts are marked.

    The characters stay what they were, so this is evidence, not display text.
    """
    if len(text) <= width:
        return text
    room = width - 2
    at = max(text.find(around), 0) if around else 0
    start = min(max(at - (room - len(around)) // 2, 0), len(text) - room)
    head = "…" if start else ""
    tail = "…" if start + room < len(text) else ""
    return f"{head}{text[start : start + room]}{tail}"
