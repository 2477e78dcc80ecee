"""Two runs side by side; where their regimes differ the figures are refused and the keys that differ are named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels import Row, rows_compare
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.lines import Lines


class CompareScreen(Base):
    """Two verdicts."""

    PLACES: ClassVar[tuple[Place, ...]] = ("compare",)
    BINDINGS = bindings("compare")
    ABOUT = "Two runs side by side. Figures are shown where one thing alone differs between their regimes."

    def __init__(self, shared: Shared, runs: tuple[RunFolder, RunFolder], pair: tuple[Verdict, Verdict]) -> None:
        super().__init__(shared)
        self._runs = runs
        self._pair = pair
        self.lines = Lines(shared.glyphs, id="comparison", draw=self._rows)

    def body(self) -> Iterable[Widget]:
        """One list."""
        yield self.lines

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """Which runs."""
        names = [settle(run.id, self.shared.glyphs) for run in self._runs]
        return [(f" {names[0]}", "title"), (" against ", "dim"), (names[1], "title")], []

    def _rows(self, width: int, height: int) -> tuple[Row, ...]:
        return rows_compare(*self._pair, width, self.shared.glyphs)

    def action_copy(self) -> None:
        """The whole comparison as text."""
        self.copy("\n".join(row.text for row in self.lines.rows), None)

    def action_export(self) -> None:
        """The screen as SVG and text, beside the runs."""
        self.save("screen-compare", self.shared.root)
