"""Where the conversations of a wave wait for one another, so that the deepest questions are asked under load."""

from __future__ import annotations

import anyio

from infermaxx_tui.runner.dispatch import wanted


class Meeting:
    """Opens when each party has arrived or left; one that failed never holds up the others."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        """How many conversations run together."""
        self._missing = parties
        self._open = anyio.Event()
        self._opened_us: int | None = None
        if parties <= 1:
            self._open.set()

    def leave(self) -> None:
        """A party will not come, or has come."""
        self._missing -= 1
        if self._missing <= 0 and not self._open.is_set():
            self._opened_us = round(anyio.current_time() * 1e6)
            self._open.set()

    async def arrive(self) -> None:
        """Waits until nobody is missing."""
        self.leave()
        await self._open.wait()
        if self._opened_us is not None:
            wanted(self._opened_us, "meeting")
