"""Makes painted lines of rows: what each role looks like, in the colours and on the terminal of now."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from infermaxx_tui.core.glyphs import cells
from infermaxx_tui.core.panels.row import Role, Row

ROLES: tuple[Role, ...] = ("ok", "bad", "warn", "dim", "accent", "title", "cursor")


class Brush:
    """Paints for one widget, whose component classes `lines--ROLE` say how roles look. Looks are kept until `rinse`."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._looks: dict[tuple[Role | None, bool], Style] = {}

    def rinse(self) -> None:
        """Colours have changed."""
        self._looks = {}

    def paint(self, row: Row, selected: bool, width: int) -> Strip:
        """The row on so many cells."""
        base = self._look(None, selected)
        segments: list[Segment] = []
        at = 0
        for start, end, role in row.spans:
            if start > at:
                segments.append(Segment(row.text[at:start], base))
            segments.append(Segment(row.text[start:end], self._look(role, selected)))
            at = end
        rest = row.text[at:] + " " * (width - cells(row.text))
        if rest:
            segments.append(Segment(rest, base))
        return Strip(segments, width)

    def _look(self, role: Role | None, selected: bool) -> Style:
        """How a role looks; on the selected row its colours give way to the cursor's, its weight stays."""
        look = self._looks.get((role, selected))
        if look is None:
            look = self._widget.rich_style
            if selected:
                look += self._widget.get_component_rich_style("lines--selected", partial=True)
            if role is not None:
                style = self._widget.get_component_rich_style(f"lines--{role}", partial=True)
                look += style.without_color if selected else style
            self._looks[role, selected] = look
        return look
