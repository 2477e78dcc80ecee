"""What `infermaxx experiment` prints and exits with."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.cells import Cell, Table, markdown_table
from infermaxx_tui.core.experiment.fleet import fleet_table
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.page import fleet_html, html_text, markdown_text
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.experiment.svg import svg_text
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.experiment.ahead import ahead_lines
from infermaxx_tui.experiment.conduct import conditions_of, conduct, open_folder, read_experiment
from infermaxx_tui.experiment.folder import SUBFOLDER, ExperimentFolder, asked_otherwise, find, list_experiments
from infermaxx_tui.experiment.swept import last_lines
from infermaxx_tui.flags import UsageError
from infermaxx_tui.follow import StatusLine
from infermaxx_tui.rundir import RunError, RunFolder, replace_file
from infermaxx_tui.runlist import RunRow, describe_runs


def experiment(
    args: argparse.Namespace,
    emit: Callable[[Iterable[str]], None],
    narrate: Callable[[str], None],
    status: Callable[[], StatusLine],
) -> ExitCode:
    """Conducts, plans, lists or shows, as the flags say. Raises ScenarioError, UsageError or RunError."""
    root = rundir.runs_dir(args.runs_dir)
    if args.list:
        emit(list_lines(root))
        return ExitCode.PASS
    if args.fleet:
        return fleet(root, emit)
    if args.show is not None:
        return show(find(root, args.show), args.json, emit)
    if args.file is None:
        raise UsageError("infermaxx experiment: name a FILE, or --list, or --show ID")
    asked = read_experiment(args.file, args.set, args.api_key_env)
    if args.dry_run:
        emit(ahead_lines(asked, root, args.no_gpu))
        return ExitCode.PASS
    other = None if args.new else asked_otherwise(root, asked.experiment.name, asked.sha256)
    folder, again = open_folder(root, asked, anew=args.new)
    if other is not None and not again:
        narrate(f"{other.id} has starts left, and was asked otherwise or by another version: this one starts anew")
    narrate(f"experiment {folder.path}" + (": goes on where it was left (--new starts anew)" if again else ""))
    came = conduct(conditions_of(asked, str(root), args.api_key_env, args.no_gpu), folder, status, narrate)
    code = show(folder, args.json, emit)
    return ExitCode.INTERRUPTED if came == "interrupted" else code


def show(folder: ExperimentFolder, as_json: bool, emit: Callable[[Iterable[str]], None]) -> ExitCode:
    """What the rows say. 0 if every start was judged, 3 if one was not or is missing."""
    try:
        found = answer(folder.rows())
    except ValueError as error:
        raise RunError(f"{folder.id}: {error}") from None
    write_pages(folder, found)
    emit((answer_json(found),) if as_json else answer_lines(found))
    if sys.stdout.isatty():
        mark_read(folder)
    return ExitCode.PASS if is_whole(found) else ExitCode.INCONCLUSIVE


def write_pages(folder: ExperimentFolder, found: Answer) -> None:
    """report.html, report.md and picture.svg in the experiment's folder: each whole, and nothing that is fetched."""
    with suppress(OSError):
        for name, text in (
            ("report.html", html_text(found, folder.id)),
            ("report.md", markdown_text(found, folder.id)),
            ("picture.svg", svg_text(found)),
        ):
            replace_file(folder.path / name, text.encode())


def fleet(root: Path, emit: Callable[[Iterable[str]], None]) -> ExitCode:
    """The newest results of every experiment as a table, and as a page beside them."""
    named, unread = _named(root)
    if not named:
        emit(("no experiments yet; `infermaxx experiment FILE` conducts one", *unread))
        return ExitCode.PASS
    emit((*markdown_table(fleet_table(named)), *unread))
    emit((f"page: {write_fleet(root)}",))
    return ExitCode.PASS


def write_fleet(root: Path) -> Path:
    """Writes the page of living results, with what the newest sweeps came to, and returns where it is.

    Raises RunError where it cannot be written.
    """
    named, _ = _named(root)
    page = root / SUBFOLDER / "index.html"
    runs = runs_table(describe_runs(rundir.list_runs(root)))
    try:
        replace_file(page, fleet_html(named, runs, last_lines(root)).encode())
    except OSError as error:
        raise RunError(f"{page}: cannot be written ({error.strerror})") from None
    return page


def _named(root: Path) -> tuple[list[tuple[str, Answer]], list[str]]:
    """Folder and results of each experiment, newest first, and what cannot be read."""
    named, unread = [], list[str]()
    for folder in list_experiments(root):
        try:
            named.append((folder.id, answer(folder.rows())))
        except (RunError, ValueError) as error:
            unread.append(f"{folder.id}: {error}")
    return named, unread


def runs_table(rows: Sequence[RunRow]) -> Table:
    """Every run, those of experiments among them."""
    return Table(
        ("run", "when", "scenario", "verdict"),
        tuple((Cell(row.run), Cell(row.when), Cell(row.scenario), Cell(row.verdict or row.state)) for row in rows),
    )


def mark_read(folder: ExperimentFolder) -> None:
    """Somebody has seen what the runs of this experiment came to."""
    root = folder.path.parents[1]
    for row in folder.rows():
        if isinstance(row, ArmRow) and row.run is not None:
            RunFolder(root / row.run).mark_read()


def is_whole(found: Answer) -> bool:
    """Whether every start of every arm has a verdict."""
    return found.finished and not any(arm.failed for arm in found.arms)


def answer_json(found: Answer) -> str:
    """For scripts: everything, rows included."""
    return msgspec.json.encode(found).decode()


def list_lines(root: Path) -> Iterable[str]:
    """A line for each experiment, newest first."""
    every = list_experiments(root)
    if not every:
        yield "no experiments yet; `infermaxx experiment FILE` conducts one"
    for folder in every:
        yield _line(folder)


def _line(folder: ExperimentFolder) -> str:
    try:
        found = answer(folder.rows())
    except (RunError, ValueError) as error:
        return f"{folder.id}: {error}"
    done = sum(len(arm.rows) for arm in found.arms)
    word = "finished" if found.finished else "not finished"
    return f"{folder.id}: {done} of {len(found.registered.order)} starts, {word}"
