"""One conversation: its turns and their growth, each recall with question, reply and class, up to the moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels import Row, rows_session
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui import asks
from infermaxx_tui.tui.asks import Told
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.feed import Feed
from infermaxx_tui.tui.screens.base import Part
from infermaxx_tui.tui.screens.timed import Timed
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.filter import FilterLine
from infermaxx_tui.tui.widgets.lines import Lines


class StreamScreen(Timed):
    """A session's story. Its result is an event to go to on the run screen."""

    PLACES: ClassVar[tuple[Place, ...]] = ("stream", "clock")
    BINDINGS = bindings("stream", "clock")
    ABOUT = (
        "One conversation up to the moment: what was planted and how deep, how the prompt grew turn by turn, and each"
        " recall with the question, the reply and the class that it got."
    )

    def __init__(self, shared: Shared, feed: Feed, run: RunFolder, session: int) -> None:
        super().__init__(shared, feed)
        self.run_folder = run
        self._session = session
        self._match = ""
        self.story = Lines(shared.glyphs, id="story", tail=True, draw=self._rows)
        self._ask()

    def _ask(self) -> None:
        self.story.title = f"stream {self._session}"
        self.feed.ask(asks.Tell(self._session))

    def body(self) -> Iterable[Widget]:
        """One list."""
        yield self.story

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """The run and the stream, and the moment."""
        name = settle(self.run_folder.id, self.shared.glyphs)
        left: list[Part] = [(f" {name}", "title"), (f"  stream {self._session}", None)]
        if self._match:
            left.append((f"  /{settle(self._match, self.shared.glyphs)}", "accent"))
        seen = self.snapshot
        if seen is not None and seen.said:
            left = [(f" {settle(seen.said, self.shared.glyphs)}", "warn")]
        return left, self.when()

    def take(self, told: Told) -> None:
        """The newest picture, from the run screen."""
        super().take(told)
        if self.is_mounted:
            self.bar.redraw()
            self.story.redraw()

    def _rows(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self.snapshot
        if seen is None or seen.story is None or seen.story.session != self._session:
            return ()
        rows = rows_session(seen.moment.state, seen.story, width, self.shared.glyphs)
        match = self._match.casefold()
        return tuple(row for row in rows if match in row.text.casefold()) if match else rows

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Lines that hold the text."""
        self._match = event.text
        self.story.redraw()

    def action_other(self, step: int) -> None:
        """The next stream, or the one before."""
        seen = self.snapshot
        known = [session.session for session in seen.moment.state.sessions] if seen is not None else []
        if self._session in known:
            self._session = known[(known.index(self._session) + step) % len(known)]
            self._ask()
            self.bar.redraw()

    def action_open(self) -> None:
        """The event under the cursor, on the run screen."""
        row = self.story.row
        if row is not None and row.ref is not None:
            self.dismiss(row.ref)

    def action_copy(self) -> None:
        """The line under the cursor."""
        if self.story.row is not None:
            self.copy(self.story.row.text, self.run_folder.path)

    def action_export(self) -> None:
        """The screen as SVG and text, in the run folder."""
        self.save(f"screen-stream-{self._session}", self.run_folder.path)
