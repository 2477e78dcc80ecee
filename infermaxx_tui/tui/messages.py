"""What a screen wants of the application: intent goes up by messages, and only the application moves screens."""

from __future__ import annotations

from textual.message import Message

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.rundir import RunFolder


class OpenRun(Message):
    """Show a run, at an event if one is named."""

    def __init__(self, run: RunFolder, at: Ref | None = None) -> None:
        super().__init__()
        self.run = run
        self.at = at


class OpenVerdict(Message):
    """Show a run's verdict without its run screen."""

    def __init__(self, run: RunFolder) -> None:
        super().__init__()
        self.run = run


class Compare(Message):
    """Show two runs side by side."""

    def __init__(self, left: RunFolder, right: RunFolder) -> None:
        super().__init__()
        self.left = left
        self.right = right


class OpenExperiment(Message):
    """Show an experiment, by its folder's name."""

    def __init__(self, id: str) -> None:
        super().__init__()
        self.id = id


class OpenFleet(Message):
    """Show every arm of all experiments."""


class StartRun(Message):
    """Start a runner of its own and show its run."""

    def __init__(self, scenario: str, url: str | None) -> None:
        super().__init__()
        self.scenario = scenario
        self.url = url


class StopRun(Message):
    """Ask whether to stop a run, and stop it."""

    def __init__(self, run: RunFolder) -> None:
        super().__init__()
        self.run = run


class GoHome(Message):
    """Show the list of runs."""
