"""What the tests of survival share: a runner with no command line before it, and what must be left in its folder."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
from clitools import PROGRAM, Place
from living import PATIENCE_S, until

from infermaxx_tui.core.events import AnyEvent, EvidenceLost, Record, RunEnded
from infermaxx_tui.core.verdict import Verdict, exit_code, read_verdict, verdict_bytes
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.launch import Said
from infermaxx_tui.log import Follower, parts
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.verdicts import judge_folder
from infermaxx_tui.wish import Wish


class Runner:
    """A runner process as the command line starts it, and the run folder as soon as there is one."""

    def __init__(self, place: Place, wish: Wish) -> None:
        self._runs = place.runs if wish.resume is None else Path(wish.resume).parent
        self.process = subprocess.Popen(
            [*PROGRAM, "_runner"],
            cwd=place.root,
            env={**place.env, "INFERMAXX_RUNS": str(self._runs)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(wish))
        self.process.stdin.close()
        self.process.stdin = None
        self.started_s = time.monotonic()

    @property
    def folder(self) -> Path | None:
        """The only run folder there is."""
        found = list(self._runs.iterdir()) if self._runs.exists() else []
        return found[0] if found else None

    @property
    def over(self) -> bool:
        """Whether the process has ended."""
        return self.process.poll() is not None

    def family(self) -> list[psutil.Process]:
        """The processes that it started, and those that these started."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> list[psutil.Process]:
        """Ends it without warning; the processes that it had started."""
        family = self.family()
        self.process.send_signal(signal.SIGKILL)
        self.end()
        return family

    def end(self, patience_s: float = PATIENCE_S) -> tuple[int, str]:
        """Its exit code and the last thing that it said, once it has ended."""
        out, err = self.process.communicate(timeout=patience_s)
        assert b"Traceback" not in err, err.decode()
        said = [msgspec.json.decode(line, type=Said) for line in out.splitlines()]
        return self.process.returncode, said[-1].text if said else ""

    @property
    def lines(self) -> int:
        """Whole lines in the newest part of the log."""
        folder = self.folder
        try:
            newest = parts(folder)[-1] if folder is not None else None
            return 0 if newest is None else newest.read_bytes().count(b"\n")
        except (OSError, IndexError):
            return 0


@contextmanager
def running(place: Place, wish: Wish) -> Iterator[Runner]:
    """A runner that is killed at the end of the block if it is still there."""
    runner = Runner(place, wish)
    try:
        yield runner
    finally:
        if not runner.over:
            runner.kill()


class Left(NamedTuple):
    """What a run folder holds once nobody writes to it."""

    events: list[AnyEvent]
    torn_bytes: int
    over: bool
    """Whether the log has its last line."""
    verdict: Verdict
    """What the log earns."""

    @property
    def code(self) -> ExitCode:
        """What `judge` exits with."""
        return exit_code(self.verdict)


def left_in(folder: Path) -> Left:
    """What is left; every whole line must be an event with the next number of its part, and what is torn the last.

    A part that could take no more is torn as well, and the next one begins by saying so.
    """
    events: list[AnyEvent] = []
    torn = 0
    for number, path in enumerate(parts(folder)):
        follower = Follower(path)
        for seq, record in enumerate(follower.read()):
            assert isinstance(record, Record), record
            assert (record.part, record.seq) == (number, seq)
            assert torn == 0 or seq or isinstance(record.event, EvidenceLost), "only the newest line may be torn"
            events.append(record.event)
        torn = follower.torn
    verdict = judge_folder(RunFolder(folder))
    for kept in (folder / "verdict.json",):
        if kept.exists():
            read_verdict(kept.read_bytes())
    return Left(events, torn, bool(events) and isinstance(events[-1], RunEnded), verdict)


def tear(folder: Path) -> int:
    """Leaves half a line behind the last one, as a machine does that loses its power; its bytes."""
    newest = parts(folder)[-1]
    line = newest.read_bytes().splitlines(keepends=True)[-1]
    half = line[: len(line) // 2]
    with newest.open("ab") as file:
        file.write(half)
    return len(half)


def same_bytes(folder: Path) -> bool:
    """Whether the log still earns verdict.json to the byte."""
    return (folder / "verdict.json").read_bytes() == verdict_bytes(judge_folder(RunFolder(folder)))


def when(look: Callable[[], bool], runner: Runner) -> bool:
    """Waits in short steps until it is so; False if the runner ended before."""
    give_up = time.monotonic() + PATIENCE_S
    while not look():
        if runner.over:
            return look()
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.005)
    return True


def nobody(folder: Path) -> bool:
    """Whether no runner is alive in it, awaited for a moment."""
    return bool(until(lambda: not RunFolder(folder).alive()))
