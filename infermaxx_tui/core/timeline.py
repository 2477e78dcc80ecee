"""Series over time for the one axis that all panels share; bounded memory for a log of any length.

Time is log time: microseconds of the monotonic clock since the first line, without the gaps between segments. Buckets
begin a second wide and double when they are too many, so that a run of a year takes as much room as one of an hour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core.events import Beat, Event, Record, RunStarted, SessionEnded, SessionStarted, Unknown
from infermaxx_tui.core.glyphs import nice_ceiling
from infermaxx_tui.core.lanes import Lanes
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.marks import MARKED, Mark, Marks, mark_of
from infermaxx_tui.core.series import LARGEST, SERIES, Readings, Track, along, held

MAX_BUCKETS = 2048
FIRST_BUCKET_US = 1_000_000
PENDING_BEATS = 64
"""Beats that are kept back at most, to be added up together."""


_MOVES: Final[frozenset[type[Event]]] = frozenset({RunStarted, SessionStarted, SessionEnded})
MEASURED: Final[frozenset[type[Event]]] = frozenset({Beat, *_MOVES, *(series.source for series in SERIES)})
"""Events that series are made of."""


class SessionSeries(msgspec.Struct, frozen=True):
    """One conversation, or one lane, over the buckets of a view; None where it had no open request."""

    tokens_per_s: tuple[float | None, ...]
    depth_tokens: tuple[float | None, ...]


class Lane(msgspec.Struct, frozen=True):
    """One of the streams that run at once: conversations that followed one another, each when the last was over."""

    series: SessionSeries
    stays: tuple[tuple[int, int], ...]
    """(log time from which on, conversation), ascending."""

    def session_at(self, at_us: int) -> int | None:
        """The conversation that had the lane at a moment, or the last one before it."""
        place = bisect_right(self.stays, at_us, key=lambda stay: stay[0]) - 1
        return self.stays[place][1] if place >= 0 else None


class TimelineView(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time cut into equal buckets."""

    from_us: int
    bucket_us: int
    buckets: int
    tokens_per_s: tuple[float | None, ...]
    """All streams together."""
    lanes: tuple[Lane, ...]
    """The streams of the whole run, in the order in which they were first needed."""
    sessions: Mapping[int, SessionSeries]
    """Conversations that were there at some moment of the stretch."""
    series: Mapping[str, tuple[float | None, ...]]
    """By name, as in SERIES; a series that was never measured is all None."""
    marks: tuple[Mark, ...]
    """Those of the stretch, in order; marks of one kind that lie close together are one, with a count."""
    rate_hi: float
    """A fixed upper end for the axis of one stream's tokens per second, from the whole log."""
    total_hi: float
    """The same for all streams together."""
    hi: Mapping[str, float]
    """The same for each series."""

    @property
    def to_us(self) -> int:
        """The end of the last bucket."""
        return self.from_us + self.buckets * self.bucket_us

    def column(self, at_us: int) -> int | None:
        """The bucket in which a moment lies; None outside the stretch."""
        column = (at_us - self.from_us) // self.bucket_us
        return column if 0 <= column < self.buckets else None


def _all_readings() -> dict[str, Readings]:
    return {series.name: Readings(series.name) for series in SERIES}


@dataclass(slots=True)
class TimelineParts:
    """All that a timeline keeps."""

    clock: LogClock = field(default_factory=LogClock)
    start_us: int = 0
    width_us: int = FIRST_BUCKET_US
    total: Track = field(default_factory=lambda: Track(0))
    tracks: dict[int, Track] = field(default_factory=dict)
    lanes: Lanes = field(default_factory=Lanes)
    marks: Marks = field(default_factory=Marks)
    readings: dict[str, Readings] = field(default_factory=_all_readings)
    pending: list[Beat] = field(default_factory=list)
    pending_bucket: int = 0


class Timeline:
    """All that a log measured, over time. Feed it with `add` beside a Fold."""

    def __init__(
        self,
        clock: LogClock | None = None,
        start_us: int = 0,
        expected_us: int = 0,
        parts: TimelineParts | None = None,
    ) -> None:
        """A timeline from the first line on, or from `start_us` on, of which `clock` knows the line before; or one that
        goes on from the `parts` that another one kept.

        For a log that is known to be long, buckets begin as wide as they would come to be.
        """
        if parts is None:
            parts = TimelineParts(clock or LogClock(), start_us)
            while expected_us // parts.width_us >= MAX_BUCKETS:
                parts.width_us *= 2
        self.parts = parts
        """Everything that is kept."""
        self._of: dict[type[Event], tuple[Readings, ...]] = {
            source: tuple(readings for readings in parts.readings.values() if readings.series.source is source)
            for source in {series.source for series in SERIES}
        }

    @property
    def end_us(self) -> int:
        """Log time of the newest line."""
        return self.parts.clock.now_us

    @property
    def bucket_us(self) -> int:
        """How wide a bucket is by now: the finest that can be shown."""
        return self.parts.width_us

    def add(self, record: Record | Unknown) -> None:
        """Takes the next line in, with what it is by itself. What the fold makes of it is marked by `mark`."""
        if isinstance(record, Unknown):
            return
        now = self.parts.clock.at(record)
        if type(record.event) in MEASURED:
            self.measure(now, record.event)
        own = mark_of(now, record) if type(record.event) in MARKED else None
        if own is not None:
            self.mark(own)

    def measure(self, now_us: int, event: Event) -> None:
        """Takes in an event of one of the types in MEASURED, with its log time."""
        self.parts.clock.set(now_us)
        if isinstance(event, Beat):
            self._beat(now_us, event)
        elif type(event) in _MOVES:
            self._moved(now_us, event)
        else:
            bucket = self._bucket(now_us)
            for readings in self._of[type(event)]:
                readings.add(bucket, event)

    def mark(self, mark: Mark) -> None:
        """Keeps a mark."""
        self.parts.marks.add(self._bucket(mark.at_us), mark)

    def _moved(self, now_us: int, event: Event) -> None:
        """Conversations take lanes and give them back."""
        match event:
            case SessionStarted(session=session):
                self.parts.lanes.take(session, now_us)
            case SessionEnded(session=session):
                self.parts.lanes.leave(session)
            case RunStarted(segment=segment) if segment > 0:
                self.parts.lanes.restart()
            case _:
                pass

    def _bucket(self, at_us: int) -> int:
        """The bucket of a moment, after as many doublings as it takes."""
        bucket = max(at_us - self.parts.start_us, 0) // self.parts.width_us
        while bucket >= MAX_BUCKETS:
            self._double()
            bucket = max(at_us - self.parts.start_us, 0) // self.parts.width_us
        return bucket

    def _double(self) -> None:
        self._settle()
        self.parts.width_us *= 2
        self.parts.pending_bucket //= 2
        self.parts.marks.halve()
        for readings in self.parts.readings.values():
            readings.halve()
        for track in (self.parts.total, *self.parts.tracks.values()):
            track.halve()

    def _beat(self, now_us: int, beat: Beat) -> None:
        """Keeps a beat back until another bucket or enough of them come."""
        if not 0.0 < beat.window_ms < LARGEST:
            return
        bucket = self._bucket(max(now_us - int(beat.window_ms * 500), 0))
        if self.parts.pending and (bucket != self.parts.pending_bucket or len(self.parts.pending) >= PENDING_BEATS):
            self._settle()
        self.parts.pending_bucket = bucket
        self.parts.pending.append(beat)

    def _settle(self) -> None:
        """Adds the beats that were kept back to their tracks."""
        beats, self.parts.pending = self.parts.pending, []
        bucket, sums = self.parts.pending_bucket, dict[int, list[float]]()
        for beat in beats:
            window_ms, everything, deepest = beat.window_ms, 0, 0
            for session, tokens, depth in zip(beat.sessions, beat.tokens, beat.depths, strict=False):
                everything += tokens
                if depth > deepest:
                    deepest = depth
                if session in sums:
                    kept = sums[session]
                    kept[0] += tokens
                    kept[1] += window_ms
                    kept[2] = depth
                else:
                    sums[session] = [tokens, window_ms, depth]
            self.parts.total.add(bucket, held(everything), window_ms, held(deepest))
        for session, (came, covered_ms, depth_then) in sums.items():
            track = self.parts.tracks.get(session)
            if track is None:
                track = self.parts.tracks[session] = Track(bucket)
            track.add(bucket, held(came), covered_ms, held(depth_then))

    def snapshot(self, from_us: int, to_us: int, buckets: int, whole: Timeline | None = None) -> TimelineView:
        """The stretch with both its ends in at most so many buckets (at least one), widened to whole ones, so that
        columns do not shimmer while it moves on.

        Of a timeline that does not begin with the log, `whole` is the one that does: it knows marks, lanes and axes.
        """
        self._settle()
        width, start = self.parts.width_us, self.parts.start_us
        first, step, count = _cut((from_us - start) // width, (to_us - start) // width + 1, max(buckets, 1))
        begin = start + first * width
        tracks = [item for item in self.parts.tracks.items() if item[1].touches(first, first + step * count)]
        cuts = ((session, track.cut(first, step, count)) for session, track in sorted(tracks, key=lambda item: item[0]))
        there = {session: cut for session, cut in cuts if cut is not None}
        total = self.parts.total.cut(first, step, count)
        known = whole or self
        return TimelineView(
            from_us=begin,
            bucket_us=step * width,
            buckets=count,
            tokens_per_s=along([total] if total is not None else [], count)[0],
            lanes=tuple(
                Lane(SessionSeries(*along([there[session] for _, session in stays if session in there], count)), stays)
                for stays in known.parts.lanes.all()
            ),
            sessions={session: SessionSeries(*along([cut], count)) for session, cut in there.items()},
            series={name: readings.values(first, step, count) for name, readings in self.parts.readings.items()},
            marks=known.parts.marks.between(begin, begin + count * step * width),
            rate_hi=known._rate_hi(),
            total_hi=nice_ceiling(known.parts.total.peak),
            hi={
                name: max(readings.hi(step), known.parts.readings[name].hi(1))
                for name, readings in self.parts.readings.items()
            },
        )

    def _rate_hi(self) -> float:
        return nice_ceiling(max((track.peak for track in self.parts.tracks.values()), default=0.0))


def _cut(first: int, after: int, buckets: int) -> tuple[int, int, int]:
    """First bucket, buckets a column, and columns of a view of at most so many columns.

    A column begins at a multiple of its size, so that it holds the same buckets wherever the view begins.
    """
    first, after = max(first, 0), max(after, first + 1, 1)
    step = max(-(-(after - first) // buckets), 1)
    while -(-after // step) - first // step > buckets:
        step += max(step // 16, 1)
    begin = first // step
    return begin * step, step, -(-after // step) - begin
