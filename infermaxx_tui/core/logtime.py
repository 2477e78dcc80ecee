"""Log time: one clock for a whole log, which stands still between the segments of a run that was resumed."""

from __future__ import annotations

from dataclasses import dataclass

from infermaxx_tui.core.events import Record, RunStarted


@dataclass(slots=True)
class LogClock:
    """Microseconds since the first line. It never goes back, whatever a damaged log says.

    A clock is for a log from its first line on, or from a line of which `now_us`, `mono_us` and `segment` are known.
    """

    now_us: int = 0
    mono_us: int | None = None
    segment: int | None = None
    _shift_us: int | None = None

    def __post_init__(self) -> None:
        if self._shift_us is None and self.mono_us is not None:
            self._shift_us = self.now_us - self.mono_us

    def at(self, record: Record) -> int:
        """Log time of the next line. Lines must come in the order of the log."""
        shift = self._shift_us
        if shift is None or isinstance(record.event, RunStarted):
            shift = self._began(record)
        now = record.mono_us + shift
        if now > self.now_us:
            self.now_us = now
        return self.now_us

    def ahead(self) -> LogClock:
        """A clock of its own that goes on from here, to date lines before anybody takes them in."""
        return LogClock(self.now_us, self.mono_us, self.segment, self._shift_us)

    def _began(self, record: Record) -> int:
        """The clock's shift from a first line on: that of the log, or of a new segment."""
        event = record.event
        segment = event.segment if isinstance(event, RunStarted) else None
        fresh = segment is not None and self.segment is not None and segment > self.segment
        if self._shift_us is None or fresh:
            self._shift_us = self.now_us - record.mono_us
        if segment is not None:
            self.segment = max(segment, self.segment or 0)
        return self._shift_us

    def set(self, now_us: int) -> None:
        """The log time of a line that another clock of the same log has dated."""
        self.now_us = now_us
