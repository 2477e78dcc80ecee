"""What happened, newest last: the events that people look for, without the traffic between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, pad, settle
from infermaxx_tui.core.panels.row import Piece, Role, Row, matches, row
from infermaxx_tui.core.panels.texts import clock_text
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import FeedEntry, Tone

_ROLES: Final[dict[Tone, Role | None]] = {"plain": None, "good": "ok", "warn": "warn", "bad": "bad"}
_NARROW: Final = 50


def rows_feed(
    state: RunState,
    entries: Sequence[FeedEntry],
    width: int,
    glyphs: Glyphs = UNICODE,
    limit: int | None = None,
    match: str = "",
) -> tuple[Row, ...]:
    """A line for each entry with time, session, kind and text; failures carry the bad sign. `Row.ref` is the event.

    At most `limit` lines, the newest; `match` keeps lines that contain it (case ignored).
    """
    if not entries:
        return (row([("nothing has happened yet", "dim")], width, glyphs),)
    rows = (_row(entry, width, glyphs) for entry in entries)
    kept = tuple(one for one in rows if not match or matches(one, match))
    return kept if limit is None else kept[len(kept) - min(limit, len(kept)) :]


def _row(entry: FeedEntry, width: int, glyphs: Glyphs) -> Row:
    role = _ROLES[entry.tone]
    sign = {"plain": " ", "good": glyphs.ok, "warn": "!", "bad": glyphs.bad}[entry.tone]
    session = "" if entry.session is None else f"{entry.session}"
    pieces: list[Piece] = [(clock_text(entry.at_us) + " ", "dim")]
    if width >= _NARROW:
        pieces.append((pad(session, 5, glyphs, right=True) + " ", None))
    elif session:
        pieces.append((session + " ", None))
    pieces += [(f"{sign} {pad(settle(entry.kind, glyphs), 11, glyphs)} ", role), (settle(entry.text, glyphs), None)]
    return row(pieces, width, glyphs, ref=entry.ref, session=entry.session)
