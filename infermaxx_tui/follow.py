"""Follows a run without a TUI: a status line while it goes on, and the verdict when it is over."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.rows import status_line
from infermaxx_tui.launch import signal_runner
from infermaxx_tui.log import Follower, parts
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.verdicts import Verdict, load_or_judge

_POLL_S = 0.1
_TTY_PERIOD_S = 1.0
_LINES_PERIOD_S = 30.0
_VERDICT_WAIT_S = 15.0
_WIDTH = 118


def follow(run: RunFolder, out: TextIO, tty: bool) -> Verdict:
    """The run's verdict, once nobody writes it any more. Status goes to `out`: one line rewritten on a terminal,
    else a line every 30 s. The first Ctrl-C or SIGTERM asks the runner to end cleanly, the second at once."""
    log = _Log(run)
    period_s = _TTY_PERIOD_S if tty else _LINES_PERIOD_S
    due = 0.0
    with _forwarding(run):
        while run.alive():
            log.read()
            if time.monotonic() >= due:
                _show(log.fold, out, tty)
                due = time.monotonic() + period_s
            time.sleep(_POLL_S)
    log.read()
    _show(log.fold, out, tty)
    if tty:
        out.write("\n")
    return load_or_judge(run)


def _show(fold: Fold, out: TextIO, tty: bool) -> None:
    line = status_line(fold.snapshot(), _WIDTH)
    out.write(f"\r\x1b[2K{line}" if tty else f"{line}\n")
    out.flush()


class _Log:
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


@contextmanager
def _forwarding(run: RunFolder) -> Iterator[None]:
    """While the block lasts, a wish to stop this process goes to the runner instead."""

    def forward(number: int, frame: FrameType | None) -> None:
        try:
            signal_runner(run, signal.Signals(number))
        except RunError:
            return

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
