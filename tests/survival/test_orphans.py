"""No server outlives the run that launched it, however that ended."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from clitools import Place, decoding, kill_runner, write_small
from living import gone, until

from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.server.keeper import Keeper
from infermaxx_tui.server.launch import LaunchedServer

_LAUNCHES = """
import json, sys, time
from pathlib import Path
from infermaxx_tui.server.launch import LaunchedServer
import os
key = os.environ.get("KEY")
server = LaunchedServer(json.loads(sys.argv[1]), {"MORE": "a b"}, Path(sys.argv[2]), key)
print(server.pid, flush=True)
if sys.argv[3:]:
    server.stop()
    print("stopped", flush=True)
time.sleep(600)
"""
_KEY = r"""sk-%s\n$HOME `id` 'q' "-n" \c 0123456789"""
"""Whatever a shell might make something of."""
_FAMILY = 'sh -c "echo child \\$\\$ \\"\\$MORE\\"; sleep 600" & sleep 600'


def _launched(place: Place, log: Path, *more: str, script: str = _FAMILY) -> subprocess.Popen[str]:
    words = json.dumps(["sh", "-c", script])
    return subprocess.Popen(
        [sys.executable, "-c", _LAUNCHES, words, str(log), *more],
        env={**place.env, "KEY": _KEY},
        stdout=subprocess.PIPE,
        text=True,
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


def _masked(log: Path, key: str, times: int) -> bool:
    """Whether the key, which the log held so often, is stars now."""
    said = log.read_text(encoding="utf-8")
    assert said.count(key) + said.count("*" * len(key)) == times
    return key not in said


_PRINTS = 'printf "%s\\n" "$KEY"'


def test_the_log_of_a_server_is_masked_when_nobody_but_its_keeper_is_left(place: Place, tmp_path: Path) -> None:
    """Also what the server says while it ends, and where the log has another name by then, as a resume gives it."""
    run = RunFolder(tmp_path)
    script = f"trap '{_PRINTS}; exit' TERM; {_PRINTS}; echo up; while :; do sleep 0.05; done"
    with _launched(place, run.server_log, script=script) as launcher:
        until(lambda: run.server_log.exists() and b"up" in run.server_log.read_bytes())
        assert _KEY in run.server_log.read_text(encoding="utf-8")
        aside = run.server_log.rename(tmp_path / "server-0.log")
        run.server_log.write_text("another server's", encoding="ascii")
        launcher.kill()
        launcher.wait()
    until(lambda: not run.server_alive())
    assert _masked(aside, _KEY, 2)
    assert run.server_log.read_text(encoding="ascii") == "another server's"


def test_the_log_is_masked_where_the_server_was_gone_before_its_launcher(place: Place, tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with _launched(place, run.server_log, script=f"{_PRINTS}; echo over") as launcher:
        assert launcher.stdout is not None
        server = psutil.Process(int(launcher.stdout.readline()))
        until(lambda: gone([server]))
        assert not _masked(run.server_log, _KEY, 1)
        launcher.kill()
        launcher.wait()
    until(lambda: not run.server_alive())
    assert _masked(run.server_log, _KEY, 1)


def test_a_run_whose_runner_is_killed_leaves_no_key_in_its_servers_log(place: Place, free_port: int) -> None:
    write_small(place.root)
    key = "sk-CANARY-7fQ2zK84mW9tL0pB3yH6uVb1N"
    said = 'printf "Bearer %s\\n" "$VLLM_API_KEY"'
    script = f"trap '{said}; exit' TERM; {said}; {sys.executable} -m infermaxx_tui.sim --port {free_port} & wait; wait"
    words = ("run", "small.toml", "--no-gpu", "--set", "sessions.rounds=40")
    launch = f"server.launch={json.dumps(['sh', '-c', script])}"
    with place.started(*words, "--set", launch, env={"VLLM_API_KEY": key}) as command:
        run = RunFolder(decoding(command.folder))
        assert not _masked(run.server_log, key, 1)
        kill_runner(run.path)
        until(lambda: not run.server_alive())
        assert _masked(run.server_log, key, 2)
        assert stat.S_IMODE(run.server_log.stat().st_mode) == 0o600
        command.end()


def test_a_program_that_is_not_there_is_told_and_starts_nothing(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("no program", encoding="ascii")
    for name, why in (("no-such-program", "No such file"), (str(plain), "Permission denied")):
        with pytest.raises(ServerUnusableError, match=why):
            LaunchedServer([name], {}, tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_keeper_that_is_dismissed_twice_is_gone_once(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path / "lock", tmp_path / "log")
    keeper.dismiss()
    keeper.dismiss()
