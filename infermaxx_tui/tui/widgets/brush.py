"""Makes painted lines of rows: what each role looks like, in the colours and on the terminal of now."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from infermaxx_tui.core.glyphs import cells
from infermaxx_tui.core.panels.row import Role, Row, Span
from infermaxx_tui.tui.widgets.slices import is_plain

ROLES: tuple[Role, ...] = ("ok", "bad", "warn", "dim", "accent", "title", "cursor", "struck")


class Brush:
    """Paints for one widget, whose component classes `lines--ROLE` say how roles look. Looks are kept until `rinse`."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._looks: dict[tuple[Role | None, bool], Style] = {}

    def rinse(self) -> None:
        """Colours have changed."""
        self._looks = {}

    def paint(self, row: Row, selected: bool, first: int, end: int) -> Strip:
        """The row's cells from `first` to before `end`; blanks where it has no more."""
        if is_plain(row):
            strip = Strip(self._segments(row.text.ljust(end), row.spans, selected, first, end), end - first)
        else:
            text = row.text + " " * (end - cells(row.text))
            strip = Strip(self._segments(text, row.spans, selected, 0, len(text))).crop(first, end)
        for line_filter in self._widget.get_line_filters():
            strip = strip.apply_filter(line_filter, self._widget.background_colors[1])
        return strip

    def _segments(self, text: str, spans: Sequence[Span], selected: bool, at: int, end: int) -> list[Segment]:
        """The characters from `at` to before `end`, each in the look of its span."""
        base = self._look(None, selected)
        segments: list[Segment] = []
        for start, stop, role in spans:
            start, stop = max(start, at), min(stop, end)
            if start < stop:
                if start > at:
                    segments.append(Segment(text[at:start], base))
                segments.append(Segment(text[start:stop], self._look(role, selected)))
                at = stop
        if at < end:
            segments.append(Segment(text[at:end], base))
        return segments

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
