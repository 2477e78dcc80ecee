"""How a runner obeys signals: before the run it gives up, during it it ends cleanly, and asked twice ends at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Literal

import anyio
from anyio.abc import TaskStatus

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.launch import HANDED_ON

Ask = Callable[[Literal["sigint", "sigterm"]], bool]
"""Takes a wish to stop."""


class AskedToStop(BaseException):
    """A signal came before the run began. Not an Exception, so that nothing on the way takes it for a fault."""


class Ending:
    """Counts the wishes to stop of one runner process."""

    def __init__(self, last_act: Callable[[], None] = lambda: None) -> None:
        self.last_act = last_act
        """Done when the process must end at once."""
        self._asked = False
        self._began = False

    def install(self) -> None:
        """From here on a hang-up is ignored, and a signal counts, also one that was held back until now."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in HANDED_ON:
            signal.signal(number, self._outside)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDED_ON)

    def _outside(self, number: int, frame: FrameType | None) -> None:
        """Before the run: give up. After it, while the verdict is made: finish. Asked again: end at once."""
        if self._asked:
            self._at_once()
        self._asked = True
        if not self._began:
            raise AskedToStop

    def _at_once(self) -> None:
        self.last_act()
        os._exit(ExitCode.INTERRUPTED)

    async def obey(self, ask: Ask, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """While the run is on: the first signal asks it to end, another one ends the process, whatever goes on."""
        loop = asyncio.get_running_loop()

        def inside(number: int, frame: FrameType | None) -> None:
            if self._asked:
                self._at_once()
            self._asked = True
            loop.call_soon_threadsafe(ask, "sigint" if number == signal.SIGINT else "sigterm")

        self._began = True
        for number in HANDED_ON:
            signal.signal(number, inside)
        task_status.started()
        try:
            await anyio.sleep_forever()
        finally:  # never the default handlers, which would end the process while the verdict is written
            for number in HANDED_ON:
                signal.signal(number, self._outside)
