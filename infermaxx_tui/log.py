"""Append whole lines, follow complete lines only: the file that everything else is a fold over."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from infermaxx_tui.core.events import AnyEvent, Record, Resumed, RunStarted, Unknown, decode, encode
from infermaxx_tui.secret import Mask

_READ_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16
_PART = re.compile(r"events-(\d+)\.jsonl", re.ASCII)


class EvidenceLostError(OSError):
    """A line could not be written whole; the run must stop sending."""


class Appender:
    """Writes one whole line a call to one part of a log and numbers the lines.

    A short write is continued; when it cannot be, what was written stays as a torn tail that readers leave out, and
    EvidenceLostError is raised now and on each later call. A `secret`, such as the key that requests carry, is masked
    wherever a server sends it back.
    """

    def __init__(self, path: Path, part: int = 0, first_seq: int = 0, secret: str | None = None) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        self._part = part
        self._seq = first_seq
        self._broken: str | None = None
        self._masked = Mask(secret).raw

    @property
    def written(self) -> int:
        """Number of the next line, which is how many were written."""
        return self._seq

    @property
    def part(self) -> int:
        """Which part of the log this is."""
        return self._part

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """The record as written. Raises EvidenceLostError."""
        if self._broken is not None:
            raise EvidenceLostError(self._broken)
        record = Record(self._part, self._seq, wall_ms, mono_us, event)
        line = self._masked(encode(record))
        try:
            done = os.write(self._fd, line)
            while done < len(line):
                done += os.write(self._fd, line[done:])
        except OSError as error:
            self._broken = error.strerror or str(error)
            raise EvidenceLostError(self._broken) from error
        self._seq += 1
        return record

    def close(self) -> None:
        """Gives the file back to the system; what was written is on it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Follower:
    """Reads the complete lines of one part, now and whenever it is asked again; a torn tail is kept back."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self._offset = offset
        self._tail = b""
        self._lines: deque[bytes] = deque()

    @property
    def torn(self) -> int:
        """Bytes after the last newline that were seen and kept back."""
        return len(self._tail)

    def read(self) -> Iterator[Record | Unknown]:
        """Whatever complete lines have come since the last call. Who stops in the middle goes on there."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            while True:
                while self._lines:
                    yield decode(self._lines.popleft())
                block = file.read(_READ_BYTES)
                if not block:
                    return
                self._offset += len(block)
                *lines, self._tail = (self._tail + block).split(b"\n")
                self._lines.extend(lines)


def parts(folder: Path) -> tuple[Path, ...]:
    """The parts of a run's log, in order. A link, or what is no file, is none of them. Raises OSError."""
    first = folder / "events.jsonl"
    more = {int(match[1]): path for path in folder.glob("events-*.jsonl") if (match := _PART.fullmatch(path.name))}
    return tuple(path for path in (first, *(more[number] for number in sorted(more))) if _is_file(path))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def last_line(folder: Path) -> Record | Unknown | None:
    """The last complete line of the last part; None if there is none in its last 64 KiB. Raises OSError."""
    found = parts(folder)
    if not found:
        return None
    with found[-1].open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read(_TAIL_BYTES).split(b"\n")[:-1]
    return decode(lines[-1]) if lines else None


def resumes(folder: Path) -> tuple[Resumed | None, ...]:
    """How the run was taken up again, each time; None where its log does not say. Raises OSError."""
    found: list[Resumed | None] = []
    for path in parts(folder):
        head = [record.event for record in islice(Follower(path).read(), 2) if isinstance(record, Record)]
        if head and isinstance(head[0], RunStarted) and head[0].segment > 0:
            found.append(next((event for event in head if isinstance(event, Resumed)), None))
    return tuple(found)


def read_log(folder: Path) -> Iterator[Record | Unknown]:
    """All complete lines of a run, part after part."""
    for path in parts(folder):
        yield from Follower(path).read()
