"""Runs the embedded server as a process: log, port file, signals, and an end when the parent is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import TextIO

import msgspec

from infermaxx_tui.private import new_file
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.launch_log import LaunchLog
from infermaxx_tui.sim.server import SimServer

_STATS_EVERY_S = 10.0
_LOOK_EVERY_S = 0.5
EXIT_DIED = 1
"""Exit status after a scripted death; a stop in good order is 0."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how the process serves."""

    port: int = 0
    """0 takes a free one."""
    port_file: Path | None = None
    """The port is written there once requests are answered."""
    parent_pid: int | None = None
    """The process ends when this is no longer its parent."""


def serve(config: SimConfig, serving: Serving, out: TextIO) -> int:
    """Serves until SIGTERM, SIGINT, the parent's end or a scripted death; the log goes to `out`. The exit status.

    Raises OSError if the port is taken, ValueError for a fault that does not exist.
    """
    return asyncio.run(_serve(config, serving, out))


async def _serve(config: SimConfig, serving: Serving, out: TextIO) -> int:
    engine = Engine(config)
    log = LaunchLog(out, os.getpid(), time.time)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    engine.on_death.append(ended.set)
    log.starting(config, serving.port)
    async with SimServer(App(engine), serving.port) as server:
        if serving.port_file is not None:
            _write_port(serving.port_file, server.port)
        log.listening(server.url)
        watch = asyncio.create_task(_watch(engine, log, serving.parent_pid, ended))
        await ended.wait()
        watch.cancel()
        if not engine.dead:
            log.stopping()
    if engine.dead:
        log.died()
        return EXIT_DIED
    return 0


def _write_port(path: Path, port: int) -> None:
    """Whole or not at all, so that nobody reads half a number."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with new_file(part) as file:
        file.write(f"{port}\n".encode("ascii"))
    part.replace(path)


async def _watch(engine: Engine, log: LaunchLog, parent_pid: int | None, ended: asyncio.Event) -> None:
    """Stats lines, and an eye on the parent."""
    since = engine.now()
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if parent_pid is not None and os.getppid() != parent_pid:
            ended.set()
        if engine.now() - since >= _STATS_EVERY_S:
            log.stats(engine, engine.now() - since)
            since = engine.now()
