"""What lies in a run folder, in one plain line, before anybody waits for it to be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import orjson

from infermaxx_tui.core.events import SCHEMA, Record, RunEnded, decode
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import RunFolder

HUGE_BYTES: Final = 1 << 30
"""From here on, opening takes long enough to be announced."""
_COUNTED_BYTES: Final = 1 << 29
"""Lines of a larger log are not counted beforehand: opening it does."""
_BLOCK: Final = 1 << 20
_TAIL: Final = 1 << 23
_SEARCHED: Final = 4 << 20
_TURN: Final = b'"kind":"turn"'


def describe_log(folder: Path) -> str:
    """What is out of the ordinary with a log, in one line; empty for a whole log and for one that is being written.

    Never raises: what cannot be read is what it says.
    """
    try:
        found = parts(folder)
        if not found:
            return "no events.jsonl in the folder: no run ever began here"
        return "; ".join(_said(folder, found))
    except OSError as error:
        return f"the log may not be read ({error.strerror or error})"


def _said(folder: Path, found: tuple[Path, ...]) -> list[str]:
    sizes = [path.stat().st_size for path in found]
    alive = RunFolder(folder).alive()
    with found[0].open("rb") as file:
        head = file.read(_SEARCHED)
    if not head:
        return ["the run is starting: nothing was logged yet" if alive else "the log is empty: the run never began"]
    said = [_first(head)]
    if sum(sizes) >= HUGE_BYTES:
        said.append(f"{sum(sizes) / (1 << 30):.1f} GiB of log: reading it takes a while")
    torn, last = _last(found[-1])
    ended = isinstance(last, Record) and isinstance(last.event, RunEnded)
    if not alive:
        if torn:
            said.append(f"the last line is cut off ({torn:,} bytes are left out)")
        if not ended:
            said.append("the runner died: the log has no last line")
    said.append(_gap(found, last))
    if sum(sizes) <= _SEARCHED and _TURN not in head and (ended or not alive):
        said.append("no turn was played")
    return [one for one in said if one]


def span_us(folder: Path) -> int:
    """About how much log time a log covers, by the first and the last line of each part. Raises OSError."""
    span = 0
    for path in parts(folder):
        with path.open("rb") as file:
            first = decode(file.readline(_TAIL).rstrip(b"\n"))
        last = _last(path)[1]
        if isinstance(first, Record) and isinstance(last, Record):
            span += max(last.mono_us - first.mono_us, 0)
    return span


def _first(head: bytes) -> str:
    """What the first line says of the schema; a newer one may hold what this program does not know."""
    line = head.partition(b"\n")[0]
    try:
        raw = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "the first line is damaged"
    event = raw.get("event") if isinstance(raw, dict) else None
    if not isinstance(event, dict) or event.get("e") != "runstarted":
        return "the log does not begin with a run's first line"
    schema = event.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        return (
            f"written by a newer program (schema {schema}, this one knows {SCHEMA}): what it does not know is left out"
        )
    return ""


def _last(path: Path) -> tuple[int, object]:
    """Bytes after the last newline, and what the last complete line says."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
    whole, newline, torn = tail.rpartition(b"\n")
    if not newline:
        return len(tail), None
    return len(torn), decode(whole.rpartition(b"\n")[2])


def _gap(found: tuple[Path, ...], last: object) -> str:
    """Whether lines are missing between the first and the last one, where counting them is quick."""
    path = found[-1]
    if not isinstance(last, Record) or path.stat().st_size > _COUNTED_BYTES:
        return ""
    lines, first = 0, None
    with path.open("rb") as file:
        first = decode(file.readline(_TAIL).rstrip(b"\n"))
        file.seek(0)
        while block := file.read(_BLOCK):
            lines += block.count(b"\n")
    if not isinstance(first, Record) or first.part != last.part:
        return ""
    missing = last.seq - first.seq + 1 - lines
    return f"{missing:,} lines are missing in the middle" if missing > 0 else ""
