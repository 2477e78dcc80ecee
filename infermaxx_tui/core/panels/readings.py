"""What the server says of itself; `n/a` with the reason where it says nothing."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core.drafting import few
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, pad, settle, sparkline
from infermaxx_tui.core.panels.row import Piece, Row, row, wrapped
from infermaxx_tui.core.panels.table import figure, share
from infermaxx_tui.core.series import SERIES
from infermaxx_tui.core.server_seen import ServerSeen
from infermaxx_tui.core.state import Metrics, RunState
from infermaxx_tui.core.timeline import TimelineView

_LABEL = 12
_VALUE = 16
_AXIS = 8
_LEAST_SPARK = 8


class _Line(msgspec.Struct, frozen=True):
    """A label, what it says now, and the series behind it."""

    label: str
    value: str
    series: str | None = None


def rows_server(
    state: RunState, timeline: TimelineView | None, width: int, glyphs: Glyphs = UNICODE
) -> tuple[Row, ...]:
    """Running, waiting, KV use, preemptions, prefix hits, acceptance: a line each, with a sparkline where it fits."""
    seen = state.metrics_last
    if seen is None:
        why = (
            f"{state.metrics_errors} readings of /metrics failed"
            if state.metrics_errors
            else "no reading of /metrics yet"
        )
        return wrapped(f"server  n/a: {why}", width, glyphs, role="dim")
    asked = state.meta.at_once if state.meta is not None else None
    lines = [
        _Line("running", figure(seen.running) + (f" of {asked}" if asked is not None else ""), "running"),
        _Line("waiting", figure(seen.waiting), "waiting"),
        _Line("KV use", share(seen.kv_usage), "kv_usage"),
        _Line("preemptions", figure(seen.preemptions), "preemptions"),
        _Line("prefix hits", _hits(seen, state.metrics_first), "prefix_hit_rate"),
        _Line("acceptance", _accepted(state.server)),
    ]
    rows = tuple(_row(one, timeline, width, glyphs) for one in lines)
    failed = state.metrics_errors
    note = (row([(f"{failed} readings of /metrics failed", "warn")], width, glyphs),) if failed else ()
    return rows + note


def _accepted(seen: ServerSeen) -> str:
    """Accepted of drafted tokens, and the share of the generated tokens that this speaks for."""
    if not seen.draft_tokens:
        return "n/a: no drafts"
    if seen.acceptance is None:
        return f"n/a: {figure(seen.drafts)} drafts" if few(seen.drafts) else f"n/a: cover {share(seen.draft_coverage)}"
    return f"{share(seen.acceptance)} cover {share(seen.draft_coverage)}"


def _hits(seen: Metrics, first: Metrics | None) -> str:
    """Share of the prompt tokens of the whole run that the server took from its cache."""
    if first is None or seen.prefix_hits is None or seen.prefix_queries is None:
        return "n/a"
    queries = seen.prefix_queries - (first.prefix_queries or 0.0)
    hits = seen.prefix_hits - (first.prefix_hits or 0.0)
    return share(hits / queries) if queries > 0 and 0 <= hits <= queries else "n/a"


def _row(one: _Line, timeline: TimelineView | None, width: int, glyphs: Glyphs) -> Row:
    pieces: list[Piece] = [
        (pad(one.label, _LABEL, glyphs) + " ", "dim"),
        (pad(settle(one.value, glyphs), _VALUE, glyphs), "dim" if one.value.startswith("n/a") else None),
    ]
    room = width - _LABEL - _VALUE - _AXIS - 3
    if timeline is not None and one.series is not None and room >= _LEAST_SPARK:
        hi = timeline.hi[one.series]
        top = "100%" if hi == 1.0 and one.series in _SHARES else f"{hi:g}"
        pieces.append((" " + pad(f"0-{top}", _AXIS, glyphs) + " ", "dim"))
        pieces.append((sparkline(timeline.series[one.series], min(room, timeline.buckets), 0.0, hi, glyphs), None))
    return row(pieces, width, glyphs)


_SHARES: Final = frozenset(series.name for series in SERIES if series.unit == "%")
