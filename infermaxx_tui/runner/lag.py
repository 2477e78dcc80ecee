"""How late the event loop was while one request was open: what the client did at other times blinds no figure of it.

A stamp at the socket is as late as the loop is, so a time counts only where the loop was prompt while it lasted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio

TICK_MS: Final = 2.0
"""What the loop is asked to wake up after, again and again: a lag is seen but for up to so much of it."""
_TICK_US: Final = round(TICK_MS * 1000)


class LagWatch:
    """Wakes up every few ms and keeps how late that was, for as long as requests that want to know are open."""

    def __init__(self, mono_us: Callable[[], int]) -> None:
        self._mono_us = mono_us
        self._ticks: list[tuple[int, int]] = []
        """When the loop woke up, and how late it was."""
        self._due_us = mono_us() + _TICK_US

    async def run(self) -> None:
        """Watches until it is cancelled."""
        while True:
            self.due()
            await anyio.sleep(TICK_MS / 1000)
            self.woke()

    def due(self) -> None:
        """The next waking is due one tick from now."""
        self._due_us = self._mono_us() + _TICK_US

    def woke(self) -> None:
        """It came."""
        now_us = self._mono_us()
        self._ticks.append((now_us, max(0, now_us - self._due_us)))

    def worst_ms(self, since_us: int, until_us: int | None) -> float | None:
        """The longest lag between two moments, the tick that is due among it; None if nothing was seen in between.

        `until_us` of None, the end of what never came, gives None as well.
        """
        if until_us is None:
            return None
        within = [late for woke_us, late in self._ticks if woke_us >= since_us and woke_us - late <= until_us]
        pending = self._mono_us() - self._due_us
        if pending > 0 and self._due_us <= until_us:
            within.append(pending)
        return max(within) / 1000 if within else None
