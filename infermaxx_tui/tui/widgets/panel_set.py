"""Several lists of which one is chosen: what a digit, the next key and the whole-screen key do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Container

from infermaxx_tui.tui.arrange import Box
from infermaxx_tui.tui.widgets.lines import Lines

Name = TypeVar("Name", bound=str)


class PanelSet(Container, Generic[Name]):
    """Lists by name, in the order of their digits."""

    lists: Mapping[Name, Lines]

    def __init__(self, names: Sequence[Name]) -> None:
        super().__init__(id="panels")
        self._names = names
        self._alone = False
        self.match = ""
        """What the lists' lines must hold."""
        self.chosen: Name = names[0]
        """The panel that the digits and the expansion are about."""

    def compose(self) -> ComposeResult:
        """The lists."""
        yield from self.lists.values()

    def put(self, boxes: Mapping[Name, Box]) -> None:
        """Puts the lists into their boxes; those without one are not shown."""
        for name, lines in self.lists.items():
            box = boxes.get(name)
            lines.display = box is not None
            if box is not None:
                lines.styles.offset = (box.x, box.y)
                lines.styles.width = box.width
                lines.styles.height = box.height

    def choose(self, number: int) -> None:
        """The panel of a digit; the one that has the focus already gets all the room, or gives it back."""
        panel = self._names[number - 1]
        if panel == self.chosen and self.lists[panel].has_focus:
            self._alone = not self._alone
        self.chosen = panel

    def next(self, direction: int) -> None:
        """The next of those that can be reached."""
        order = self.reachable()
        at = order.index(self.chosen) if self.chosen in order else 0
        self.chosen = order[(at + direction) % len(order)]

    def reachable(self) -> Sequence[Name]:
        """What the next key goes through."""
        return self._names

    def toggle_alone(self) -> None:
        """The chosen panel alone, or among the others."""
        self._alone = not self._alone

    def focus_chosen(self) -> None:
        """The chosen panel takes the focus."""
        self.lists[self.chosen].focus()

    def on_descendant_focus(self) -> None:
        """Whatever takes the focus is chosen."""
        for name, lines in self.lists.items():
            if lines.has_focus:
                self.chosen = name
