"""A list of lines that writes only what changed: over SSH a whole table a second is too much."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from infermaxx_tui.core.glyphs import Glyphs, cells, fit
from infermaxx_tui.core.panels.row import Row
from infermaxx_tui.tui.commands import bindings
from infermaxx_tui.tui.widgets.brush import ROLES, Brush
from infermaxx_tui.tui.widgets.slices import Line, Slice, change_slices, make_slices

Draw = Callable[[int, int], tuple[Row, ...]]
"""The rows for so many cells and so many lines; what does not fit is scrolled."""


def nothing(width: int, height: int) -> tuple[Row, ...]:
    """No rows."""
    return ()


class Lines(Widget, can_focus=True):
    """A title, rows that stay, and rows that scroll under a cursor."""

    BINDINGS = bindings("lines")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"lines--{role}" for role in ROLES),
        "lines--selected",
        "lines--focused",
    }

    class Moved(Message):
        """The cursor stands on another row."""

        def __init__(self, lines: Lines, row: Row | None) -> None:
            super().__init__()
            self.lines = lines
            self.row = row

        @property
        def control(self) -> Lines:
            """The list."""
            return self.lines

    def __init__(
        self,
        glyphs: Glyphs,
        *,
        id: str,
        title: str = "",
        head: int = 0,
        slices: int = 0,
        tail: bool = False,
        cursor: bool = True,
        draw: Draw = nothing,
    ) -> None:
        """`head` rows at the top stay; `slices` is how many cells wide a slice is, if there are any; `tail` keeps the
        cursor on the last row until it is moved away from it."""
        super().__init__(id=id)
        self.can_focus = cursor
        self.draw = draw
        self._glyphs = glyphs
        self._title = title
        self._head = head
        self._tail = tail
        self._slices: tuple[Slice, ...] = ()
        self._slice_cells = slices
        self._rows: tuple[Row, ...] = ()
        self._top = 0
        self._cursor = 0
        self._shown: list[Line] = []
        self._painted: dict[int, Strip] = {}
        self._brush = Brush(self)

    def compose(self) -> ComposeResult:
        """The slices, if there are any, as many as this terminal needs."""
        self._slices = make_slices(self._paint_line, self._slice_cells, self.app.size.width)
        yield from self._slices

    @property
    def rows(self) -> tuple[Row, ...]:
        """All rows, those that stay included."""
        return self._rows

    @property
    def title(self) -> str:
        """What stands above the rows."""
        return self._title

    @title.setter
    def title(self, title: str) -> None:
        if title != self._title:
            self._title = title
            self._paint()

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        at = self._head + self._cursor
        return self._rows[at] if self.can_focus and at < len(self._rows) else None

    @property
    def wanted(self) -> int:
        """Lines that would show everything."""
        return len(self._rows) + bool(self._title)

    def redraw(self) -> None:
        """Asks for the rows again and paints what changed. A list that is not shown asks for nothing."""
        if not self.display or not self.is_mounted or self.size.width == 0:
            return
        before = self.row
        last = self._cursor >= self._body - 1
        height = self.size.height - bool(self._title)
        self._rows = self.draw(self.size.width, height)
        if self._tail and last:
            self._cursor = self._body - 1
        elif before is not None:
            self._cursor = self._place_of(before)
        self._cursor = min(max(self._cursor, 0), max(self._body - 1, 0))
        self._scroll()
        self._paint()
        if self.row != before:
            self.post_message(self.Moved(self, self.row))

    def go_to(self, test: Callable[[Row], bool], backwards: bool = False, beyond: bool = False) -> bool:
        """Puts the cursor on the first row that passes; `beyond` looks only past the cursor. False if there is none."""
        order = range(self._body - 1, -1, -1) if backwards else range(self._body)
        for at in order:
            ahead = at < self._cursor if backwards else at > self._cursor
            if (ahead or not beyond) and test(self._rows[self._head + at]):
                self._move(at)
                return True
        return False

    @property
    def _body(self) -> int:
        return max(len(self._rows) - self._head, 0)

    @property
    def _room(self) -> int:
        room: int = self.size.height - bool(self._title) - self._head
        return max(room, 1)

    def _place_of(self, row: Row) -> int:
        """Where the thing that a row stood for is now; the same line number if it is gone."""
        mark = (row.key, row.session, row.ref)
        if mark == (None, None, None):
            return self._cursor
        body = self._rows[self._head :]
        near = range(max(self._cursor - 2, 0), min(self._cursor + 3, len(body)))
        for at in chain(near, range(len(body))):
            if (body[at].key, body[at].session, body[at].ref) == mark:
                return at
        return self._cursor

    def _move(self, at: int) -> None:
        at = min(max(at, 0), max(self._body - 1, 0))
        if at != self._cursor:
            self._cursor = at
            self._scroll()
            self._paint()
            self.post_message(self.Moved(self, self.row))

    def _scroll(self) -> None:
        room = self._room
        if self.can_focus:
            self._top = min(max(self._top, self._cursor - room + 1), self._cursor)
        self._top = min(max(self._top, 0), max(self._body - room, 0))

    def action_down(self) -> None:
        """One row down."""
        self._move(self._cursor + 1)

    def action_up(self) -> None:
        """One row up."""
        self._move(self._cursor - 1)

    def action_top(self) -> None:
        """The first row."""
        self._move(0)

    def action_bottom(self) -> None:
        """The last row."""
        self._move(self._body - 1)

    def action_page(self, sign: int) -> None:
        """Half a page."""
        self._move(self._cursor + sign * max(self._room // 2, 1))

    def on_click(self, event: events.Click) -> None:
        """The row under the mouse."""
        y = event.y - bool(self._title) - self._head
        if 0 <= y < self._room:
            self._move(self._top + y)

    def on_mouse_scroll_down(self) -> None:
        """A row down."""
        self.action_down()

    def on_mouse_scroll_up(self) -> None:
        """A row up."""
        self.action_up()

    def on_resize(self) -> None:
        """Another size needs other rows."""
        self._forget()
        self.redraw()

    def on_focus(self) -> None:
        """The cursor and the title show it."""
        self._paint()

    def on_blur(self) -> None:
        """The cursor is hidden."""
        self._paint()

    def notify_style_update(self) -> None:
        """Other colours: everything is painted again."""
        super().notify_style_update()
        self._brush.rinse()
        self._painted = {}
        for part in self._slices:
            part.forget()

    def _forget(self) -> None:
        self._shown = []
        self._painted = {}
        for part in self._slices:
            part.forget()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The painted lines; slices lie over them. There is no border or padding to be added."""
        if self._slices:
            return [Strip.blank(crop.width)] * crop.height
        return [self._line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def _line(self, y: int) -> Strip:
        strip = self._painted.get(y)
        if strip is None:
            strip = self._painted[y] = self._paint_line(y, 0, self.size.width)
        return strip

    def _paint_line(self, y: int, first: int, end: int) -> Strip:
        row, selected = self._shown[y] if y < len(self._shown) else (_EMPTY, False)
        return self._brush.paint(row, selected, first, end)

    def _paint(self) -> None:
        """Has the lines written that changed; they are made when they are asked for."""
        width, height = self.size
        if not self.is_mounted or not self.display or width == 0:
            return
        before, self._shown = self._shown, self._visible(height)
        for y, line in enumerate(self._shown):
            old = before[y] if y < len(before) else None
            if old == line:
                continue
            if self._slices:
                change_slices(self._slices, self._slice_cells, y, old, line, width)
            else:
                self._painted.pop(y, None)
                self.refresh(Region(0, y, width, 1))

    def _visible(self, height: int) -> list[Line]:
        lines: list[Line] = []
        if self._title:
            lines.append((self._title_row(), False))
        lines += [(row, False) for row in self._rows[: self._head]]
        start = self._head + self._top
        selected = self._head + self._cursor if self.has_focus and self.can_focus else -1
        room = height - len(lines)
        lines += [(row, at == selected) for at, row in enumerate(self._rows[start : start + max(room, 0)], start)]
        lines += [(_EMPTY, False)] * (height - len(lines))
        return lines[:height]

    def _title_row(self) -> Row:
        """The title, a rule, and which rows are seen if not all of them are."""
        width, rule = self.size.width, self._glyphs.horizontal
        seen = ""
        if self._body > self._room:
            seen = f" {self._top + 1}-{min(self._top + self._room, self._body)} of {self._body} "
        name = fit(f"{rule} {self._title} ", max(width - len(seen) - 2, 0), self._glyphs)
        text = f"{name}{rule * max(width - cells(name) - len(seen) - 1, 0)}{seen}{rule}"[:width]
        return Row(text, ((0, len(text), "accent" if self.has_focus else "title"),))


_EMPTY = Row("")
