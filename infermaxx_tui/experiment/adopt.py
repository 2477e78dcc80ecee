"""A step that an experiment had begun when it died: its runner is a process of its own, and may live on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import psutil

from infermaxx_tui.core.experiment.rows import ArmRow, Began
from infermaxx_tui.experiment.step import with_run
from infermaxx_tui.follow import StatusLine, follow
from infermaxx_tui.leftover import wait_for_servers
from infermaxx_tui.rundir import RunError, RunFolder

_END_S: Final = 15.0
"""A runner that is asked to stop is over within 10 s."""
_POLL_S: Final = 0.1


def adopt(last: Began, blank: ArmRow, root: Path, status: StatusLine, narrate: Callable[[str], None]) -> ArmRow | None:
    """The row of the run that goes on, or that ended in the meantime; None if the step is to be done again.

    A runner that has not begun its run is ended first, and a server whose runner was killed is waited for, so that
    neither holds a card or a port. Raises RunError if one of them does not end.
    """
    if last.run is None:
        _end(last)
        wait_for_servers(root)
        return None
    run = RunFolder(root / last.run)
    if run.alive():
        narrate(f"{last.arm}, start {last.boot + 1}: run {last.run} goes on without us; following it")
    try:
        verdict = follow(run, status)
    except RunError:
        return None
    if verdict.ended is None:
        narrate(f"{last.arm}, start {last.boot + 1}: run {last.run} died; it is done again")
        wait_for_servers(root)
        return None
    row = msgspec.structs.replace(blank, began_ms=last.at_ms)
    return with_run(row, run, verdict)


def _end(last: Began) -> None:
    if not _is_runner(last.pid):
        return
    with suppress(ProcessLookupError):
        os.kill(last.pid, signal.SIGTERM)
    until = time.monotonic() + _END_S
    while _is_runner(last.pid) and time.monotonic() < until:
        time.sleep(_POLL_S)
    if _is_runner(last.pid):
        raise RunError(f"{last.arm}: its runner (process {last.pid}) does not end; end it, then go on")


def _is_runner(pid: int) -> bool:
    """Whether that process is a runner of ours: numbers are given again to others."""
    try:
        return psutil.Process(pid).cmdline()[-1:] == ["_runner"] and psutil.Process(pid).status() != "zombie"
    except psutil.Error:
        return False
