"""Experiments as screens show them, read from their folders: everything that takes time happens here, off the screen.

Only the rows are read. Conducting one, which may take hours of boots, belongs to a shell or to cron.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui import shipped
from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.cells import Table
from infermaxx_tui.core.experiment.curves import Chart, charts
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.rows import AnyRow, ArmRow, arm_rows, registered
from infermaxx_tui.core.experiment.table import arms_table
from infermaxx_tui.core.panels.experiment_starts import Start, live, starts_of
from infermaxx_tui.core.panels.experiments import ExperimentLine, FileLine
from infermaxx_tui.experiment.folder import ExperimentFolder, left, list_experiments, name_of
from infermaxx_tui.rundir import RUN_ID, RunError, RunFolder

_WRONG: Final = (ValueError, ArithmeticError, LookupError, RecursionError)
"""What rows can do that are whole JSON and yet no experiment: nobody answers for what stands in a file."""
Sign = tuple[int, int, bool]
"""Size and time of the rows, and whether somebody writes them."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment as far as it has come."""

    going: bool = False
    """Whether somebody conducts it now."""
    problem: str | None = None
    """Why nothing else is here."""
    answer: Answer | None = None
    lines: tuple[str, ...] = ()
    table: Table | None = None
    charts: tuple[Chart, ...] = ()
    starts: tuple[Start, ...] = ()

    def state(self) -> str:
        """In a few words: what goes on, or how far it came."""
        if self.problem is not None:
            return self.problem
        now = live(self.starts)
        if now is not None:
            return f"step {now.place + 1} of {len(self.starts)}: {now.arm}, start {now.boot + 1}, {now.word}"
        done = sum(one.state in ("judged", "not judged") for one in self.starts)
        if self.going:
            return f"going on: {done} of {len(self.starts)} starts"
        if self.answer is not None and self.answer.finished:
            return f"finished: {done} starts"
        return f"broken off: {done} of {len(self.starts)} starts; the same command goes on"


def sign_of(folder: ExperimentFolder) -> Sign:
    """Changes whenever what is shown would. Zeros where there are no rows."""
    try:
        seen = folder.rows_file.stat()
    except OSError:
        return 0, 0, RunFolder(folder.path).alive()
    return seen.st_size, seen.st_mtime_ns, RunFolder(folder.path).alive()


def read_experiment(folder: ExperimentFolder) -> Shown:
    """All that its rows say, or why they say nothing."""
    going = RunFolder(folder.path).alive()
    try:
        rows = folder.rows()
        found = answer(rows)
        return Shown(
            going=going,
            answer=found,
            lines=tuple(answer_lines(found)),
            table=arms_table(found),
            charts=charts(found),
            starts=starts_of(rows, going),
        )
    except RunError as error:
        return Shown(going=going, problem=str(error))
    except _WRONG as error:
        return Shown(going=going, problem=_useless(folder, error))


def _useless(folder: ExperimentFolder, error: Exception) -> str:
    return f"{folder.rows_file}: its rows make no experiment ({str(error) or type(error).__name__})"


def mark_read(folder: ExperimentFolder, shown: Shown) -> None:
    """Somebody sees what its runs came to."""
    for one in shown.starts:
        run = run_of(folder, one)
        if one.state == "judged" and run is not None and run.path.is_dir():
            run.mark_read()


def run_of(folder: ExperimentFolder, start: Start) -> RunFolder | None:
    """The run of a start, beside the experiments; None if it has none, or what its row names is no run."""
    if start.run is None or not RUN_ID.fullmatch(start.run):
        return None
    return RunFolder(folder.path.parents[1] / start.run)


class Experiments:
    """The experiments of one folder of runs. What has not changed is not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lines: dict[str, tuple[Sign, ExperimentLine]] = {}
        self._answers: dict[str, tuple[Sign, Answer | None]] = {}

    def read(self) -> tuple[ExperimentLine, ...]:
        """A line for each, newest first."""
        return tuple(self._line(folder) for folder in list_experiments(self._root))

    def answers(self) -> tuple[tuple[str, Answer], ...]:
        """Folder and results of the newest of each experiment that can be read, newest first."""
        newest: dict[str, tuple[str, Answer]] = {}
        for folder in list_experiments(self._root):
            if name_of(folder.id) in newest:
                continue  # cron makes many of one name, and only the newest is wanted
            found = self._answer(folder)
            if found is not None:
                newest[name_of(folder.id)] = (folder.id, found)
        return tuple(newest.values())

    def _line(self, folder: ExperimentFolder) -> ExperimentLine:
        known = self._lines.get(folder.id)
        if known is not None and known[1].state == "finished":
            return known[1]
        sign = sign_of(folder)
        if known is None or known[0] != sign:
            known = self._lines[folder.id] = (sign, _described(folder, sign[2]))
        return known[1]

    def _answer(self, folder: ExperimentFolder) -> Answer | None:
        sign, known = sign_of(folder), self._answers.get(folder.id)
        if known is None or known[0] != sign:
            known = self._answers[folder.id] = (sign, read_experiment(folder).answer)
        return known[1]


def _described(folder: ExperimentFolder, going: bool) -> ExperimentLine:
    stamp = folder.id
    when = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]}"
    name = name_of(folder.id)
    unreadable = ExperimentLine(id=folder.id, when=when, name=name, state="unreadable")
    replace = msgspec.structs.replace
    try:
        rows = folder.rows()
        first = registered(rows)
        if first is None:
            return replace(unreadable, problem="its results have no first line")
        done = arm_rows(rows)
        return ExperimentLine(
            id=folder.id,
            when=when,
            name=name,
            state="going on" if going else "broken off" if _is_left(rows) else "finished",
            done=len(done),
            planned=len(first.order),
            words=tuple(_word(row) for row in done),
            question=first.question,
        )
    except (RunError, *_WRONG) as error:
        return replace(unreadable, problem=str(error).removeprefix(f"{folder.rows_file}: ") or type(error).__name__)


def _is_left(rows: tuple[AnyRow, ...]) -> bool:
    return bool(left(rows))


def _word(row: ArmRow) -> str:
    return row.verdict or row.outcome


def file_lines(flag: str) -> tuple[FileLine, ...]:
    """A line for each shipped experiment file, with what to type; `flag` says where runs are."""
    return tuple(_file(path, flag) for path in shipped.experiment_files())


def _file(path: Path, flag: str) -> FileLine:
    """Only what the file says by itself: its variables may have no value yet."""
    command = f"infermaxx experiment {shlex.quote(path.stem)}"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return FileLine(name=path.stem, command=f"{command}{flag}", problem=str(error))
    arms, boots = raw.get("arms"), raw.get("boots", 2)
    starts = len(arms) * boots if isinstance(arms, list) and isinstance(boots, int) else None
    wanted = "".join(f" --set vars.{name}=..." for name in _wanted(raw))
    return FileLine(
        name=path.stem, command=f"{command}{wanted}{flag}", question=str(raw.get("question", "")), starts=starts
    )


def _wanted(raw: dict[str, object]) -> Iterator[str]:
    """Variables without a value of their own."""
    named = raw.get("vars")
    if isinstance(named, dict):
        yield from (str(name) for name, value in named.items() if value == "")
