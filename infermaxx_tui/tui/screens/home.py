"""The first screen: runs, with what has not been read yet, scenarios to start, and experiments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from infermaxx_tui.core.glyphs import settle
from infermaxx_tui.core.panels import Row, RunLine, ScenarioLine, rows_runs, rows_scenarios
from infermaxx_tui.core.panels.experiments import ExperimentLine, FileLine, rows_experiments
from infermaxx_tui.rundir import RunError, RunFolder
from infermaxx_tui.tui import messages
from infermaxx_tui.tui.arrange import shares
from infermaxx_tui.tui.commands import Place, bindings
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.shared import Shared
from infermaxx_tui.tui.widgets.filter import FilterLine
from infermaxx_tui.tui.widgets.lines import Lines

if TYPE_CHECKING:
    from infermaxx_tui.tui.catalog import Runs
    from infermaxx_tui.tui.experiments import Experiments

REFRESH_S = 3.0
_TITLE_AND_HEAD = 2


class HomeScreen(Base):
    """Runs, scenarios, experiments."""

    PLACES: ClassVar[tuple[Place, ...]] = ("home",)
    BINDINGS = bindings("home")
    ABOUT = (
        "Runs, newest first; a mark stands before each verdict that nobody has opened yet. Below, the scenarios that"
        " come with the program and what each proves, then experiments, and the files that make one: those take hours"
        " of starts, so they are typed in a shell or given to cron. Enter opens a run or an experiment, or starts a"
        " scenario."
    )

    class Listed(Message):
        """The folder of runs was read."""

        def __init__(self, runs: tuple[RunLine, ...], scenarios: tuple[ScenarioLine, ...], problem: str) -> None:
            super().__init__()
            self.runs = runs
            self.scenarios = scenarios
            self.problem = problem

    class Conducted(Message):
        """The folder of experiments was read."""

        def __init__(self, found: tuple[ExperimentLine, ...], files: tuple[FileLine, ...]) -> None:
            super().__init__()
            self.found = found
            self.files = files

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._catalog: Runs | None = None
        self._experiments: Experiments | None = None
        self._experiment_lines: tuple[ExperimentLine, ...] = ()
        self._file_lines: tuple[FileLine, ...] = ()
        self._run_lines: tuple[RunLine, ...] = ()
        self._scenario_lines: tuple[ScenarioLine, ...] = ()
        self._problem = "reading the runs"
        self._status = ""
        self._match = ""
        self._marked: str | None = None
        self.runs = Lines(shared.glyphs, id="runs", head=1, title="runs", draw=self._draw_runs)
        self.scenarios = Lines(shared.glyphs, id="scenarios", head=1, title="scenarios", draw=self._draw_scenarios)
        self.experiments = Lines(
            shared.glyphs, id="experiments", head=1, title="experiments", draw=self._draw_experiments
        )

    def body(self) -> Iterable[Widget]:
        """Three lists."""
        yield self.runs
        yield self.scenarios
        yield self.experiments

    def on_mount(self) -> None:
        """Reads now and then."""
        self.keep_reading(self._read, REFRESH_S)

    def on_screen_resume(self) -> None:
        """Something may have been read or ended meanwhile."""
        if self._scenario_lines:
            self._read()

    @work(thread=True, group="runs", exclusive=True)
    def _read(self) -> None:
        from infermaxx_tui.tui.catalog import Runs, scenario_lines

        problem = ""
        runs: tuple[RunLine, ...] = ()
        if self._catalog is None:
            self._catalog = Runs(self.shared.root)
        try:
            runs = self._catalog.read()
        except RunError as error:
            problem = str(error)
        scenarios = self._scenario_lines or scenario_lines()
        if not get_current_worker().is_cancelled:
            self.post_message(self.Listed(runs, scenarios, problem))
            self._read_experiments()

    def _read_experiments(self) -> None:
        """After the runs, so that nobody waits for them longer than without; in the same thread."""
        from infermaxx_tui.tui.experiments import Experiments, file_lines

        if self._experiments is None:
            self._experiments = Experiments(self.shared.root)
        found = self._experiments.read()
        files = self._file_lines or file_lines(self.shared.run_flag())
        if not get_current_worker().is_cancelled:
            self.post_message(self.Conducted(found, files))

    def on_home_screen_conducted(self, event: HomeScreen.Conducted) -> None:
        """Shows what was read."""
        self._experiment_lines, self._file_lines = event.found, event.files
        self._make_room()
        self.experiments.redraw()

    def on_home_screen_listed(self, event: HomeScreen.Listed) -> None:
        """Shows what was read."""
        first = not self._scenario_lines
        self._run_lines, self._scenario_lines, self._problem = event.runs, event.scenarios, event.problem
        self._make_room()
        self.redraw()
        if first and not event.runs:
            self.scenarios.focus()

    def on_resize(self) -> None:
        """Another height has room for other lists."""
        self._make_room()

    def _make_room(self) -> None:
        """Each list gets its part of the lines, and what the others do not need."""
        lists = (self.runs, self.scenarios, self.experiments)
        counts = (len(self._run_lines), len(self._scenario_lines), len(self._experiment_lines) + len(self._file_lines))
        wanted = [max(count, 1) + _TITLE_AND_HEAD for count in counts]
        if not self._experiment_lines:
            wanted[2] += 1
        height = self.size.height - 2 - self.filter_line.display
        for lines, share in zip(lists, shares(max(height, 1), wanted), strict=True):
            lines.display = share > 0
            lines.styles.height = share

    def redraw(self) -> None:
        """Everything that is shown."""
        self.bar.redraw()
        self.runs.redraw()
        self.scenarios.redraw()
        self.experiments.redraw()

    def status(self, text: str) -> None:
        """What goes on, in the bar."""
        self._status = text
        self.bar.redraw()

    def bar_parts(self) -> tuple[list[Part], list[Part]]:
        """Where the runs are, and how many verdicts nobody has read."""
        glyphs = self.shared.glyphs
        left: list[Part] = [(" infermaxx ", "title")]
        if self._status:
            left.append((f" {settle(self._status, glyphs)}", "accent"))
        elif self._problem:
            left.append((f" {settle(self._problem, glyphs)}", "warn"))
        elif self._marked is not None:
            left.append((f" {settle(self._marked, glyphs)} is marked: c on another run compares the two", "accent"))
        else:
            left.append((f" {settle(str(self.shared.root), glyphs)}", "dim"))
        if self._match:
            left.append((f"  /{settle(self._match, glyphs)}", "accent"))
        unread = sum(line.verdict is not None and not line.read for line in self._run_lines)
        right: list[Part] = [(f" {unread} unread ", "warn")] if unread else []
        return left, right

    def _draw_runs(self, width: int, height: int) -> tuple[Row, ...]:
        return rows_runs(self._run_lines, width, self.shared.glyphs, self._match)

    def _draw_scenarios(self, width: int, height: int) -> tuple[Row, ...]:
        return rows_scenarios(self._scenario_lines, width, self.shared.glyphs, self._match)

    def _draw_experiments(self, width: int, height: int) -> tuple[Row, ...]:
        return rows_experiments(self._experiment_lines, self._file_lines, width, self.shared.glyphs, self._match)

    def on_filter_line_typed(self, event: FilterLine.Typed) -> None:
        """Lines that hold the text."""
        self._match = event.text
        self._make_room()
        self.redraw()

    def _chosen_run(self) -> RunFolder | None:
        row = self.runs.row if self.focused_list is self.runs else None
        return None if row is None or row.key is None else RunFolder(self.shared.root / row.key)

    def action_open(self) -> None:
        """The run, the scenario, the experiment, or what to type for one."""
        run = self._chosen_run()
        row = self.scenarios.row if self.focused_list is self.scenarios else None
        if self.focused_list is self.experiments and self.experiments.row is not None:
            self._open_experiment(self.experiments.row.key)
        if run is not None:
            self.post_message(messages.OpenRun(run))
        elif row is not None:
            self._ask_to_start(row.key)

    def _open_experiment(self, key: str | None) -> None:
        file = next((line for line in self._file_lines if line.command == key), None)
        if file is not None:
            self.say(f"{file.question} Type in a shell or in cron (y copies it): {file.command}", bad=False)
        elif key is not None:
            self.post_message(messages.OpenExperiment(key))

    def action_fleet(self) -> None:
        """Every arm of all experiments."""
        self.post_message(messages.OpenFleet())

    def _ask_to_start(self, name: str | None) -> None:
        from infermaxx_tui.core.scenario import ScenarioError
        from infermaxx_tui.tui.catalog import needs_url
        from infermaxx_tui.tui.screens.start import StartScreen

        line = next((line for line in self._scenario_lines if line.name == name), None)
        if line is None:
            return
        try:
            needed = needs_url(line.name)
        except ScenarioError as error:
            self.say(str(error), bad=True)
            return
        self.app.push_screen(StartScreen(self.shared.glyphs, line, needed), self._start)

    def _start(self, chosen: tuple[str, str | None] | None) -> None:
        if chosen is not None:
            self.post_message(messages.StartRun(*chosen))

    def action_verdict(self) -> None:
        """The run's verdict."""
        run = self._chosen_run()
        if run is not None:
            self.post_message(messages.OpenVerdict(run))

    def action_mark_compare(self) -> None:
        """Marks a run, or compares it with the marked one."""
        run = self._chosen_run()
        if run is None:
            return
        if self._marked is None or self._marked == run.id:
            self._marked = run.id if self._marked is None else None
            self.bar.redraw()
            return
        left = RunFolder(self.shared.root / self._marked)
        self._marked = None
        self.post_message(messages.Compare(left, run))

    def action_clear(self) -> None:
        """No filter, no mark."""
        self.filter_line.drop()
        self._match = ""
        self._marked = None
        self.redraw()

    def action_stop(self) -> None:
        """Ends the run, after a question."""
        run = self._chosen_run()
        if run is not None:
            self.post_message(messages.StopRun(run))

    def action_again(self) -> None:
        """Reads the folder of runs again."""
        self._read()

    def action_copy(self) -> None:
        """The run's or the experiment's id, the scenario's name, or what to type for a file."""
        lines = self.focused_list
        if lines is not None and lines.row is not None and lines.row.key is not None:
            self.copy(lines.row.key, None)

    def action_export(self) -> None:
        """The screen as SVG and text, beside the runs."""
        self.save("screen-home", self.shared.root)
