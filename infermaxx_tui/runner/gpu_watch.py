"""Brings what the GPU sensors say into the log. They are read in a thread of their own; here they are only taken up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import anyio
from anyio import to_thread

from infermaxx_tui.core.events import GpuProbed, GpuRead, Noted
from infermaxx_tui.runner.context import RunContext

_TAKE_S = 0.1


class GpuFeed(Protocol):
    """Sensors that are read elsewhere."""

    def begin(self) -> None:
        """Readings are wanted from now on."""

    def take(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """What was found and read since the last time; never waits."""

    def finish(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """The last round and what was not taken yet; may wait for a driver some seconds."""


async def watch_gpus(run: RunContext, feed: GpuFeed) -> None:
    """Logs readings soon after they were taken, until it is cancelled."""
    feed.begin()
    while run.recorder.lost is None:
        _log(run, feed.take())
        await anyio.sleep(_TAKE_S)


async def last_readings(run: RunContext, feed: GpuFeed | None) -> None:
    """Logs the last round, so that energy and throttling cover the whole run."""
    if feed is not None:
        jumps = run.recorder.clock.jumps
        _log(run, feed.finish() if jumps else await to_thread.run_sync(feed.finish))


def _log(run: RunContext, said: Sequence[GpuProbed | GpuRead | Noted]) -> None:
    for event in said:
        run.recorder.emit(event)
