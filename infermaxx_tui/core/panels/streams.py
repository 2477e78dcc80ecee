"""The table of streams: one line a conversation, so that each stream's speed is seen at its depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, bar, sparkline
from infermaxx_tui.core.panels.row import Piece, Row, matches, row
from infermaxx_tui.core.panels.table import Column, chosen, head, line, role_if, share
from infermaxx_tui.core.panels.texts import NONE, ms_text
from infermaxx_tui.core.panels.withheld import shown
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.core.state import RunState, SessionState
from infermaxx_tui.core.timeline import TimelineView

StreamOrder = Literal["session", "state", "turn", "depth", "rate", "ttft", "cached", "lost", "capped", "age"]
STREAM_ORDERS: Final[tuple[StreamOrder, ...]] = (
    "session",
    "state",
    "turn",
    "depth",
    "rate",
    "ttft",
    "cached",
    "lost",
    "capped",
    "age",
)
_COLUMNS: Final = (
    Column("session", "stream", 6, 0),
    Column("state", "state", 11, 2),
    Column("turn", "turn", 4, 6, right=True),
    Column("depth", "depth", 6, 0, right=True),
    Column("bar", "", 8, 5, grow=12),
    Column("rate", "tok/s", 5, 1, right=True),
    Column("spark", "", 8, 9, grow=40),
    Column("ttft", "ttft", 6, 4, right=True),
    Column("cached", "cache", 5, 7, right=True),
    Column("tags", "tags p/r/l", 10, 3, right=True),
    Column("capped", "cap", 4, 8, right=True),
    Column("age", "age", 6, 3, right=True),
)
_BROKEN: Final = frozenset({"failed", "server_lost"})
_FAR: Final = 4
"""Times the target from which on the model's limit is no axis for a conversation."""
_LATE_SHARE: Final = 0.1
"""Of the stall limit: a stream that is silent for longer is marked."""


def rows_streams(
    state: RunState,
    timeline: TimelineView | None,
    width: int,
    glyphs: Glyphs = UNICODE,
    order: StreamOrder = "session",
    reverse: bool = False,
    everyone: bool = False,
    match: str = "",
) -> tuple[Row, ...]:
    """A head line, then a line for each conversation (its number in `Row.session`).

    Open conversations, or those of the last wave once none is open; `everyone` shows all. Sorted by `order`, missing
    values last. `match` keeps lines that contain it (case ignored). Columns go by priority as the width shrinks. The
    sparkline's axis is the same for all lines and stands in the head.
    """
    sizes = chosen(_COLUMNS, width)
    timeline = shown(state, timeline)
    hi = timeline.rate_hi if timeline is not None else 1.0
    whole, target = depth_axis(state)
    heads = {"bar": depth_head(whole, target), "spark": f"0-{hi:g}"}
    seen = _sorted(_shown(state, everyone), order, reverse)
    wide = {column.name: size for column, size in sizes}
    lines = []
    for session in seen:
        cell = _cells(session, state, glyphs)
        cell["bar"] = bar(known_depth(session), whole, wide.get("bar", 0), glyphs, target), None
        values = timeline.sessions.get(session.session) if timeline is not None else None
        rates = values.tokens_per_s if values is not None else ()
        cell["spark"] = sparkline(rates, wide.get("spark", 0), 0.0, hi, glyphs), None
        lines.append(row(line(sizes, cell, glyphs), width, glyphs, session=session.session))
    kept = tuple(one for one in lines if not match or matches(one, match))
    hidden = len(state.sessions) - len(seen)
    note = (row([(f"{hidden} ended ones are not shown", "dim")], width, glyphs),) if hidden and not match else ()
    return (head(sizes, width, glyphs, heads), *kept, *note)


def depth_axis(state: RunState) -> tuple[int | None, int | None]:
    """What a depth bar is drawn against, and the target on it.

    The model's limit with the target marked; a limit so far away that no growth would be seen gives way to the target.
    """
    regime = state.regime
    whole = regime.max_model_len if regime is not None else None
    target = regime.target_depth if regime is not None else None
    if target is not None and (whole is None or whole > _FAR * target):
        return target, None
    return whole, target


def known_depth(session: SessionState) -> int | None:
    """Tokens of a conversation; None while no beat has told its depth, though it has begun."""
    return session.depth_tokens or (0 if session.turn == 0 else None)


def depth_head(whole: int | None, target: int | None) -> str:
    """`of 65.5k` for the model's limit, `to 2500` for the target, which is marked on the former."""
    if whole is None:
        return ""
    return f"of {tokens_text(whole)}" if target is not None else f"to {tokens_text(whole)}"


def _shown(state: RunState, everyone: bool) -> list[SessionState]:
    if everyone:
        return list(state.sessions)
    still = [session for session in state.sessions if session.ended is None]
    last = max((session.wave for session in state.sessions), default=0)
    return still or [session for session in state.sessions if session.wave == last]


def _sorted(sessions: list[SessionState], order: StreamOrder, reverse: bool) -> list[SessionState]:
    """By the key, missing values last whichever way round."""
    key = _KEYS[order]
    known = [session for session in sessions if key(session) is not None]
    missing = [session for session in sessions if key(session) is None]
    return sorted(known, key=lambda session: key(session) or 0.0, reverse=reverse) + missing


_PLACE: Final = {"decoding": 0.0, "prefill": 1.0, "between": 2.0, "ended": 3.0}
_KEYS: Final[dict[StreamOrder, Callable[[SessionState], float | None]]] = {
    "session": lambda session: session.session,
    "state": lambda session: _PLACE[session.phase],
    "turn": lambda session: session.turn,
    "depth": lambda session: known_depth(session),
    "rate": lambda session: session.tokens_per_s,
    "ttft": lambda session: session.ttft_ms,
    "cached": lambda session: session.cached_share,
    "lost": lambda session: session.lost,
    "capped": lambda session: session.capped,
    "age": lambda session: session.silent_ms,
}


def _cells(session: SessionState, state: RunState, glyphs: Glyphs) -> dict[str, Piece]:
    """What a line says, without the drawn columns."""
    limits = state.meta.limits if state.meta is not None else None
    late = limits is not None and session.silent_ms is not None
    late = late and (session.silent_ms or 0.0) >= (limits.stall_s if limits is not None else 0.0) * 1000 * _LATE_SHARE
    lost, rate = session.lost > 0, session.tokens_per_s
    tags = f"{session.planted}/{session.recalled}/{session.lost}"
    return {
        "session": (f"{session.session}", None),
        "state": phase_piece(session, glyphs),
        "turn": (f"{session.turn}", None),
        "depth": (NONE if known_depth(session) is None else tokens_text(session.depth_tokens), None),
        "rate": (NONE if rate is None or session.ended is not None else f"{rate:.0f}", None),
        "ttft": (ms_text(session.ttft_ms), None),
        "cached": (NONE if session.cached_share is None else share(session.cached_share), None),
        "tags": (f"{tags}{glyphs.bad}" if lost else tags, role_if(lost, "bad")),
        "capped": (f"{session.capped}", role_if(session.capped, "warn")),
        "age": (ms_text(session.silent_ms) + ("!" if late else ""), role_if(late, "warn")),
    }


def phase_piece(session: SessionState, glyphs: Glyphs) -> Piece:
    """What a conversation is doing, or why it ended, as sign and word."""
    if session.ended is None:
        return f"{glyphs.phases[session.phase]} {session.phase}", role_if(session.phase == "decoding", "accent")
    broken = session.ended in _BROKEN
    sign = glyphs.phases["broken" if broken else "ended"]
    return f"{sign} {session.ended.replace('_', ' ')}", "bad" if broken else "dim"
