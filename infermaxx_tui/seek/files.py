"""The files of one log as one sequence of lines, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from infermaxx_tui.log import parts
from infermaxx_tui.rundir import RunError
from infermaxx_tui.seek.lines import LineReader

Placed = tuple[int, int, bytes]
"""(which file, where the line begins, the line)."""
Again = Callable[[int, int], Iterator[Placed]]
"""Reads lines from a (file, place) on."""
_REPORT_BYTES: Final = 1 << 20


class LogFiles:
    """Reads what is new, and again what was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: list[LineReader] = []

    @property
    def size(self) -> int:
        """Bytes of the lines that were read."""
        return sum(reader.offset for reader in self._readers)

    def new(self, progress: Callable[[int, int], bool] | None = None) -> Iterator[Placed]:
        """Complete lines that were not read yet. `progress(bytes done, bytes in all)` may answer False: no more now.

        Raises RunError if there is no log or it may not be read.
        """
        try:
            found = parts(self._folder)
            if not found:
                raise RunError(f"{self._folder}: no events.jsonl in it, so it is not a run")
            self._readers += [LineReader(path) for path in found[len(self._readers) :]]
            total = sum(reader.path.stat().st_size for reader in self._readers) if progress is not None else 0
            done, due = 0, _REPORT_BYTES
            for number, reader in enumerate(self._readers):
                for offset, line in reader.read():
                    yield number, offset, line
                    done += len(line) + 1
                    if progress is not None and done >= due:
                        due = done + _REPORT_BYTES
                        if not progress(done, total):
                            return
        except OSError as error:
            raise RunError(f"{self._folder}: the log cannot be read ({error.strerror or error})") from None

    def again(self, file: int, offset: int) -> Iterator[Placed]:
        """Lines that were read before, from a place on. Raises RunError."""
        try:
            for number in range(file, len(self._readers)):
                known = self._readers[number]
                reader = LineReader(known.path, offset if number == file else 0)
                for place, line in reader.read(known.offset):
                    yield number, place, line
        except OSError as error:
            raise RunError(f"{self._folder}: the log cannot be read ({error.strerror or error})") from None

    def at(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """The lines at these (file, offset). Raises RunError."""
        try:
            with ExitStack() as stack:
                opened = [stack.enter_context(reader.path.open("rb")) for reader in self._readers]
                for number, offset in places:
                    opened[number].seek(offset)
                    yield opened[number].readline()[:-1]
        except OSError as error:
            raise RunError(f"{self._folder}: the log cannot be read ({error.strerror or error})") from None
