"""A fold on its way through a log that was read before, as far as a moment."""

from __future__ import annotations

from infermaxx_tui.core.events import Record, Unknown
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.watch import Watch
from infermaxx_tui.seek.files import Again
from infermaxx_tui.seek.lines import decode_block


class Walker:
    """A watch, and the place of the line that it takes in next."""

    __slots__ = ("_file", "_offset", "watch")

    def __init__(self, watch: Watch, file: int, offset: int) -> None:
        self.watch = watch
        self._file = file
        self._offset = offset

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands, in the order of the log."""
        return self._file, self._offset

    @property
    def at_us(self) -> int:
        """Log time of the newest line that it knows."""
        return self.watch.clock.now_us

    def go_to(self, at_us: int, again: Again) -> None:
        """Takes in all lines up to a moment. Raises RunError."""
        add, clock = self.watch.add, self.watch.clock.ahead()
        for file, block in again(*self.place):
            self._file, self._offset = file, block.offset
            records = decode_block(block)
            due = _due(records, clock, at_us)
            for record in records[:due]:
                add(record)
            if due < len(records):
                self._offset += sum(map(len, block.lines[:due])) + due
                return
            self._offset = block.after


def _due(records: list[Record | Unknown], clock: LogClock, at_us: int) -> int:
    """How many lines come before the first one that is later than a moment."""
    for number, record in enumerate(records):
        if isinstance(record, Record) and clock.at(record) > at_us:
            return number
    return len(records)
