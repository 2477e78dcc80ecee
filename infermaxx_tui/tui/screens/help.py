"""Every key that works where the help was asked for, from the one table of commands."""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen

from infermaxx_tui.core.glyphs import Glyphs
from infermaxx_tui.core.panels.row import Row, row, title, wrapped
from infermaxx_tui.tui.commands import Command, Place, bindings, commands_of, key_name
from infermaxx_tui.tui.widgets.lines import Lines

_TITLES: dict[Place, str] = {
    "app": "Everywhere",
    "lines": "In a list",
    "clock": "Time",
    "home": "Runs, scenarios and experiments",
    "run": "This run",
    "stream": "This stream",
    "verdict": "This verdict",
    "compare": "This comparison",
    "experiment": "This experiment",
    "fleet": "All arms",
}
_ALSO = (("tab", "next panel"), ("shift+tab", "panel before"))
_LEGEND = (
    "A number stands beside what it was measured at; n/a says why it is missing.",
    "Leaving never stops a run: the runner is a process of its own. X stops it, after a question.",
)
_KEYS = 18
"""Cells of the column of keys."""


class HelpScreen(ModalScreen[None]):
    """The keys of some places."""

    BINDINGS = bindings("help")

    def __init__(self, about: str, places: Iterable[Place], keymap: dict[str, list[str]], glyphs: Glyphs) -> None:
        """`keymap` maps ids of commands to the keys that do them now."""
        super().__init__()
        self._about = about
        self._places: tuple[Place, ...] = tuple(places)
        self._keymap = keymap
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        """One list in a frame."""
        with Vertical(id="dialog"):
            yield Lines(self._glyphs, id="help", draw=self._rows)

    def _rows(self, width: int, height: int) -> tuple[Row, ...]:
        rows = [line for text in (self._about, *_LEGEND) for line in wrapped(text, width, self._glyphs)]
        for place in (*self._places, "lines", "app"):
            rows += [Row(""), title(_TITLES.get(place, ""), width, self._glyphs)]
            rows += [self._key(command, width) for command in commands_of(place)]
            if place == "lines":
                rows += [self._line(key, text, width) for key, text in _ALSO]
        return tuple(rows)

    def _line(self, keys: str, text: str, width: int) -> Row:
        return row([(f"{keys:<{_KEYS}}", "accent"), (text, None)], width, self._glyphs)

    def _key(self, command: Command, width: int) -> Row:
        keys = " ".join(key_name(key) for key in self._keymap.get(command.id, command.keys))
        return self._line(keys, command.text, width)

    def action_back(self) -> None:
        """Closes the help."""
        self.dismiss(None)
