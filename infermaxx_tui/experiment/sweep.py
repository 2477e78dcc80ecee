"""`infermaxx sweep DIR`: every experiment of a folder once more, for cron, and what moved since the last time."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.experiment.command import is_whole, write_fleet, write_pages
from infermaxx_tui.experiment.conduct import conditions_of, conduct, open_folder, read_experiment
from infermaxx_tui.experiment.folder import SUBFOLDER, list_experiments, name_of
from infermaxx_tui.experiment.swept import Swept, compare, keep
from infermaxx_tui.flags import UsageError
from infermaxx_tui.follow import StatusLine
from infermaxx_tui.private import make_folder
from infermaxx_tui.rundir import RunError, RunFolder

Narrate = Callable[[str], None]


class _Silent(StatusLine):
    """No status: what cron mails is what came of it, and not how it went."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, tty=False, width=lambda: 80)

    def due(self, now_s: float) -> bool:
        """Never."""
        return False

    def show(self, fold: Fold, last: bool = False) -> None:
        """Nothing."""


def sweep(
    args: argparse.Namespace,
    emit: Callable[[Iterable[str]], None],
    narrate: Narrate,
    status: Callable[[], StatusLine],
) -> ExitCode:
    """Conducts all of them anew. 0: all arms were judged, some figure of each resolves and nothing moved (or there is
    nothing yet to hold them against), 3: something did move, also by small steps, or nobody can say of an arm.

    A file that is no experiment, and one whose arms do not come up, is one line; the others go on. Without a terminal
    nothing is narrated. Raises UsageError where the folder holds none, RunError where another sweep is at it, or where
    nothing can be written.
    """
    root = rundir.runs_dir(args.runs_dir)
    where = Path(os.path.expanduser(args.folder))
    if not where.is_dir():
        raise UsageError(f"infermaxx sweep: {args.folder}: no such folder")
    files = sorted(where.glob("*.toml"))
    if not files:
        raise UsageError(f"infermaxx sweep: {args.folder}: holds no experiment files (*.toml)")
    if not sys.stderr.isatty():
        narrate, status = (lambda said: None), _Silent
    lock = _hold(root)
    try:
        return _all(args, root, files, emit, narrate, status)
    finally:
        os.close(lock)


def _hold(root: Path) -> int:
    """Two sweeps at once would measure one another."""
    folder = root / SUBFOLDER
    try:
        make_folder(folder)
        return RunFolder(folder).hold()
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror}); give --runs-dir DIR") from None
    except RunError:
        raise RunError(f"another sweep is going on over {folder}; two at once would measure one another") from None


def _all(
    args: argparse.Namespace,
    root: Path,
    files: list[Path],
    emit: Callable[[Iterable[str]], None],
    narrate: Narrate,
    status: Callable[[], StatusLine],
) -> ExitCode:
    quiet = True
    for file in files:
        swept, whole = _one(args, root, file, narrate, status)
        emit((msgspec.json.encode(swept).decode(),) if args.json else swept.lines())
        keep(root, swept)
        quiet = quiet and whole and swept.quiet
        if swept.outcome == "interrupted":
            return ExitCode.INTERRUPTED
    write_fleet(root)
    if not args.json:
        emit(unread_lines(root))
    return ExitCode.PASS if quiet else ExitCode.INCONCLUSIVE


def _one(
    args: argparse.Namespace, root: Path, file: Path, narrate: Narrate, status: Callable[[], StatusLine]
) -> tuple[Swept, bool]:
    try:
        asked = read_experiment(str(file), args.set, args.api_key_env)
        folder, _ = open_folder(root, asked, anew=True)
        narrate(f"experiment {folder.path}")
        came = conduct(conditions_of(asked, str(root), args.api_key_env, args.no_gpu), folder, status, narrate)
        now = answer(folder.rows())
    except (ScenarioError, TranscriptError, RunError, OSError) as error:
        said = str(error).removeprefix(f"{file.name}: ")
        return Swept(_now_ms(), file.name, f"not conducted: {said}", None), False
    if came == "interrupted":
        return Swept(_now_ms(), file.name, "interrupted", None), False
    write_pages(folder, now)
    last, first = compare(root, folder.id, now)
    return Swept(_now_ms(), file.name, "conducted", last, first, last.drift), is_whole(now)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def unread_lines(root: Path) -> Iterable[str]:
    """A line for each name of experiments whose verdicts nobody has looked at: conducted is not read."""
    unread: dict[str, list[str]] = {}
    verdicts: dict[str, int] = {}
    for folder in list_experiments(root):
        try:
            runs = [row.run for row in folder.rows() if isinstance(row, ArmRow) and row.run is not None]
        except RunError:
            continue
        count = sum(not RunFolder(root / run).is_read() for run in runs)
        if count:
            name = name_of(folder.id)
            unread.setdefault(name, []).append(folder.id)
            verdicts[name] = verdicts.get(name, 0) + count
    for name, folders in unread.items():
        many = f" of {len(folders)} times" if len(folders) > 1 else ""
        yield f"unread: {name}: {verdicts[name]} verdicts{many}; `infermaxx experiment --show {folders[0]}`"
