"""Our token counts beside the server's own: if they differ, one of the two observers is wrong."""

from __future__ import annotations

import math

import anyio

from infermaxx_tui.core.events import CountsReconciled, MetricsRead
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.sampling import look_after_cut, scrape
from infermaxx_tui.runner.stream import Streams

_IDLE_TRIES = 25
_IDLE_WAIT_S = 0.2
_STOPPED_S = 2.0
"""Seconds that the reading may take after a stop, which must be over within 10 s."""


async def reconcile(run: RunContext, streams: Streams, baseline: MetricsRead) -> None:
    """Logs the comparison, or why none could be made. After a stop it does not wait for long."""
    reading = MetricsRead(error="not read in time: the run was stopped")
    with anyio.move_on_after(_STOPPED_S if run.stopper.hard else math.inf):
        reading = await _when_idle(run)
    run.recorder.emit(reading)
    look_after_cut(run, last_chance=True)
    totals = streams.totals
    run.recorder.emit(
        CountsReconciled(
            generation_client=totals.generation,
            generation_server=_delta(baseline.generation_tokens, reading.generation_tokens),
            prompt_client=totals.prompt,
            prompt_server=_delta(baseline.prompt_tokens, reading.prompt_tokens),
            reason=_obstacle(streams, baseline, reading),
        )
    )


async def _when_idle(run: RunContext) -> MetricsRead:
    """The server's counters once nothing runs, or the last reading if that does not come."""
    reading = await scrape(run)
    for _ in range(_IDLE_TRIES):
        if reading.error is not None or not (reading.running or reading.waiting):
            break
        await anyio.sleep(_IDLE_WAIT_S)
        reading = await scrape(run)
    return reading


def _obstacle(streams: Streams, baseline: MetricsRead, reading: MetricsRead) -> str | None:
    for name, read in (("before", baseline), ("after", reading)):
        if read.error is not None or read.generation_tokens is None or read.prompt_tokens is None:
            return f"no counters {name} the run: {read.error or 'names absent'}"
    if baseline.process_start_s != reading.process_start_s:
        return "the server was restarted in between"
    if baseline.running or baseline.waiting:
        return "the server was busy before the run began"
    if reading.running or reading.waiting:
        return "requests are still running on the server"
    if streams.totals.cut:
        return f"{streams.totals.cut} requests were cut before their counts came"
    if streams.totals.uncounted:
        return f"{streams.totals.uncounted} replies came without usage"
    return None


def _delta(before: float | None, after: float | None) -> int | None:
    return None if before is None or after is None else round(after - before)
