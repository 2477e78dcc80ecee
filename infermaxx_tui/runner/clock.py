"""Time is passed in: the runner reads it here and nowhere else, so that a run can be played on a clock of its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks: wall time for people, monotonic time for arithmetic."""

    @property
    def jumps(self) -> bool:
        """Time jumps to what is due as soon as nothing runs in the loop, so that no thread can be waited for."""

    def wall_ms(self) -> int:
        """Unix time in ms."""

    def mono_us(self) -> int:
        """Monotonic time in µs; only differences mean something."""


class SystemClock:
    """The machine's clocks."""

    jumps = False

    def wall_ms(self) -> int:
        """Unix time in ms."""
        return time.time_ns() // 1_000_000

    def mono_us(self) -> int:
        """Monotonic time in µs."""
        return time.monotonic_ns() // 1000
