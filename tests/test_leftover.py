"""Who starts a server waits for those that runs before left behind."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from infermaxx_tui.leftover import wait_for_servers
from infermaxx_tui.rundir import RunError, RunFolder


def _run(root: Path, suffix: str) -> RunFolder:
    run = RunFolder(root / f"20261201-120000-arm-{suffix}")
    run.path.mkdir()
    return run


def test_a_server_whose_runner_was_killed_is_waited_for_until_it_is_gone(tmp_path: Path) -> None:
    waited: list[float] = []
    with _run(tmp_path, "aaaa").server_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                lock.close()

        wait_for_servers(tmp_path, sleep)
    assert len(waited) == 3


def test_one_that_stays_is_named_and_nothing_is_started_beside_it(tmp_path: Path) -> None:
    with _run(tmp_path, "aaaa").server_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match="20261201-120000-arm-aaaa: its server does not end"):
            wait_for_servers(tmp_path, lambda seconds: None)


def test_servers_of_runs_that_go_on_are_nobodys_business(tmp_path: Path) -> None:
    run = _run(tmp_path, "aaaa")
    (tmp_path / "experiments").mkdir()
    with run.server_lock.open("w") as server, run.lock.open("w") as runner:
        fcntl.flock(server, fcntl.LOCK_EX)
        fcntl.flock(runner, fcntl.LOCK_EX)
        wait_for_servers(tmp_path, lambda seconds: pytest.fail("it waited"))
    _run(tmp_path, "bbbb")
    wait_for_servers(tmp_path, lambda seconds: pytest.fail("it waited"))
