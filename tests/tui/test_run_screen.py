"""The run screen over recorded logs: what a person sees, and what each key does to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tuitools import MakeRun, make_app, recorded, screen_text, shows, until

from infermaxx_tui.index import Moment
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.app import InfermaxxApp
from infermaxx_tui.tui.screens.run import RunScreen
from infermaxx_tui.tui.screens.stream import StreamScreen
from infermaxx_tui.tui.screens.verdict import VerdictScreen
from infermaxx_tui.verdicts import load_or_judge

pytestmark = pytest.mark.anyio
WIDE = (140, 45)
PROMISED = (80, 24)


def moment(app: InfermaxxApp) -> Moment:
    """What the run screen shows now."""
    assert isinstance(app.screen, RunScreen)
    seen = app.screen.snapshot
    assert seen is not None
    return seen.moment


@pytest.mark.parametrize("size", [PROMISED, WIDE])
async def test_a_run_that_is_over_shows_streams_time_axis_and_verdict(
    make_run: MakeRun, root: Path, size: tuple[int, int]
) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=size, notifications=True) as pilot:
        await shows(pilot, "PASS")
        seen = screen_text(app)
        for text in (
            "over",
            "at the end",
            "SIMULATED",
            "1 streams",
            "finished",
            "2 over time",
            "all tok/s",
            "5 events",
        ):
            assert text in seen
        assert ("3 server and GPU" in seen) == (size == WIDE)
        assert all(len(line) <= size[0] for line in seen.splitlines())


async def test_time_moves_by_steps_minutes_failures_and_to_both_ends(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run("leak"))
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("left_square_bracket")
        await shows(pilot, "REVIEW at")
        await pilot.press("0")
        await shows(pilot, "REVIEW at 0s")
        assert moment(app).state.leaks == ()
        await pilot.press("n")
        await shows(pilot, "failure at event 0:")
        assert moment(app).state.leaks
        first = moment(app).at_us
        await pilot.press("n")
        await until(pilot, lambda: moment(app).at_us > first)
        await pilot.press("N")
        await until(pilot, lambda: moment(app).at_us == first)
        await pilot.press("N")
        await shows(pilot, "no failure before this moment")
        await pilot.press("m")
        await shows(pilot, "no gap after this moment")
        await pilot.press("right_curly_bracket")
        await shows(pilot, "at the end")
        await pilot.press("left_curly_bracket")
        await shows(pilot, "REVIEW at 0s")
        await pilot.press("f")
        await shows(pilot, "at the end")


async def test_play_goes_from_the_start_to_the_end_at_the_speed_that_was_chosen(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        assert isinstance(app.screen, RunScreen)
        now_s = app.screen.feed._now_s()
        monkeypatch.setattr(app.screen.feed, "_now_s", lambda: now_s)  # a busy machine would be at the end before `p`
        await pilot.press("greater_than_sign")
        await shows(pilot, "plays 2 times as fast")
        await pilot.press("p")
        await shows(pilot, "PLAY 2x")
        await pilot.press("p")
        await shows(pilot, "REVIEW at")
        monkeypatch.undo()
        await pilot.press(*["greater_than_sign"] * 6, "p")
        await shows(pilot, "at the end")


async def test_the_time_window_grows_and_shrinks(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "axis 10s")
        await pilot.press("minus")
        await shows(pilot, "axis 20s")
        await pilot.press("plus")
        await shows(pilot, "axis 10s")


async def test_frozen_panels_stand_still_while_the_header_goes_on(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        before = screen_text(app).splitlines()
        await pilot.press("space")
        await shows(pilot, "FROZEN")
        await pilot.press("0")
        await shows(pilot, "REVIEW at 0s")
        assert screen_text(app).splitlines()[5:] == before[5:], "panels stand still"
        await pilot.press("space")
        await until(pilot, lambda: "FROZEN" not in screen_text(app))
        assert screen_text(app).splitlines()[5:] != before[5:]


async def test_digits_choose_a_panel_and_the_same_digit_again_gives_it_the_screen(
    make_run: MakeRun, root: Path
) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("3")
        await shows(pilot, "3 server and GPU")
        assert "1 streams" in screen_text(app)
        await pilot.press("3")
        await until(pilot, lambda: "1 streams" not in screen_text(app))
        await shows(pilot, "preemptions")
        await pilot.press("tab")
        await shows(pilot, "4 verdict")
        assert "3 server" not in screen_text(app)
        await pilot.press("e")
        await shows(pilot, "1 streams")
        await pilot.press("shift+tab")
        assert app.screen.focused is not None
        assert app.screen.focused.id in ("axis", "streams", "machine")


async def test_streams_are_sorted_by_the_next_column_and_reversed(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        assert [row.session for row in screen.panels.lists["streams"].rows[1:4]] == [3, 4, 5]
        await pilot.press("S")
        await shows(pilot, "1 streams by session, reversed")
        assert [row.session for row in screen.panels.lists["streams"].rows[1:4]] == [5, 4, 3]
        await pilot.press("s", "s")
        await shows(pilot, "1 streams by turn")
        await pilot.press("a")
        await until(pilot, lambda: len(screen.panels.lists["streams"].rows) == 7)


async def test_a_filter_keeps_lines_that_hold_the_text(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run("leak"))
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        everything = len(screen.panels.lists["feed"].rows)
        await pilot.press("5", "slash", *"leaked", "enter")
        await until(pilot, lambda: 0 < len(screen.panels.lists["feed"].rows) < everything)
        assert all("leaked" in row.text for row in screen.panels.lists["feed"].rows)
        assert "/leaked" in screen_text(app)
        assert screen.focused is screen.panels.lists["feed"], "enter gives the focus back"
        await pilot.press("slash", "escape")
        await until(pilot, lambda: len(screen.panels.lists["feed"].rows) == everything)


async def test_enter_opens_the_stream_and_its_events_lead_back_in_time(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run("leak"))
    async with app.run_test(size=(100, 60), notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, StreamScreen))
        await shows(pilot, "What is the lot tag for the")
        seen = screen_text(app)
        assert "stream 4" in seen
        assert "planted at" in seen
        assert "The lot tag for the" in seen
        await pilot.press("J")
        await shows(pilot, "stream 5")
        await pilot.press("K", "K")
        await shows(pilot, "stream 3")
        await shows(pilot, "over at")
        await pilot.press("g", "j", "j", "j", "j", "j", "j")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await shows(pilot, "REVIEW at")


async def test_a_stream_moves_in_time_with_the_same_keys(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=(100, 60), notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("enter")
        await shows(pilot, "over at")
        await pilot.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await shows(pilot, "REVIEW at")
        await until(pilot, lambda: "over at" not in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await shows(pilot, "REVIEW at")


async def test_opening_the_verdict_marks_it_read_and_evidence_leads_to_its_moment(
    make_run: MakeRun, root: Path
) -> None:
    run = make_run("leak")
    app = make_app(root, run)
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "FAIL")
        assert not run.read_mark.exists(), "to see the run screen is not to open the verdict"
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, VerdictScreen))
        await shows(pilot, "isolation")
        assert run.read_mark.exists()
        await pilot.press("n", "n")
        screen = app.screen
        assert isinstance(screen, VerdictScreen)
        row = screen.lines.row
        assert row is not None
        assert row.ref is not None
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await shows(pilot, "REVIEW at")
        assert moment(app).feed[-1].ref == row.ref


async def test_a_verdict_before_the_end_is_marked_so_and_stays_unread(make_run: MakeRun, root: Path) -> None:
    run = make_run("leak")
    app = make_app(root, run)
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "FAIL")
        await pilot.press("n", "v")
        await until(pilot, lambda: isinstance(app.screen, VerdictScreen))
        await shows(pilot, "so far")
        assert not run.read_mark.exists()
        await pilot.press("y", "escape")
        assert (run.path / "clipboard.txt").read_text(encoding="utf-8").startswith("FAIL")


async def test_copy_and_save_leave_files_in_the_run_folder_and_say_so(make_run: MakeRun, root: Path) -> None:
    run = make_run()
    app = make_app(root, run)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await shows(pilot, "at the end")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await pilot.press("y")
        await shows(pilot, "clipboard.txt in the run folder")
        row = screen.panels.lists["streams"].row
        assert row is not None
        assert (run.path / "clipboard.txt").read_text(encoding="utf-8") == row.text + "\n"
        await pilot.press("P")
        await shows(pilot, "saved screen-run-")
        (svg,) = run.path.glob("screen-run-*.svg")
        (text,) = run.path.glob("screen-run-*.txt")
        assert svg.read_text(encoding="utf-8").startswith("<svg")
        assert "1 streams" in text.read_text(encoding="utf-8")
        assert os.stat(svg).st_mode & 0o777 == 0o600


async def test_a_live_run_grows_on_the_screen_and_its_end_is_told(make_run: MakeRun, root: Path) -> None:
    lines = recorded()
    run = make_run(judged=False, keep=200)
    lock = run.hold()
    app = make_app(root, run)
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "LIVE")
        await shows(pilot, "so far")
        with run.events.open("ab") as file:
            file.write(b"".join(lines[200:]))
        await shows(pilot, "ended: finished")
        await pilot.press("left_square_bracket")
        await shows(pilot, "REVIEW at")
        await pilot.press("f")
        load_or_judge(run)
        os.close(lock)
        await shows(pilot, "the run is over: PASS")
        await until(pilot, lambda: "LIVE" not in screen_text(app))


async def test_stopping_asks_first_and_leaves_a_run_alone_that_is_over(make_run: MakeRun, root: Path) -> None:
    run = make_run()
    app = make_app(root, run)
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("X")
        await shows(pilot, "already")
        lock = run.hold()
        run.lock.write_bytes(b"not a pid\n")
        await pilot.press("X")
        await shows(pilot, "End the run")
        await pilot.press("n")
        await until(pilot, lambda: "End the run" not in screen_text(app))
        await pilot.press("X", "y")
        await shows(pilot, "no runner")
        os.close(lock)


async def test_leaving_goes_home_or_out(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        await pilot.press("escape")
        await shows(pilot, "scenarios")
        await pilot.press("enter")
        await shows(pilot, "at the end")
        await pilot.press("escape")
        await shows(pilot, "scenarios")
        await pilot.press("q")
        await pilot.pause()
    assert app.return_code == 0
    assert app.last_run is not None


@pytest.mark.parametrize("size", [(40, 8), (41, 9), (20, 5), (60, 15), (79, 23), (300, 90), (1, 1)])
async def test_any_size_is_drawn_and_forty_by_eight_shows_the_status_alone(
    make_run: MakeRun, root: Path, size: tuple[int, int]
) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.snapshot is not None)
        await pilot.pause()
        seen = screen_text(app)
        assert all(len(line) <= size[0] for line in seen.splitlines())
        if size == (40, 8):
            assert seen.startswith("demo · ")
            assert "streams" not in seen
        await pilot.press("5", "1", "v", "escape", "question_mark", "escape")


async def test_a_storm_of_resizes_ends_in_the_right_picture(make_run: MakeRun, root: Path) -> None:
    app = make_app(root, make_run())
    async with app.run_test(size=PROMISED, notifications=True) as pilot:
        await shows(pilot, "at the end")
        before = screen_text(app)
        for n in range(30):
            await pilot.resize_terminal(20 + n * 7 % 160, 5 + n * 5 % 50)
        await pilot.resize_terminal(*PROMISED)
        await until(pilot, lambda: screen_text(app) == before)


def folder_of(root: Path, data: bytes, id: str = "20300102-030405-demo-a1b2") -> RunFolder:
    run = RunFolder(root / id)
    run.path.mkdir()
    run.events.write_bytes(data)
    return run


BAD: dict[str, tuple[Callable[[tuple[bytes, ...]], bytes], str]] = {
    "torn": (lambda lines: b"".join(lines[:-1]) + lines[-1][:-20], "the last line is cut off"),
    "died": (lambda lines: b"".join(lines[:150]), "the runner died"),
    "empty": (lambda lines: b"", "the run never began"),
    "no turns": (lambda lines: b"".join(lines[:2]), "no turn was played"),
    "newer": (lambda lines: b"".join([lines[0].replace(b'"schema":1', b'"schema":99'), *lines[1:]]), "a newer program"),
    "middle": (lambda lines: b"".join([*lines[:100], *lines[180:]]), "lines are missing"),
    "rubbish": (lambda lines: b"\x00\xff{[\n" * 50, "the first line is damaged"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_damaged_log_opens_with_a_plain_statement(root: Path, name: str) -> None:
    make, statement = BAD[name]
    app = make_app(root, folder_of(root, make(recorded())))
    async with app.run_test(size=(140, 24), notifications=True) as pilot:
        await shows(pilot, statement)
        await pilot.press("v", "escape", "1", "enter", "escape", "n", "p", "space")
        await pilot.pause()


async def test_a_folder_without_a_log_or_without_rights_says_so_in_one_line(root: Path) -> None:
    run = RunFolder(root / "20300102-030405-demo-a1b2")
    run.path.mkdir()
    app = make_app(root, run)
    async with app.run_test(size=(140, 24), notifications=True) as pilot:
        await shows(pilot, "events.jsonl")
        await pilot.press("v", "n", "enter", "y", "space", "escape")
        await shows(pilot, "scenarios")
