"""What can be looked at and what can be started: the runs of a folder, and the scenarios that come with the program."""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui import rundir, shipped
from infermaxx_tui.core.panels import RunLine, ScenarioLine
from infermaxx_tui.core.scenario import Scenario, ScenarioError, parse_scenario
from infermaxx_tui.runlist import RunRow, describe_runs


class Runs:
    """The runs of one folder. What can no longer change is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._over: dict[str, RunRow] = {}

    def read(self) -> tuple[RunLine, ...]:
        """A line for each run, newest first. Raises RunError if the folder cannot be listed."""
        folders = rundir.list_runs(self._root)
        fresh = {row.run: row for row in describe_runs([run for run in folders if run.id not in self._over])}
        lines = []
        for run in folders:
            row = fresh.get(run.id) or self._over[run.id]
            if row.state == "ended" and row.verdict is not None:
                self._over[run.id] = row
            read = row.read or run.is_read()
            lines.append(RunLine(row.run, row.when, row.scenario, row.state, row.verdict, read))
        return tuple(lines)


def scenario_lines() -> tuple[ScenarioLine, ...]:
    """A line for each shipped scenario; one that cannot be read says why."""
    return tuple(_line(path) for path in shipped.scenario_files())


def _line(path: Path) -> ScenarioLine:
    try:
        text = path.read_text(encoding="utf-8")
        scenario = parse_scenario(text, path.name)
    except (OSError, UnicodeDecodeError, ScenarioError) as error:
        return ScenarioLine(path.stem, "", None, None, None, None, None, problem=str(error))
    sessions = scenario.sessions
    return ScenarioLine(
        name=path.stem,
        proves=proves(text),
        sessions=sessions.count * sessions.rounds,
        at_once=1 if sessions.control == "serial" else sessions.at_once or sessions.count,
        target_depth=sessions.target_depth,
        recalls=recalls_of(scenario),
        duration=scenario.stop.duration,
    )


def proves(text: str) -> str:
    """The comment lines at the head of a scenario, as one text."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    return " ".join(lines)


def recalls_of(scenario: Scenario) -> int:
    """Recall questions that the scenario asks in all: of each tag, at each depth beyond it."""
    canaries, sessions = scenario.canaries, scenario.sessions
    of_tags = sum(at < ask for ask in canaries.ask_at for at in scenario.plant_fractions)
    of_head = sum(ask > 0 for ask in canaries.ask_at) if canaries.head else 0
    return (of_tags + of_head) * sessions.count * sessions.rounds


def needs_url(name: str) -> bool:
    """Whether the scenario names no server, so that one must be given. Raises ScenarioError."""
    path = shipped.find_scenario(name)
    try:
        server = parse_scenario(path.read_text(encoding="utf-8"), path.name).server
    except OSError as error:
        raise ScenarioError(name, "", error.strerror or "cannot be read") from None
    return not (server.url or server.launch or server.sim)
