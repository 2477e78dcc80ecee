"""A run that somebody else wrote: without the right to read it each way in says so on one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from living import PATIENCE_S
from ptytools import PROGRAM, environment, terminal
from tuitools import MakeRun

from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunFolder

_POWERS = "-dac_override,-dac_read_search"
"""What lets root read everything (capabilities(7))."""


@pytest.fixture
def bounds() -> list[str]:
    """The words before a command that take root's right to read everything from it; none for anybody else."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may read everything, and util-linux's setpriv, which takes that away, is not here")
    return ["setpriv", f"--bounding-set={_POWERS}", f"--inh-caps={_POWERS}"]


@pytest.fixture
def closed(make_run: MakeRun) -> Iterator[RunFolder]:
    """A run whose folder is closed to everybody."""
    run = make_run()
    run.path.chmod(0)
    yield run
    run.path.chmod(0o700)


def _said(words: list[str], run: RunFolder) -> tuple[int, str, str]:
    env = environment(run.path.parent.parent, INFERMAXX_RUNS=str(run.path.parent))
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("verb", ["judge", "stop", "attach"])
@pytest.mark.parametrize("name", ["latest", "by its folder"])
def test_a_closed_folder_is_one_line(closed: RunFolder, bounds: list[str], verb: str, name: str) -> None:
    named = name if name == "latest" else str(closed.path)
    code, out, err = _said([*bounds, *PROGRAM, verb, named], closed)
    assert code == ExitCode.USAGE
    assert out == ""
    assert err.splitlines() == [
        f"infermaxx: {closed.path}: cannot be read (Permission denied); its owner can, or name another run"
    ]


def test_a_closed_folder_is_listed_as_that(closed: RunFolder, bounds: list[str]) -> None:
    code, out, _ = _said([*bounds, *PROGRAM, "runs"], closed)
    assert code == 0
    assert [line.split()[2:] for line in out.splitlines() if closed.id in line] == [["no", "rights", "-", closed.id]]


def test_the_tui_lists_it_and_says_why_it_does_not_open(closed: RunFolder, bounds: list[str], tmp_path: Path) -> None:
    env = environment(tmp_path, INFERMAXX_RUNS=str(closed.path.parent))
    with terminal([*bounds, *PROGRAM], env, tmp_path) as tty:
        tty.shows("no rights")
        tty.type("\r")
        tty.shows("cannot be read")
        tty.type("q")
        assert tty.end() == 0
    assert b"Traceback" not in tty.seen


def test_a_closed_log_in_an_open_folder(make_run: MakeRun, bounds: list[str], tmp_path: Path) -> None:
    run = make_run()
    run.events.chmod(0)
    code, out, err = _said([*bounds, *PROGRAM, "judge", str(run.path)], run)
    assert (code, out, len(err.splitlines())) == (ExitCode.USAGE, "", 1)
    assert "Permission denied" in err
    env = environment(tmp_path, INFERMAXX_RUNS=str(run.path.parent))
    with terminal([*bounds, *PROGRAM, "attach", str(run.path)], env, tmp_path) as tty:
        tty.shows("cannot be read")
        tty.type("q")
        assert tty.end() == 0
    assert b"Traceback" not in tty.seen
