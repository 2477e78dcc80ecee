"""The list of runs, for people and for scripts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import msgspec

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.events import Record, RunEnded, RunStarted
from infermaxx_tui.core.events_resume import gap_in_words
from infermaxx_tui.log import last_line, read_log, resumes
from infermaxx_tui.rundir import RUN_ID, RunFolder

RunPhase = Literal["starting", "running", "ended", "died", "empty", "no rights"]
"""`died`: the log has no last line and no runner is alive. `empty`: no run ever began in the folder."""


_MINUTES = 16
"""Characters of `YYYY-mm-dd HH:MM`: the run's name, which holds the scenario too, has the seconds."""


class RunRow(msgspec.Struct, frozen=True):
    """One run in the list."""

    run: str
    when: str
    """Local time, `YYYY-mm-dd HH:MM:SS`."""
    scenario: str
    state: RunPhase
    verdict: str | None
    read: bool
    """Whether somebody has seen the verdict."""
    resumed: int = 0
    """How often it was taken up again after it was broken off."""
    gaps_s: tuple[float | None, ...] = ()
    """How long nobody looked, each time; None where that is not known."""


class _Segments(msgspec.Struct, frozen=True):
    segments: int = 1


class _VerdictWord(msgspec.Struct):
    verdict: str
    regime: _Segments = _Segments()


def describe_runs(runs: Sequence[RunFolder]) -> tuple[RunRow, ...]:
    """A row for each run, in the order given."""
    return tuple(_row(run) for run in runs)


def _row(run: RunFolder) -> RunRow:
    match = RUN_ID.fullmatch(run.id)
    stamp = time.strptime(match[1], "%Y%m%d-%H%M%S") if match else time.localtime(0)
    when = time.strftime("%Y-%m-%d %H:%M:%S", stamp)
    name = match[2] if match else ""
    try:
        first = next(iter(read_log(run.path)), None)
        started = first.event if isinstance(first, Record) else None
        name = started.scenario if isinstance(started, RunStarted) else name
        again = resumes(run.path)
        gaps_s = tuple(None if one is None or one.gap_ms is None else one.gap_ms / 1000.0 for one in again)
        verdict = _verdict(run, len(again))
        return RunRow(run.id, when, name, _phase(run, first is not None), verdict, run.is_read(), len(again), gaps_s)
    except OSError:
        return RunRow(run.id, when, name, "no rights", None, False)


def _phase(run: RunFolder, has_lines: bool) -> RunPhase:
    """What the lock and the log's last line say. Raises OSError."""
    if run.alive():
        return "running" if has_lines else "starting"
    if not has_lines:
        return "empty"
    last = last_line(run.path)
    ended = isinstance(last, Record) and isinstance(last.event, RunEnded)
    return "ended" if ended else "died"


def _verdict(run: RunFolder, resumed: int) -> str | None:
    """The verdict's word, if it is one on the newest segment of the log."""
    try:
        said = msgspec.json.decode(run.verdict.read_bytes(), type=_VerdictWord)
    except (OSError, msgspec.DecodeError):
        return None
    return said.verdict if said.regime.segments > resumed else None


def runs_json(rows: Sequence[RunRow]) -> str:
    """A JSON array of the rows."""
    return msgspec.json.encode(rows).decode()


def runs_lines(rows: Sequence[RunRow]) -> tuple[str, ...]:
    """A line for each run; an unread verdict is marked with a star."""
    if not rows:
        return ("no runs yet; start one with `infermaxx demo`",)
    head = f"  {'when':16}  {'state':9}  {'verdict':12}  run (with its scenario)"
    return (head, *(_line(row) for row in rows))


def _line(row: RunRow) -> str:
    mark = "*" if row.verdict is not None and not row.read else " "
    times = "once" if row.resumed == 1 else f"{row.resumed} times"
    known = [gap_s for gap_s in row.gaps_s if gap_s is not None]
    gap = f", {gap_in_words(sum(known) * 1000)} not looked at" if known else ""
    again = f"  resumed {times}{gap}" if row.resumed else ""
    return harmless(f"{mark} {row.when[:_MINUTES]}  {row.state:9}  {row.verdict or '-':12}  {row.run}{again}")
