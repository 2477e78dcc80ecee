"""Log time: one clock for a whole log, which stands still between the segments of a run that was resumed."""

from __future__ import annotations

from infermaxx_tui.core.events import Record, RunStarted


class LogClock:
    """Microseconds since the first line. It never goes back, whatever a damaged log says."""

    def __init__(self, now_us: int = 0, mono_us: int | None = None, segment: int | None = None) -> None:
        """A clock for a log from its first line on, or from a line of which all three are known."""
        self.now_us = now_us
        self.segment = segment
        self._base_us = now_us
        self._first_us = mono_us

    def at(self, record: Record) -> int:
        """Log time of the next line. Lines must come in the order of the log."""
        event = record.event
        if isinstance(event, RunStarted):
            if self.segment is not None and event.segment > self.segment:
                self._base_us, self._first_us = self.now_us, record.mono_us
            self.segment = max(event.segment, self.segment or 0)
        if self._first_us is None:
            self._first_us = record.mono_us
        now = self._base_us + record.mono_us - self._first_us
        if now > self.now_us:
            self.now_us = now
        return self.now_us

    def set(self, now_us: int) -> int:
        """The log time of a line that another clock of the same log has dated."""
        self.now_us = now_us
        return now_us
