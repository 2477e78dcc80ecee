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


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: a wait becomes a step of the loop's clock."""

    jump: Callable[[float], None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; `timeout` seconds have passed on the loop's clock."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("nothing is due and nothing is ready: the run waits for ever")
            self.jump(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock starts at 0 and moves by jumps. Nothing in it may wait for the outside world."""

    def __init__(self) -> None:
        self._now_s = 0.0
        selector = _JumpingSelector()
        selector.jump = self._jump
        super().__init__(selector)

    def _jump(self, seconds: float) -> None:
        self._now_s += max(0.0, seconds)
        if self._now_s > MOST_S:
            raise RuntimeError(f"the run goes on after {MOST_S:g} s of virtual time: it waits for what never comes")

    def time(self) -> float:
        """Seconds since the loop began."""
        return self._now_s


class VirtualClock:
    """The clock of a VirtualLoop in the shape that the runner wants."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms

    def mono_us(self) -> int:
        """Virtual time in µs."""
        return round(anyio.current_time() * 1e6)

    def wall_ms(self) -> int:
        """A fixed date plus virtual time, in ms."""
        return self._wall_ms + self.mono_us() // 1000


def run_virtual(main: Callable[..., Awaitable[T]], *args: object) -> T:
    """Runs `main(*args)` on a loop of virtual time and returns its result."""
    options: Mapping[str, object] = {"loop_factory": VirtualLoop}
    return anyio.run(main, *args, backend_options=dict(options))
