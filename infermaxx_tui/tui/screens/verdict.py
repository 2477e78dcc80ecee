"""The verdict for reading: what was judged on what, with each piece of evidence one key from its moment in the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels import Row, rows_verdict
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.lines import Lines


class VerdictScreen(Base):
    """A verdict as it stood when it was opened. Its result is an event to go to on the run screen."""

    PLACES: ClassVar[tuple[Place, ...]] = ("verdict",)
    BINDINGS = bindings("verdict")
    ABOUT = (
        "The verdict: for each check what it saw, what was left out and why, and the 95 % bound. Enter on a piece of"
        " evidence goes to its moment on the run screen. A run's own verdict counts as read once it was opened here."
    )

    def __init__(self, shared: Shared, run: RunFolder, verdict: Verdict, state: RunState | None, final: bool) -> None:
        super().__init__(shared)
        self.run_folder = run
        self._verdict = verdict
        self._state = state
        self._final = final
        self.lines = Lines(shared.glyphs, id="verdict-lines", draw=self._rows)

    def body(self) -> Iterable[Widget]:
        """One list."""
        yield self.lines

    def on_mount(self) -> None:
        """Somebody has opened it."""
        if self._final:
            self.run_folder.mark_read()

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """The run, and whose verdict it is."""
        whose = "the run's own verdict" if self._final else "so far: the run has not ended at this moment"
        return [(f" {settle(self.run_folder.id, self.shared.glyphs)}", "title")], [(f" {whose} ", "dim")]

    def _rows(self, width: int, height: int) -> tuple[Row, ...]:
        return rows_verdict(self._verdict, width, self.shared.glyphs, self._state)

    def action_witness(self, direction: int) -> None:
        """The next piece of evidence, or the one before."""
        if not self.lines.go_to(lambda row: row.ref is not None, backwards=direction < 0, beyond=True):
            self.say("no more evidence in this direction")

    def action_open(self) -> None:
        """The evidence under the cursor, in time."""
        row = self.lines.row
        if row is not None and row.ref is not None:
            self.dismiss(row.ref)

    def action_copy(self) -> None:
        """The whole verdict as text."""
        self.copy("\n".join(row.text for row in self.lines.rows), self.run_folder.path)

    def action_export(self) -> None:
        """The screen as SVG and text, in the run folder."""
        self.save("screen-verdict", self.run_folder.path)
