"""Is the log whole, and how long does it go? A line that is missing or damaged is a blind spot of the instrument."""

from __future__ import annotations

from dataclasses import dataclass, field

from infermaxx_tui.core.events import Record, Unknown


@dataclass(slots=True)
class Lines:
    """The lines of a log, whatever they say."""

    events: int = 0
    unknown_events: int = 0
    invalid_lines: int = 0
    repeated: int = 0
    """Lines whose number had been there: the log was written to by two, or put together wrongly."""
    torn_tail: bool = False
    """Whether the newest line is damaged; if another one follows, it was not a torn tail but a damaged line."""
    last_wall_ms: int | None = None
    last_us: int = 0
    _before_us: int = 0
    _first_us: int | None = None
    _elapsed_before_us: int = 0
    _part: int = -1
    _next: int = 0
    _next_of: dict[int, int] = field(default_factory=dict)
    _skipped: int = 0

    @property
    def missing(self) -> int:
        """Numbers that no line has, readable or not."""
        return max(self._skipped - self.unknown_events - self.invalid_lines, 0)

    @property
    def elapsed_us(self) -> int:
        """Monotonic time from the first to the newest line, without the gaps between segments."""
        return self._elapsed_before_us + (0 if self._first_us is None else max(self.last_us - self._first_us, 0))

    def unknown(self, line: Unknown) -> None:
        """A line that cannot be read; its number is not known."""
        if line.reason == "unknown_event":
            self.unknown_events += 1
        elif self.torn_tail:
            self.invalid_lines += 1
        else:
            self.torn_tail = True

    def record(self, record: Record) -> bool:
        """A line that was read; False for one whose number had been there, which must not count twice."""
        if record.seq == self._next and record.part == self._part:
            self._next += 1
        elif record.seq < self._next_in(record.part):
            self.repeated += 1
            return False
        else:
            self._other_number(record)
        self.events += 1
        self.last_wall_ms = record.wall_ms
        self._before_us = self.last_us
        self.last_us = record.mono_us
        if self.torn_tail:
            self.torn_tail = False
            self.invalid_lines += 1
        return True

    def _next_in(self, part: int) -> int:
        """The number that the part's next line must have at the least."""
        return self._next if part == self._part else self._next_of.get(part, 0)

    def segment_began(self) -> None:
        """The monotonic clock may have started again with the newest line."""
        if self._first_us is not None:
            self._elapsed_before_us += max(self._before_us - self._first_us, 0)
        self._first_us = self.last_us

    def _other_number(self, record: Record) -> None:
        """The first line of a part, a part that goes on, or a gap."""
        if self._first_us is None:
            self._first_us = record.mono_us
        if record.part != self._part:
            self._next_of[self._part] = self._next
            self._part = record.part
            self._next = self._next_of.get(record.part, record.seq)
        if record.seq >= self._next:
            self._skipped += record.seq - self._next
            self._next = record.seq + 1
