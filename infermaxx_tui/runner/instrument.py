"""How well the client itself can see: it is suspected first, so it measures itself all the time and logs what it finds.

Nothing of this runs for an event of a stream. A timer ticks fifty times a second, requests and garbage collections are
counted as they happen, and a reading is written every few seconds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

import anyio
import psutil

from infermaxx_tui.core.events import ClockJumped, InstrumentRead
from infermaxx_tui.core.stats import quantile
from infermaxx_tui.runner.clock import NO_BOOTTIME, Clock
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.dispatch import Sends, buckets

INSTRUMENT_S: Final = 5.0
_LAG_TICK_S: Final = 0.02
STEP_MS: Final = 500.0
SUSPEND_MS: Final = 1000.0
"""From where a change of wall minus monotonic clock is a step, and one of boot time minus monotonic a sleep
(gpu-and-verdicts §2.9)."""
_OWN_CLOCK: Final = "the run is played on a clock of its own"
_UNSAID: Final = "this transport does not say how long it waits for a connection"


class Pauses:
    """What garbage collections took; each of them stops every thread of ours."""

    def __init__(self, mono_us: Callable[[], int]) -> None:
        self._mono_us = mono_us
        self._began_us: int | None = None
        self._n = self._total_us = self._longest_us = 0

    def note(self, phase: str, info: dict[str, int]) -> None:
        """One of gc.callbacks."""
        now_us = self._mono_us()
        if phase == "start":
            self._began_us = now_us
        elif self._began_us is not None:
            took_us = now_us - self._began_us
            self._n += 1
            self._total_us += took_us
            self._longest_us = max(self._longest_us, took_us)
            self._began_us = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Collections inside are counted."""
        gc.callbacks.append(self.note)
        try:
            yield
        finally:
            gc.callbacks.remove(self.note)

    def taken(self) -> tuple[int, float, float]:
        """How many, ms in all and ms at most since the last time."""
        out = self._n, self._total_us / 1000, self._longest_us / 1000
        self._n = self._total_us = self._longest_us = 0
        return out


class Clocks:
    """Looks whether a clock jumped since it looked last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_us = clock.mono_us()
        self._wall_ms, self._slept_ms = self._offsets(self._looked_us)

    def _offsets(self, now_us: int) -> tuple[float, float | None]:
        boot_us = self._clock.boot_us()
        return self._clock.wall_ms() - now_us / 1000, None if boot_us is None else (boot_us - now_us) / 1000

    def jumps(self) -> list[ClockJumped]:
        """What happened since the last look. Sleep moves the wall clock too, and that is no step of it."""
        now_us = self._clock.mono_us()
        wall_ms, slept_ms = self._offsets(now_us)
        asleep_ms = 0.0 if slept_ms is None or self._slept_ms is None else slept_ms - self._slept_ms
        asleep_ms = asleep_ms if asleep_ms > SUSPEND_MS else 0.0
        step_ms = wall_ms - self._wall_ms - asleep_ms
        found = [
            ClockJumped(kind=kind, by_ms=round(by_ms, 1), since_us=self._looked_us)
            for kind, by_ms, least_ms in _kinds(asleep_ms, step_ms)
            if abs(by_ms) > least_ms
        ]
        self._looked_us, self._wall_ms, self._slept_ms = now_us, wall_ms, slept_ms
        return found


def _kinds(asleep_ms: float, step_ms: float) -> tuple[tuple[Literal["step", "suspend"], float, float], ...]:
    return (("suspend", asleep_ms, SUSPEND_MS), ("step", step_ms, STEP_MS))


class InstrumentWatch:
    """How late the event loop wakes up and requests go out, what held us up, and what the client costs."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        clock = run.recorder.clock
        self._lags_ms: list[float] = []
        self._process = psutil.Process()
        self._cpu_s = sum(self._process.cpu_times()[:2])
        self._loop_cpu_s = time.thread_time()
        self._since_us = clock.mono_us()
        self._offset_ms = clock.wall_ms() - self._since_us / 1000
        self._clocks = Clocks(clock)
        self._slept_ms = 0.0
        self._pauses = None if clock.jumps else Pauses(clock.mono_us)
        self._events = self._reads = self._coalesced = 0

    async def run(self) -> None:
        """Measures for ever, one reading every few seconds."""
        if self._pauses is None:
            await self._tick_for_ever()
            return
        with self._pauses.noted():
            await self._tick_for_ever()

    async def _tick_for_ever(self) -> None:
        clock = self._run.recorder.clock
        while True:
            before_us = clock.mono_us()
            await anyio.sleep(_LAG_TICK_S)
            now_us = clock.mono_us()
            self._lags_ms.append(max(0.0, (now_us - before_us) / 1000 - _LAG_TICK_S * 1000))
            self._look_at_clocks()
            if now_us - self._since_us >= INSTRUMENT_S * 1e6:
                self.flush()

    def _look_at_clocks(self) -> None:
        for jumped in self._clocks.jumps():
            self._slept_ms += jumped.by_ms if jumped.kind == "suspend" else 0.0
            self._run.recorder.emit(jumped)

    def flush(self) -> None:
        """Writes the reading since the last one."""
        self._look_at_clocks()
        clock, board = self._run.recorder.clock, self._run.board
        now_us = clock.mono_us()
        window_s = (now_us - self._since_us) / 1e6
        cpu_s, loop_cpu_s = sum(self._process.cpu_times()[:2]), time.thread_time()
        offset_ms = clock.wall_ms() - now_us / 1000
        lags, self._lags_ms = sorted(self._lags_ms), []
        sends, board.sends = board.sends, Sends()
        events, reads, coalesced = board.counted()
        pauses = self._pauses.taken() if self._pauses is not None else (None, None, None)
        real = not clock.jumps
        self._run.recorder.emit(
            InstrumentRead(
                window_ms=round(window_s * 1000, 3),
                loop_lag_p50_ms=quantile(lags, 0.5),
                loop_lag_p99_ms=quantile(lags, 0.99),
                loop_lag_max_ms=lags[-1] if lags else None,
                cpu_share=round((cpu_s - self._cpu_s) / window_s, 4) if window_s else None,
                rss_mib=round(self._process.memory_info().rss / 2**20, 1),
                events_parsed=events - self._events,
                wall_step_ms=round(offset_ms - self._offset_ms, 1),
                loop_cpu_share=round((loop_cpu_s - self._loop_cpu_s) / window_s, 4) if window_s and real else None,
                reads=reads - self._reads,
                reads_coalesced=coalesced - self._coalesced,
                dispatches=len(sends.delays_ms),
                dispatch_p50_ms=_ms(sends.delays_ms, 0.5),
                dispatch_p99_ms=_ms(sends.delays_ms, 0.99),
                dispatch_max_ms=_ms(sends.delays_ms, 1.0),
                dispatch_buckets=buckets(sends.delays_ms),
                dispatch_by=sends.by,
                dispatch_parts=sends.parts,
                connects_new=sends.new,
                connects_reused=sends.reused,
                connect_p50_ms=_ms(sends.connects_ms, 0.5),
                connect_p99_ms=_ms(sends.connects_ms, 0.99),
                connect_max_ms=_ms(sends.connects_ms, 1.0),
                connect_buckets=buckets(sends.connects_ms),
                gc_pauses=pauses[0],
                gc_total_ms=pauses[1],
                gc_max_ms=pauses[2],
                suspend_ms=round(self._slept_ms, 1) if real and clock.boot_us() is not None else None,
                missing=_missing(clock, connects=bool(sends.connects_ms) or not sends.unsaid),
            )
        )
        self._cpu_s, self._loop_cpu_s, self._since_us, self._offset_ms = cpu_s, loop_cpu_s, now_us, offset_ms
        self._events, self._reads, self._coalesced, self._slept_ms = events, reads, coalesced, 0.0


def _ms(values_ms: list[float], q: float) -> float | None:
    value = quantile(values_ms, q)
    return None if value is None else round(value, 3)


def _missing(clock: Clock, connects: bool) -> tuple[tuple[str, str], ...]:
    """What cannot be measured here, by its name in verdict.json."""
    found: list[tuple[str, str]] = []
    if not connects:
        found += [(f"connect_{name}_ms", _UNSAID) for name in ("p50", "p99", "max")]
    if clock.jumps:
        names = ("loop_cpu_share_max", "gc_pauses", "gc_total_ms", "gc_max_ms", "suspend_ms")
        found += [(name, _OWN_CLOCK) for name in names]
    elif clock.boot_us() is None:
        found.append(("suspend_ms", NO_BOOTTIME))
    return tuple(found)
