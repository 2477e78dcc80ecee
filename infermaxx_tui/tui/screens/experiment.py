"""One experiment, going on or over: its arms as a table, each start and its run, what moved, and the curves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels.experiment_starts import Start, live
from infermaxx_tui.experiment.folder import ExperimentFolder
from infermaxx_tui.tui import messages
from infermaxx_tui.tui.arrange import tiny
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.experiments import Shown, Sign, mark_read, read_experiment, run_of, sign_of
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.screens.panelled import Panelled
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.experiment_panels import ExperimentPanels
from infermaxx_tui.tui.widgets.filter import FilterLine

LOOK_S = 1.0
"""How often it is looked whether the rows have grown."""


class ExperimentScreen(Panelled, Base):
    """Arms, starts, words and curves of one experiment; its rows are followed while they grow."""

    panels: ExperimentPanels
    PLACES: ClassVar[tuple[Place, ...]] = ("experiment",)
    BINDINGS = bindings("experiment")
    ABOUT = (
        "One experiment. Each arm's figures with their spread, and below each how it moved against its parent; what"
        " is struck through has no speed to be quoted. Enter on a start opens its run. Digits choose a panel, the same"
        " digit again gives it the whole screen."
    )

    class Seen(Message):
        """The rows were read."""

        def __init__(self, shown: Shown, sign: Sign) -> None:
            super().__init__()
            self.shown = shown
            self.sign = sign

    def __init__(self, shared: Shared, folder: ExperimentFolder) -> None:
        super().__init__(shared)
        self.folder = folder
        self._shown: Shown | None = None
        self._sign: Sign | None = None
        self.panels = ExperimentPanels(shared.glyphs)

    def body(self) -> Iterable[Widget]:
        """The panels."""
        yield self.panels

    def on_mount(self) -> None:
        """Begins to read."""
        self.keep_reading(self._read, LOOK_S)
        self.arrange_panels()

    def on_screen_resume(self) -> None:
        """Something may have been written meanwhile."""
        if self._shown is not None:
            self._read()

    @work(thread=True, group="experiment", exclusive=True)
    def _read(self) -> None:
        sign = sign_of(self.folder)
        if sign == self._sign:
            return
        shown = read_experiment(self.folder)
        mark_read(self.folder, shown)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Seen(shown, sign))

    def on_experiment_screen_seen(self, event: ExperimentScreen.Seen) -> None:
        """Shows what was read."""
        before, self._shown, self._sign = self._shown, event.shown, event.sign
        if before is not None and before.going and not event.shown.going:
            self.say(f"the experiment is no longer conducted: {event.shown.state()}")
        self.panels.show(self._shown)
        self.arrange_panels()
        now = live(event.shown.starts)
        if now is not None and self._is_at(None if before is None else live(before.starts)):
            self.panels.chosen = "starts"
            self.panels.focus_chosen()
            self.call_after_refresh(self.panels.lists["starts"].go_to, lambda row: row.key == f"{now.place}")

    def _is_at(self, start: Start | None) -> bool:
        """Whether the cursor stands on a start, and so follows what goes on; also when nothing was seen before."""
        lines = self.panels.lists["starts"]
        return start is None or (lines.has_focus and lines.row is not None and lines.row.key == f"{start.place}")

    def on_resize(self) -> None:
        """Another size has room for other panels."""
        self.call_after_refresh(self.arrange_panels)

    def redraw(self) -> None:
        """Everything that is shown."""
        self.bar.redraw()
        self.panels.show(self._shown)

    def arrange_panels(self) -> None:
        width, height = self.size
        small = tiny(width, height)
        self.query_one("#keys").display = not small
        self.panels.display = not small
        if not small:
            self.panels.make_room(width, height - 2 - self.filter_line.display)
        self.call_after_refresh(self.redraw)

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """Its name, and what goes on."""
        glyphs, seen = self.shared.glyphs, self._shown
        name = self.folder.id if seen is None or seen.answer is None else seen.answer.registered.experiment
        left: list[Part] = [(f" {settle(name, glyphs)}", "title")]
        if self.panels.match:
            left.append((f"  /{settle(self.panels.match, glyphs)}", "accent"))
        if seen is None:
            return [*left, ("  reading the rows", "dim")], []
        role: Part = (f"  {settle(seen.state(), glyphs)}", "bad" if seen.problem else "accent" if seen.going else "dim")
        simulated: list[Part] = [(" SIMULATED ", "warn")] if seen.answer is not None and seen.answer.simulated else []
        return [*left, role], simulated

    def _start(self) -> Start | None:
        """The start under the cursor; on another panel the one that is going on, or the only one of an arm."""
        seen, lines = self._shown, self.focused_list
        if seen is None:
            return None
        key = None if lines is None or lines.row is None else lines.row.key
        if lines is self.panels.lists["starts"]:
            return next((one for one in seen.starts if f"{one.place}" == key), None)
        if lines is self.panels.lists["arms"] and key is not None:
            arm = key.partition("\n")[0]
            some = [one for one in seen.starts if one.arm == arm and one.state != "to come"]
            return live(some) or (some[-1] if some else None)
        return live(seen.starts)

    def action_open(self) -> None:
        """The run of a start."""
        start = self._start()
        if start is None:
            self.say("no start is going on; tab to the starts and choose one")
        else:
            self._open_run(start)

    def action_live(self) -> None:
        """The run that is going on now."""
        start = live(self._shown.starts) if self._shown is not None else None
        if start is None:
            self.say("no start is going on")
        else:
            self._open_run(start)

    def _open_run(self, start: Start) -> None:
        run = run_of(self.folder, start)
        who = f"{start.arm}, start {start.boot + 1}"
        if run is not None and run.path.is_dir():
            self.post_message(messages.OpenRun(run))
        elif run is not None:
            self.say(f"{who}: its run {run.id} is not beside the experiments any more", bad=True)
        else:
            log = f"; its server's log is {start.server_log}" if start.server_log else ""
            self.say(f"{who}: no run: {start.reason or start.word or start.state}{log}", bad=start.failed)

    def action_columns(self, step: int) -> None:
        """The table, sideways."""
        self.panels.columns(step)

    def action_filter(self) -> None:
        """Opens the filter line, which takes a line from the panels."""
        super().action_filter()
        self.arrange_panels()

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Words that hold the text."""
        self.panels.match = event.text
        self.redraw()

    def on_filter_line_left(self, event: FilterLine.Left) -> None:  # type: ignore[override]  # Textual takes both
        """To the words, which the filter is about."""
        event.prevent_default()
        self.panels.chosen = "answer"
        self._arrange_and_focus()

    def action_copy(self) -> None:
        """The panel as text; the words as they stand on the command line."""
        lines = self.focused_list
        if lines is self.panels.lists["answer"] and self._shown is not None:
            self.copy("\n".join(harmless(line) for line in self._shown.lines), self.folder.path)
        elif lines is not None:
            self.copy("\n".join(row.text for row in lines.rows), self.folder.path)

    def action_export(self) -> None:
        """The screen as SVG and text, beside the rows."""
        self.save("screen-experiment", self.folder.path)
