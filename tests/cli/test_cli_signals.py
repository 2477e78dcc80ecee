"""Stopping, leaving, hanging up and dying: what is left is a verdict, or a log that says that there is none."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from clitools import Command, Place, decoding, kill_runner, log_of, sim
from living import lives, until

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.launch import Relay, StartError, start_runner
from infermaxx_tui.log import Follower
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.server.launch import LaunchedServer
from infermaxx_tui.wish import Wish

_LONG = ("--set", "sessions.rounds=400")


@contextmanager
def _long_run(place: Place, small: Path, server: str, *words: str) -> Iterator[Command]:
    """A run that ends only when it is told to."""
    with place.started("run", str(small), "--headless", "--url", server, *_LONG, *words) as command:
        yield command


def _last(folder: Path) -> ev.RunEnded:
    last = log_of(folder)[-1]
    assert isinstance(last, ev.RunEnded)
    return last


@pytest.mark.parametrize(("number", "by"), [(signal.SIGINT, "sigint"), (signal.SIGTERM, "sigterm")])
def test_one_signal_ends_the_run_with_its_verdict(
    place: Place, small: Path, server: str, number: signal.Signals, by: str
) -> None:
    with _long_run(place, small, server, "--json") as command:
        folder = decoding(command.folder)
        command.process.send_signal(number)
        done = command.end()
    assert done.verdict["verdict"] == "INCONCLUSIVE"
    assert done.code == ExitCode.INCONCLUSIVE
    assert _last(folder).reason == "stopped"
    assert done.verdict["ended"] == "stopped"
    assert (
        any(isinstance(event, ev.StopAsked) and event.by == by for event in log_of(folder))
        or by in _last(folder).detail
    )


def test_two_signals_end_at_once_without_a_verdict(place: Place, small: Path, server: str) -> None:
    with _long_run(place, small, server) as command:
        folder = decoding(command.folder)
        pid = RunFolder(folder).pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # so that the first signal cannot be obeyed before the second one comes
        until(lambda: _stopped(pid))
        command.process.send_signal(signal.SIGINT)
        until(lambda: _pending(pid, signal.SIGINT))
        command.process.send_signal(signal.SIGTERM)
        until(lambda: _pending(pid, signal.SIGTERM))
        done = command.end()
        os.kill(pid, signal.SIGCONT)
        until(lambda: not RunFolder(folder).alive())
    assert done.code == ExitCode.INTERRUPTED
    assert done.out == ""
    assert not (folder / "verdict.json").exists()
    assert place.inside("judge", str(folder)).code == ExitCode.INCONCLUSIVE


def _status(pid: int, field: str) -> str:
    """The first word of a field of a process's status."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        pytest.skip("no /proc here to see pending signals in")
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith(f"{field}:"))
    return line.split()[1]


def _stopped(pid: int) -> bool:
    """Whether a process stands still: until it does, a later signal may be taken before the stop."""
    return _status(pid, "State") == "T"


def _pending(pid: int, number: signal.Signals) -> bool:
    """Whether a stopped process has this signal waiting."""
    return bool(int(_status(pid, "ShdPnd"), 16) >> (number - 1) & 1)


def _shell(script: str, port: int) -> str:
    """A setting: this script is launched as the server that will listen there."""
    return f"server.launch={json.dumps(['sh', '-c', script, 'sh', '--port', str(port)])}"


def test_a_signal_before_the_run_begins_leaves_nothing_behind(place: Place, small: Path, free_port: int) -> None:
    slow = _shell("trap 'touch stopped; exit' TERM; touch started; sleep 600 & wait", free_port)
    with place.started("run", str(small), "--headless", "--set", slow) as command:
        until((place.root / "started").exists)
        command.process.send_signal(signal.SIGINT)
        done = command.end()
    assert done.code == ExitCode.INTERRUPTED
    assert "before the run began" in done.complaint
    assert place.folders == []
    assert (place.root / "stopped").exists()


class _Hasty(Relay):
    """Asks for an end the moment that there is a runner to ask."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "pid" and value is not None:
            self.hand_on(signal.SIGINT, None)


def test_a_signal_that_comes_before_the_runner_can_obey_is_obeyed(
    place: Place, small: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in place.env.items():
        monkeypatch.setenv(name, value)
    wish = Wish(scenario=str(small), overrides=(_shell("exec sleep 600", free_port),))
    said: list[str] = []
    with pytest.raises(StartError, match="interrupted before the run began") as caught:
        start_runner(msgspec.json.encode(wish), said.append, _Hasty())
    assert caught.value.code == ExitCode.INTERRUPTED
    assert said == []
    assert place.folders == []


def test_a_server_that_hangs_does_not_hold_up_the_end(place: Place, small: Path, tmp_path: Path) -> None:
    with (
        sim(tmp_path / "sim", "--fault", "hang", "--healthy-turns", "2") as url,
        _long_run(place, small, url, "--json") as command,
    ):
        folder = decoding(command.folder)
        until(lambda: (folder / "events.jsonl").read_bytes().count(b'"e":"requestended"') >= 2)
        command.process.send_signal(signal.SIGTERM)
        done = command.end()
    assert done.code == ExitCode.INCONCLUSIVE
    assert done.verdict["ended"] == "stopped"


def test_a_start_that_nobody_watches_any_more_goes_on(place: Place, small: Path, free_port: int) -> None:
    wait = 'touch started; while [ ! -e go ]; do sleep 0.05; done; exec "$@"'
    words = ["sh", "-c", wait, "sh", sys.executable, "-m", "infermaxx_tui.sim", "--port", str(free_port)]
    with place.started("run", str(small), "--headless", "--set", f"server.launch={json.dumps(words)}") as command:
        until((place.root / "started").exists)
        (folder,) = place.folders
        (row,) = place.inside("runs", "--json").rows
        assert (row["state"], row["verdict"]) == ("starting", None)
        command.process.kill()
        command.process.wait()
        (place.root / "go").touch()
        until((folder / "verdict.json").exists)
        until(lambda: not RunFolder(folder).alive())
    assert place.inside("judge", "latest").code == ExitCode.PASS
    assert b"infermaxxsim" in (folder / "server.log").read_bytes()
    assert (folder / "server.log").stat().st_mode & 0o777 == 0o600


def test_a_server_that_does_not_start_leaves_its_log_and_says_where(place: Place, small: Path, free_port: int) -> None:
    launch = _shell("echo RuntimeError: no memory; exit 3", free_port)
    done = place.run("run", str(small), "--headless", "--set", launch)
    assert done.code == ExitCode.SERVER
    assert "exited with 3" in done.complaint
    assert "no memory" in done.complaint
    (folder,) = place.folders
    assert str(folder / "server.log") in done.complaint
    (row,) = place.inside("runs", "--json").rows
    assert row["state"] == "empty"


def test_what_a_server_leaves_behind_is_ended_too(tmp_path: Path) -> None:
    script = 'sh -c "trap : TERM; echo child \\$\\$; while :; do sleep 600; done" & wait; exit 0'
    server = LaunchedServer(["sh", "-c", script], {}, tmp_path / "log")
    child = int(until(lambda: (tmp_path / "log").read_text(encoding="ascii").partition("child ")[2].strip()))
    server.stop()
    assert not server.alive
    until(lambda: not lives(child))


def test_a_command_that_is_not_there_starts_nothing(place: Place, small: Path) -> None:
    done = place.run("run", str(small), "--headless", "--set", 'server.launch=["no-such-program"]')
    assert done.code == ExitCode.SERVER
    assert "no-such-program" in done.complaint
    assert place.folders == []


def test_a_run_outlives_whoever_started_it_and_a_hang_up(place: Place, small: Path, server: str) -> None:
    with _long_run(place, small, server) as command:
        folder = decoding(command.folder)
        command.process.kill()
        command.end()
        pid = RunFolder(folder).pid()
        assert pid is not None
        os.kill(pid, signal.SIGHUP)
        seen = (folder / "events.jsonl").stat().st_size
        until(lambda: (folder / "events.jsonl").stat().st_size > seen)
        stopped = place.run("stop", folder.name, "--json")
    assert stopped.code == ExitCode.INCONCLUSIVE
    assert stopped.out.encode() == (folder / "verdict.json").read_bytes()
    assert _last(folder).reason == "stopped"


def test_detach_attach_and_stop(place: Place, small: Path, server: str) -> None:
    started = place.run("run", str(small), "--detach", "--url", server, *_LONG)
    assert started.code == ExitCode.PASS
    folder = place.runs / started.out.strip()
    try:
        assert place.folders == [folder]
        decoding(folder)
        assert f"infermaxx stop {folder.name}" in started.err
        assert "running" in place.inside("runs").out
        with place.started("attach", "latest", "--headless", "--json") as left:
            until(lambda: "tok/s" in left.said)
            left.process.send_signal(signal.SIGINT)
            assert left.end().code == ExitCode.INTERRUPTED
        assert RunFolder(folder).alive()
        with place.started("attach", "latest", "--headless", "--json") as attached:
            until(lambda: "tok/s" in attached.said)
            stopped = place.run("stop", "latest")
            done = attached.end()
    finally:
        kill_runner(folder)
    assert stopped.code == done.code == ExitCode.INCONCLUSIVE
    assert done.out.encode() == (folder / "verdict.json").read_bytes()
    again = place.inside("stop", folder.name)
    assert again.code == ExitCode.USAGE
    assert "no runner is alive" in again.complaint


def test_a_runner_that_was_killed_is_shown_as_dead_and_never_passes(place: Place, small: Path, server: str) -> None:
    with _long_run(place, small, server, "--json") as command:
        folder = decoding(command.folder)
        kill_runner(folder)
        done = command.end()
    assert done.code == ExitCode.INCONCLUSIVE
    assert done.verdict["ended"] is None
    (row,) = place.inside("runs", "--json").rows
    assert (row["state"], row["verdict"], row["read"]) == ("died", "INCONCLUSIVE", False)
    for verb in ("attach", "judge"):
        looked = place.inside(verb, folder.name, "--json")
        assert looked.code == ExitCode.INCONCLUSIVE
        assert looked.verdict == done.verdict
    (row,) = place.inside("runs", "--json").rows
    assert (row["state"], row["read"]) == ("died", True)


def test_a_log_that_was_torn_is_read_up_to_its_last_whole_line(passed: tuple[object, Path], place: Place) -> None:
    _, healthy = passed
    folder = place.runs / healthy.name
    folder.mkdir(parents=True)
    whole = (healthy / "events.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:-20]) + lines[-20][:37])
    follower = Follower(folder / "events.jsonl")
    assert len(list(follower.read())) == len(lines) - 20
    assert follower.torn == 37
    judged = place.inside("judge", folder.name, "--json")
    assert judged.code == ExitCode.INCONCLUSIVE
    assert judged.verdict["instrument"]["invalid_lines"] == 0
    (row,) = place.inside("runs", "--json").rows
    assert row["state"] == "died"


def test_evidence_of_a_failure_outlives_the_runner(forgot: tuple[object, Path], place: Place) -> None:
    _, sick = forgot
    folder = place.runs / sick.name
    folder.mkdir(parents=True)
    lines = (sick / "events.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    judged = place.inside("judge", folder.name, "--json")
    assert judged.code == ExitCode.FAIL
    assert judged.verdict["ended"] is None
