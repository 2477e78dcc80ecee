"""Before a scenario is started: what it will do, and the server that it will be sent to."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from infermaxx_tui.core.glyphs import Glyphs, settle
from infermaxx_tui.core.panels import ScenarioLine
from infermaxx_tui.tui.commands import bindings

_ADVICE = "enter starts it in a process of its own; esc leaves it"


class StartScreen(ModalScreen[tuple[str, str | None]]):
    """The scenario's name and the URL that was typed, once it is confirmed."""

    BINDINGS = bindings("start")

    def __init__(self, glyphs: Glyphs, scenario: ScenarioLine, needs_url: bool) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._scenario = scenario
        self._needs_url = needs_url
        default = (
            "URL of the server, e.g. http://127.0.0.1:8000" if needs_url else "another server (the scenario has one)"
        )
        self._url = Input(placeholder=default, compact=True, id="url")
        self._url.cursor_blink = False

    def compose(self) -> ComposeResult:
        """What it proves, what it takes, and where it goes."""
        line, glyphs = self._scenario, self._glyphs
        takes = (
            f"{line.sessions} sessions, {line.at_once} at once, to {line.target_depth} tokens,"
            f" {line.recalls} recalls{f', at most {line.duration}' if line.duration else ''}"
        )
        with Vertical(id="dialog"):
            yield Static(Content(settle(f"Start {line.name}?", glyphs)), classes="head")
            yield Static(Content(settle(line.proves, glyphs)))
            yield Static(Content(settle(takes, glyphs)))
            yield self._url
            yield Static(Content(_ADVICE), id="answers")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in the line of the URL."""
        event.stop()
        self.action_start()

    def action_start(self) -> None:
        """Starts it, unless the server is missing."""
        url = self._url.value.strip() or None
        if url is None and self._needs_url:
            self.notify("this scenario names no server: type its URL", markup=False, severity="warning")
            return
        self.dismiss((self._scenario.name, url))

    def action_back(self) -> None:
        """Leaves it."""
        self.dismiss()
