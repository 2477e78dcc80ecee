"""The way in and out: what is loaded for a TUI, what is said when it is left, what a run folder keeps of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tuitools import MakeRun

import infermaxx_tui
from infermaxx_tui.tui import clipboard
from infermaxx_tui.tui.catalog import Runs, needs_url, proves, recalls_of, scenario_lines
from infermaxx_tui.tui.main import leaving_lines

PACKAGE = Path(infermaxx_tui.__file__).parent
MODULES = sorted(
    ".".join(("infermaxx_tui", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in (PACKAGE / "tui").rglob("*.py")
    if path.stem != "__init__"
)


def loaded(program: str) -> set[str]:
    """The modules that a program has loaded when it is through."""
    code = f"{program}\nimport sys\nprint(chr(10).join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def test_the_tui_loads_nothing_that_measures_or_writes_to_the_terminal() -> None:
    assert "infermaxx_tui.tui.screens.run" in MODULES
    names = loaded("\n".join(f"import {name}" for name in MODULES))
    assert "textual" in names
    heavy = {"transformers", "tokenizers", "torch", "pynvml", "aiohttp", "httpx", "anyio"}
    assert not heavy & names
    assert not [name for name in names if name.startswith(("infermaxx_tui.runner", "infermaxx_tui.sim"))]


def test_the_way_in_costs_nothing_until_it_is_taken() -> None:
    assert "textual" not in loaded("import infermaxx_tui.tui.main")


def test_the_first_screens_load_no_importer_of_transcripts() -> None:
    names = loaded("import infermaxx_tui.tui.app, infermaxx_tui.tui.screens.run, infermaxx_tui.tui.screens.home")
    assert not [name for name in names if name.startswith("infermaxx_tui.importers")]


def test_leaving_says_the_state_and_what_to_type(make_run: MakeRun, root: Path) -> None:
    run = make_run()
    assert leaving_lines(None, root, "") == ()
    (line,) = leaving_lines(run, root, " --runs-dir here")
    assert line == f"{run.id} is over: PASS; `infermaxx attach {run.id} --runs-dir here` shows it"
    (line,) = leaving_lines(run, root / "elsewhere", "")
    assert str(run.path) in line
    lock = run.hold()
    (line,) = leaving_lines(run, root, "")
    assert line.startswith(f"{run.id} goes on; ")
    assert f"`infermaxx attach {run.id}`" in line
    assert f"`infermaxx stop {run.id}`" in line
    os.close(lock)


def test_leaving_a_run_that_died_or_never_began_says_so(make_run: MakeRun, root: Path) -> None:
    assert "is over: died" in leaving_lines(make_run(judged=False, keep=100), root, "")[0]
    empty = make_run(id="20300102-030405-demo-0000", judged=False, keep=0)
    assert "is over: empty" in leaving_lines(empty, root, "")[0]


def test_copying_names_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    said = clipboard.copy("text", {}, asked.append, tmp_path)
    assert asked == ["text"]
    assert (tmp_path / clipboard.FILE).read_text() == "text\n"
    assert clipboard.FILE in said
    assert "not to a file" in clipboard.copy("text", {}, asked.append, tmp_path / "gone")
    assert clipboard.FILE not in clipboard.copy("text", {}, asked.append, None)


def test_inside_tmux_its_own_buffer_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "tmux"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "load-buffer -w -" ] && cat > {tmp_path}/buffer\n')
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    asked: list[str] = []
    said = clipboard.copy("hello", {"TMUX": "/tmp/tmux-0/default,1,0"}, asked.append, None)
    assert "tmux buffer" in said
    assert (tmp_path / "buffer").read_text() == "hello"
    assert asked == []
    tool.write_text("#!/bin/sh\nexit 1\n")
    clipboard.copy("hello", {"TMUX": "x"}, asked.append, None)
    assert asked == ["hello"], "a tmux that refuses leaves the terminal itself"


def test_runs_that_are_over_are_read_once_but_their_marks_again(make_run: MakeRun, root: Path) -> None:
    run = make_run()
    runs = Runs(root)
    assert [line.read for line in runs.read()] == [False]
    run.mark_read()
    run.events.unlink()
    (line,) = runs.read()
    assert line.read
    assert (line.state, line.verdict) == ("ended", "PASS")


def test_scenarios_say_what_they_prove_and_what_they_take() -> None:
    lines = {line.name: line for line in scenario_lines()}
    assert not [line.problem for line in lines.values() if line.problem]
    soak = lines["soak-4x36k"]
    assert soak.proves.startswith("Four agent sessions at once")
    assert (soak.sessions, soak.at_once, soak.target_depth, soak.recalls, soak.duration) == (4, 4, 36000, 28, "2h")
    assert needs_url("quick")
    assert not needs_url("demo")
    assert proves("# one\n# two\nname = 'x'\n# three\n") == "one two"


def test_the_recalls_of_a_scenario_are_those_that_its_plan_asks() -> None:
    from infermaxx_tui.core.plan import plan
    from infermaxx_tui.prepare import lengths_of
    from infermaxx_tui.wish import Wish, load

    loaded_demo = load(Wish(scenario="demo"))
    lengths = lengths_of(loaded_demo.transcripts, ())
    planned = plan(loaded_demo.scenario, lengths, 1, "ab")
    assert recalls_of(loaded_demo.scenario) == planned.planned_recalls
