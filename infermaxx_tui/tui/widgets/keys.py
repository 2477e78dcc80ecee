"""The line of keys at the foot: what works here now, by the one table of commands and the user's keymap."""

from __future__ import annotations

from textual.screen import Screen

from infermaxx_tui.core.glyphs import Glyphs
from infermaxx_tui.core.panels.row import Role, Row
from infermaxx_tui.tui.commands import GAP, line_of_keys
from infermaxx_tui.tui.widgets.lines import Lines


class KeyLine(Lines):
    """One line; it follows the focus."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(glyphs, id="keys", cursor=False)
        self.draw = self._keys

    def on_mount(self) -> None:
        """Listens for other bindings."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        if screen is self.screen:
            self.redraw()

    def _keys(self, width: int, height: int) -> tuple[Row, ...]:
        active: dict[str, str] = {}
        for key, found in self.screen.active_bindings.items():
            if found.binding.id is not None and found.enabled:
                active.setdefault(found.binding.id, key)
        text, spans = "", []
        for key, name in line_of_keys(active, width):
            start = len(text)
            spans.append((start, start + len(key), _KEY))
            text += f"{key} {name}{GAP}"
        return (Row(text.rstrip()[:width], tuple(span for span in spans if span[1] <= width)),)


_KEY: Role = "accent"
