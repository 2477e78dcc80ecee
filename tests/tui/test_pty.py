"""The TUI on a real pty: whatever happens to the terminal, it is given back as it was and the runner goes on."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from living import PATIENCE_S, until
from ptytools import (
    COLOR,
    ENTER_SCREEN,
    LEAVE_SCREEN,
    PROGRAM,
    Terminal,
    children_of,
    environment,
    kill_runner,
    lines_with,
    state_of,
    terminal,
    written_by,
)
from tuitools import MakeRun, recorded

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunFolder, list_runs
from infermaxx_tui.verdicts import exit_code, load_or_judge

RUNS = "runs"
BACK = "\x7f"
"""Backspace: an escape would make one key with the next."""
HOSTILE = "evil\x1b]0;x\x07\x1b[2J\x9b31m\x85\u202e\u2066\u200e[/][@click=app.quit]x"
HOSTILE_KEYS = {"model", "model_root", "engine", "content", "detail", "transcripts", "system", "scenario"}
POINTER = "\x1b]22;default\x07"
"""Textual's own: the shape of the mouse pointer."""
RAW = re.compile("[\x07\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\x1b\\]0;x|\x1b\\[31m")
"""What must never reach the terminal."""


def start(root: Path, rounds: int) -> RunFolder:
    """A run on the embedded server that takes about two seconds a round."""
    words = [*PROGRAM, "run", "demo", "--set", f"sessions.rounds={rounds}", "--detach"]
    done = subprocess.run(
        words, env=environment(root), cwd=root, check=True, capture_output=True, timeout=PATIENCE_S, text=True
    )
    return RunFolder(root / RUNS / done.stdout.strip())


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run that goes on as long as the tests of this module do."""
    root = tmp_path_factory.mktemp("going")
    run = start(root, 400)
    until(lambda: lines_with(run, b"beat"))
    yield run
    assert run.alive()
    kill_runner(run)


def root_of(run: RunFolder) -> Path:
    return run.path.parent.parent


def attached(run: RunFolder, *flags: str, **env: str) -> AbstractContextManager[Terminal]:
    """A terminal with the TUI on the run."""
    root = root_of(run)
    return terminal([*PROGRAM, *flags, "attach", run.id], environment(root, **env), root)


def writes_on(run: RunFolder, beats: int = 2) -> None:
    """The runner is alive and reports so many seconds more of its work."""
    before = len(lines_with(run, b"beat"))
    until(lambda: len(lines_with(run, b"beat")) >= before + beats)
    assert run.alive()


def stall(tty: Terminal, run: RunFolder) -> None:
    """Nobody takes what the TUI draws, until it cannot write any more: asked for whole pictures, it writes nothing."""

    def stuck() -> bool:
        tty.type("\x0c" * 8)
        before = written_by(tty.process.pid)
        writes_on(run, 1)
        return written_by(tty.process.pid) == before

    until(stuck)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back_and_the_run_goes_on(going: RunFolder, number: signal.Signals) -> None:
    with attached(going) as tty:
        tty.shows(going.id)
        os.kill(tty.process.pid, number)
        assert tty.end() == 0
        assert tty.seen.count(ENTER_SCREEN) == tty.seen.count(LEAVE_SCREEN) == 1
        assert b"\x1b[?25h" in tty.seen[tty.seen.index(LEAVE_SCREEN) - 200 :], "the cursor is back"
        assert "goes on" in tty.screen.text
    writes_on(going, 1)


@pytest.mark.parametrize("ignored", [False, True], ids=["hangup", "nohup"])
def test_a_closed_terminal_ends_the_tui_and_nothing_else(going: RunFolder, ignored: bool) -> None:
    root = root_of(going)
    line = ("trap '' HUP; " if ignored else "") + "exec " + shlex.join([*PROGRAM, "attach", going.id])
    with terminal(["sh", "-c", line], environment(root), root) as tty:
        tty.shows(going.id)
        tty.hang_up()
        until(lambda: tty.process.poll() is not None, 20)
    writes_on(going, 1)


def test_ctrl_z_suspends_the_tui_alone(going: RunFolder) -> None:
    root = root_of(going)
    with terminal(["bash", "--norc", "--noprofile", "-i"], environment(root, PS1="ready> "), root) as tty:
        tty.shows("ready>")
        tty.type(shlex.join([*PROGRAM, "attach", going.id]) + "\r")
        tty.sees(ENTER_SCREEN)
        tty.shows(going.id)
        (tui,) = children_of(tty.process.pid)
        tty.type("\x1a")
        left = tty.sees(LEAVE_SCREEN)
        tty.until(lambda: state_of(tui) == "T")
        tty.shows("Stopped")
        writes_on(going)
        tty.type("fg\r")
        tty.sees(ENTER_SCREEN, left)
        tty.shows(going.id)
        assert state_of(tui) not in ("T", None)
        tty.type("q")
        tty.sees(LEAVE_SCREEN, left)
        tty.shows("goes on")
        tty.type("echo code $?\r")
        tty.shows("code 0")


def test_a_storm_of_resizes_ends_in_a_whole_picture(going: RunFolder) -> None:
    with attached(going, "--fps", "10") as tty:
        tty.shows(going.id)
        for n in range(60):
            tty.resize(20 + n * 37 % 120, 5 + n * 11 % 45)
            tty.read(0.02)
        tty.resize(20, 5)
        start = len(tty.seen)
        tty.until(lambda: len(tty.seen) > start)
        assert tty.process.poll() is None
        tty.resize(80, 24)
        tty.shows(going.id)
        tty.type("q")
        assert tty.end() == 0
        assert b"Traceback" not in tty.seen


def test_a_stalled_terminal_does_not_hold_up_the_runner(going: RunFolder) -> None:
    with attached(going, "--fps", "10") as tty:
        tty.shows(going.id)
        stall(tty, going)
        before = len(lines_with(going, b"beat"))
        until(lambda: len(lines_with(going, b"beat")) >= before + 6)
        windows = [json.loads(line)["event"]["window_ms"] for line in lines_with(going, b"beat")[before : before + 6]]
        stalled = len(tty.seen)
        assert tty.process.poll() is None
        tty.until(lambda: len(tty.seen) > stalled + 4096)
        tty.shows(going.id)
        tty.type("q")
        assert tty.end() == 0
    usual = [json.loads(line)["event"]["window_ms"] for line in lines_with(going, b"beat")[:before]]
    assert len(windows) == 6
    assert max(windows) < max(*usual, 2000.0) * 2, "no beat waited for the terminal"


def test_a_stalled_terminal_does_not_keep_the_tui_alive(going: RunFolder) -> None:
    with attached(going, "--fps", "10") as tty:
        tty.shows(going.id)
        stall(tty, going)
        os.kill(tty.process.pid, signal.SIGTERM)
        until(lambda: tty.process.poll() is not None, 30)
    writes_on(going, 1)


@pytest.mark.parametrize("way", ["variable", "flag"])
def test_no_color_sends_no_colour(going: RunFolder, way: str) -> None:
    flags, env = (["--no-color"], {}) if way == "flag" else ([], {"NO_COLOR": "1"})
    with attached(going, *flags, **env) as tty:
        tty.shows("so far")
        tty.type("v")
        tty.shows("evidence")
        tty.type(BACK)
        tty.shows("1 streams")
        tty.type("q")
        assert tty.end() == 0
        assert COLOR.findall(tty.seen) == []


def test_colours_are_sent_where_they_are_welcome(going: RunFolder) -> None:
    with attached(going) as tty:
        tty.shows(going.id)
        tty.type("q")
        assert tty.end() == 0
        assert COLOR.search(tty.seen)


def test_ascii_sends_nothing_else(going: RunFolder) -> None:
    with attached(going, "--ascii") as tty:
        tty.shows("so far")
        tty.type("v")
        tty.shows("evidence")
        tty.type(BACK)
        tty.shows("1 streams")
        tty.type("?")
        tty.shows("One run, live or over")
        tty.type("q")
        tty.shows("1 streams")
        tty.type("q")
        assert tty.end() == 0
        assert tty.seen.isascii(), sorted({char for char in tty.seen.decode() if not char.isascii()})


BROKEN = """
import sys
from infermaxx_tui.cli import main
from infermaxx_tui.tui.screens.home import HomeScreen
def broken(self, *_):
    raise LookupError("a screen of ours is wrong")
HomeScreen.on_mount = broken
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_the_tui_gives_the_terminal_back_and_is_one_line(tmp_path: Path, debug: bool) -> None:
    words = [PROGRAM[0], "-c", BROKEN, *(["--debug"] if debug else [])]
    with terminal(words, environment(tmp_path), tmp_path) as tty:
        assert tty.end() == ExitCode.INTERNAL
        after = tty.seen[tty.seen.rindex(LEAVE_SCREEN) + len(LEAVE_SCREEN) :].decode()
    assert ("Traceback" in after) is debug
    said = [line for line in after.splitlines() if "infermaxx: " in line]
    hint = "" if debug else "; --debug shows where"
    assert said[0].endswith(f"infermaxx: internal error: LookupError: a screen of ours is wrong{hint}")
    assert len(said) == 1


def test_q_says_how_to_come_back_and_the_run_goes_on(going: RunFolder) -> None:
    with attached(going) as tty:
        tty.shows(going.id)
        tty.type("q")
        assert tty.end() == 0
        said = tty.seen[tty.seen.index(LEAVE_SCREEN) + len(LEAVE_SCREEN) :].decode()
    assert re.sub(r"\x1b\[[0-?]*[a-zA-Z]", "", said).splitlines() == [
        f"{going.id} goes on; `infermaxx attach {going.id}` comes back to it, `infermaxx stop {going.id}` ends it"
    ]
    writes_on(going, 1)


def test_stop_asks_first(tmp_path: Path) -> None:
    words = [*PROGRAM, "run", "demo", "--set", "sessions.rounds=400"]
    with terminal(words, environment(tmp_path), tmp_path) as tty:
        (run,) = tty.until(lambda: list_runs(tmp_path / RUNS))
        try:
            tty.sees(ENTER_SCREEN)
            tty.shows(run.id)
            tty.until(lambda: lines_with(run, b"beat"))
            tty.type("X")
            tty.shows("End the run")
            tty.type("n")
            tty.until(lambda: "End the run" not in tty.screen.text)
            assert run.alive()
            tty.type("X")
            tty.shows("End the run")
            tty.type("y")
            tty.until(lambda: not run.alive())
            (ended,) = lines_with(run, b"runended")
            assert json.loads(ended)["event"]["reason"] != "finished"
            assert run.verdict.exists()
            tty.type("q")
            assert tty.end() == exit_code(load_or_judge(run))
        finally:
            kill_runner(run)


def hostile(value: object, key: str = "") -> object:
    """The value with something nasty before each text that a server, a model or a file may have written."""
    match value:
        case dict():
            return {name: hostile(inner, str(name)) for name, inner in value.items()}
        case list():
            return [hostile(inner, key) for inner in value]
        case str() if key in HOSTILE_KEYS:
            return HOSTILE + value
        case _:
            return value


@pytest.mark.parametrize("fault", ["leak", "error-done"])
def test_hostile_text_never_reaches_the_terminal(make_run: MakeRun, tmp_path: Path, fault: str) -> None:
    run: RunFolder = make_run(fault, judged=False)
    run.events.write_text("".join(json.dumps(hostile(json.loads(line))) + "\n" for line in recorded(fault)))
    env = environment(tmp_path, INFERMAXX_RUNS=str(tmp_path))
    with terminal([*PROGRAM, "attach", run.id], env, tmp_path, (140, 45)) as tty:
        tty.shows("evil")
        for keys, text in (("v", "evidence"), (BACK, "1 streams"), ("\r", "J next stream"), (BACK, "1 streams")):
            tty.type(keys)
            tty.shows(text)
            # the first one saves the screen, the last one is answered by a toast
            tty.type("P")
            tty.until(lambda: "svg" in tty.screen.text)
        tty.type("q")
        assert tty.end() == 0
    text = tty.seen.decode().replace(POINTER, "")
    assert [text[max(found.start() - 40, 0) : found.end() + 40] for found in RAW.finditer(text)] == []
    assert "[@click=app.quit]x" in text, "markup is shown as what it is"
    for path in run.path.rglob("*"):
        if path.suffix in (".svg", ".txt"):
            assert RAW.findall(path.read_text(encoding="utf-8")) == [], path.name
