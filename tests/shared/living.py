"""Waiting for what other processes do, and whether they live: a process may end between two looks at it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

import psutil

T = TypeVar("T")
PATIENCE_S: Final = 60.0
"""Seconds after which nobody waits on: a busy machine takes long, a broken program takes for ever."""


def until(
    look: Callable[[], T | None], patience_s: float = PATIENCE_S, pause: Callable[[float], object] | None = None
) -> T:
    """What `look` gives once it gives something that counts; AssertionError after `patience_s` seconds."""
    pause = pause or threading.Event().wait
    give_up = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < give_up, "waited in vain"
        pause(0.02)
    return found


def lives(pid: int) -> bool:
    """Whether the process is there and is more than remains that nobody has collected."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def gone(processes: Iterable[psutil.Process]) -> bool:
    """Whether none of them lives any more; a number that went on to another process does not count as one of them."""
    return not any(process.is_running() and lives(process.pid) for process in processes)


def holding(folder: Path) -> list[list[str]]:
    """Command lines of the processes here that have a file below `folder` open, their log for instance.

    A server's engine overwrites its environment with its title, so that it is not to be known by a variable.
    """
    found = []
    for process in psutil.process_iter():
        try:
            held = [os.readlink(entry) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
            if process.pid != os.getpid() and any(Path(one).is_relative_to(folder) for one in held):
                found.append(process.cmdline())
        except (OSError, psutil.Error):
            continue
    return found
