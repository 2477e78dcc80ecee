"""`events.idx`: where in a log which moment stands, and where failures, misses and gaps are. Never trusted blindly.

It can always be made again from the log. One that was made for another log, or for less of it, is ignored; it is plain
JSON, since a run folder may come from a stranger.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import replace_file

NAME: Final = "events.idx"
VERSION: Final = 1
MOST_BYTES: Final = 64 << 20
MOST_PLACES: Final = 500_000
"""Places of one sort that the file keeps; the log has them all."""
_FIRST_LINE_BYTES: Final = 4 << 20


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A line of the log: where it is and when it was."""

    file: int
    """Which of the log's files, in order."""
    offset: int
    part: int
    seq: int
    wall_ms: int
    mono_us: int
    at_us: int
    """Log time."""
    segment: int | None


class Places:
    """Log times and places of one sort of thing, in the order of the log."""

    def __init__(self) -> None:
        self._at_us = array("q")
        self._part = array("q")
        self._seq = array("q")

    def __len__(self) -> int:
        return len(self._at_us)

    def add(self, at_us: int, ref: Ref) -> None:
        """One more; one that is there already, or that no file could hold, is left out."""
        if self and (self._part[-1], self._seq[-1]) == ref:
            return
        with suppress(OverflowError):
            values = array("q", (at_us, *ref))
            self._at_us.append(values[0])
            self._part.append(values[1])
            self._seq.append(values[2])

    def after(self, at_us: int) -> tuple[int, Ref] | None:
        """The first one later than a moment."""
        return self._get(bisect_right(self._at_us, at_us))

    def before(self, at_us: int) -> tuple[int, Ref] | None:
        """The last one earlier than a moment."""
        return self._get(bisect_left(self._at_us, at_us) - 1)

    def _get(self, at: int) -> tuple[int, Ref] | None:
        return (self._at_us[at], (self._part[at], self._seq[at])) if 0 <= at < len(self) else None

    def rows(self) -> list[tuple[int, int, int]]:
        """(log time, part, seq) of each, as the file keeps them."""
        return list(zip(self._at_us[:MOST_PLACES], self._part, self._seq, strict=False))


class _Stamp(msgspec.Struct, frozen=True):
    """One file of the log as it was when the index was made."""

    name: str
    size: int
    first_sha256: str


class IndexFile(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    version: int
    files: tuple[_Stamp, ...]
    end_us: int
    marks: tuple[Position, ...]
    failures: tuple[tuple[int, int, int], ...]
    gaps: tuple[tuple[int, int, int], ...]


def _stamp(path: Path) -> _Stamp:
    """Raises OSError."""
    with path.open("rb") as file:
        first = file.readline(_FIRST_LINE_BYTES)
    return _Stamp(path.name, path.stat().st_size, hashlib.sha256(first).hexdigest())


def save(folder: Path, end_us: int, marks: list[Position], failures: Places, gaps: Places) -> None:
    """Writes the index of the log as it is now. Raises OSError."""
    made = IndexFile(
        version=VERSION,
        files=tuple(_stamp(path) for path in parts(folder)),
        end_us=end_us,
        marks=tuple(marks),
        failures=tuple(failures.rows()),
        gaps=tuple(gaps.rows()),
    )
    replace_file(folder / NAME, msgspec.json.encode(made) + b"\n")


def load(folder: Path) -> IndexFile | None:
    """The index, if it was made of exactly this log; else None, whatever is wrong with it."""
    path = folder / NAME
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            return None
        found = msgspec.json.decode(path.read_bytes(), type=IndexFile)
        same = found.version == VERSION and found.files == tuple(_stamp(part) for part in parts(folder))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if same and _sound(found) else None


def _sound(found: IndexFile) -> bool:
    """Whether every place can be one, and the order is that of the log."""
    sizes = [stamp.size for stamp in found.files]
    marks = all(0 <= mark.file < len(sizes) and 0 <= mark.offset < sizes[mark.file] for mark in found.marks)
    times = [mark.at_us for mark in found.marks], [row[0] for row in found.failures], [row[0] for row in found.gaps]
    return marks and all(list(some) == sorted(some) for some in times)


def places(rows: tuple[tuple[int, int, int], ...]) -> Places:
    """Places as they were kept."""
    made = Places()
    for at_us, part, seq in rows:
        made.add(at_us, (part, seq))
    return made
