"""The application: which screen, how it ends, and nothing that a screen can do itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable

import msgspec
from textual import work
from textual.app import App, SystemCommand
from textual.command import CommandPalette
from textual.message import Message
from textual.screen import Screen
from textual.theme import ThemeProvider

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.launch import Relay, StartError, signal_runner, start_runner
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.tui import messages
from infermaxx_tui.tui.commands import bindings, commands_of
from infermaxx_tui.tui.screens.base import Base
from infermaxx_tui.tui.screens.home import HomeScreen
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.terminal import Capability
from infermaxx_tui.tui.themes import THEMES
from infermaxx_tui.verdicts import load_or_judge

_NOT_IN_PALETTE = ("app.command_palette", "app.leave_always")


class InfermaxxApp(App[None]):
    """Home, run, stream, verdict, comparison, experiment and fleet. It never measures anything itself."""

    TITLE = "infermaxx"
    CSS_PATH = "app.tcss"
    BINDINGS = bindings("app")

    class Judged(Message):
        """Verdicts that a screen waits for."""

        def __init__(self, runs: tuple[RunFolder, ...], verdicts: tuple[Verdict, ...]) -> None:
            super().__init__()
            self.runs = runs
            self.verdicts = verdicts

    class Failed(Message):
        """Something that was asked for cannot be done: one line."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Narrated(Message):
        """What a start says on its way."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Started(Message):
        """A runner is at work."""

        def __init__(self, run: RunFolder) -> None:
            super().__init__()
            self.run = run

    def __init__(
        self,
        shared: Shared,
        capability: Capability,
        run: RunFolder | None = None,
        pair: tuple[RunFolder, RunFolder] | None = None,
        leaving: Callable[[], None] = lambda: None,
    ) -> None:
        """`leaving` is called before the screen is given back."""
        super().__init__(ansi_color=None if capability.color else True)
        self.shared = shared
        self._leaving = leaving
        self._run = run
        self._pair = pair
        self.last_run = run
        """The run that was looked at last, for the words at the end."""
        self._events: asyncio.AbstractEventLoop | None = None
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = capability.theme
        self.animation_level = "none"
        self.set_class(not capability.unicode, "-ascii")

    def on_mount(self) -> None:
        """The run that was asked for, else the list of runs."""
        self._events = asyncio.get_running_loop()
        self.push_screen(HomeScreen(self.shared) if self._run is None else self._run_screen(self._run))
        if self._pair is not None:
            self._judge(self._pair)

    @property
    def fault(self) -> Exception | None:
        """What ended the application although it should not have; None as long as nothing did."""
        return self._exception

    def _fatal_error(self) -> None:
        """Gives the terminal back without a traceback: the boundary of the program says what it was, on one line."""
        self._close_messages_no_wait()

    def leave_soon(self) -> None:
        """Leaves; to be called in a signal handler or in another thread."""
        if self._events is not None and not self._events.is_closed():
            self._events.call_soon_threadsafe(self.exit)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: what works everywhere, on this screen, and in the list that has the focus."""
        if not isinstance(screen, Base):
            return
        focused = screen.focused_list
        for command in commands_of(*screen.PLACES, "lines", "app"):
            node = self if command.place == "app" else focused if command.place == "lines" else screen
            if node is not None and command.id not in _NOT_IN_PALETTE:
                yield SystemCommand(
                    f"{command.place}: {command.name}",
                    command.text,
                    lambda action=command.action, node=node: self.run_action(action, node),
                )

    async def action_leave(self) -> None:
        """Leaves. A run goes on."""
        self._leaving()
        self.exit()

    async def action_help(self) -> None:
        """Every key."""
        from infermaxx_tui.tui.screens.help import HelpScreen

        screen = self.screen
        if isinstance(screen, Base):
            keymap: dict[str, list[str]] = {}
            for key, found in screen.active_bindings.items():
                if found.binding.id is not None:
                    keymap.setdefault(found.binding.id, []).append(key)
            self.push_screen(HelpScreen(screen.ABOUT, screen.PLACES, keymap, self.shared.glyphs))

    def action_command_palette(self) -> None:
        """The palette, with a placeholder that every terminal has the characters of."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder="search for a command"))

    def action_change_theme(self) -> None:
        """The palette of colours."""
        self.push_screen(CommandPalette([ThemeProvider], placeholder="search for colours"))

    def action_repaint(self) -> None:
        """Draws everything again."""
        self.screen.refresh(layout=True)

    def _run_screen(self, run: RunFolder, at: Ref | None = None) -> Screen[Ref]:
        from infermaxx_tui.tui.screens.run import RunScreen

        self.last_run = run
        return RunScreen(self.shared, run, at)

    def on_open_run(self, event: messages.OpenRun) -> None:
        """Its screen."""
        self.push_screen(self._run_screen(event.run, event.at))

    def on_go_home(self) -> None:
        """Back to what lies below, the list or an experiment; where nothing does, the list is made now."""
        if isinstance(self.screen_stack[-2], Base):
            self.pop_screen()
        else:
            self.switch_screen(HomeScreen(self.shared))

    def on_open_experiment(self, event: messages.OpenExperiment) -> None:
        """Its screen."""
        from infermaxx_tui.experiment.folder import SUBFOLDER, ExperimentFolder
        from infermaxx_tui.tui.screens.experiment import ExperimentScreen

        self.push_screen(ExperimentScreen(self.shared, ExperimentFolder(self.shared.root / SUBFOLDER / event.id)))

    def on_open_fleet(self) -> None:
        """One row an arm."""
        from infermaxx_tui.tui.screens.fleet import FleetScreen

        self.push_screen(FleetScreen(self.shared))

    def on_open_verdict(self, event: messages.OpenVerdict) -> None:
        """Its verdict, as soon as it is there."""
        self._judge((event.run,))

    def on_compare(self, event: messages.Compare) -> None:
        """Both verdicts, as soon as they are there."""
        self._judge((event.left, event.right))

    @work(thread=True, group="judge", exclusive=True)
    def _judge(self, runs: tuple[RunFolder, ...]) -> None:
        try:
            verdicts = tuple(load_or_judge(run) for run in runs)
        except RunError as error:
            self.post_message(self.Failed(str(error)))
        else:
            self.post_message(self.Judged(runs, verdicts))

    def on_infermaxx_app_judged(self, event: InfermaxxApp.Judged) -> None:
        """One verdict is shown for reading, two side by side."""
        match event.verdicts:
            case (verdict,):
                from infermaxx_tui.tui.screens.verdict import VerdictScreen

                run = event.runs[0]
                screen = VerdictScreen(self.shared, run, verdict, None, not run.alive())

                def go(ref: Ref | None) -> None:
                    if ref is not None:
                        self.push_screen(self._run_screen(run, ref))

                self.push_screen(screen, go)
            case (left, right):
                from infermaxx_tui.tui.screens.compare import CompareScreen

                first, second = event.runs
                self.push_screen(CompareScreen(self.shared, (first, second), (left, right)))
            case _:
                pass

    def on_start_run(self, event: messages.StartRun) -> None:
        """A runner of its own."""
        self._status(f"starting {event.scenario}")
        self._start(event.scenario, event.url)

    @work(thread=True, group="start", exclusive=True)
    def _start(self, scenario: str, url: str | None) -> None:
        from infermaxx_tui.wish import Wish

        def narrate(text: str) -> None:
            self.post_message(self.Narrated(text))

        wish = Wish(scenario=scenario, url=url, runs_dir=self.shared.runs_dir)
        try:
            run = start_runner(msgspec.json.encode(wish), narrate, Relay())
        except StartError as error:
            self.post_message(self.Failed(str(error)))
        else:
            self.post_message(self.Started(run))

    def on_infermaxx_app_narrated(self, event: InfermaxxApp.Narrated) -> None:
        """What the start says."""
        self._status(event.text)

    def on_infermaxx_app_started(self, event: InfermaxxApp.Started) -> None:
        """The run's screen; whatever was written over this one meanwhile is gone with it."""
        self._status("")
        self.push_screen(self._run_screen(event.run))

    def on_infermaxx_app_failed(self, event: InfermaxxApp.Failed) -> None:
        """One line; what a runner wrote over the screen before it let go of the terminal is painted over."""
        self._status("")
        self.action_repaint()
        self._say(event.text)

    def on_stop_run(self, event: messages.StopRun) -> None:
        """Asks first."""
        from infermaxx_tui.tui.screens.confirm import ConfirmScreen

        run = event.run
        if not run.alive():
            self._say(f"{run.id} is over already")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                try:
                    signal_runner(run, signal.SIGTERM)
                except RunError as error:
                    self._say(str(error))

        question = f"End the run {run.id} now? It ends cleanly, with a verdict on what it has seen."
        self.push_screen(ConfirmScreen(question, self.shared.glyphs), answered)

    def _status(self, text: str) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, HomeScreen):
                screen.status(text)

    def _say(self, text: str) -> None:
        self.notify(settle(text, self.shared.glyphs), markup=False, severity="error")
