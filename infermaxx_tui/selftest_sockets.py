"""Plays what the selftest plays in memory as a user would: a runner process against an embedded server over loopback.

In memory nothing is late, no byte is cut off where a kernel cuts it off, and no process dies. A judge that was tried
only there has not been tried on what it will meet.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.core.verdict import read_verdict
from infermaxx_tui.launch import Said, own_program
from infermaxx_tui.log import read_log
from infermaxx_tui.selftest import ALL, EXACT, NONCE, demand, played_in_memory
from infermaxx_tui.selftest_rows import SelftestRow, certified
from infermaxx_tui.selftest_work import Run, certify, made_up, missed, row_of, worker_pool
from infermaxx_tui.shipped import shipped_scenario
from infermaxx_tui.wish import Wish

_AT_ONCE_A_CORE: Final = 2
"""Runs beside one another for each core: most of its time a run waits for its server's next token."""
_TRIES_ALONE: Final = 3
_PATIENCE_S: Final = 180.0
"""A run of the demo takes 20 s at most on two idle cores."""
_ENDING_S: Final = (0.5, 15.0)
"""From the signal that asks a runner for an end to the one that ends it and its server at once, and from there until it
is given up: a runner that is killed leaves its server behind."""
_POLL_S: Final = 0.02
_LONGEST: Final = (
    *("vram-creep", "slow-start", "slow-drift", "preemption-storm", "throttle", "limit-reset"),
    *("busy-503", "shed-429", "hang"),
)
"""Begun first, so that none of them is waited for alone at the end."""

_EXIT: Final = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


class Played(msgspec.Struct, frozen=True):
    """A runner process that has ended."""

    folder: str | None
    """Of its run; None if it refused to begin one."""
    said: str
    """Its last words."""
    code: int


class Runners:
    """The runner processes that are alive, so that nobody is left behind by an interrupted selftest."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._alive: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def play(self, name: str) -> Played:
        """One run from its start to its verdict, as `infermaxx demo` makes it, in a folder of its own."""
        wanted = demand(name)
        wish = Wish(
            scenario=str(shipped_scenario("demo")),
            faults=wanted.faults,
            overrides=wanted.overrides,
            nonce=NONCE,
            runs_dir=str(self._root / name),
        )
        with self._started() as runner:
            try:
                out, _ = runner.communicate(msgspec.json.encode(wish), _PATIENCE_S)
            except subprocess.TimeoutExpired:
                return Played(None, f"not over after {_PATIENCE_S:.0f} s", -1)
        said = [msgspec.json.decode(line, type=Said) for line in out.splitlines()]
        folder = next((one.text for one in said if one.kind == "run"), None)
        return Played(folder, said[-1].text if said else "nothing", runner.returncode)

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._over:
                raise RuntimeError("the selftest is being ended")
            runner = subprocess.Popen(
                own_program("infermaxx_tui", "_runner"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._alive.add(runner)
        try:
            yield runner
        finally:
            if runner.poll() is None:
                _end([runner])
            with self._lock:
                self._alive.discard(runner)

    def end(self) -> None:
        """Ends all of them at once, and their servers with them; none begins any more."""
        with self._lock:
            self._over = True
            alive = list(self._alive)
        _end(alive)


def _end(runners: list[subprocess.Popen[bytes]]) -> None:
    """Asks twice, which a runner takes as at once: it ends its server first."""
    for patience_s in _ENDING_S:
        for runner in runners:
            runner.send_signal(signal.SIGTERM)
        until = time.monotonic() + patience_s
        while time.monotonic() < until and any(runner.poll() is None for runner in runners):
            time.sleep(_POLL_S)
    for runner in runners:
        runner.kill()


def run_over_sockets(faults: tuple[str, ...], narrate: Callable[[str], None]) -> tuple[SelftestRow, ...]:
    """A row for each of the faults, or for all of them and the histories but the exact ones, and for the made-up runs.

    Several are played at a time. A whole selftest leaves a certificate in the user's cache. Folders of runs that were
    judged otherwise than they must be are kept and named. Interrupted, it ends all that it started.
    """
    names = faults or tuple(name for name in ALL if name not in EXACT)
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="infermaxx-selftest-"))
    rows: dict[str, SelftestRow] = {}
    try:
        for row in _rows(names, root, narrate):
            rows[row.fault] = row
            narrate(f"{len(rows)} of {len(names)}: {_right(row) if row.caught else missed(row)}")
    finally:
        with suppress(OSError):
            root.rmdir()  # what is left in it are runs that somebody wants to see
        if len(rows) < len(names):
            shutil.rmtree(root, ignore_errors=True)
    if root.exists():
        narrate(f"their runs: {root}")
    table = tuple(rows[name] for name in names)
    if not faults:
        certify(certified(table, time.monotonic() - began, over_sockets=True), narrate)
    return table


def _right(row: SelftestRow) -> str:
    return f"{row.fault} {row.got} {' '.join(row.failed)}".rstrip()


def _rows(names: tuple[str, ...], root: Path, narrate: Callable[[str], None]) -> Iterator[SelftestRow]:
    """As they come. Logs are judged and changed in processes of their own, so that no runner is kept waiting."""
    cores = os.cpu_count() or 1
    runners = Runners(root)
    played = sorted((name for name in names if not made_up(name)), key=lambda name: name not in _LONGEST)
    with (
        worker_pool(cores, multiprocessing.get_context("spawn")) as judges,
        ThreadPoolExecutor(cores * _AT_ONCE_A_CORE) as players,
    ):
        try:
            coming: list[Future[SelftestRow]] = [players.submit(_row, runners, judges, name) for name in played]
            coming += [judges.submit(played_in_memory, name) for name in names if made_up(name)]
            crowded = []
            for one in as_completed(coming):
                row = one.result()
                if _crowded(row):
                    crowded.append(row)
                else:
                    yield row
            for row in crowded:
                yield _alone(row, lambda name: players.submit(_row, runners, judges, name).result(), narrate)
        except BaseException:
            players.shutdown(wait=False, cancel_futures=True)
            runners.end()
            raise


def _crowded(row: SelftestRow) -> bool:
    """Whether a run whose times matter was refused for them, as is right where others took the cores from it."""
    return (row.got, row.not_evaluable) == ("INCONCLUSIVE", ("drift",)) and row.wanted != row.got


def _alone(row: SelftestRow, play: Callable[[str], SelftestRow], narrate: Callable[[str], None]) -> SelftestRow:
    """The row of the same run with nothing beside it, at the latest of the third one; that this is all is marked."""
    for _ in range(_TRIES_ALONE):
        if not _crowded(row):
            break
        narrate(f"{row.fault}: this client was too busy to see a trend; once more, with nothing beside")
        row = play(row.fault)
    return msgspec.structs.replace(row, busy=_crowded(row))


def _row(runners: Runners, judges: ProcessPoolExecutor, name: str) -> SelftestRow:
    played = runners.play(name)
    row = judges.submit(judge_played, name, played).result()
    if row.caught and played.folder is not None:
        shutil.rmtree(Path(played.folder).parent, ignore_errors=True)
    return row


def judge_played(name: str, played: Played) -> SelftestRow:
    """The row of a run that was played. Its log, its verdict.json and its exit code must say the same."""
    wanted = demand(name)
    if played.folder is None:
        return SelftestRow(name, wanted.wanted, wanted.check, f"no run: {played.said}", (), (), False, 0)
    folder = Path(played.folder)
    row = row_of(name, Run(wanted.wanted, wanted.check, tuple(read_log(folder)), wanted.finds, timed=False))
    try:
        written = read_verdict((folder / "verdict.json").read_bytes()).verdict
    except (OSError, msgspec.DecodeError):
        written = None
    if written == row.got and played.code == _EXIT.get(row.got):
        return row
    got = f"{row.got}, verdict.json {written}, exit {played.code}"
    return msgspec.structs.replace(row, got=got, caught=False)
