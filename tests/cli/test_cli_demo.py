"""The demo as a user types it: a verdict, an exit code, a run folder, and nothing on stdout but the result."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from clitools import Command, Done, Place, decoding, log_of

from infermaxx_tui.core import events as ev
from infermaxx_tui.core.canary import make_tags
from infermaxx_tui.core.verdict import Verdict, read_verdict
from infermaxx_tui.exitcodes import ExitCode


def test_a_healthy_server_passes_and_stdout_is_the_verdict_alone(passed: tuple[Done, Path]) -> None:
    done, folder = passed
    assert done.code == ExitCode.PASS
    assert done.verdict["verdict"] == "PASS"
    assert done.verdict["simulated"] is True
    assert done.out.encode() == (folder / "verdict.json").read_bytes()
    recall = next(check for check in done.verdict["checks"] if check["name"] == "recall")
    assert recall["n_evaluated"] >= 24
    assert done.verdict["regime"]["concurrency_admitted_peak"] >= 3


def test_every_key_of_the_verdict_is_there(passed: tuple[Done, Path]) -> None:
    done, _ = passed
    assert set(done.verdict) == set(Verdict.__struct_fields__)
    assert read_verdict(done.out.encode()).verdict == "PASS"


def test_the_narration_is_on_stderr_and_ends_without_a_speed(passed: tuple[Done, Path]) -> None:
    done, folder = passed
    lines = done.err.splitlines()
    assert lines[0] == f"run {folder}"
    assert "finished" in lines[-1]
    assert "tok/s" not in lines[-1]
    assert not any(char in done.err for char in "\x1b\r")


def test_the_run_folder_is_closed_to_others(passed: tuple[Done, Path]) -> None:
    _, folder = passed
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert names == {"events.jsonl", "scenario.toml", "verdict.json", "server.log", "runner.log"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_the_log_begins_and_ends_as_it_must(passed: tuple[Done, Path]) -> None:
    _, folder = passed
    log = log_of(folder)
    assert isinstance(log[0], ev.RunStarted)
    assert log[0].run == folder.name
    assert log[0].scenario_text == (folder / "scenario.toml").read_text(encoding="utf-8")
    assert isinstance(log[-1], ev.RunEnded)
    assert log[-1].events == len(log)


def test_a_server_that_forgets_fails(forgot: tuple[Done, Path]) -> None:
    done, folder = forgot
    assert done.code == ExitCode.FAIL
    assert done.out.startswith("FAIL (simulated)")
    assert json.loads((folder / "verdict.json").read_bytes())["verdict"] == "FAIL"


def test_a_server_that_cuts_replies_short_is_not_judged(capped: tuple[Done, Path]) -> None:
    done, _ = capped
    assert done.code == ExitCode.INCONCLUSIVE
    assert done.out.startswith("INCONCLUSIVE (simulated)")
    assert " capped" in done.err.splitlines()[-1]


def test_a_fault_that_does_not_exist_is_named_with_its_neighbour(place: Place) -> None:
    done = place.run("demo", "--fault", "forget-oldst")
    assert done.code == ExitCode.USAGE
    assert "forget-oldest" in done.complaint
    assert place.folders == []


def test_a_file_called_demo_does_not_change_the_demo(place: Place) -> None:
    (place.root / "demo").write_text("not a scenario", encoding="utf-8")
    with place.started("demo", "--headless") as command:
        assert (command.folder / "scenario.toml").read_text(encoding="utf-8").startswith("# Shows the whole job")


def test_modules_that_lie_in_the_current_folder_are_not_run(place: Place) -> None:
    for name in ("httpx.py", "aiohttp.py", "anyio.py", "orjson.py", "jinja2.py"):
        (place.root / name).write_text("raise SystemExit('not yours')", encoding="utf-8")
    words = [sys.executable, "-P", "-m", "infermaxx_tui", "demo", "--headless"]
    with Command(words, place.root, place.env, subprocess.PIPE) as command:
        assert decoding(command.folder).is_dir()


def test_seed_and_nonce_make_the_same_tags_again(passed: tuple[Done, Path]) -> None:
    _, folder = passed
    log = log_of(folder)
    assert isinstance(log[0], ev.RunStarted)
    assert (log[0].seed, log[0].nonce) == (9, "5e1f7e57")
    issued = [event.tag for event in log if isinstance(event, ev.TagIssued) and event.tag]
    assert set(issued) == set(make_tags(9, "5e1f7e57", len(issued)))
    assert len(issued) > 20


def test_output_that_nobody_reads_does_not_change_the_exit_code(place: Place, forgot: tuple[Done, Path]) -> None:
    _, folder = forgot
    reading, writing = os.pipe()
    os.close(reading)
    with place.started("judge", str(folder), stdout=writing) as command:
        os.close(writing)
        done = command.end()
    assert done.code == ExitCode.FAIL
    assert done.err == ""
