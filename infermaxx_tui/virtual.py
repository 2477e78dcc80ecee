"""A clock of its own for a whole run: time jumps to the next thing that is due, so minutes of soak take little."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio

T = TypeVar("T")

MOST_S = 6 * 3600.0
"""Virtual time after which a run is taken for one that never ends."""
_JUMPS_TO_END = 1000
"""Jumps that tasks may take to come to an end once they were cancelled."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: a wait becomes a step of the loop's clock."""

    jump: Callable[[float | None], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; if that is nothing, `timeout` seconds have passed on the loop's clock."""
        ready = super().select(0)
        if not ready:
            self.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock starts at 0 and moves by jumps. Nothing in it may wait for the outside world.

    Where nothing is due any more, or nothing comes to an end, all tasks are cancelled and `stuck` says why.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self.stuck: str | None = None
        self._jumps_left = _JUMPS_TO_END
        selector = _JumpingSelector()
        selector.jump = self._jump
        super().__init__(selector)

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            self._give_up("nothing is due and nothing is ready: the run waits for ever")
        else:
            self._now_s += max(0.0, seconds)
            if self._now_s > MOST_S:
                self._give_up(f"the run goes on after {MOST_S:g} s of virtual time: it waits for what never comes")

    def _give_up(self, why: str) -> None:
        if self.stuck is None:
            self.stuck = why
            for task in asyncio.all_tasks(self):
                task.cancel()
            return
        self._jumps_left -= 1
        if self._jumps_left < 0:
            raise RuntimeError(f"{self.stuck}, and its tasks do not let themselves be cancelled")

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now_s


class VirtualClock:
    """The clock of a VirtualLoop in the shape that the runner wants."""

    jumps = True

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms

    def mono_us(self) -> int:
        """Virtual time in µs."""
        return round(anyio.current_time() * 1e6)

    def boot_us(self) -> int | None:
        """A machine that is made up does not sleep."""
        return None

    def wall_ms(self) -> int:
        """A fixed date plus virtual time, in ms."""
        return self._wall_ms + self.mono_us() // 1000


def run_virtual(main: Callable[..., Awaitable[T]], *args: object) -> T:
    """Runs `main(*args)` on a loop of virtual time and returns its result. Raises RuntimeError if it never ends."""
    loops: list[VirtualLoop] = []

    def made() -> VirtualLoop:
        loops.append(VirtualLoop())
        return loops[0]

    options: Mapping[str, object] = {"loop_factory": made}
    try:
        result = anyio.run(main, *args, backend_options=dict(options))
    except asyncio.CancelledError:
        if not loops or loops[0].stuck is None:
            raise
    if loops[0].stuck is not None:
        raise RuntimeError(loops[0].stuck)
    return result
