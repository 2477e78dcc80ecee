"""Reads a run once and writes it in one of the formats. A run that goes on is exported as far as it has come."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
from pathlib import Path

import msgspec

import infermaxx_tui
from infermaxx_tui.core.events import Unknown
from infermaxx_tui.core.export.charts import svg_text
from infermaxx_tui.core.export.junit import junit_text
from infermaxx_tui.core.export.page import html_text
from infermaxx_tui.core.export.picture import Format, Phase, Picture, Sharing, json_text, picture
from infermaxx_tui.core.export.requests import RequestRows
from infermaxx_tui.core.export.table import csv_text
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.panels.withheld import shown
from infermaxx_tui.core.timeline import Timeline
from infermaxx_tui.core.verdict import judge_run
from infermaxx_tui.export.errors import ExportError
from infermaxx_tui.log import Follower, parts
from infermaxx_tui.rundir import RunError, RunFolder, replace_file
from infermaxx_tui.verdicts import claims_now

BUCKETS = 240
"""Columns of the time axis."""


def export(run: RunFolder, form: Format, output: str, sharing: Sharing) -> str | bytes:
    """What the run is in that format, and writes it to `output` if that is not `-`. Raises RunError or ExportError."""
    made = rendered(read(run, sharing), form)
    if output != "-":
        _write(Path(output).expanduser(), made if isinstance(made, bytes) else made.encode("utf-8"))
    return made


def rendered(seen: Picture, form: Format) -> str | bytes:
    """A run in one of the formats."""
    match form:
        case "json":
            return json_text(seen)
        case "csv":
            return csv_text(seen)
        case "html":
            return html_text(seen)
        case "svg":
            return svg_text(seen)
        case "junit":
            return junit_text(seen)
        case "parquet":
            from infermaxx_tui.export.parquet import parquet_bytes

            return parquet_bytes(seen)


def _write(file: Path, data: bytes) -> None:
    """Readable by the owner only."""
    if file.is_dir():
        raise ExportError(f"--output {file}: a folder; name a file")
    try:
        replace_file(file, data)
    except OSError as error:
        raise ExportError(f"--output {file}: {error.strerror or error}") from None


def read(run: RunFolder, sharing: Sharing) -> Picture:
    """The run as far as its log goes. Raises RunError."""
    fold, timeline, requests = Fold(), Timeline(), RequestRows()
    found = parts(run.path)
    if not found:
        raise RunError(f"{run.path}: no events.jsonl in it, so it is not a run")
    alive, torn = run.alive(), 0
    try:
        for path in found:
            follower = Follower(path)
            for record in follower.read():
                fold.add(record)
                timeline.add(record)
                requests.add(record)
            torn = follower.torn
    except OSError as error:
        raise RunError(f"{run.path}: the log cannot be read ({error.strerror})") from None
    if torn and not alive:
        fold.add(Unknown("invalid", f"a torn tail of {torn} bytes"))
    state = fold.snapshot()
    phase: Phase = "running" if alive else "ended" if state.ended is not None else "died"
    view = timeline.snapshot(0, timeline.end_us, BUCKETS)
    marks = sorted((*view.marks, *requests.marks(state)), key=lambda mark: mark.at_us)
    view = msgspec.structs.replace(view, marks=tuple(marks))
    return picture(
        state,
        judge_run(state, later=claims_now(run)),
        shown(state, view) or view,
        requests.rows(state, sharing.text),
        f"infermaxx {infermaxx_tui.__version__}",
        phase,
        sharing,
        _names(),
    )


def _names() -> set[str]:
    """Whose machine this is: both may stand bare in a log."""
    names = {socket.gethostname(), os.path.basename(os.path.expanduser("~"))}
    with contextlib.suppress(KeyError, OSError):
        names.add(getpass.getuser())
    return names
