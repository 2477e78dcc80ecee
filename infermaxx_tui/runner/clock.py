"""Time is passed in: the runner reads it here and nowhere else, so that a run can be played on a clock of its own."""

from __future__ import annotations

import time
from typing import Final, Protocol

NO_BOOTTIME: Final = "this platform has no clock that counts sleep beside one that does not"
"""Why nobody can say whether the machine slept."""


class Clock(Protocol):
    """Two clocks: wall time for people, monotonic time for arithmetic; and a third one that goes on in sleep."""

    @property
    def jumps(self) -> bool:
        """Time jumps to what is due as soon as nothing runs in the loop, so that no thread can be waited for."""

    def wall_ms(self) -> int:
        """Unix time in ms."""

    def mono_us(self) -> int:
        """Monotonic time in µs; only differences mean something."""

    def boot_us(self) -> int | None:
        """As `mono_us`, with the time that the machine slept; None where the platform has no such clock."""


class SystemClock:
    """The machine's clocks."""

    jumps = False

    def wall_ms(self) -> int:
        """Unix time in ms."""
        return time.time_ns() // 1_000_000

    def mono_us(self) -> int:
        """Monotonic time in µs."""
        return time.monotonic_ns() // 1000

    def boot_us(self) -> int | None:
        """CLOCK_BOOTTIME in µs, which Linux has."""
        if not _HAS_BOOTTIME:
            return None
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


_HAS_BOOTTIME: Final = hasattr(time, "CLOCK_BOOTTIME")
