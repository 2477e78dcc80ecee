"""Run folders: their names and modes, who is alive in them, and how one is found."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui import rundir
from infermaxx_tui.rundir import RUN_ID, RunError, RunFolder

_STAMP = "20260102-030405"
_HOLDER = """
import sys, pathlib
from infermaxx_tui.rundir import RunFolder
RunFolder(pathlib.Path(sys.argv[1])).hold()
print("held", flush=True)
sys.stdin.read()
"""


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = rundir.create(tmp_path / "deep" / "runs", _STAMP, "demo", "00ff")
        os.close(folder.hold())
        rundir.replace_file(folder.verdict, b"{}")
    finally:
        os.umask(before)
    assert folder.id == f"{_STAMP}-demo-00ff"
    assert _mode(folder.path) == 0o700
    assert _mode(tmp_path / "deep" / "runs") == 0o700
    assert {_mode(path) for path in folder.path.iterdir()} == {0o600}


def test_a_folder_that_is_there_is_not_taken_over(tmp_path: Path) -> None:
    rundir.create(tmp_path, _STAMP, "demo", "00ff")
    with pytest.raises(RunError, match="--runs-dir"):
        rundir.create(tmp_path, _STAMP, "demo", "00ff")


def test_a_place_that_cannot_hold_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="--runs-dir"):
        rundir.create(tmp_path / "file", _STAMP, "demo", "00ff")
    with pytest.raises(RunError, match="cannot list"):
        rundir.list_runs(tmp_path / "file")
    assert rundir.list_runs(tmp_path / "none") == ()


@pytest.mark.parametrize("override", [None, "/given"])
@pytest.mark.parametrize("variable", [None, "/named", ""])
def test_where_runs_are(monkeypatch: pytest.MonkeyPatch, override: str | None, variable: str | None) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("INFERMAXX_RUNS", raising=False)
    if variable is not None:
        monkeypatch.setenv("INFERMAXX_RUNS", variable)
    found = rundir.runs_dir(override)
    if override or variable:
        assert found == Path(override or variable or "")
    else:
        assert found.parts[-2:] == ("infermaxx", "runs")


def test_a_runner_is_alive_as_long_as_its_process_is(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path, _STAMP, "demo", "00ff")
    assert not folder.alive()
    assert folder.pid() is None
    words = [sys.executable, "-c", _HOLDER, str(folder.path)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert folder.alive()
        assert folder.pid() == holder.pid
        with pytest.raises(RunError, match="attach"):
            folder.hold()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert not folder.alive()
    assert folder.pid() is None
    os.close(folder.hold())


def test_asking_whether_a_runner_is_alive_makes_none(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path, _STAMP, "demo", "00ff")
    lock = folder.hold()
    assert all(folder.alive() for _ in range(3))
    os.close(lock)
    assert not any(folder.alive() for _ in range(3))


def test_a_lock_file_with_nonsense_in_it_is_no_process(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path, _STAMP, "demo", "00ff")
    lock = folder.hold()
    folder.lock.write_bytes(b"\xff no number")
    assert folder.pid() is None
    os.close(lock)


def test_runs_are_listed_newest_first_and_foreign_entries_left_out(tmp_path: Path) -> None:
    for stamp, suffix in (("20260102-030405", "00ff"), ("20260102-030406", "0000"), ("20251231-235959", "ffff")):
        rundir.create(tmp_path, stamp, "demo", suffix)
    (tmp_path / "20260102-030407-demo-00f").mkdir()
    (tmp_path / "20260102-030407-demo-00FF").mkdir()
    (tmp_path / "20260102-030407-demo-00aa").touch()
    (tmp_path / "20260102-030407-demo-00bb").symlink_to(tmp_path / "20251231-235959-demo-ffff")
    assert [run.id for run in rundir.list_runs(tmp_path)] == [
        "20260102-030406-demo-0000", "20260102-030405-demo-00ff", "20251231-235959-demo-ffff"
    ]  # fmt: skip


def test_the_latest_run_is_one_that_began(tmp_path: Path) -> None:
    began = rundir.create(tmp_path, "20260102-030405", "demo", "00ff")
    began.events.touch()
    never = rundir.create(tmp_path, "20260102-030406", "demo", "00ff")
    assert rundir.find(tmp_path, "latest").id == began.id
    lock = never.hold()
    assert rundir.find(tmp_path, "latest").id == never.id
    os.close(lock)


@given(st.text(max_size=40))
def test_no_name_leads_out_of_the_runs_folder(name: str) -> None:
    root = Path("/nonexistent/runs")
    with pytest.raises(RunError):
        rundir.find(root, name)


@pytest.mark.parametrize("name", ["../secret", "..", "./..", "runs/../../secret", "/"])
def test_a_path_is_a_run_only_with_a_log_in_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").mkdir()
    with pytest.raises(RunError, match="not a run id"):
        rundir.find(tmp_path / "runs", name)


def test_every_id_that_is_made_is_one(tmp_path: Path) -> None:
    for scenario in ("demo", "soak-4x36k", "a.b_c-d", "x" * 64):
        folder = rundir.create(tmp_path, _STAMP, scenario, "0a1b")
        match = RUN_ID.fullmatch(folder.id)
        assert match is not None
        assert match.groups() == (_STAMP, scenario, "0a1b")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    rundir.replace_file(path, b"old")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", _fails)
        with pytest.raises(OSError, match="no"):
            rundir.replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["verdict.json"]


def _fails(source: str, target: Path) -> None:
    raise OSError(5, "no")


def test_a_verdict_is_marked_as_read_where_that_can_be_written(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path, _STAMP, "demo", "00ff")
    folder.mark_read()
    assert folder.read_mark.exists()
    RunFolder(tmp_path / "nowhere").mark_read()
