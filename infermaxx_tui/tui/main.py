"""The way in: what the command line asked for becomes an application, and what it leaves behind is said in lines.

Textual is imported inside, so that naming this module costs nothing.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.glyphs import ASCII, UNICODE
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.runlist import describe_runs


class TuiArgs(msgspec.Struct, frozen=True, kw_only=True):
    """What to show, and how to draw it."""

    run: RunFolder | None = None
    """Show this run, live or over; else the list of runs."""
    compare: tuple[RunFolder, RunFolder] | None = None
    runs_dir: str | None = None
    fps: float | None = None
    ascii_only: bool = False
    no_color: bool = False
    mouse: bool | None = None
    """None: on, but not over SSH."""


class Left(msgspec.Struct, frozen=True):
    """How the TUI was left."""

    code: int
    lines: tuple[str, ...]
    """For people, about the run that was looked at last: its state, how to come back, how to stop it."""


def run_tui(args: TuiArgs) -> Left:
    """Shows the TUI until it is left. The caller has made sure that there is a terminal. Leaving is no failure: 0.

    Raises what ended it, if something went wrong inside: the terminal has been given back by then.
    """
    from infermaxx_tui.tui.app import InfermaxxApp
    from infermaxx_tui.tui.shared import Shared
    from infermaxx_tui.tui.terminal import Watch, capability

    encoding = sys.__stderr__.encoding if sys.__stderr__ is not None else None
    if args.no_color:
        # Textual reads it there, and nowhere else
        os.environ["NO_COLOR"] = "1"
    can = capability(
        os.environ, encoding, fps=args.fps, ascii_only=args.ascii_only, no_color=args.no_color, mouse=args.mouse
    )
    shared = Shared(
        glyphs=UNICODE if can.unicode else ASCII,
        fps=can.fps,
        root=rundir.runs_dir(args.runs_dir),
        runs_dir=args.runs_dir,
    )
    watch = Watch()
    app = InfermaxxApp(shared, can, args.run, args.compare, watch.leaving)
    watch.start(app.leave_soon)
    app.run(mouse=can.mouse)
    watch.stop()
    if app.fault is not None:
        raise app.fault
    code = ExitCode.INTERNAL if app.return_code else ExitCode.PASS
    return Left(int(code), leaving_lines(app.last_run, shared.root, shared.run_flag()))


def leaving_lines(run: RunFolder | None, root: Path, flag: str) -> tuple[str, ...]:
    """One line about a run: its id, its state, and what to type; none without a run."""
    if run is None:
        return ()
    name = f"{run.id}{flag}" if run.path.parent == root else shlex.quote(str(run.path))
    if run.alive():
        line = f"{run.id} goes on; `infermaxx attach {name}` comes back to it, `infermaxx stop {name}` ends it"
    else:
        (row,) = describe_runs([run])
        line = f"{run.id} is over: {row.verdict or row.state}; `infermaxx attach {name}` shows it"
    return (harmless(line),)
