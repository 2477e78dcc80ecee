"""The list of lines: the cursor stays on its thing, the view follows it, and only what changed is written."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from tuitools import svg_lines

from infermaxx_tui.core.glyphs import ASCII, UNICODE
from infermaxx_tui.core.panels.row import Row
from infermaxx_tui.tui.themes import THEMES
from infermaxx_tui.tui.widgets.lines import Lines
from infermaxx_tui.tui.widgets.slices import SLICE_CELLS

pytestmark = pytest.mark.anyio


class Recording(Lines):
    """Notes what it asks to have written."""

    written: list[Region]

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Recording:
        """As always, and remembered."""
        self.__dict__.setdefault("written", []).extend(regions)
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        return self


class ListApp(App[None]):
    """One list over rows that a test changes."""

    CSS_PATH = "../../infermaxx_tui/tui/app.tcss"

    def __init__(self, rows: list[Row], *, slices: int = 0, tail: bool = False, head: int = 1) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.data = rows
        self.lines = Recording(
            UNICODE, id="list", title="things", head=head, slices=slices, tail=tail, draw=lambda w, h: tuple(self.data)
        )

    def compose(self) -> ComposeResult:
        yield self.lines

    def screen_lines(self) -> list[str]:
        return svg_lines(self.export_screenshot())


def things(n: int, word: str = "thing") -> list[Row]:
    """A head and so many rows with keys."""
    return [Row("head"), *(Row(f"{word} {i}", key=str(i)) for i in range(n))]


async def test_keys_move_the_cursor_and_the_view_follows() -> None:
    app = ListApp(things(50))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        lines = app.lines
        assert lines.row == app.data[1]
        await pilot.press("j", "down")
        assert lines.row == app.data[3]
        await pilot.press("k")
        assert lines.row == app.data[2]
        await pilot.press("G")
        assert lines.row == app.data[-1]
        assert "thing 49" in app.screen_lines()[-1]
        assert app.screen_lines()[1] == "head", "the head stays"
        assert "41-50 of 50" in app.screen_lines()[0]
        await pilot.press("ctrl+u")
        assert lines.row == app.data[45]
        await pilot.press("g", "k")
        assert lines.row == app.data[1]
        assert "thing 0" in app.screen_lines()[2]


async def test_the_cursor_stays_on_its_thing_when_rows_move() -> None:
    app = ListApp(things(20))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("j", "j", "j")
        assert app.lines.row is not None
        assert app.lines.row.key == "3"
        app.data = [app.data[0], *reversed(app.data[1:])]
        app.lines.redraw()
        assert app.lines.row.key == "3"
        app.data = things(2)
        app.lines.redraw()
        assert app.lines.row == app.data[2], "what is gone leaves the cursor on the last row"
        app.data = []
        app.lines.redraw()
        assert app.lines.row is None


async def test_a_tail_follows_new_rows_until_the_cursor_leaves_it() -> None:
    app = ListApp(things(20), tail=True)
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.press("G")
        app.data = things(30)
        app.lines.redraw()
        assert app.lines.row == app.data[-1]
        await pilot.press("k")
        app.data = things(40)
        app.lines.redraw()
        assert app.lines.row is not None
        assert app.lines.row.key == "28"


async def test_only_rows_that_changed_are_written() -> None:
    app = ListApp(things(9))
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        app.lines.written.clear()
        app.lines.redraw()
        assert app.lines.written == []
        app.data = [*app.data[:4], Row("other", key="3"), *app.data[5:]]
        app.lines.redraw()
        assert app.lines.written == [Region(0, 5, 40, 1)]


async def test_of_a_sliced_list_only_changed_slices_are_written() -> None:
    width = SLICE_CELLS * 4
    app = ListApp([Row("head"), Row("a" * width, key="a"), Row("b" * width, key="b")], slices=SLICE_CELLS)
    async with app.run_test(size=(width, 6)) as pilot:
        await pilot.pause()
        before = app.screen_lines()
        assert before[2] == "a" * width
        text = "a" * (SLICE_CELLS * 2) + "X" + "a" * (width - SLICE_CELLS * 2 - 1)
        app.data[1] = Row(text, key="a")
        app.lines.redraw()
        await pilot.pause()
        assert app.screen_lines()[2] == text
        app.data[2] = Row("宽" * (width // 2), key="b")
        app.lines.redraw()
        await pilot.pause()
        assert app.screen_lines()[3].replace(" ", "") == "宽" * (width // 2), "wide characters are never cut in two"
        app.data[1] = Row(text, ((0, 3, "bad"),), key="a")
        app.lines.redraw()
        await pilot.pause()
        assert app.screen_lines()[2] == text


@pytest.mark.parametrize("slices", [0, 2, 16])
async def test_spans_and_cursor_are_seen_without_colours(slices: int) -> None:
    app = ListApp([Row("head"), Row("one bad thing", ((4, 7, "bad"),)), Row("two")], slices=slices)
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.pause()

        def looks(y: int) -> dict[str, tuple[bool, bool]]:
            styles = {}
            for x, char in enumerate(app.screen_lines()[y]):
                style = app.screen.get_style_at(x, y)
                styles[char] = (bool(style.bold), bool(style.reverse))
            return styles

        assert looks(2)["d"] == (True, True), "bad is bold, and the cursor is reverse"
        assert looks(2)["o"] == (False, True)
        assert looks(3)["w"] == (False, False)
        await pilot.press("j")
        assert looks(2)["d"] == (True, False)
        assert looks(3)["w"] == (False, True)


async def test_a_resize_asks_for_rows_of_the_new_width() -> None:
    widths: list[int] = []
    app = ListApp([])

    def draw(width: int, height: int) -> tuple[Row, ...]:
        widths.append(width)
        return (Row("x" * width),)

    app.lines.draw = draw
    async with app.run_test(size=(40, 6)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(25, 9)
        await pilot.pause()
        assert widths[-1] == 25
        assert app.screen_lines()[1] == "x" * 25


def test_the_title_line_is_ascii_where_signs_are() -> None:
    lines = Lines(ASCII, id="plain", title="streams")
    assert lines.title == "streams"
    assert lines.wanted == 1
