"""Without colours, without Unicode, and with a log that wants to steer the terminal: the same words are there."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from textual.pilot import Pilot
from tuitools import MakeRun, make_app, recorded, screen_text, shows, until

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import decode, encode
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.screens.help import HelpScreen
from infermaxx_tui.tui.screens.home import HomeScreen
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.tui.screens.stream import StreamScreen
from infermaxx_tui.tui.screens.verdict import VerdictScreen

pytestmark = pytest.mark.anyio
HOSTILE = "x\x1b]52;c;aGk=\x07\x1b[31m\x9b6n[/][@click=app.quit]click[/][red]\u202eevil\u2066\u200b{no}$x\r\n\ttab"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


async def walk(pilot: Pilot[None]) -> list[str]:
    """Every screen over a run, as text, and back to the run screen."""
    seen = []
    app = pilot.app
    await shows(pilot, "at the end")
    for keys, screen in (
        (["3", "4", "5", "1"], RunScreen),
        (["enter"], StreamScreen),
        (["escape"], RunScreen),
        (["v"], VerdictScreen),
        (["y"], VerdictScreen),
        (["escape"], RunScreen),
        (["question_mark"], HelpScreen),
        (["escape"], RunScreen),
        (["escape"], HomeScreen),
    ):
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
            seen.append(screen_text(app))  # type: ignore[arg-type]  # it is ours
        await until(pilot, lambda screen=screen: isinstance(app.screen, screen))  # type: ignore[misc]  # bound at once
        seen.append(screen_text(app))  # type: ignore[arg-type]  # it is ours
    return seen


async def test_ascii_signs_are_all_there_is(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run("leak"), ascii_only=True)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        for seen in await walk(pilot):
            assert seen.isascii(), [char for char in seen if not char.isascii()]
        await pilot.press("colon")
        await shows(pilot, "home: open")
        seen = screen_text(app)
        assert seen.isascii(), [char for char in seen if not char.isascii()]
        await pilot.press("escape", "X", "escape", "tab", "enter")
        await pilot.pause()
        seen = screen_text(app)
        assert seen.isascii(), [char for char in seen if not char.isascii()]


async def test_no_color_leaves_no_colour_and_keeps_weight_and_words(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(root, make_run("leak"), no_color=True)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        for seen in await walk(pilot):
            assert seen
        svg = app.export_screenshot()
        style = re.findall(r"\.[\w-]+-r\d+ \{([^}]*)\}", svg)
        colors = {part for rule in style for part in re.findall(r"#[0-9a-f]{6}", rule)}
        assert len(colors) <= 2, "the terminal's own two colours, straight or reversed"
        assert any("bold" in rule for rule in style)


async def test_hostile_text_is_harmless_on_every_screen_and_in_every_file(root: Path) -> None:
    lines = []
    for line in recorded("leak"):
        record = decode(line)
        assert isinstance(record, e.Record)
        lines.append(encode(msgspec.structs.replace(record, event=poisoned(record.event))))
    run = RunFolder(root / "20300102-030405-demo-a1b2")
    run.path.mkdir()
    run.events.write_bytes(b"".join(lines))
    app = make_app(root, run)
    async with app.run_test(size=(140, 45), notifications=True) as pilot:
        screens = await walk(pilot)
        for seen in screens:
            assert not STEERING.search(seen)
        whole = "\n".join(screens)
        assert "[@click=app.quit]" in whole, "markup is text like any other"
        assert "‹U+202E›" in whole
        await pilot.press("enter")
        await shows(pilot, "at the end")
        await pilot.press("P")
        await shows(pilot, "saved screen-run-")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        screen.say(HOSTILE)
        await shows(pilot, "click=app.quit")
        assert not STEERING.search(screen_text(app))
    for path in run.path.glob("screen-*"):
        assert not STEERING.search(path.read_text(encoding="utf-8")), path.name
    assert "[@click" in (run.path / "clipboard.txt").read_text(encoding="utf-8")
    assert not STEERING.search((run.path / "clipboard.txt").read_text(encoding="utf-8"))


def poisoned(event: e.AnyEvent) -> e.AnyEvent:
    """The same event, with everything that a server or a file can name made hostile."""
    replace = msgspec.structs.replace
    match event:
        case e.RegimeNoted(regime=regime):
            return replace(event, regime=replace(regime, model=HOSTILE, engine=HOSTILE, gpu=HOSTILE))
        case e.RunStarted():
            return replace(event, scenario=HOSTILE)
        case e.RequestEnded() if event.content is not None:
            return replace(event, content=HOSTILE + event.content, reasoning=HOSTILE)
        case e.RequestEnded():
            return replace(event, outcome="protocol", error=HOSTILE, content=HOSTILE, finish_reason=None)
        case e.TagPlanted() | e.TagIssued() | e.TagAsked():
            return replace(event, label=HOSTILE)
        case e.Noted():
            return replace(event, text=HOSTILE)
        case e.SessionStarted():
            return replace(event, transcripts=(HOSTILE,))
        case _:
            return event


async def test_the_palette_runs_what_the_keys_run(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("colon")
        await shows(pilot, "app: help")
        await pilot.press(*"run: freeze")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await shows(pilot, "FROZEN")
        await pilot.press("ctrl+p", *"lines: last")
        await pilot.pause(0.5)
        await pilot.press("escape", "escape")


async def test_the_help_names_every_key_of_the_screen_where_it_was_moved_to(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=(140, 90), notifications=True) as pilot:
        await shows(pilot, "at the end")
        app.set_keymap({"run.stop": "f9"})
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await shows(pilot, "This run")
        seen = screen_text(app)
        assert re.search(r"f9 +end the run cleanly", seen)
        assert re.search(r"\[ left +a step back in time", seen)
        assert "leave; a run that is going on goes on" in seen
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
