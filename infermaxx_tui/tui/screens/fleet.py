"""Every arm of the newest of each experiment in one table, with what it ran on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import work
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from infermaxx_tui.core.experiment.answer import Answer
from infermaxx_tui.core.experiment.cells import Table, markdown_table
from infermaxx_tui.core.experiment.fleet import fleet_table
from infermaxx_tui.core.panels.experiment_table import HEAD_LINES, last_first, part_of
from infermaxx_tui.core.panels.row import Row, row
from infermaxx_tui.tui import messages
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.experiments import Experiments
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.lines import Lines

LOOK_S = 3.0
_STAY = 2
"""Experiment and arm stay where they are."""


class FleetScreen(Base):
    """One row an arm, over all experiments."""

    PLACES: ClassVar[tuple[Place, ...]] = ("fleet",)
    BINDINGS = bindings("fleet")
    ABOUT = (
        "One row an arm, of the newest of each experiment. A speed stands with its depth and how often it was taken;"
        " what is struck through failed a check of content. Enter opens the arm's experiment."
    )

    class Read(Message):
        """All experiments were read."""

        def __init__(self, found: tuple[tuple[str, Answer], ...], table: Table) -> None:
            super().__init__()
            self.found = found
            self.table = table

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._experiments = Experiments(shared.root)
        self._found: tuple[tuple[str, Answer], ...] = ()
        self._table: Table | None = None
        self._first = 0
        self.lines = Lines(shared.glyphs, id="fleet", head=HEAD_LINES, title="arms", draw=self._rows)

    def body(self) -> Iterable[Widget]:
        """One list."""
        yield self.lines

    def on_mount(self) -> None:
        """Reads now and then."""
        self.keep_reading(self._read, LOOK_S)

    @work(thread=True, group="fleet", exclusive=True)
    def _read(self) -> None:
        found = self._experiments.answers()
        if found == self._found and self._table is not None:
            return
        table = fleet_table(found)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Read(found, table))

    def on_fleet_screen_read(self, event: FleetScreen.Read) -> None:
        """Shows what was read."""
        self._found, self._table = event.found, event.table
        self.bar.redraw()
        self.lines.redraw()

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """How many there are, and which of them are simulated."""
        simulated = sum(found.simulated for _, found in self._found)
        right: list[Part] = [(f" {simulated} of them SIMULATED ", "warn")] if simulated else []
        said = "reading" if self._table is None else f"the newest of {len(self._found)} experiments"
        return [(" fleet", "title"), (f"  {said}", "dim")], right

    def _keys(self) -> tuple[str, ...]:
        """A key for each row of the table: folder and arm."""
        return tuple(f"{name}\n{arm.name}" for name, found in self._found for arm in found.arms)

    def _rows(self, width: int, height: int) -> tuple[Row, ...]:
        glyphs = self.shared.glyphs
        if self._table is None or not self._table.rows:
            said = "reading the experiments" if self._table is None else "no experiments yet"
            return (*(Row(""),) * HEAD_LINES, row([(said, "dim")], width, glyphs))
        part = part_of(self._table, width, glyphs, self._first, _STAY, self._keys())
        self.lines.title = f"arms{f', {part.note()}: ] for more' if part.note() else ''}"
        return part.rows

    def action_columns(self, step: int) -> None:
        """The table, sideways."""
        if self._table is not None:
            last = last_first(self._table, self.lines.size.width, self.shared.glyphs, _STAY)
            self._first = min(max(self._first + step, 0), last)
            self.lines.redraw()

    def action_open(self) -> None:
        """The experiment of the arm under the cursor."""
        found = self.lines.row
        if found is not None and found.key is not None:
            self.post_message(messages.OpenExperiment(found.key.partition("\n")[0]))

    def action_copy(self) -> None:
        """The whole table as Markdown."""
        if self._table is not None:
            self.copy("\n".join(markdown_table(self._table)), None)

    def action_export(self) -> None:
        """The screen as SVG and text, beside the runs."""
        self.save("screen-fleet", self.shared.root)
