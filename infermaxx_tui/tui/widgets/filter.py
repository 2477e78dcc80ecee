"""One line to type a filter into; what is typed works at once."""

from __future__ import annotations

from textual.message import Message
from textual.widgets import Input

from infermaxx_tui.tui.commands import bindings


class FilterLine(Input):
    """Hidden until it is asked for. `Typed` tells each change, `Left` that the list has the focus again."""

    BINDINGS = bindings("filter")

    class Typed(Message):
        """Another filter text; empty shows everything."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The filter line is done."""

    def __init__(self) -> None:
        super().__init__(id="filter", placeholder="show lines that hold ...", compact=True, select_on_focus=False)
        self.display = False

    def open(self) -> None:
        """Shows the line and takes the focus."""
        self.display = True
        self.focus()

    def drop(self) -> None:
        """No filter any more."""
        self.value = ""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """A filter works while it is typed."""
        event.stop()
        self.post_message(self.Typed(event.value))

    def action_keep(self) -> None:
        """Back to the list; an empty filter is none."""
        self.display = bool(self.value)
        self.post_message(self.Left())

    def action_drop(self) -> None:
        """Everything is shown again."""
        self.drop()
        self.post_message(self.Left())
