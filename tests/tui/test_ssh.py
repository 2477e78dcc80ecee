"""A soak over a real SSH connection that breaks: the runner writes on, the TUI is gone, and coming back is one word.

The daemon is Debian's, as the current user, with a key and a port of its own on the loopback.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from living import PATIENCE_S, until
from ptytools import ENTER_SCREEN, LEAVE_SCREEN, PROGRAM, Terminal, environment, kill_runner, state_of, terminal

from infermaxx_tui.rundir import RunFolder, list_runs

GONE_S = 20.0
"""A cut connection is noticed at once; the rest is for a busy machine."""
PROMPT = "far away> "


class Transcript:
    """The session as a person would tell it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, what: str, picture: str = "") -> None:
        """One step, and what was to be seen."""
        framed = "".join(f"    | {line}\n" for line in picture.splitlines())
        with self._path.open("a", encoding="utf-8") as out:
            out.write(f"* {what}\n{framed}")

    @property
    def text(self) -> str:
        """All of it."""
        return self._path.read_text(encoding="utf-8")


class Daemon:
    """An sshd for one test."""

    def __init__(self, folder: Path, sshd: str, ssh: str) -> None:
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(keygen, check=True, timeout=PATIENCE_S)
        shutil.copy(folder / "user.pub", folder / "authorized_keys")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = int(taken.getsockname()[1])
        if os.getuid() == 0:
            # where the daemon locks its unprivileged half in; Debian makes it when the service starts
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._folder, self._sshd, self._ssh = folder, sshd, ssh
        self._log = folder / "sshd.log"

    @contextmanager
    def listening(self) -> Iterator[None]:
        """It listens for the length of a block."""
        config = self._folder / "sshd_config"
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self._folder / 'host'}",
            f"AuthorizedKeysFile {self._folder / 'authorized_keys'}",
            f"PidFile {self._folder / 'sshd.pid'}",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "PrintMotd no",
            "PrintLastLog no",
        ]
        config.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [self._sshd, "-D", "-f", str(config), "-E", str(self._log)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as daemon:
            try:
                until(lambda: self._log.exists() and "Server listening" in self._log.read_text(encoding="utf-8"))
                yield
            finally:
                daemon.terminate()

    def login(self, env: dict[str, str], cwd: Path) -> list[str]:
        """The client's command line: a login with a terminal and a shell in which only the program's settings hold."""
        names = ("INFERMAXX_RUNS", "INFERMAXX_CACHE", "PYTHONPATH", "LC_ALL")
        settings = " ".join(f"{name}={shlex.quote(env[name])}" for name in names)
        shell = (
            f"cd {shlex.quote(str(cwd))} && exec env {settings} PS1={shlex.quote(PROMPT)} bash --norc --noprofile -i"
        )
        return [
            *(self._ssh, "-tt", "-F", "none", "-p", str(self.port), "-i", str(self._folder / "user")),
            *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
            *("-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
            *("127.0.0.1", shell),
        ]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Debian's sshd; the test is skipped by its name where there is none, and fails where nothing may be skipped."""
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    ssh = shutil.which("ssh")
    if sshd is None or ssh is None:
        pytest.skip("no sshd or no ssh client here: apt-get install openssh-server")
    made = Daemon(tmp_path / "ssh", sshd, ssh)
    with made.listening():
        yield made


def tui_of(run: RunFolder) -> list[int]:
    """The processes that hold a terminal and were started to show or to start runs in this test's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            there = os.readlink(entry / "cwd")
            held = os.readlink(entry / "fd" / "0")
        except OSError:
            continue
        if b"infermaxx_tui" in words and there == str(run.path.parent.parent) and held.startswith("/dev/pts/"):
            found.append(int(entry.name))
    return found


def type_line(tty: Terminal, line: str) -> None:
    """Types a command at the prompt."""
    tty.shows(PROMPT.strip())
    tty.type(line + "\r")


@pytest.mark.timeout(300)
def test_a_cut_connection_costs_nothing(daemon: Daemon, tmp_path: Path) -> None:
    env = environment(tmp_path)
    login = daemon.login(env, tmp_path)
    transcript = Transcript(tmp_path / "transcript.txt")
    program = shlex.join(PROGRAM)
    runs = tmp_path / "runs"

    with terminal(login, env, tmp_path) as tty:
        type_line(tty, f"{program} run demo --set sessions.rounds=20")
        (run,) = tty.until(lambda: list_runs(runs))
        try:
            _watch_and_cut(tty, run, transcript)
            with terminal(login, env, tmp_path) as again:
                _come_back(again, run, transcript, program)
        finally:
            kill_runner(run)
            sys.stdout.write(f"\n{transcript.text}")


def _watch_and_cut(tty: Terminal, run: RunFolder, transcript: Transcript) -> None:
    tty.sees(ENTER_SCREEN)
    tty.shows(run.id)
    tty.until(lambda: run.events.read_bytes().count(b'"e":"requestended"') > 2)
    tty.shows("LIVE")
    tty.shows("q leave")
    transcript.tell("ssh in, `infermaxx run demo --set sessions.rounds=20`; the TUI shows the run", tty.settled())
    (tui,) = tui_of(run)
    assert state_of(tui) is not None
    assert b"\x1b[?1000h" not in tty.seen, "the mouse is left to the terminal over SSH"
    os.kill(tty.process.pid, signal.SIGKILL)
    tty.process.wait(PATIENCE_S)
    at_the_cut = run.events.stat().st_size
    transcript.tell(f"kill -9 of the ssh client; the log holds {at_the_cut} bytes")
    until(lambda: state_of(tui) is None, GONE_S)
    assert tui_of(run) == []
    assert run.alive(), "the runner has nothing to do with the connection"
    at_the_end_of_the_tui = run.events.stat().st_size
    until(lambda: run.events.stat().st_size > at_the_end_of_the_tui)
    assert run.alive()
    transcript.tell(f"the TUI's process is gone; the runner is alive, the log holds {run.events.stat().st_size} bytes")


def _come_back(tty: Terminal, run: RunFolder, transcript: Transcript, program: str) -> None:
    type_line(tty, f"{program} attach latest")
    tty.sees(ENTER_SCREEN)
    tty.shows(run.id)
    tty.shows("q leave")
    went_on = run.alive()
    transcript.tell(f"ssh in again, `infermaxx attach latest`; the run {_state(went_on)}", tty.settled())
    tty.type("q")
    tty.sees(LEAVE_SCREEN)
    said = tty.until(lambda: [line for line in tty.screen.text.splitlines() if line.startswith(run.id)])
    transcript.tell("q", tty.settled())
    assert ("goes on" if went_on else "is over") in said[0] or not run.alive()

    until(lambda: not run.alive())
    before = len(tty.seen)
    type_line(tty, f"{program} attach latest")
    tty.sees(ENTER_SCREEN, before)
    tty.shows("verdict PASS")
    tty.shows("q leave")
    transcript.tell("once it is over, `infermaxx attach latest`; the verdict", tty.settled())
    tty.type("v")
    tty.shows("isolation")
    tty.type("q")
    tty.sees(LEAVE_SCREEN, before)
    tty.shows("is over: PASS")
    type_line(tty, f"clear; {program} runs")
    tty.until(lambda: "PASS" in tty.screen.text and "is over" not in tty.screen.text)
    transcript.tell("`infermaxx runs`", tty.settled())
    type_line(tty, "exit")
    assert tty.end() == 0

    verdict = msgspec.json.decode(run.verdict.read_bytes(), type=dict[str, msgspec.Raw])
    assert msgspec.json.decode(verdict["verdict"]) == "PASS"
    transcript.tell(f"verdict.json says {bytes(verdict['verdict']).decode()}")


def _state(went_on: bool) -> str:
    return "goes on" if went_on else "is over"
