"""What the keys for panels do on every screen that has some."""

from __future__ import annotations

from typing import Any

from infermaxx_tui.tui.widgets.panel_set import PanelSet


class Panelled:
    """Mixed into a screen with `panels`, which puts them where there is room in `arrange_panels`."""

    panels: PanelSet[Any]

    def arrange_panels(self) -> None:
        """Gives each panel its room; the screen says how."""

    def action_panel(self, number: int) -> None:
        """A panel; the same again: alone on the screen."""
        self.panels.choose(number)
        self._arrange_and_focus()

    def action_next_panel(self, direction: int) -> None:
        """The next panel, also where only one has room."""
        self.panels.next(direction)
        self._arrange_and_focus()

    def action_expand(self) -> None:
        """The panel with the focus, alone or among the others."""
        self.panels.toggle_alone()
        self._arrange_and_focus()

    def _arrange_and_focus(self) -> None:
        self.arrange_panels()
        self.panels.focus_chosen()
