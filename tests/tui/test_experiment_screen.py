"""Experiments on the screen: the list, one of them going on and over, and all of them as one table."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest
from experimentrows import ID, RUN, arm_row, began, closed, first_row, make_experiment, refused, whole
from test_pictures import GOLDEN, without_ids
from textual.pilot import Pilot
from tuitools import MakeRun, make_app, screen_text, shows, svg_lines, until

from infermaxx_tui.core.experiment.rows import encode_row
from infermaxx_tui.tui.messages import OpenExperiment
from infermaxx_tui.tui.screens.experiment import ExperimentScreen
from infermaxx_tui.tui.screens.fleet import FleetScreen
from infermaxx_tui.tui.screens.home import HomeScreen
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.tui.widgets.lines import Lines

pytestmark = pytest.mark.anyio
HOSTILE = "x\x1b]52;c;aGk=\x07\x1b[31m\x9b6n[/][@click=app.quit]click[/]\u202eevil\u200b$x\r\n\ttab"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


async def to_experiments(pilot: Pilot[None]) -> None:
    """The focus goes to the list of experiments, once it is there."""
    app = pilot.app
    await until(pilot, lambda: len(app.screen.query_one("#experiments", Lines).rows) > 2)
    app.screen.query_one("#experiments", Lines).focus()
    await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id == "experiments")


async def opened(pilot: Pilot[None]) -> ExperimentScreen:
    """The screen of the experiment on top of the list."""
    await to_experiments(pilot)
    await pilot.press("enter")
    app = pilot.app
    await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
    screen = app.screen
    assert isinstance(screen, ExperimentScreen)
    return screen


@pytest.mark.parametrize(("size", "ascii_only"), [((80, 24), False), ((140, 45), True)])
async def test_experiments_are_listed_and_an_unreadable_one_says_why(
    root: Path, size: tuple[int, int], ascii_only: bool
) -> None:
    make_experiment(root, *whole())
    make_experiment(root, first_row(), arm_row("auto", 0, 0), id="20300203-111112-kv-ladder-0a0c")
    make_experiment(root, id="20300203-121112-empty-0a0d")
    bad = make_experiment(root, id="20300203-131112-bad-0a0e")
    bad.rows_file.write_bytes(b'{"row":"arm"}\n')
    app = make_app(root, ascii_only=ascii_only)
    async with app.run_test(size=size, notifications=True) as pilot:
        await shows(pilot, "broken off")
        seen = screen_text(app)
        for text in (
            "2030-02-03 10:11",
            "kv-ladder",
            "finished",
            "6/6",
            "2 FAIL, 1",
            "1/6",
            "unreadable",
            "holds a row",
        ):
            assert text in seen
        assert not ascii_only or seen.isascii()
        rows = app.screen.query_one("#experiments", Lines).rows
        assert [row.key for row in rows[1:4]] == [
            bad.id,
            "20300203-121112-empty-0a0d",
            "20300203-111112-kv-ladder-0a0c",
        ]
        await opened(pilot)
        await shows(pilot, "at_ms")
        await pilot.press("l", "enter", "right", "4", "3", "escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_an_empty_list_says_what_to_type_and_starts_nothing(root: Path) -> None:
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await shows(pilot, "no experiments yet")
        await shows(pilot, "infermaxx experiment kv-ladder --set vars.MODEL=...")
        await to_experiments(pilot)
        await pilot.press("slash", *"kv-ladder", "enter")
        await to_experiments(pilot)
        await pilot.press("G", "enter")
        await shows(pilot, "Type in a shell or in cron")
        assert isinstance(app.screen, HomeScreen)
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith("infermaxx experiment kv-ladder"))
        assert f"--runs-dir {root}" in app.clipboard
        assert not os.listdir(root), "nothing was started"


async def test_enter_on_a_start_opens_its_run_and_comes_back(make_run: MakeRun, root: Path) -> None:
    run = make_run("leak", id=RUN)
    make_experiment(root, *whole())
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await opened(pilot)
        await shows(pilot, "turbo")
        await until(pilot, lambda: run.read_mark.exists())
        await pilot.press("2", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await shows(pilot, "at the end")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        await pilot.press("j", "enter")
        await shows(pilot, "beside")
        await pilot.press("j", "j", "j", "enter")
        await shows(pilot, "fp8, start 2: no run")
        await shows(pilot, "fp8-2.server.log")
        await pilot.press("1", "enter")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_what_a_row_names_is_opened_only_if_it_is_a_run(root: Path) -> None:
    (root / "elsewhere").mkdir()
    make_experiment(root, first_row(), arm_row("auto", 0, 0, run="../elsewhere"), closed(1))
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot)
        await shows(pilot, "../elsewhere")
        await pilot.press("2", "enter")
        await shows(pilot, "auto, start 1: no run")
        assert not list((root / "elsewhere").iterdir()), "nothing is marked as read outside"


async def test_a_growing_experiment_is_followed_and_its_live_run_opened(make_run: MakeRun, root: Path) -> None:
    run = make_run(id=RUN, judged=False, keep=400)
    folder = make_experiment(root, first_row())
    lock = folder.hold()
    live = run.hold()
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "going on")
        screen = await opened(pilot)
        await shows(pilot, "going on: 0 of 6 starts")
        await pilot.press("l")
        await shows(pilot, "no start is going on")
        folder.append(began("auto", 0, None))
        await shows(pilot, "step 1 of 6: auto, start 1, starting its server")
        folder.append(began("auto", 0, RUN))
        await shows(pilot, "step 1 of 6: auto, start 1, running")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        with folder.rows_file.open("ab") as file:
            torn = encode_row(arm_row("auto", 0, 0))
            file.write(torn[:50])
            file.flush()
            await pilot.pause(0.1)
            file.write(torn[50:])
        folder.append(began("fp8", 0, "20300102-030405-demo-ffff"))
        await shows(pilot, "step 2 of 6: fp8, start 1, running")
        starts = screen.panels.lists["starts"]
        await until(pilot, lambda: starts.row is not None and starts.row.key == "1")
        assert "not finished: 1 of 6" in "\n".join(row.text for row in screen.panels.lists["answer"].rows)
        os.close(lock)
        await shows(pilot, "conducted:")
        await shows(pilot, "broken off: 1 of 6 starts; the same command goes on")
    os.close(live)


@pytest.mark.parametrize(("size", "looks"), [((80, 24), "ascii"), ((140, 45), "colour"), ((100, 30), "nocolor")])
async def test_what_is_withheld_is_struck_through_on_every_panel(
    root: Path, size: tuple[int, int], looks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if looks == "nocolor":
        monkeypatch.setenv("NO_COLOR", "1")
    make_experiment(root, *whole())
    app = make_app(root, ascii_only=looks == "ascii", no_color=looks == "nocolor")
    async with app.run_test(size=size, notifications=True) as pilot:
        await opened(pilot)
        await shows(pilot, "turbo")
        texts = []
        for keys in (
            ["1"],
            ["right"] * 5,
            ["e", "e"],
            ["2"],
            ["3"],
            ["G"],
            ["4"],
            ["4"],
            ["4"],
            ["tab"],
            ["question_mark"],
        ):
            await pilot.press(*keys)
            await pilot.pause()
            texts.append(screen_text(app))
        whole_text = "\n".join(texts)
        for text in (
            "withheld",
            "0 of 24 tasks right",
            "decode of one stream against depth",
            "claims, registered",
            "This experiment",
        ):
            assert text in whole_text
        for speed in ("99 (", "100.98", "99.99", "79.2", "80.7"):
            assert speed not in whole_text
        assert looks != "ascii" or whole_text.isascii()
        await pilot.press("escape", "1", *["left"] * 5)
        await shows(pilot, "lever")
        await shows(pilot, "1 arms")
        svg = app.export_screenshot()
        assert "line-through" in svg, screen_text(app)
        style = re.findall(r"\.[\w-]+-r\d+ \{([^}]*)\}", svg)
        colors = {part for rule in style for part in re.findall(r"#[0-9a-f]{6}", rule)}
        assert looks != "nocolor" or len(colors) <= 2


async def test_columns_go_sideways_and_copying_and_saving_give_everything(root: Path) -> None:
    folder = make_experiment(root, *whole())
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await opened(pilot)
        await shows(pilot, "columns 1-2 of 7")
        await pilot.press(*["right_square_bracket"] * 9)
        await shows(pilot, "pool.tokens")
        assert "lever" not in screen_text(app)
        await pilot.press(*["left_square_bracket"] * 9)
        await shows(pilot, "lever")
        await pilot.press("y")
        await until(pilot, lambda: "turbo" in app.clipboard)
        await pilot.press("slash", *"doubles", "enter")
        await until(pilot, lambda: len(screen.panels.lists["answer"].rows) <= 2)
        await pilot.press("y")
        await until(pilot, lambda: "fp8 doubles the pool" in app.clipboard)
        await pilot.press("P")
        await until(pilot, lambda: len(list(folder.path.glob("screen-experiment-*"))) == 2)
        assert {path.suffix for path in folder.path.glob("screen-experiment-*")} == {".svg", ".txt"}


async def test_all_arms_of_all_experiments_are_one_table(root: Path) -> None:
    make_experiment(root, *whole())
    make_experiment(root, *whole()[:3], id="20300101-101112-kv-ladder-0a0c")
    other = make_experiment(root, first_row(experiment="other"), id="20300101-101112-other-0a0b")
    make_experiment(root, id="20300203-121112-empty-0a0d")
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "2030-02-03 10:11")
        await pilot.press("F")
        await until(pilot, lambda: isinstance(app.screen, FleetScreen))
        await shows(pilot, "the newest of 2 experiments")
        await shows(pilot, "other")
        rows = app.screen.query_one("#fleet", Lines).rows
        named = [row.key for row in rows if row.key is not None and row.key.count("\n") == 1]
        assert named[0] == f"{ID}\nauto"
        assert named[-1] == f"{other.id}\nturbo"
        assert len(named) == 6
        await pilot.press(*["right"] * 2)
        await shows(pilot, "answers")
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith("| experiment"))
        await pilot.press("P")
        await until(pilot, lambda: sum(name.startswith("screen-fleet-") for name in os.listdir(root)) == 2)
        await pilot.press("G", "enter")
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
        await shows(pilot, "0 of 6 starts")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, FleetScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_fleet_of_none_says_so(root: Path) -> None:
    app = make_app(root)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await shows(pilot, "no experiments yet")
        await pilot.press("F", "enter", "right", "y")
        await shows(pilot, "no experiments yet")
        assert isinstance(app.screen, FleetScreen)


async def test_hostile_rows_are_harmless_on_every_screen_and_in_every_file(root: Path) -> None:
    replace = msgspec.structs.replace
    first = first_row(question=HOSTILE, experiment=HOSTILE)
    arms = tuple(replace(one, levers={HOSTILE: HOSTILE}, moved=(HOSTILE,)) for one in first.arms)
    broken = replace(refused("fp8", 0, 1), reason=HOSTILE, server_log=HOSTILE)
    folder = make_experiment(
        root,
        replace(first, arms=arms),
        arm_row("auto", 0, 0, run=HOSTILE, speed_withheld=HOSTILE),
        broken,
    )
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await opened(pilot)
        await shows(pilot, "click=app.quit")
        texts = []
        for key in ("1", "2", "enter", "j", "enter", "3", "4", "4", "y", "P"):
            await pilot.press(key)
            await pilot.pause()
            texts.append(screen_text(app))
        await shows(pilot, "saved screen-experiment-")
        await pilot.press("escape", "F")
        await shows(pilot, "the newest of 1")
        texts.append(screen_text(app))
        for text in texts:
            assert not STEERING.search(text)
    for path in (*folder.path.glob("screen-*"), folder.path / "clipboard.txt"):
        assert not STEERING.search(path.read_text(encoding="utf-8")), path.name


async def test_rows_that_make_no_experiment_are_one_line(root: Path) -> None:
    orphan = msgspec.structs.replace(first_row(), arms=(msgspec.structs.replace(first_row().arms[1], parent="gone"),))
    make_experiment(root, orphan, arm_row("fp8", 0, 1))
    app = make_app(root)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "its rows make no experiment" in " ".join(screen_text(app).split()))
        await pilot.press("escape", "F")
        await shows(pilot, "no experiments yet")


@pytest.mark.parametrize("size", [(20, 4), (60, 15), (59, 30), (250, 70)])
async def test_any_size_is_drawn(root: Path, size: tuple[int, int]) -> None:
    make_experiment(root, *whole())
    app = make_app(root)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        app.screen.post_message(OpenExperiment(ID))
        await until(pilot, lambda: isinstance(app.screen, ExperimentScreen))
        await pilot.press("1", "tab", "tab", "tab", "right", "e", "e", "4")
        await pilot.pause()
        assert all(len(line) <= size[0] for line in screen_text(app).splitlines())


@pytest.mark.parametrize(
    ("name", "size", "color", "keys"),
    [
        ("experiment-80x24", (80, 24), True, []),
        ("experiment-140x45-nocolor", (140, 45), False, ["right"]),
        ("fleet-100x30", (100, 30), True, ["escape", "F"]),
    ],
)
async def test_a_screen_looks_as_it_did(
    root: Path, name: str, size: tuple[int, int], color: bool, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """INFERMAXX_GOLDEN=write makes the pictures anew; look at them before keeping them."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not color:
        monkeypatch.setenv("NO_COLOR", "1")
    make_experiment(root, *whole())
    app = make_app(root, no_color=not color)
    async with app.run_test(size=size, notifications=True) as pilot:
        await opened(pilot)
        await shows(pilot, "turbo")
        for key in keys:
            await pilot.press(key)
        await shows(pilot, "the newest of 1" if "F" in keys else "finished: 6 starts")
        await pilot.pause()
        svg = without_ids(app.export_screenshot(title="infermaxx", simplify=True))
    path = GOLDEN / f"{name}.svg"
    if os.environ.get("INFERMAXX_GOLDEN") == "write":
        path.write_text(svg, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert svg_lines(svg) == svg_lines(kept), "the words are the same"
    assert svg == kept, "the looks are the same"
