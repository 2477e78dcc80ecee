"""Speeds of a run that answers wrongly are shown nowhere: babble is fast, and the fastest arm is the one to doubt."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.timeline import SessionSeries, TimelineView

WITHHELD = "withheld"
"""What stands in a speed's place."""


def shown(state: RunState, timeline: TimelineView | None) -> TimelineView | None:
    """The view, without any rate if the run's speed is withheld; `state` itself then holds no rate."""
    if timeline is None or state.speed_withheld is None:
        return timeline
    replace = msgspec.structs.replace
    return replace(
        timeline,
        tokens_per_s=(None,) * len(timeline.tokens_per_s),
        lanes=tuple(replace(lane, series=_silent(lane.series)) for lane in timeline.lanes),
        sessions={number: _silent(series) for number, series in timeline.sessions.items()},
        rate_hi=1.0,
        total_hi=1.0,
    )


def _silent(series: SessionSeries) -> SessionSeries:
    return msgspec.structs.replace(series, tokens_per_s=(None,) * len(series.tokens_per_s))
