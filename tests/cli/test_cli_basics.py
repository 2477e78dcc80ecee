"""The program as a whole: how it is called, what it imports, what it says where, and the terminal's part in it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from clitools import PROGRAM, Done, Place, chat_line
from living import until

import infermaxx_tui
from infermaxx_tui import runlist
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.sim.faults import FAULTS

_VERBS = ("demo", "run", "attach", "runs", "stop", "judge", "sim", "selftest", "transcripts")


@pytest.mark.parametrize("words", [("--version",), ("runs", "--version")])
def test_the_version(place: Place, words: tuple[str, ...]) -> None:
    done = place.run(*words)
    assert (done.code, done.out) == (ExitCode.PASS, f"infermaxx {infermaxx_tui.__version__}\n")


def test_help_names_every_verb(place: Place) -> None:
    done = place.run("--help")
    assert done.code == ExitCode.PASS
    listed = [line.split()[0] for line in done.out.splitlines() if line.startswith("    ")]
    assert set(_VERBS) <= set(listed)
    assert "_runner" not in done.out


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}, {"TERM": "xterm-256color"}])
def test_without_a_terminal_there_is_no_tui(place: Place, env: Mapping[str, str]) -> None:
    done = place.run(env=env)
    assert done.code == ExitCode.USAGE
    assert done.out == ""
    assert "--headless" in done.complaint


def test_a_dumb_terminal_gets_no_tui(place: Place) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "wb") as terminal:
        done = subprocess.run(
            PROGRAM, env=place.env, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == ExitCode.USAGE
    assert b"needs a terminal" in done.stderr


@pytest.mark.parametrize("words", [("fly",), ("run",), ("demo", "--jsn"), ("judge", "latest", "--limit", "x")])
def test_a_wrong_command_line_gets_one_line(place: Place, words: tuple[str, ...]) -> None:
    done = place.inside(*words)
    assert done.code == ExitCode.USAGE
    assert done.out == ""
    assert "--help" in done.complaint


@pytest.mark.parametrize(
    "words",
    [
        ("transcripts",),
        ("transcripts", "stats"),
        ("transcripts", "stats", "x.jsonl", "--pool", "-3"),
        ("transcripts", "stats", "x.jsonl", "--pool", "many"),
        ("sim", "--port", "70000"),
        ("demo", "--seed", "1.5"),
    ],
)
def test_a_wrong_argument_gets_one_line(place: Place, words: tuple[str, ...]) -> None:
    done = place.inside(*words)
    assert done.code == ExitCode.USAGE
    assert "--help" in done.complaint


def test_transcripts_are_measured(place: Place, small: Path) -> None:
    done = place.run("transcripts", "stats", str(small.parent / "t0.jsonl"), "--pool", "5000", "--json", "--debug")
    assert done.code == ExitCode.PASS
    stats = json.loads(done.out)
    assert stats["tokenizer"] == {"name": "shipped", "exact": False}
    assert (stats["pool"], stats["exceeds_alone"], stats["fit_together"]) == (5000, 0, 1)
    (session,) = stats["sessions"]
    assert {"id", "format", "requests", "windows", "peak_tokens", "peak_source", "loss"} <= set(session)


@pytest.mark.parametrize(
    "words", [("/nowhere.jsonl",), ("bad.jsonl",), (".",), ("good.jsonl", "--tokenizer", "/nowhere")]
)
def test_transcripts_that_cannot_be_measured(place: Place, words: tuple[str, ...]) -> None:
    (place.root / "bad.jsonl").write_text("no JSON\n", encoding="utf-8")
    (place.root / "good.jsonl").write_text(chat_line(3), encoding="utf-8")
    done = place.inside("transcripts", "stats", *words)
    assert done.code == ExitCode.USAGE
    assert done.out == ""
    assert Path(words[-1]).name in done.complaint


def test_a_traceback_is_for_debug_only(place: Place) -> None:
    plain = place.inside("judge", "nothing")
    assert "Traceback" not in plain.err
    for words in (("--debug", "judge", "nothing"), ("judge", "nothing", "--debug")):
        debug = place.inside(*words)
        assert debug.code == plain.code
        assert "Traceback" in debug.err
        assert debug.err.endswith(plain.err)


def test_a_folder_that_can_hold_no_runs(place: Place) -> None:
    (place.root / "file").touch()
    done = place.inside("runs", "--runs-dir", "file/x")
    assert done.code == ExitCode.USAGE
    assert "file/x" in done.complaint


def test_a_fault_of_ours_is_called_that_and_exits_with_a_code_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(runs: object) -> None:
        raise RuntimeError("a fault that no check foresees")

    monkeypatch.setattr(runlist, "describe_runs", breaks)
    done = place.inside("runs")
    assert done.code == ExitCode.INTERNAL
    assert "internal error: RuntimeError: a fault that no check foresees; --debug shows where" in done.complaint


def test_the_faults_are_listed_with_what_they_must_earn(place: Place) -> None:
    done = place.run("sim", "--list-faults")
    assert done.code == ExitCode.PASS
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == list(FAULTS)
    assert all(line.split()[1] == fault.verdict for line, fault in zip(lines, FAULTS.values(), strict=True))


@pytest.mark.parametrize("words", [("sim", "--fault", "no-such"), ("selftest", "--fault", "no-such")])
def test_a_fault_that_does_not_exist(place: Place, words: tuple[str, ...]) -> None:
    done = place.inside(*words)
    assert done.code == ExitCode.USAGE
    assert "no-such" in done.complaint


def test_the_selftest_of_two_faults(place: Place) -> None:
    done = place.run("selftest", "--json", "--fault", "leak", "--fault", "capped")
    assert done.code == ExitCode.PASS
    assert [(row["fault"], row["got"], row["caught"]) for row in done.rows] == [
        ("leak", "FAIL", True),
        ("capped", "INCONCLUSIVE", True),
    ]


def _imported(place: Place, *words: str) -> set[str]:
    """Packages that a command loads, its runner's and its server's among them, as Python itself counts them."""
    done = place.run(*words, env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.code == ExitCode.PASS, done
    logs = [path.read_text(encoding="utf-8") for folder in place.folders for path in folder.glob("*.log")]
    lines = [line for text in (done.err, *logs) for line in text.splitlines() if line.startswith("import time:")]
    assert len(lines) > 50
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize("words", [("--help",), ("runs",), ("run", "--help")])
def test_looking_costs_nothing(place: Place, words: tuple[str, ...]) -> None:
    assert not {"textual", "rich", "httpx", "aiohttp", "transformers", "tokenizers", "torch"} & _imported(place, *words)


def test_a_run_loads_no_terminal_and_no_torch(place: Place, small: Path, server: str) -> None:
    loaded = _imported(place, "run", str(small), "--headless", "--url", server)
    assert {"httpx", "tokenizers"} <= loaded
    assert not {"textual", "torch", "transformers", "aiohttp"} & loaded


def test_judging_needs_neither_a_client_nor_a_tokenizer(place: Place, passed: tuple[Done, Path]) -> None:
    loaded = _imported(place, "judge", str(passed[1]))
    assert not {"textual", "torch", "transformers", "httpx", "aiohttp", "anyio", "tokenizers", "jinja2"} & loaded


def test_the_command_line_itself_needs_no_client(place: Place) -> None:
    names = "cli, console, flags, follow, launch, runlist, verdicts, wish"
    code = f"import sys; from infermaxx_tui import {names}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=place.env, capture_output=True, check=True, text=True)
    assert not {"httpx", "aiohttp", "anyio", "tokenizers", "textual", "transformers"} & set(done.stdout.split())


def test_on_a_terminal_one_line_is_rewritten(place: Place, small: Path, server: str) -> None:
    ours, theirs = pty.openpty()
    words = [*PROGRAM, "run", str(small), "--headless", "--url", server, "--set", "sessions.rounds=400"]
    with os.fdopen(theirs, "wb") as terminal:
        process = subprocess.Popen(
            words, env={**place.env, "COLUMNS": "60"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal
        )
    shown, stopped = b"", False
    with os.fdopen(ours, "rb", buffering=0) as screen:
        while chunk := _read(screen.fileno()):
            shown += chunk
            if not stopped and shown.count(b"\r\x1b[2K") > 2:
                stopped = True
                process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    with process.stdout:
        out = process.stdout.read()
    assert stopped
    assert process.wait() == ExitCode.INCONCLUSIVE
    assert out.startswith(b"INCONCLUSIVE")
    assert b"\x1b" not in out
    rewritten = shown.split(b"\r\x1b[2K")
    assert all(len(line.strip().decode()) < 60 for line in rewritten[1:])
    assert rewritten[-1].endswith(b"\r\n")


def _read(descriptor: int) -> bytes:
    """What the terminal shows next, empty when nobody writes to it any more."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def test_a_result_that_cannot_be_written_is_no_success(place: Place, passed: tuple[Done, Path]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full, place.started("judge", str(passed[1]), stdout=full.fileno()) as command:
        done = command.end()
    assert done.code == ExitCode.INTERNAL
    assert "No space left" in done.complaint


def test_a_command_is_run_when_the_verdict_is_written(place: Place, small: Path, server: str) -> None:
    command = 'cp "$INFERMAXX_VERDICT" told.json && basename "$INFERMAXX_RUN" > told.run'
    done = place.run("run", str(small), "--headless", "--json", "--url", server, "--on-verdict", command)
    (folder,) = place.folders
    told = place.root / "told.run"
    until(lambda: told.exists() and told.read_text(encoding="utf-8") == f"{folder.name}\n")
    assert (place.root / "told.json").read_text(encoding="utf-8") == done.out


def test_a_share_to_exclude_plans_enough_recalls(place: Place, small: Path, server: str) -> None:
    done = place.run("run", str(small), "--headless", "--json", "--url", server, "--exclude", "20%")
    assert done.code == ExitCode.PASS, done
    recall = next(check for check in done.verdict["checks"] if check["name"] == "recall")
    assert recall["bound95"] <= 0.2
    assert done.verdict["limits"]["min_recalls"] == 14


def test_a_duration_ends_the_run(place: Place, small: Path, server: str) -> None:
    words = ("--set", "sessions.rounds=400", "--duration", "2s", "--json")
    done = place.run("run", str(small), "--headless", "--url", server, *words)
    assert done.verdict["ended"] == "duration"
    assert done.code == {"PASS": 0, "INCONCLUSIVE": 3}[done.verdict["verdict"]]
