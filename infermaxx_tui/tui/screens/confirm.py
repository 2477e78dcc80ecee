"""A question with two answers, for the few things that cannot be taken back."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from infermaxx_tui.core.glyphs import Glyphs, settle
from infermaxx_tui.tui.commands import bindings


class ConfirmScreen(ModalScreen[bool]):
    """True for yes."""

    BINDINGS = bindings("confirm")

    def __init__(self, question: str, glyphs: Glyphs) -> None:
        super().__init__()
        self._question = settle(question, glyphs)

    def compose(self) -> ComposeResult:
        """The question and its two keys."""
        with Vertical(id="dialog"):
            yield Static(Content(self._question))
            yield Static(Content("y  yes        n  no"), id="answers")

    def action_yes(self) -> None:
        """Do it."""
        self.dismiss(True)

    def action_no(self) -> None:
        """Leave it."""
        self.dismiss(False)
