"""The thread that reads the sensors beside the load. It shares nothing with the loop that times tokens but a queue.

A driver may hang when a card falls off the bus: the thread is a daemon, and nobody waits for it for long.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from infermaxx_tui.core.events import GpuProbed, Noted
from infermaxx_tui.core.gpu import GpuProbe
from infermaxx_tui.sensors.rounds import Rounds, Said

PROBE_S: Final = 8.0
"""How long the start of a run waits for the sensors at most."""
END_S: Final = 4.0
"""How long the end of a run waits for the last round at most."""
_MOST: Final = 4096
"""Events that wait to be taken; the loop takes them ten times a second."""


class Sampler:
    """Rounds of readings in a thread. The probe runs at once; rounds begin with `begin`."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._said: deque[Said] = deque(maxlen=_MOST)
        self._probed, self._begun, self._over = threading.Event(), threading.Event(), threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-sensors", daemon=True)

    def start(self) -> None:
        """Starts the thread, and with it the probe."""
        self._thread.start()

    def probes(self, timeout_s: float = PROBE_S) -> tuple[GpuProbe, ...]:
        """What the sources found, waited for so long at most; one that says so if they are not ready by then."""
        if not self._probed.wait(timeout_s):
            return (GpuProbe(source="none", error=f"the GPU sensors did not answer within {timeout_s:g} s"),)
        return self._rounds.probes

    def begin(self) -> None:
        """Readings are wanted from now on."""
        self._begun.set()

    def take(self) -> Sequence[Said]:
        """What was found and read since the last time."""
        taken: list[Said] = []
        while self._said:
            taken.append(self._said.popleft())
        return taken

    def finish(self) -> Sequence[Said]:
        """The last round and what was not taken yet. Waits for it, but not for ever."""
        self._over.set()
        self._begun.set()
        if not self._closed.wait(END_S):
            late = Noted(
                text=f"the GPU sensors did not answer within {END_S:g} s at the end: their last round is missing"
            )
            return [*self.take(), late]
        return self.take()

    def _run(self) -> None:
        try:
            self._said.extend(self._rounds.probe())
            self._probed.set()
            self._begun.wait()
            if not self._over.is_set():
                self._read()
        except Exception as fault:  # the border of a thread: the run goes on without sensors, and the log says why
            why = f"the GPU sensors ended: {type(fault).__name__}: {fault}"
            self._said.append(GpuProbed(probe=GpuProbe(source="none", error=why)))
            self._said.append(Noted(text=why))
        finally:
            self._rounds.close()
            self._probed.set()
            self._closed.set()

    def _read(self) -> None:
        """A round at once, one each interval, and one at the end."""
        due = time.monotonic()
        slow = True
        while True:
            self._said.extend(self._rounds.round(time.monotonic(), slow))
            if slow and self._over.is_set():
                return
            slow = False
            due = max(due + self._rounds.interval_s, time.monotonic() - self._rounds.interval_s)
            if self._over.wait(max(due - time.monotonic(), 0.0)):
                slow = True
