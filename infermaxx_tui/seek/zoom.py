"""A timeline that stays sharp when one looks closely: a stretch of a long log is read again at a second a bucket."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from infermaxx_tui.core.events import Record, RunStarted, Unknown, decode
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.series import SERIES
from infermaxx_tui.core.timeline import FIRST_BUCKET_US, Timeline, TimelineView
from infermaxx_tui.seek.files import Again
from infermaxx_tui.seek.places import Position

LONGEST_US: Final = 3_600_000_000
"""A longer stretch is shown as the whole log knows it."""
_ALIGN_US: Final = 240_000_000
_BEYOND_US: Final = 2_000_000
"""A beat is about the second before it, so the last column needs the lines behind it."""
_KEPT: Final = 3
_REACH_US: Final = 2_040_000_000
"""A stretch of up to this length has buckets of a second."""
_MEASURED: Final = {str(series.source.__struct_config__.tag) for series in SERIES}
_WANTED: Final = re.compile(f'"e":"(?:{"|".join(sorted({*_MEASURED, "beat", "runstarted"}))})"'.encode())
"""Lines that measure something, or start a clock; the others are not even decoded."""
_HEAD_BYTES: Final = 256


class _Stretch:
    """A part of the log at full sharpness, read as far as it was needed."""

    def __init__(self, start_us: int, position: Position) -> None:
        self.start_us = start_us
        self._clock = LogClock(position.at_us, position.mono_us, position.segment)
        self._timeline = Timeline(LogClock(position.at_us, position.mono_us, position.segment), start_us)
        self._place = position.file, position.offset
        self._next: dict[int, int] = {}

    def read(self, to_us: int, again: Again) -> None:
        """Takes in the lines up to a moment."""
        if self._clock.now_us > to_us:
            return
        for file, block in again(*self._place):
            for line in block.lines:
                if _WANTED.search(line, 0, _HEAD_BYTES) is not None:
                    self._take(decode(line))
            self._place = file, block.after
            if self._clock.now_us > to_us:
                return

    def _take(self, record: Record | Unknown) -> None:
        if isinstance(record, Unknown) or record.seq < self._next.get(record.part, 0):
            return
        self._next[record.part] = record.seq + 1
        now = self._clock.at(record)
        if now >= self.start_us or isinstance(record.event, RunStarted):
            self._timeline.add(record)

    def view(self, from_us: int, to_us: int, buckets: int, whole: Timeline) -> TimelineView:
        """What was read of a stretch of it."""
        return self._timeline.snapshot(from_us, to_us, buckets, whole)


class ZoomedTimeline:
    """A timeline of the whole log, and of the stretches of it that were looked at closely."""

    def __init__(self, clock: LogClock, again: Again, before: Callable[[int], Position | None]) -> None:
        """`clock` has seen all lines; `again` reads lines from a place on; `before` is the last marked line at or
        before a moment."""
        self._clock = clock
        self._again = again
        self._before = before
        self._stretches: list[_Stretch] = []
        self.whole = Timeline()

    @property
    def end_us(self) -> int:
        """Log time of the newest line."""
        return self._clock.now_us

    def snapshot(self, from_us: int, to_us: int, buckets: int) -> TimelineView:
        """As core.timeline.Timeline.snapshot; a short stretch of a long log is read again. Raises RunError."""
        whole, span = self.whole, to_us - from_us
        if whole.bucket_us == FIRST_BUCKET_US or span > LONGEST_US or span >= buckets * whole.bucket_us:
            return whole.snapshot(from_us, to_us, buckets)
        stretch = self._stretch(max(from_us, 0), to_us)
        if stretch is None:
            return whole.snapshot(from_us, to_us, buckets)
        stretch.read(min(to_us + _BEYOND_US, self.end_us), self._again)
        return stretch.view(from_us, to_us, buckets, whole)

    def _stretch(self, from_us: int, to_us: int) -> _Stretch | None:
        """One that begins before the moment and not too long before it."""
        reach = max(_REACH_US, 2 * (to_us - from_us))
        found = next(
            (one for one in self._stretches if one.start_us <= from_us and to_us - one.start_us <= reach), None
        )
        if found is None:
            start = from_us // _ALIGN_US * _ALIGN_US
            position = self._before(start)
            if position is None:
                return None
            found = _Stretch(start, position)
        else:
            self._stretches.remove(found)
        self._stretches = [found, *self._stretches[: _KEPT - 1]]
        return found
