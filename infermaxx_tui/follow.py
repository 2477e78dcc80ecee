"""Follows a run without a TUI: a status line while it goes on, and the verdict when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.rows import status_line
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.log import Follower, parts
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.verdicts import load_or_judge

_POLL_S = 0.1
_TTY_PERIOD_S = 1.0
_SECOND_LINE_S = 5.0
LINES_PERIOD_S = 30.0
"""Seconds between two status lines where they cannot be rewritten."""


class StatusLine:
    """Where the status goes: one line rewritten on a terminal, else a line at the start, one after 5 s, then one every
    30 s, and one at the end. A place that takes no more text is left alone; the run does not depend on it."""

    def __init__(self, out: TextIO, tty: bool, width: Callable[[], int], plain: Callable[[str], str] = str) -> None:
        self._out: TextIO | None = out
        self._tty = tty
        self._width = width
        self._plain = plain
        self._began_s: float | None = None
        self._due_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether a line is to be shown at this monotonic time; the next one is then planned."""
        if self._began_s is None:
            self._began_s = now_s
            self._due_s = now_s + (_TTY_PERIOD_S if self._tty else _SECOND_LINE_S)
            return True
        if now_s < self._due_s:
            return False
        self._due_s = now_s + (_TTY_PERIOD_S if self._tty else LINES_PERIOD_S)
        return True

    def show(self, fold: Fold, last: bool = False) -> None:
        """Shows how the run stands."""
        if self._out is None:
            return
        line = self._plain(status_line(fold.snapshot(), self._width()))
        try:
            self._out.write(f"\r\x1b[2K{line}" + ("\n" if last else "") if self._tty else f"{line}\n")
            self._out.flush()
        except OSError:
            self._out = None


def follow(run: RunFolder, status: StatusLine) -> Verdict:
    """The run's verdict, once nobody writes it any more. Raises RunError if there is no log."""
    log = LogReader(run)
    while run.alive():
        log.read()
        if status.due(time.monotonic()):
            status.show(log.fold)
        time.sleep(_POLL_S)
    log.read()
    status.show(log.fold, last=True)
    return load_or_judge(run)


class LogReader:
    """All parts of one log, read as far as they are written."""

    def __init__(self, run: RunFolder) -> None:
        self.fold = Fold()
        self._run = run
        self._followers: dict[str, Follower] = {}

    def read(self) -> None:
        """Folds what has come."""
        for path in parts(self._run.path):
            follower = self._followers.setdefault(path.name, Follower(path))
            for record in follower.read():
                self.fold.add(record)
