"""Waits for servers that outlive their runs for a moment: they hold a card and a port till they are gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from infermaxx_tui.rundir import RUN_ID, RunError, RunFolder

_SERVER_S: Final = 30.0
"""A server is killed 10 s after it was asked to end, and then needs some to give its memory back."""
_POLL_S: Final = 0.1


def wait_for_servers(root: Path, sleep: Callable[[float], None] = time.sleep) -> None:
    """Returns when no server lives any more whose run, one of those in `root`, is over or was killed.

    Raises RunError if one stays.
    """
    runs = [RunFolder(path) for path in root.iterdir() if RUN_ID.fullmatch(path.name)]
    waited_s = 0.0
    while (orphan := next((run for run in runs if run.server_alive() and not run.alive()), None)) is not None:
        if waited_s > _SERVER_S:
            raise RunError(f"{orphan.id}: its server does not end although its runner is gone; end it, then go on")
        sleep(_POLL_S)
        waited_s += _POLL_S
