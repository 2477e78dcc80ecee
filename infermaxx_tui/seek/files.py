"""The files of one log as one sequence of lines, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from infermaxx_tui.core.events import Record, Unknown
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import RunError
from infermaxx_tui.seek.lines import Block, LineReader, decode_block

Again = Callable[[int, int], Iterator[tuple[int, Block]]]
"""Reads blocks of lines, each with its file, from a (file, offset) on."""
_REPORT_BYTES: Final = 1 << 20


class LogFiles:
    """Reads what is new, and again what was read. Everything raises RunError where the log cannot be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: list[LineReader] = []

    @property
    def size(self) -> int:
        """Bytes of the lines that were read."""
        return sum(reader.offset for reader in self._readers)

    @property
    def taken(self) -> tuple[int, ...]:
        """Of each file, the bytes of the lines that were read."""
        return tuple(reader.offset for reader in self._readers)

    def go_on(self, taken: Iterable[int]) -> None:
        """So many bytes of each file need not be read: it is known what they say. Raises RunError."""
        with self._reading():
            paths = parts(self._folder)
        self._readers = [LineReader(path, offset) for path, offset in zip(paths, taken, strict=False)]

    def new(self, progress: Callable[[int, int], bool] | None = None) -> Iterator[tuple[int, Block]]:
        """Lines that were not read yet. `progress(bytes done, bytes in all)` may answer False: no more now."""
        with self._reading():
            found = parts(self._folder)
            if not found:
                raise RunError(f"{self._folder}: no events.jsonl in it, so it is not a run")
            self._readers += [LineReader(path) for path in found[len(self._readers) :]]
            total = sum(reader.path.stat().st_size for reader in self._readers) if progress is not None else 0
            if progress is not None and total - self.size > _REPORT_BYTES and not progress(self.size, total):
                return
            due = self.size + _REPORT_BYTES
            for number, reader in enumerate(self._readers):
                for block in reader.read():
                    yield number, block
                    if progress is not None and self.size >= due:
                        due = self.size + _REPORT_BYTES
                        if not progress(self.size, total):
                            return

    def again(self, file: int, offset: int) -> Iterator[tuple[int, Block]]:
        """Lines that were read before, from a place on."""
        with self._reading():
            for number in range(file, len(self._readers)):
                known = self._readers[number]
                reader = LineReader(known.path, offset if number == file else 0)
                for block in reader.read(known.offset):
                    yield number, block

    def at(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """The lines at these (file, offset)."""
        with self._reading(), ExitStack() as stack:
            opened = [stack.enter_context(reader.path.open("rb")) for reader in self._readers]
            for number, offset in places:
                opened[number].seek(offset)
                yield opened[number].readline()[:-1]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"{self._folder}: the log cannot be read ({error.strerror or error})") from None


Placed = tuple[int, int, int, Record | Unknown]
"""(which file, where the line begins, where the next one does, what it says)."""


def placed(blocks: Iterable[tuple[int, Block]]) -> Iterator[Placed]:
    """Line by line."""
    for file, block in blocks:
        offset, lines = block.offset, block.lines
        for line, record in zip(lines, decode_block(block), strict=True):
            after = offset + len(line) + 1 if len(lines) > 1 else block.after
            yield file, offset, after, record
            offset = after
