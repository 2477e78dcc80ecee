"""Reads a server's start-up log from its file, and tells a start that is slow from one that hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec
import psutil

from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.startup_log import StartupFacts, parse_startup

MAX_BYTES: Final = 8 << 20
"""Of a longer log the first half of this and the last half are read: a start stands at its head, a death at its end."""
IDLE_S: Final = 120.0
"""A start that neither writes, computes nor reads for so long hangs."""
QUIET_S: Final = 900.0
"""One that computes may be silent for so long: compiling kernels takes minutes without a line."""
START_S: Final = 3600.0
"""One that is not up after so long is given up whatever it writes: a start that waits for a worker that is gone says so
every minute, for ever."""
_BUSY: Final = 0.1
"""Cores in use from which a start is computing."""
_READ_BYTES: Final = 1 << 20


def read_startup(path: Path, source: Literal["launched", "file"]) -> StartupRead:
    """What the log says; why not, where it cannot be read or is no vLLM log."""
    try:
        with path.open("rb") as file:
            text = _ends(file.read(MAX_BYTES // 2), path, file.tell())
    except OSError as error:
        return StartupRead(source="none", reason=f"{path.name}: {error.strerror}")
    facts = parse_startup(text)
    if facts == StartupFacts(stage=facts.stage):
        return StartupRead(source="none", reason=f"{path.name} holds no line of a vLLM start")
    return StartupRead(source=source, facts=facts)


def _ends(head: bytes, path: Path, read_to: int) -> str:
    size = path.stat().st_size
    if size <= read_to:
        return head.decode("utf-8", "replace")
    with path.open("rb") as file:
        file.seek(max(size - MAX_BYTES // 2, read_to))
        tail = file.read(MAX_BYTES // 2)
    return head.decode("utf-8", "replace") + "\n" + tail.decode("utf-8", "replace")


class Work(msgspec.Struct, frozen=True):
    """What a start has done until now."""

    log_bytes: int
    cpu_s: float
    read_bytes: int


class Patience:
    """How long a start may still take: as long as it makes progress, up to a limit for the whole of it."""

    def __init__(self, idle_s: float = IDLE_S, quiet_s: float = QUIET_S, start_s: float = START_S) -> None:
        self._idle_limit_s = idle_s
        self._quiet_limit_s = quiet_s
        self._start_limit_s = start_s
        self._whole_s = 0.0
        self._last: Work | None = None
        self._idle_s = 0.0
        self._quiet_s = 0.0

    def over(self, work: Work, since_last_s: float) -> str | None:
        """What the start did not do, and for how long, once that was too long; None while it makes progress."""
        last = self._last
        self._last = work
        self._whole_s += since_last_s
        if self._whole_s > self._start_limit_s:
            return f"used up its {self._start_limit_s:g} s (start_s)"
        if last is None or work.log_bytes != last.log_bytes:
            self._idle_s = self._quiet_s = 0.0
            return None
        busy = work.cpu_s - last.cpu_s >= _BUSY * since_last_s or work.read_bytes - last.read_bytes >= _READ_BYTES
        self._quiet_s += since_last_s
        self._idle_s = 0.0 if busy else self._idle_s + since_last_s
        if self._idle_s > self._idle_limit_s:
            return f"wrote and did nothing for {self._idle_s:.0f} s"
        if self._quiet_s > self._quiet_limit_s:
            return f"wrote nothing for {self._quiet_s:.0f} s"
        return None


def work_of(pid: int, log: Path) -> Work:
    """What the process and its children have done; processes that may not be looked at count as idle."""
    cpu_s, read_bytes = 0.0, 0
    try:
        first = psutil.Process(pid)
        family = [first, *first.children(recursive=True)]
    except psutil.Error:
        family = []
    for process in family:
        try:
            times = process.cpu_times()
            cpu_s += times.user + times.system
            read_bytes += process.io_counters().read_bytes
        except (psutil.Error, AttributeError, NotImplementedError):
            continue
    return Work(log.stat().st_size, cpu_s, read_bytes)
