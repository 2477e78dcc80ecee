"""`infermaxx doctor`: one page, and whether the server that was named is usable."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable

from infermaxx_tui.core.checkup import checkup_lines, checkup_text
from infermaxx_tui.doctor import examine
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.secret import read_key
from infermaxx_tui.wish import check_url


def examined(
    args: argparse.Namespace, emit: Callable[[Iterable[str]], None], narrate: Callable[[str], None]
) -> ExitCode:
    """0, or 4 for a server that is not usable. Raises ScenarioError for an address that is none."""
    if args.url is not None:
        check_url(args.url, "--url", "")
    calibrating = None if args.no_calibration else narrate
    found = examine(args.url, args.model, args.log, args.runs_dir, read_key(args.api_key_env), calibrating)
    emit(checkup_text(found) if args.json else checkup_lines(found, shutil.get_terminal_size((100, 24)).columns))
    return ExitCode.SERVER if found.usable is False else ExitCode.PASS
