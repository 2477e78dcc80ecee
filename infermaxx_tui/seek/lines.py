"""Lines of a log with their places in the file, a block at a time: what finding one's way in a log is made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.core.events import Record, Unknown, decode, is_quick, quick_decoder

BLOCK_BYTES: Final = 1 << 16
"""Small enough for memory that is used again: larger blocks cost a page fault for every page."""
MAX_LINE_BYTES: Final = 64 << 20
"""A longer line is no event: an event that a server sends is refused at 8 MiB. It is not held in memory."""
_KEPT_BYTES: Final = 1 << 10


class Block(msgspec.Struct, frozen=True):
    """Complete lines that follow one another, without their newlines."""

    offset: int
    """Where the first one begins."""
    lines: list[bytes]
    after: int
    """Where the line after the last one begins."""
    quick: bool
    """Whether the quick decoder says the same of them as the slow one."""


def decode_block(block: Block) -> list[Record | Unknown]:
    """All lines of a block."""
    if block.quick:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return list(map(quick_decoder.decode, block.lines))
    return list(map(decode, block.lines))


class LineReader:
    """Complete lines of one part from a place on, now and whenever it is asked again; a torn tail is kept back."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        """Where the next line begins."""
        self._chunks: list[bytes] = []
        self._held = 0
        self._skipped = 0

    @property
    def torn(self) -> int:
        """Bytes after the last newline."""
        return self._held + self._skipped

    def read(self, until: int | None = None, size: int = BLOCK_BYTES) -> Iterator[Block]:
        """What has come since the last call, as far as the byte `until`. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.offset + self.torn)
            while data := file.read(size if until is None else max(min(size, until - file.tell()), 0)):
                yield from self._blocks(data)

    def _blocks(self, data: bytes) -> Iterator[Block]:
        if self.torn:
            first, newline, data = data.partition(b"\n")
            if not newline:
                self._hold(first)
                return
            line = b"".join([*self._chunks, first])
            begin, self.offset = self.offset, self.offset + self.torn + len(first) + 1
            self._chunks, self._held, self._skipped = [], 0, 0
            yield Block(begin, [line], self.offset, is_quick(line))
        end = data.rfind(b"\n")
        if end >= 0:
            whole, begin = data[:end], self.offset
            self.offset += end + 1
            yield Block(begin, whole.split(b"\n"), self.offset, is_quick(whole))
        if end + 1 < len(data):
            self._hold(data[end + 1 :])

    def _hold(self, data: bytes) -> None:
        """Keeps the beginning of a line; of one that is too long, only its first bytes."""
        if self._held + len(data) <= MAX_LINE_BYTES and not self._skipped:
            self._chunks.append(data)
            self._held += len(data)
            return
        kept = b"".join(self._chunks)[:_KEPT_BYTES] or data[:_KEPT_BYTES]
        self._skipped += self._held + len(data) - len(kept)
        self._chunks, self._held = [kept], len(kept)
