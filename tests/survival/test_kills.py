"""kill -9 of the runner at random moments: what was written stays, what it proves stays, and the run goes on."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from clitools import Place, sim
from living import gone, until
from survivaltools import Left, Runner, left_in, running, same_bytes, tear, when

from infermaxx_tui.core.events import Resumed
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.log import parts
from infermaxx_tui.wish import Wish

KILLS: Final = 200
A_RUN: Final = 4
"""Kills of one run before it may come to its end."""
SEED: Final = 20_261_201
MOMENTS: Final = ("start", "line", "line", "line", "line", "line", "line", "end")
SERVERS: Final = ("url", "sick", "sim", "url", "launch")
"""Servers that outlive the run, healthy and not, the run's own, and one that the scenario launches."""
_LINES: Final = 110


class Table(Counter[str]):
    """What came of all kills, counted."""

    def rows(self) -> str:
        """Two columns for the report."""
        return "\n".join(f"{name:44} {n}" for name, n in sorted(self.items()))


def _moment(draw: random.Random, runner: Runner) -> str:
    """Waits for a moment of this run; which sort it was."""
    sort = draw.choice(MOMENTS)
    match sort:
        case "start":
            when(_after(runner, draw.uniform(0.0, 1.2)), runner)
        case "line":
            wanted = draw.randint(1, _LINES)
            when(lambda: runner.lines >= wanted, runner)
        case _:
            when(lambda: _has_last_line(runner.folder), runner)
            when(_after(runner, draw.uniform(0.0, 0.03), now=True), runner)
    return sort


def _after(runner: Runner, seconds: float, now: bool = False) -> Callable[[], bool]:

    since = time.monotonic() if now else runner.started_s
    return lambda: time.monotonic() - since >= seconds


def _has_last_line(folder: Path | None) -> bool:
    found = parts(folder) if folder is not None else ()
    return bool(found) and b'"e":"runended"' in found[-1].read_bytes()[-400:]


def _checked(folder: Path, before: bytes, table: Table) -> Left:
    """What the kill left, looked at from all sides."""
    left = left_in(folder)
    kept = b"".join(path.read_bytes() for path in parts(folder))
    assert kept.startswith(before), "a line that was there is gone"
    table["lines kept"] += len(left.events)
    table["torn by the kill"] += left.torn_bytes > 0 and before.endswith(b"\n")
    table[f"judged {left.verdict.verdict}{' (had its last line)' if left.over else ''}"] += 1
    assert left.code in (ExitCode.FAIL, ExitCode.INCONCLUSIVE) or left.over
    return left


def _one_run(place: Place, wish: Wish, draw: random.Random, kills: int, table: Table) -> None:
    """Kills a run so often, takes it up again each time, and lets it come to its end."""
    failed = False
    for number in range(kills):
        with running(place, wish) as runner:
            sort = _moment(draw, runner)
            folder = runner.folder
            before = b"" if folder is None else b"".join(path.read_bytes() for path in parts(folder))
            family = runner.kill()
        table["kills"] += 1
        table[f"killed at: {sort}"] += 1
        until(lambda family=family: gone(family))  # type: ignore[misc]  # bound on purpose
        table["processes it had started, all ended"] += len(family)
        if folder is None or not folder.exists():
            table["before the run began"] += 1
            continue
        if not parts(folder) or not any(path.stat().st_size for path in parts(folder)):
            table["before the run began"] += 1
            _refused(place, folder, "no run ever began")
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            continue
        left = _checked(folder, before, table)
        assert not failed or left.code == ExitCode.FAIL, "evidence of a failure was lost"
        failed = left.code == ExitCode.FAIL
        if left.over:
            _refused(place, folder, "came to its end")
            return
        if number % 3 == 2:
            table["torn by the test"] += 1
            tear(folder)
        wish = Wish(scenario="", resume=str(folder), no_gpu=True)
    _to_its_end(place, wish, failed, table)


def _refused(place: Place, folder: Path, why: str) -> None:
    with running(place, Wish(scenario="", resume=str(folder))) as runner:
        code, said = runner.end()
    assert code == ExitCode.USAGE
    assert why in said


def _to_its_end(place: Place, wish: Wish, failed: bool, table: Table) -> None:
    with running(place, wish) as runner:
        code, said = runner.end()
        folder = runner.folder
    assert folder is not None, said
    left = left_in(folder)
    assert left.over
    assert same_bytes(folder)
    assert code == left.code
    again = sum(isinstance(event, Resumed) for event in left.events)
    table["resumed"] += again
    table["runs that were resumed"] += again > 0
    table[f"verdict at the end: {left.verdict.verdict}"] += 1
    sick = left.verdict.verdict == "FAIL"
    assert not failed or sick
    assert left.verdict.verdict in ("PASS", "FAIL")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_runner_that_is_killed_loses_no_line_and_can_be_resumed(
    place: Place,
    server: str,
    two_waves: Path,
    tmp_path: Path,
    free_port: int,
    share: Callable[[int], int],
    tell: Callable[[str], None],
) -> None:
    kills, table, draw = share(KILLS), Table(), random.Random(SEED)
    own = f"--port {free_port} --decode-ms 1".split()
    launch = [sys.executable, "-m", "infermaxx_tui.sim", *own]
    with sim(tmp_path / "sick", "--fault", "forget-oldest", "--decode-ms", "1") as sick:
        number = 0
        while table["kills"] < kills:
            place.runs = tmp_path / f"runs-{number}"
            sort = SERVERS[number % len(SERVERS)]
            match sort:
                case "url":
                    served = Wish(scenario=str(two_waves), url=server, no_gpu=True)
                case "sick":
                    served = Wish(scenario=str(two_waves), url=sick, no_gpu=True)
                case "sim":
                    served = Wish(scenario=str(two_waves), faults=("clean",), no_gpu=True)
                case _:
                    words = "[" + ", ".join(f'"{word}"' for word in launch) + "]"
                    served = Wish(scenario=str(two_waves), overrides=(f"server.launch={words}",), no_gpu=True)
            before = table["verdict at the end: PASS"]
            _one_run(place, served, draw, min(A_RUN, kills - table["kills"]), table)
            assert sort != "sick" or table["verdict at the end: PASS"] == before
            number += 1
    table["runs"] = number
    tell(table.rows())
    assert table["kills"] == kills
