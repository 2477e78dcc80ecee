"""`infermaxx sweep DIR`: every experiment of a folder once more, for cron, and what moved since the last time."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.experiment.since import Since, same_question, since, since_lines
from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.experiment.command import is_whole
from infermaxx_tui.experiment.conduct import conditions_of, conduct, open_folder, read_experiment
from infermaxx_tui.experiment.folder import SUBFOLDER, ExperimentFolder, list_experiments
from infermaxx_tui.flags import UsageError
from infermaxx_tui.follow import StatusLine
from infermaxx_tui.rundir import RunError, RunFolder


class Swept(msgspec.Struct, frozen=True):
    """A line of sweeps.jsonl: when, and what came of one experiment."""

    at_ms: int
    file: str
    outcome: str
    since: Since | None


def sweep(
    args: argparse.Namespace,
    emit: Callable[[Iterable[str]], None],
    narrate: Callable[[str], None],
    status: Callable[[], StatusLine],
) -> ExitCode:
    """Conducts all of them anew. 0: all arms were judged and nothing moved, 3: something did or is missing.

    A file that is no experiment, and one whose arms do not come up, is one line; the others go on. Raises UsageError
    where the folder holds none.
    """
    root = rundir.runs_dir(args.runs_dir)
    files = sorted(Path(os.path.expanduser(args.folder)).glob("*.toml"))
    if not files:
        raise UsageError(f"infermaxx sweep: {args.folder}: holds no experiment files (*.toml)")
    quiet = True
    for file in files:
        swept, whole = _one(args, root, file, narrate, status)
        _keep(root, swept)
        if args.json:
            emit((msgspec.json.encode(swept).decode(),))
        else:
            emit(since_lines(swept.since) if swept.since is not None else (f"{file.name}: {swept.outcome}",))
        quiet = quiet and whole and swept.since is not None and not swept.since.moved
        if swept.outcome == "interrupted":
            return ExitCode.INTERRUPTED
    if not args.json:
        emit(unread_lines(root))
    return ExitCode.PASS if quiet else ExitCode.INCONCLUSIVE


def _one(
    args: argparse.Namespace, root: Path, file: Path, narrate: Callable[[str], None], status: Callable[[], StatusLine]
) -> tuple[Swept, bool]:
    try:
        asked = read_experiment(str(file), args.set, args.api_key_env)
        folder, _ = open_folder(root, asked, anew=True)
        narrate(f"experiment {folder.path}")
        whole = conduct(conditions_of(asked, str(root), args.api_key_env, args.no_gpu), folder, status, narrate)
    except (ScenarioError, RunError) as error:
        return Swept(_now_ms(), file.name, f"not conducted: {error}", None), False
    if not whole:
        return Swept(_now_ms(), file.name, "interrupted", None), False
    now = answer(folder.rows())
    last = _last(root, folder, now)
    compared = since(folder.id, now, None if last is None else last[0], None if last is None else last[1])
    return Swept(_now_ms(), file.name, "conducted", compared), is_whole(now)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _last(root: Path, folder: ExperimentFolder, now: Answer) -> tuple[str, Answer] | None:
    """The newest finished one before it that asked the same of the same arms."""
    for other in list_experiments(root):
        if other.id == folder.id:
            continue
        try:
            found = answer(other.rows())
        except (RunError, ValueError):
            continue
        if found.finished and same_question(found, now):
            return other.id, found
    return None


def _keep(root: Path, swept: Swept) -> None:
    path = root / SUBFOLDER / "sweeps.jsonl"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, msgspec.json.encode(swept) + b"\n")
    finally:
        os.close(fd)


def unread_lines(root: Path) -> Iterable[str]:
    """Experiments that have a verdict which nobody has looked at: conducted is not read."""
    for folder in list_experiments(root):
        try:
            runs = [row.run for row in folder.rows() if isinstance(row, ArmRow) and row.run is not None]
        except RunError:
            continue
        unread = sum(not RunFolder(root / run).is_read() for run in runs)
        if unread:
            yield f"unread: {folder.id}: {unread} of {len(runs)} verdicts; `infermaxx experiment --show {folder.id}`"
