"""`infermaxx compare`: verdicts of several runs, side by side where their regimes allow it."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable

from infermaxx_tui import rundir
from infermaxx_tui.core.comparison import comparison_text, differences
from infermaxx_tui.core.pairs import pairs_said
from infermaxx_tui.core.panels.compare import comparison_lines
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.flags import UsageError
from infermaxx_tui.verdicts import load_or_judge


def compared(args: argparse.Namespace, emit: Callable[[Iterable[str]], None]) -> ExitCode:
    """0 where all regimes agree, else 3. Raises UsageError or RunError."""
    if len(args.runs) < 2:
        raise UsageError("infermaxx compare: one run alone has nothing to stand beside; name two or more")
    root = rundir.runs_dir(args.runs_dir)
    verdicts = [load_or_judge(rundir.find(root, name)) for name in args.runs]
    if args.json:
        emit(comparison_text(verdicts, pairs_said(verdicts)))
    else:
        emit(comparison_lines(verdicts, shutil.get_terminal_size((100, 24)).columns))
    return ExitCode.INCONCLUSIVE if differences(verdicts).keys else ExitCode.PASS
