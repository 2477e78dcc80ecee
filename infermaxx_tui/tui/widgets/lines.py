"""A list of lines that repaints only the cells that changed: over SSH a whole table a second is too much.

A line that changed is written from the left edge of its widget to the last cell that changed. So a list whose cells
change here and there is cut into slices, each a widget of its own, and only slices with a change are written.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from infermaxx_tui.core.glyphs import Glyphs, cells, fit
from infermaxx_tui.core.panels.row import Role, Row
from infermaxx_tui.tui.commands import bindings

SLICE_CELLS = 16
MOST_CELLS = 320
"""Of a wider terminal, the last slice takes what is left."""
_ROLES: tuple[Role, ...] = ("ok", "bad", "warn", "dim", "accent", "title", "cursor")

Draw = Callable[[int, int], tuple[Row, ...]]
"""The rows for so many cells and so many lines; what does not fit is scrolled."""
Line = tuple[Row, bool]
"""A row, and whether it is under the cursor."""


def nothing(width: int, height: int) -> tuple[Row, ...]:
    """No rows."""
    return ()


class Slice(Widget):
    """Some columns of a list."""

    def __init__(self, lines: Lines, first: int, cells_wide: int) -> None:
        super().__init__()
        self._lines = lines
        self._first = first
        last = first + cells_wide >= MOST_CELLS
        self.styles.width = "1fr" if last else cells_wide

    def render_line(self, y: int) -> Strip:
        """The slice's part of the list's line."""
        return self._lines.strip(y).crop(self._first, self._first + self.size.width)


class Lines(Widget, can_focus=True):
    """A title, rows that stay, and rows that scroll under a cursor."""

    BINDINGS = bindings("lines")
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"lines--{role}" for role in _ROLES),
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
        starts = range(0, MOST_CELLS, slices) if slices else ()
        self._slices = tuple(Slice(self, first, slices) for first in starts)
        self._slice_cells = slices
        self._rows: tuple[Row, ...] = ()
        self._top = 0
        self._cursor = 0
        self._shown: list[Line] = []
        self._strips: dict[int, Strip] = {}
        self._looks: dict[tuple[Role | None, bool], Style] = {}

    def compose(self) -> ComposeResult:
        """The slices, if there are any."""
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
        self._strips = {}
        self._looks = {}

    def _forget(self) -> None:
        self._shown = []
        self._strips = {}

    def strip(self, y: int) -> Strip:
        """The line as it is painted."""
        made = self._strips.get(y)
        if made is None:
            row, selected = self._shown[y] if y < len(self._shown) else (_EMPTY, False)
            made = self._strips[y] = self._made(row, selected)
        return made

    def render_line(self, y: int) -> Strip:
        """The painted line; with slices it lies under them."""
        return self.strip(y)

    def _paint(self) -> None:
        """Has the lines written that changed; they are made when they are asked for."""
        width, height = self.size
        if not self.is_mounted or not self.display or width == 0:
            return
        before, self._shown = self._shown, self._visible(height)
        strips = self._strips
        self._strips = {}
        for y, line in enumerate(self._shown):
            old = before[y] if y < len(before) else None
            if old == line:
                if y in strips:
                    self._strips[y] = strips[y]
            else:
                self._refresh_line(y, old, line, width)

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

    def _made(self, row: Row, selected: bool) -> Strip:
        base = self._look(None, selected)
        segments: list[Segment] = []
        at = 0
        for start, end, role in row.spans:
            if start > at:
                segments.append(Segment(row.text[at:start], base))
            segments.append(Segment(row.text[start:end], self._look(role, selected)))
            at = end
        blanks = " " * (self.size.width - cells(row.text))
        if at < len(row.text) or blanks:
            segments.append(Segment(row.text[at:] + blanks, base))
        return Strip(segments, self.size.width)

    def _look(self, role: Role | None, selected: bool) -> Style:
        """How a role looks; on the selected row its colours give way to the cursor's, its weight stays."""
        look = self._looks.get((role, selected))
        if look is None:
            look = self.rich_style
            if selected:
                look += self.get_component_rich_style("lines--selected", partial=True)
            if role is not None:
                style = self.get_component_rich_style(f"lines--{role}", partial=True)
                look += style.without_color if selected else style
            self._looks[role, selected] = look
        return look

    def _refresh_line(self, y: int, old: Line | None, new: Line, width: int) -> None:
        if not self._slices:
            self.refresh(Region(0, y, width, 1))
            return
        if old is None or old[1] != new[1] or not (_plain(old[0]) and _plain(new[0])):
            for number, part in enumerate(self._slices[: -(-width // self._slice_cells)]):
                part.refresh(Region(0, y, width - number * self._slice_cells, 1))
            return
        ends = _changes(old[0], new[0], self._slice_cells)
        for number, end in ends.items():
            place = min(number, len(self._slices) - 1)
            self._slices[place].refresh(Region(0, y, end - place * self._slice_cells, 1))


def _changes(old: Row, new: Row, cells_wide: int) -> dict[int, int]:
    """Slices in which two rows differ, and up to which character they do."""
    ends: dict[int, int] = {}
    size = max(len(old.text), len(new.text))
    before, now = old.text.ljust(size), new.text.ljust(size)
    for first in range(0, size, cells_wide):
        end = min(first + cells_wide, size)
        if before[first:end] != now[first:end]:
            while before[end - 1] == now[end - 1]:
                end -= 1
            ends[first // cells_wide] = end
    if old.spans != new.spans:
        for start, stop, _ in set(old.spans) ^ set(new.spans):
            for number in range(start // cells_wide, -(-stop // cells_wide)):
                ends[number] = max(ends.get(number, 0), min(stop, (number + 1) * cells_wide))
    return ends


def _plain(row: Row) -> bool:
    """Whether each character takes one cell."""
    return len(row.text) == cells(row.text)


_EMPTY = Row("")
