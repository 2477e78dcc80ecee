"""No server outlives the run that launched it, however that ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from clitools import Place
from living import gone, until

from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.server.keeper import Keeper
from infermaxx_tui.server.launch import LaunchedServer

_LAUNCHES = """
import json, sys, time
from pathlib import Path
from infermaxx_tui.server.launch import LaunchedServer
server = LaunchedServer(json.loads(sys.argv[1]), {"MORE": "a b"}, Path(sys.argv[2]))
print(server.pid, flush=True)
if sys.argv[3:]:
    server.stop()
    print("stopped", flush=True)
time.sleep(600)
"""
_FAMILY = 'sh -c "echo child \\$\\$ \\"\\$MORE\\"; sleep 600" & sleep 600'


def _launched(place: Place, log: Path, *more: str) -> subprocess.Popen[str]:
    words = json.dumps(["sh", "-c", _FAMILY])
    return subprocess.Popen(
        [sys.executable, "-c", _LAUNCHES, words, str(log), *more], env=place.env, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_server_and_its_children_end_with_who_launched_them(
    place: Place, tmp_path: Path, number: signal.Signals
) -> None:
    run = RunFolder(tmp_path)
    log = run.server_log
    with _launched(place, log) as launcher:
        assert launcher.stdout is not None
        server = psutil.Process(int(launcher.stdout.readline()))
        said = until(lambda: log.read_text(encoding="ascii").partition("child ")[2].strip() if log.exists() else "")
        assert said.endswith("a b")
        family = [*psutil.Process(launcher.pid).children(recursive=True)]
        assert {server.pid, int(said.split()[0])} <= {process.pid for process in family}
        assert os.getpgid(int(said.split()[0])) == server.pid
        assert run.server_alive()
        launcher.send_signal(number)
        launcher.wait()
    until(lambda: gone(family))
    until(lambda: not run.server_alive())


def test_a_server_that_was_ended_in_order_leaves_nobody_to_watch(place: Place, tmp_path: Path) -> None:
    with _launched(place, RunFolder(tmp_path).server_log, "stop") as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        assert launcher.stdout.readline() == "stopped\n"
        assert gone(psutil.Process(launcher.pid).children(recursive=True))
        assert not RunFolder(tmp_path).server_alive()
        launcher.kill()
        launcher.wait()


def test_a_program_that_is_not_there_is_told_and_starts_nothing(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program", encoding="ascii")
    for name, why in (("no-such-program", "No such file"), (str(plain), "Permission denied")):
        with pytest.raises(ServerUnusableError, match=why):
            LaunchedServer([name], {}, tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_keeper_that_is_dismissed_twice_is_gone_once(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "lock")
    keeper.dismiss()
    keeper.dismiss()
