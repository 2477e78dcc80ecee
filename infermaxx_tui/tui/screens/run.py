"""One run, live or over: the same screen over the same log, at the end of it or at any moment before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.message import Message
from textual.widget import Widget

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels import Row, rows_summary
from infermaxx_tui.core.panels.row import row, wrapped
from infermaxx_tui.core.rows import status_line
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui import asks, messages
from infermaxx_tui.tui.arrange import summary_lines, tiny
from infermaxx_tui.tui.asks import Broken, Snapshot
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.feed import Feed
from infermaxx_tui.tui.screens.base import Part
from infermaxx_tui.tui.screens.panelled import Panelled
from infermaxx_tui.tui.screens.timed import Timed
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.filter import FilterLine
from infermaxx_tui.tui.widgets.lines import Lines
from infermaxx_tui.tui.widgets.panels import Panels
from infermaxx_tui.tui.widgets.slices import HEAD_CELLS

_STATUS_CHARS = 500


class RunScreen(Panelled, Timed):
    """Streams, time axis, machine, verdict and events of one run."""

    panels: Panels
    PLACES: ClassVar[tuple[Place, ...]] = ("run", "clock")
    BINDINGS = bindings("run", "clock")
    ABOUT = (
        "One run, live or over. Each stream's speed is shown at its depth; all lines over time share one axis and one"
        " cursor. Digits choose a panel, the same digit again gives it the whole screen."
    )

    class Fresh(Message):
        """The feed has a new picture."""

    def __init__(self, shared: Shared, run: RunFolder, at: Ref | None = None) -> None:
        super().__init__(shared, Feed(run, shared.fps, self._fresh))
        self.run_folder = run
        self.above: Timed | None = None
        """The screen of one stream that is shown over this one; it gets the same pictures."""
        self._frozen: Snapshot | None = None
        self._was_live = False
        self._even = False
        self.summary = Lines(shared.glyphs, id="summary", cursor=False, slices=HEAD_CELLS, draw=self._summary)
        self.panels = Panels(shared.glyphs)
        if at is not None:
            self.feed.ask(asks.GoTo(at))

    def body(self) -> Iterable[Widget]:
        """The summary, and the panels where `arrange` wants them."""
        yield self.summary
        yield self.panels

    def on_mount(self) -> None:
        """Begins to read."""
        self._read()
        self.arrange_panels()

    @work(thread=True, group="feed", exit_on_error=True)
    def _read(self) -> None:
        self.feed.work()

    def _fresh(self) -> None:
        self.post_message(self.Fresh())

    def on_unmount(self) -> None:
        """Stops reading."""
        self.feed.close()

    def on_run_screen_fresh(self) -> None:
        """Shows what came, here or on the screen above."""
        told = self.feed.take()
        if told is None:
            return
        self.told = told
        if isinstance(told, Snapshot):
            if self._was_live and not told.live and told.verdict is not None:
                self.say(f"the run is over: {told.verdict.verdict}; v shows the verdict")
            self._was_live = told.live
        if self.above is not None:
            self.above.take(told)
        if self.is_current:
            self._even = not self._even
            self.redraw(calm=self._even and isinstance(told, Snapshot) and told.live and told.following)

    def on_screen_resume(self) -> None:
        """What came while another screen was on top is shown now."""
        self.redraw()

    def on_resize(self) -> None:
        """Another size has room for other panels."""
        self.call_after_refresh(self.arrange_panels)

    def redraw(self, calm: bool = False) -> None:
        """Shows the newest picture; when `calm`, panels that nobody reads that fast are left as they are."""
        self.bar.redraw()
        self.summary.redraw()
        if not tiny(*self.size) and self.panels.show(self._seen, calm):
            self.arrange_panels()

    def arrange_panels(self) -> None:
        width, height = self.size
        small = tiny(width, height)
        summary = summary_lines(width, height)
        self.query_one("#keys").display = not small
        self.bar.display = not small
        self.summary.styles.height = height if small else summary
        self.panels.display = not small
        if not small:
            columns = self.panels.make_room(width, height - 2 - summary - self.filter_line.display, height)
            if columns is not None:
                self.feed.ask(asks.Columns(columns))
        self.call_after_refresh(self.redraw)

    @property
    def _seen(self) -> Snapshot | None:
        return self._frozen or self.snapshot

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """The run, what was answered, and the moment."""
        seen, glyphs = self.snapshot, self.shared.glyphs
        left: list[Part] = [(f" {settle(self.run_folder.id, glyphs)}", "title")]
        if seen is not None and seen.said:
            left = [(f" {settle(seen.said, glyphs)}", "warn")]
        elif self.panels.match:
            left.append((f"  /{settle(self.panels.match, glyphs)}", "accent"))
        elif seen is not None and seen.what:
            left.append((f"  {settle(seen.what, glyphs)}", "warn"))
        frozen: list[Part] = [(" FROZEN ", "warn")] if self._frozen is not None else []
        return left, [*frozen, *self.when()]

    def _summary(self, width: int, height: int) -> tuple[Row, ...]:
        seen, glyphs = self.snapshot, self.shared.glyphs
        if isinstance(self.told, Broken):
            return wrapped(self.told.text, width, glyphs, role="bad")
        if seen is None:
            return ()
        if height == 1 or tiny(*self.size):
            line = status_line(seen.moment.state, _STATUS_CHARS)
            return wrapped(line, width, glyphs) if height > 1 else (row([(settle(line, glyphs), None)], width, glyphs),)
        return rows_summary(seen.moment.state, seen.timeline, width, glyphs, seen.verdict)[:height]

    def action_freeze(self) -> None:
        """Holds the panels still, or lets them go on."""
        self._frozen = self.snapshot if self._frozen is None else None
        self.redraw()

    def action_sort(self, steps: int) -> None:
        """The next column to sort by."""
        self.panels.sort(steps)

    def action_reverse(self) -> None:
        """The other way round."""
        self.panels.reverse()

    def action_everyone(self) -> None:
        """Ended streams too, or open ones alone."""
        self.panels.everyone()
        self.redraw()

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Streams and events that hold the text."""
        self.panels.match = event.text
        self.redraw()

    def on_filter_line_left(self) -> None:
        """Back to the panel."""
        self._arrange_and_focus()

    def action_filter(self) -> None:
        """Opens the filter line, which takes a line from the panels."""
        super().action_filter()
        self.arrange_panels()

    def action_open(self) -> None:
        """The stream, the moment or the verdict that the line under the cursor is about."""
        lines = self.focused_list
        row = lines.row if lines is not None else None
        if lines is self.panels.lists["verdict"] and (row is None or row.ref is None):
            self.action_verdict()
        elif row is not None and row.ref is not None:
            self.feed.ask(asks.GoTo(row.ref))
        elif row is not None and row.session is not None:
            self._open_stream(row.session)

    def _open_stream(self, session: int) -> None:
        from infermaxx_tui.tui.screens.stream import StreamScreen

        self.above = StreamScreen(self.shared, self.feed, self.run_folder, session)
        self.app.push_screen(self.above, self._came_back)
        if self.told is not None:
            self.above.take(self.told)

    def _came_back(self, ref: Ref | None) -> None:
        self.above = None
        self.feed.ask(asks.Tell(None))
        if ref is not None:
            self.feed.ask(asks.GoTo(ref))

    def action_verdict(self) -> None:
        """The verdict, in full."""
        from infermaxx_tui.tui.screens.verdict import VerdictScreen

        seen = self._seen
        if seen is None or seen.verdict is None:
            self.say("nothing to judge yet")
            return
        screen = VerdictScreen(self.shared, self.run_folder, seen.verdict, seen.moment.state, seen.final)
        self.app.push_screen(screen, self._came_back)

    def action_back(self) -> None:
        """The list of runs."""
        self.post_message(messages.GoHome())

    def action_stop(self) -> None:
        """Ends the run, after a question."""
        self.post_message(messages.StopRun(self.run_folder))

    def action_copy(self) -> None:
        """The line under the cursor."""
        lines = self.focused_list
        if lines is not None and lines.row is not None:
            self.copy(lines.row.text, self.run_folder.path)

    def action_export(self) -> None:
        """The screen as SVG and text, in the run folder."""
        self.save("screen-run", self.run_folder.path)
