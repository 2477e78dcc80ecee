"""One server at a port: between the look whether it is free and the moment a server of ours listens there minutes pass.

Two experiments on one port would measure one another's servers, each with the other's flags beside the figures.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psutil

from infermaxx_tui.server.describe import ServerUnusableError

_WAIT_S: Final = 5.0
"""A run that is over gives its port back when its server is gone."""
_POLL_S: Final = 0.1


@contextmanager
def reserved(url: str, wait_s: float = _WAIT_S, folder: Path | None = None) -> Iterator[None]:
    """Holds the port of `url` against other runs of this user on this machine, from before the start on.

    Raises ServerUnusableError where another run has it for longer than `wait_s`. `folder` holds the locks; None: the
    system's folder for temporary files.
    """
    where = Path(tempfile.gettempdir()) if folder is None else folder
    path = where / f"infermaxx-{os.getuid()}-{_port(url)}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:  # nowhere to write: the look whether somebody listens is all there is
        yield
        return
    try:
        _lock(lock, url, wait_s)
        yield
    finally:
        os.close(lock)


def _port(url: str) -> int:
    return urlsplit(url).port or 80


def _lock(lock: int, url: str, wait_s: float) -> None:
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise ServerUnusableError(
                    f"server.launch: another run has a server at {url}, or starts one: wait for it, or give another"
                    " --port"
                ) from None
            time.sleep(_POLL_S)
        else:
            return


def refuse_stranger(url: str, pid: int) -> None:
    """Raises ServerUnusableError if what listens at `url` is older than the process `pid`, which was to listen there.

    Whoever is younger may be a container that `pid` started; one that nobody can look at may be anybody.
    """
    with suppress(psutil.Error, OSError):
        began_s = psutil.Process(pid).create_time()
        for one in psutil.net_connections("tcp"):
            if one.status != psutil.CONN_LISTEN or not one.pid or one.laddr[1:2] != (_port(url),):
                continue
            if psutil.Process(one.pid).create_time() < began_s:
                raise ServerUnusableError(
                    f"server.launch: process {one.pid} listens at {url} and is no server of this run: end it, or give"
                    " another --port"
                )
