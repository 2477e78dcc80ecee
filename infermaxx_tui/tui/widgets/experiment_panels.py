"""The panels of an experiment: which rows each shows, how its table is moved sideways, and where there is room."""

from __future__ import annotations

from infermaxx_tui.core.glyphs import Glyphs
from infermaxx_tui.core.panels.experiment_answer import rows_answer
from infermaxx_tui.core.panels.experiment_chart import rows_charts
from infermaxx_tui.core.panels.experiment_starts import rows_starts
from infermaxx_tui.core.panels.experiment_table import HEAD_LINES, last_first, part_of
from infermaxx_tui.core.panels.row import Row, wrapped
from infermaxx_tui.tui.experiment_places import EXPERIMENT_PANELS, ExperimentPanel, places
from infermaxx_tui.tui.experiments import Shown
from infermaxx_tui.tui.widgets.lines import Draw, Lines
from infermaxx_tui.tui.widgets.panel_set import PanelSet

_HEADS: dict[ExperimentPanel, int] = {"arms": HEAD_LINES, "starts": 1}


class ExperimentPanels(PanelSet[ExperimentPanel]):
    """Four lists over one experiment."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(EXPERIMENT_PANELS)
        self._glyphs = glyphs
        self._seen: Shown | None = None
        self._first = 0
        draws: dict[ExperimentPanel, Draw] = {
            "arms": self._arms,
            "starts": self._starts,
            "answer": self._answer,
            "curves": self._curves,
        }
        self.lists: dict[ExperimentPanel, Lines] = {
            name: Lines(glyphs, id=name, title=self._title(name), head=_HEADS.get(name, 0), draw=draws[name])
            for name in EXPERIMENT_PANELS
        }

    def show(self, seen: Shown | None) -> None:
        """Shows what was read."""
        self._seen = seen
        for lines in self.lists.values():
            lines.redraw()

    def make_room(self, width: int, height: int) -> None:
        """Puts the lists where there is room for them."""
        wanted = {name: len(self._rows_of(name, width)) + 1 for name in ("arms", "starts")}
        boxes = places(width, height, wanted, self.chosen, self._alone)  # type: ignore[arg-type]  # names of panels
        self.put(boxes)
        for name, lines in self.lists.items():
            lines.title = self._title(name)

    def _rows_of(self, name: str, width: int) -> tuple[Row, ...]:
        return self._arms(width, 0) if name == "arms" else self._starts(width, 0)

    def columns(self, step: int) -> None:
        """Columns of the table further to the right, or to the left."""
        table = None if self._seen is None else self._seen.table
        if table is not None:
            width = self.lists["arms"].size.width or self.size.width
            self._first = min(max(self._first + step, 0), last_first(table, width, self._glyphs))
            self.lists["arms"].redraw()

    def _title(self, name: ExperimentPanel, note: str = "") -> str:
        match name:
            case "arms":
                return f"1 arms{f', {note}: ] for more' if note else ''}"
            case "starts":
                return "2 starts"
            case "answer":
                hidden = self.is_mounted and not self.lists["curves"].display
                return f"3 what moved{' (4: curves)' if hidden else ''}"
            case "curves":
                return "4 curves"

    def _arms(self, width: int, height: int) -> tuple[Row, ...]:
        seen = self._seen
        if seen is None:
            return ()
        if seen.table is None:
            return (*(Row(""),) * HEAD_LINES, *wrapped(seen.problem or "no rows yet", width, self._glyphs, role="bad"))
        names = [cells[0].text for cells in seen.table.rows]
        part = part_of(seen.table, width, self._glyphs, self._first, keys=names)
        self.lists["arms"].title = self._title("arms", part.note())
        return part.rows

    def _starts(self, width: int, height: int) -> tuple[Row, ...]:
        return () if self._seen is None else rows_starts(self._seen.starts, width, self._glyphs)

    def _answer(self, width: int, height: int) -> tuple[Row, ...]:
        return () if self._seen is None else rows_answer(self._seen.lines, width, self._glyphs, self.match)

    def _curves(self, width: int, height: int) -> tuple[Row, ...]:
        return () if self._seen is None else rows_charts(self._seen.charts, width, self._glyphs)
