"""One time axis for everything: throughput of each stream, depth and sensors under one another, one common cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, cells, fit, pad, settle, sparkline
from infermaxx_tui.core.marks import FAILURES, WEIGHT, Mark, MarkKind
from infermaxx_tui.core.panels.gpu import GpuLine, gpu_lanes
from infermaxx_tui.core.panels.row import Piece, Role, Row, row
from infermaxx_tui.core.panels.texts import NONE, clock_text
from infermaxx_tui.core.panels.withheld import shown
from infermaxx_tui.core.rows import tokens_text
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.timeline import SessionSeries, TimelineView

_LABEL: Final = 11
_AXIS: Final = 8
_VALUE: Final = 8
_EDGE: Final = 3
"""Blanks between the four parts of a line."""
_NO_AXIS_BELOW: Final = 56
DEPTH_LINES: Final = 8
"""With more streams than this, their depth is one line: the deepest."""
_LOOK_BACK: Final = 2
"""Columns before the newest in which the newest value may lie; what is older is not shown as now."""
LETTERS: Final[dict[MarkKind, str]] = {
    "leak": "L",
    "miss": "M",
    "lost": "S",
    "failed": "F",
    "degenerate": "D",
    "evidence_lost": "E",
    "gap": "g",
    "stop": "x",
    "resumed": "r",
    "began": "b",
    "ended": "e",
}


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """One series to draw."""

    label: str
    values: Sequence[float | None]
    hi: float
    rank: int
    """Lines of the highest rank go first where the height is short."""
    percent: bool = False
    tokens: bool = False
    session: int | None = None
    beside: Sequence[float | None] | None = None
    """Depth to name behind a rate."""


class _Place(msgspec.Struct, frozen=True):
    """How a view's buckets become cells."""

    columns: int
    each: int
    cell: int | None
    """Where the cursor stands."""
    bucket: int | None
    exact: bool
    """Whether somebody put the cursor there; else it is the newest moment."""


def axis_columns(width: int) -> int:
    """How many buckets `rows_axis` draws at this width: ask the timeline for a view of so many."""
    axis = _AXIS + 1 if width >= _NO_AXIS_BELOW else 0
    return max(width - _LABEL - axis - _VALUE - _EDGE + 1, 8)


def rows_axis(
    state: RunState,
    timeline: TimelineView | None,
    width: int,
    glyphs: Glyphs = UNICODE,
    cursor_us: int | None = None,
    sessions: tuple[int, ...] = (),
    height: int | None = None,
) -> tuple[Row, ...]:
    """Lines of sparklines with fixed axes: all streams, each stream (a lane of the run, or the given `sessions`),
    depth, server and GPU series, then marks, the ruler and what the cursor stands on.

    The value at the cursor (without one, at the newest moment) stands at the right end of each line, its axis at the
    left. With a `height`, lines go by rank: ruler, whole speed and marks stay longest. `Row.session` is the
    conversation that a stream line shows at the cursor.
    """
    timeline = shown(state, timeline)
    if timeline is None:
        return (row([("no time axis yet", "dim")], width, glyphs),)
    now = cursor_us if cursor_us is not None else int(state.elapsed_ms * 1000)
    place = _place(timeline, now, cursor_us is not None, width)
    lines = _lines(timeline, sessions, now, gpu_lanes(state))
    foot = (*_marks(timeline, place, width, glyphs), _ruler(timeline, place, now, width, glyphs))
    rows = _ranked(lines, None if height is None else height - len(foot))
    return (*(_drawn(one, place, width, glyphs) for one in rows), *foot)


def _place(timeline: TimelineView, now_us: int, exact: bool, width: int) -> _Place:
    columns = axis_columns(width)
    each = max(columns // timeline.buckets, 1)
    bucket = timeline.column(min(now_us, timeline.to_us - 1))
    shift = max(timeline.buckets - columns, 0)
    cell = None if bucket is None or bucket < shift else (bucket - shift) * each + each // 2
    return _Place(columns, each, cell, bucket, exact)


def _lines(timeline: TimelineView, sessions: tuple[int, ...], now_us: int, gpu: tuple[GpuLine, ...]) -> list[_Line]:
    streams: list[tuple[str, int | None, SessionSeries]] = [
        (f"{number} tok/s", number, timeline.sessions[number]) for number in sessions if number in timeline.sessions
    ]
    if not sessions:
        held = [(lane.session_at(now_us), lane.series) for lane in timeline.lanes]
        streams = [(f"{NONE if number is None else number} tok/s", number, series) for number, series in held]
    lines = [_Line(label="all tok/s", values=timeline.tokens_per_s, hi=timeline.total_hi, rank=0)]
    lines += [
        _Line(
            label=label,
            values=one.tokens_per_s,
            hi=timeline.rate_hi,
            rank=1,
            session=number,
            beside=one.depth_tokens,
        )
        for label, number, one in streams
    ]
    return lines + _depths(streams) + _readings(timeline, gpu)


def _depths(streams: Sequence[tuple[str, int | None, SessionSeries]]) -> list[_Line]:
    everyone = [one.depth_tokens for _, _, one in streams]
    if not everyone:
        return []
    deepest = [
        max((depth for depth in column if depth is not None), default=None) for column in zip(*everyone, strict=True)
    ]
    hi = _ceiling(max((depth for depth in deepest if depth is not None), default=0.0))
    lines = [_Line(label="deepest", values=deepest, hi=hi, rank=2, tokens=True)]
    if len(streams) > DEPTH_LINES:
        return lines
    return lines + [
        _Line(label=f"{label.split(' ')[0]} depth", values=one.depth_tokens, hi=hi, rank=4, tokens=True, session=number)
        for label, number, one in streams
    ]


def _ceiling(depth: float) -> float:
    """The next power of two at or above, from 1,024 on: an axis that changes seldom while a conversation grows."""
    return float(1 << max(int(depth - 1), 1023).bit_length())


def _readings(timeline: TimelineView, gpu: tuple[GpuLine, ...]) -> list[_Line]:
    named = [
        ("KV use", "kv_usage", 3),
        ("running", "running", 5),
        ("waiting", "waiting", 6),
        ("preempted", "preemptions", 6),
    ]
    named += [(one.label.replace("memory", "mem"), one.series, one.rank) for one in gpu]
    return [
        _Line(label=label, values=timeline.series[name], hi=timeline.hi[name], rank=rank, percent=name == "kv_usage")
        for label, name, rank in named
        if name in timeline.series
    ]


def _ranked(lines: list[_Line], height: int | None) -> list[_Line]:
    """Those that fit, in their order; of one rank the first ones."""
    if height is None or len(lines) <= height:
        return lines
    kept = sorted(range(len(lines)), key=lambda at: (lines[at].rank, at))[: max(height, 0)]
    return [lines[at] for at in sorted(kept)]


def _drawn(one: _Line, place: _Place, width: int, glyphs: Glyphs) -> Row:
    shown = [value for value in one.values[-place.columns :] for _ in range(place.each)][: place.columns]
    spark = sparkline(shown, len(shown), 0.0, one.hi, glyphs)
    top = "100%" if one.percent else tokens_text(int(one.hi)) if one.tokens else f"{one.hi:g}"
    return row(
        _framed(one.label, f"0-{top}", spark, _value(one, place), place, width, glyphs),
        width,
        glyphs,
        session=one.session,
    )


def _framed(label: str, axis: str, middle: str, value: str, place: _Place, width: int, glyphs: Glyphs) -> list[Piece]:
    """Label, axis, the cells of the axis with the cursor's one marked, and the value at it."""
    pieces: list[Piece] = [(pad(label, _LABEL, glyphs) + " ", None)]
    if width >= _NO_AXIS_BELOW:
        pieces.append((pad(axis, _AXIS, glyphs, right=True) + " ", "dim"))
    middle += " " * (place.columns - cells(middle))
    if place.cell is None or place.cell >= len(middle):
        pieces.append((middle, None))
    else:
        at = place.cell
        here = middle[at] if middle[at] != " " or not place.exact else glyphs.vertical
        pieces += [(middle[:at], None), (here, "cursor" if place.exact else None), (middle[at + 1 :], None)]
    pieces.append((" " + fit(value, _VALUE, glyphs), "accent"))
    return pieces


def _value(one: _Line, place: _Place) -> str:
    value = _at(one.values, place)
    if value is None:
        return NONE
    if one.percent:
        return f"{value:.0%}"
    if one.tokens:
        return tokens_text(int(value))
    depth = _at(one.beside, place) if one.beside is not None else None
    return f"{value:,.0f}" if depth is None else f"{value:.0f}@{_short(depth)}"


def _short(tokens: float) -> str:
    return f"{tokens:.0f}" if tokens < 1000 else f"{tokens / 1000:.0f}k"


def _at(values: Sequence[float | None], place: _Place) -> float | None:
    """The value at the cursor; without one, the newest of the last columns."""
    bucket = place.bucket
    if bucket is None:
        return None
    if place.exact:
        return values[bucket]
    newest = values[max(bucket - _LOOK_BACK, 0) : bucket + 1]
    return next((value for value in reversed(newest) if value is not None), None)


def _marks(timeline: TimelineView, place: _Place, width: int, glyphs: Glyphs) -> tuple[Row, ...]:
    """The gravest thing of each column as a letter, and what is at the cursor in words."""
    if not timeline.marks:
        return ()
    gravest: dict[int, Mark] = {}
    for mark in timeline.marks:
        bucket = timeline.column(mark.at_us)
        if bucket is not None and (bucket not in gravest or WEIGHT[mark.kind] < WEIGHT[gravest[bucket].kind]):
            gravest[bucket] = mark
    shift = max(timeline.buckets - place.columns, 0)
    letters = [" "] * place.columns
    for bucket, mark in gravest.items():
        if bucket >= shift:
            letters[min((bucket - shift) * place.each + place.each // 2, place.columns - 1)] = LETTERS[mark.kind]
    found = sum(mark.count for mark in timeline.marks if mark.kind in FAILURES)
    said = f"{found} bad" if found else ""
    line = row(_framed("marks", "", "".join(letters), said, place, width, glyphs), width, glyphs)
    here = gravest.get(place.bucket) if place.bucket is not None and place.exact else None
    if here is None:
        return (line,)
    who = "" if here.session is None else f" session {here.session}"
    more = "" if here.count == 1 else f" and {here.count - 1} more"
    text = f"{clock_text(here.at_us)} {LETTERS[here.kind]} {here.kind.replace('_', ' ')}{who}: {here.text}{more}"
    role: Role | None = "bad" if here.kind in FAILURES else None
    return (line, row([(settle(text, glyphs), role)], width, glyphs, ref=here.ref, session=here.session))


def _ruler(timeline: TimelineView, place: _Place, now_us: int, width: int, glyphs: Glyphs) -> Row:
    """From when to when, and where the cursor is."""
    used = min(timeline.buckets * place.each, place.columns)
    line = glyphs.horizontal * used
    if place.cell is not None and place.cell < used:
        here, at = glyphs.cursor + clock_text(now_us), place.cell
        if at + len(here) > used >= len(here):
            here, at = clock_text(now_us) + glyphs.cursor, at + 1 - len(here)
        line = (line[: max(at, 0)] + here + line[max(at, 0) + len(here) :])[:used]
    start, end = clock_text(timeline.from_us), clock_text(timeline.to_us)
    pieces: list[Piece] = [(pad(start, _LABEL, glyphs) + " ", "dim")]
    if width >= _NO_AXIS_BELOW:
        pieces.append((" " * (_AXIS + 1), None))
    return row(
        [*pieces, (line + " " * (place.columns - len(line)) + " ", "dim"), (fit(end, _VALUE, glyphs), "dim")],
        width,
        glyphs,
    )
