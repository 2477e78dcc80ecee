"""What all screens have: a bar on top, keys at the foot, a filter line, copying, saving, and words for people."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.glyphs import cells, fit, settle
from infermaxx_tui.core.panels.row import Role, Row
from infermaxx_tui.rundir import replace_file
from infermaxx_tui.tui import clipboard
from infermaxx_tui.tui.commands import Place
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.filter import FilterLine
from infermaxx_tui.tui.widgets.keys import KeyLine
from infermaxx_tui.tui.widgets.lines import Lines
from infermaxx_tui.tui.widgets.slices import HEAD_CELLS

Part = tuple[str, Role | None]
"""A piece of the bar, and what it means."""


class Base(Screen[Ref]):
    """A screen with one place in the table of commands. Its result is an event to go to."""

    PLACES: ClassVar[tuple[Place, ...]] = ()
    """Whose commands work here, beside those that work everywhere."""
    ABOUT: ClassVar[str] = ""
    """What the screen shows, for the help."""
    AUTO_FOCUS = "Lines"

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self.shared = shared
        self.bar = Lines(shared.glyphs, id="bar", cursor=False, slices=HEAD_CELLS, draw=self._bar)
        self.filter_line = FilterLine()

    def body(self) -> Iterable[Widget]:
        """What stands between the bar and the keys."""
        return ()

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """What stands at the left and the right of the bar; the right one is kept whole."""
        return [], []

    def compose(self) -> ComposeResult:
        """Bar, body, filter line, keys."""
        yield self.bar
        yield from self.body()
        yield self.filter_line
        yield KeyLine(self.shared.glyphs)

    @property
    def lists(self) -> list[Lines]:
        """The lists of the body, from top to bottom."""
        found = [lines for lines in self.query(Lines) if lines.id not in ("bar", "keys") and lines.display]
        return sorted(found, key=lambda lines: (lines.region.x, lines.region.y))

    @property
    def focused_list(self) -> Lines | None:
        """The list that has the focus."""
        return self.focused if isinstance(self.focused, Lines) else None

    def text(self) -> str:
        """All rows of all lists that are shown, as text, those that are scrolled away included."""
        blocks = ["\n".join(row.text for row in self.bar.rows)]
        for lines in self.lists:
            head = (settle(lines.title, self.shared.glyphs),) if lines.title else ()
            blocks.append("\n".join((*head, *(row.text for row in lines.rows))))
        return "\n\n".join(blocks) + "\n"

    def say(self, text: str, bad: bool = False) -> None:
        """One line for a person, for a few seconds."""
        settled = settle(text, self.shared.glyphs)
        self.notify(settled, markup=False, severity="error" if bad else "information")

    def copy(self, text: str, folder: Path | None) -> None:
        """Copies text and says where it can be found."""
        self.say(clipboard.copy(text, os.environ, self.app.copy_to_clipboard, folder))

    def save(self, name: str, folder: Path) -> None:
        """Saves the screen as SVG and as text, and says under which names."""
        stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        try:
            replace_file(folder / f"{stem}.svg", self.app.export_screenshot(title="infermaxx", simplify=True).encode())
            replace_file(folder / f"{stem}.txt", self.text().encode())
        except OSError as error:
            self.say(f"not saved in {folder}: {error.strerror}", bad=True)
        else:
            self.say(f"saved {stem}.svg and .txt in {folder}")

    def keep_reading(self, read: Callable[[], object], every_s: float) -> None:
        """Calls it now, and again and again while this screen is the one that is seen."""

        def again() -> None:
            if self.is_current:
                read()

        read()
        self.set_interval(every_s, again)

    def action_back(self) -> None:
        """Back to the screen before."""
        self.dismiss(None)

    def action_filter(self) -> None:
        """Opens the filter line."""
        self.filter_line.open()

    def on_filter_line_left(self) -> None:
        """The focus goes back to the list."""
        found = self.lists
        if found:
            found[0].focus()

    def _bar(self, width: int, height: int) -> tuple[Row, ...]:
        left, right = self.bar_parts()
        tail = "".join(text for text, _ in right)
        room = max(width - cells(tail) - 1, 0)
        row, spans, used = "", list[tuple[int, int, Role]](), 0
        for text, role in left:
            text = fit(text, room - used, self.shared.glyphs)
            if role is not None and text:
                spans.append((len(row), len(row) + len(text), role))
            row += text
            used += cells(text)
        row += " " * (width - used - cells(tail))
        for text, role in right:
            if role is not None:
                spans.append((len(row), len(row) + len(text), role))
            row += text
        return (Row(row[:width], tuple(span for span in spans if span[1] <= width)),)
