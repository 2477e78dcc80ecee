"""The first screen: what is there, what nobody has read yet, and the ways from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tuitools import MakeRun, make_app, screen_text, shows, until

from infermaxx_tui.tui.screens.compare import CompareScreen
from infermaxx_tui.tui.screens.home import HomeScreen
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.tui.screens.start import StartScreen
from infermaxx_tui.tui.screens.verdict import VerdictScreen
from infermaxx_tui.tui.widgets.lines import Lines

pytestmark = pytest.mark.anyio
PASSED = "20300101-000000-demo-aaaa"
FAILED = "20300102-000000-demo-bbbb"


async def test_runs_and_scenarios_are_listed_and_unread_verdicts_stay_marked(make_run: MakeRun, root: Path) -> None:
    run = make_run(id=PASSED)
    make_run("leak", id=FAILED)
    (root / "not-a-run").mkdir()
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "2 unread")
        seen = screen_text(app)
        assert seen.index(FAILED) < seen.index(PASSED), "newest first"
        for text in ("PASS", "FAIL", "soak-4x36k", "four agent sessions", "36.0k"):
            assert text in seen or text.capitalize() in seen
        assert "not-a-run" not in seen
        await pilot.press("j", "v")
        await until(pilot, lambda: isinstance(app.screen, VerdictScreen))
        assert run.read_mark.exists()
        await pilot.press("escape")
        await shows(pilot, "1 unread")


async def test_an_empty_folder_offers_scenarios(root: Path) -> None:
    app = make_app(root / "nothing" / "here")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "no runs yet")
        assert app.screen.focused is not None
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id == "scenarios")


async def test_a_folder_that_cannot_be_listed_says_so(root: Path) -> None:
    (root / "file").write_text("not a folder")
    app = make_app(root / "file")
    async with app.run_test(size=(140, 24), notifications=True) as pilot:
        await shows(pilot, "cannot list the runs")
        await shows(pilot, "soak-4x36k")


async def test_enter_opens_a_run_and_two_marks_compare(make_run: MakeRun, root: Path) -> None:
    make_run(id=PASSED)
    make_run("leak", id=FAILED)
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "2 unread")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await shows(pilot, "FAIL")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("c")
        await shows(pilot, f"{FAILED} is marked")
        await pilot.press("escape")
        await until(pilot, lambda: "is marked" not in screen_text(app))
        await pilot.press("c", "j", "c")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await shows(pilot, "isolation")
        seen = screen_text(app)
        assert FAILED in seen
        assert PASSED in seen
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_two_runs_can_be_compared_from_the_start(make_run: MakeRun, root: Path) -> None:
    pair = (make_run(id=PASSED), make_run("leak", id=FAILED))
    app = make_app(root, pair=pair)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, CompareScreen))
        await shows(pilot, "against")


async def test_a_filter_works_on_both_lists_and_escape_drops_it(make_run: MakeRun, root: Path) -> None:
    make_run(id=PASSED)
    make_run("leak", id=FAILED)
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "2 unread")
        await pilot.press("slash", *"FAIL")
        await until(pilot, lambda: PASSED not in screen_text(app))
        assert FAILED in screen_text(app)
        await pilot.press("enter", "escape")
        await shows(pilot, PASSED)


async def test_copying_and_saving_without_a_run_folder(make_run: MakeRun, root: Path) -> None:
    make_run(id=PASSED)
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "1 unread")
        await pilot.press("y")
        await shows(pilot, "copied to")
        assert app.clipboard == PASSED
        await pilot.press("P")
        await shows(pilot, "saved screen-home-")
        files = sorted(name.rpartition(".")[2] for name in os.listdir(root) if name.startswith("screen-home-"))
        assert files == ["svg", "txt"]
        await pilot.press("r")
        await pilot.pause()
        assert "screen-home" not in "".join(row.text for row in app.screen.query_one("#runs", Lines).rows)


async def test_a_scenario_without_a_server_asks_for_one_and_a_start_that_fails_is_one_line(root: Path) -> None:
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "quick")
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id == "scenarios")
        await pilot.press("slash", *"first look", "enter", "tab")
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id == "scenarios")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await shows(pilot, "Start quick?")
        await shows(pilot, "32 recalls")
        await pilot.press("enter")
        await shows(pilot, "names no server")
        await pilot.press(*"http://127.0.0.1:9", "enter")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await shows(pilot, "127.0.0.1:9: no answer")
        await until(pilot, lambda: not [name for name in os.listdir(root) if "quick" in name])


async def test_the_dialog_can_be_left(root: Path) -> None:
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id == "scenarios")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


@pytest.mark.parametrize("size", [(40, 8), (20, 4), (60, 15), (250, 70)])
async def test_any_size_is_drawn(make_run: MakeRun, root: Path, size: tuple[int, int]) -> None:
    make_run(id=PASSED)
    app = make_app(root)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.pause()
        assert all(len(line) <= size[0] for line in screen_text(app).splitlines())
