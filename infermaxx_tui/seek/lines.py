"""Lines of a log with their places in the file: what finding one's way in a log is made of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.core.events import Record, Unknown, decode

_READ_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 64 << 20
"""A longer line is no event: an event that a server sends is refused at 8 MiB. It is not held in memory."""
_KEPT_BYTES: Final = 1 << 10

_DIGITS: Final = bytes(ord("0") if chr(code).isdecimal() and code < 128 else code for code in range(256))
"""Makes every digit a 0."""
_LONG: Final = b"0" * 20
_decoder = msgspec.json.Decoder(Record)


def decode_line(line: bytes) -> Record | Unknown:
    """As core.events.decode, in two thirds of its time for a line of this program's own schema.

    The quick decoder passes over bytes that are not UTF-8, and it reads numbers of any size, which overflow later: so
    it gets ASCII alone, and no line with a number beyond 64 bits.
    """
    if not line.isascii() or _LONG in line.translate(_DIGITS):
        return decode(line)
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(line)


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

    def read(self, until: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(place, line without its newline) of what has come since the last call, as far as the byte `until`.

        Raises OSError.
        """
        with self.path.open("rb") as file:
            file.seek(self.offset + self.torn)
            while block := file.read(_READ_BYTES if until is None else max(min(_READ_BYTES, until - file.tell()), 0)):
                yield from self._lines(block)

    def _lines(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        first, newline, rest = block.partition(b"\n")
        if not newline:
            self._hold(block)
            return
        self._chunks.append(first)
        line = b"".join(self._chunks)
        begin, self.offset = self.offset, self.offset + self._held + self._skipped + len(first) + 1
        self._chunks, self._held, self._skipped = [], 0, 0
        yield begin, line
        *lines, tail = rest.split(b"\n")
        for line in lines:
            begin, self.offset = self.offset, self.offset + len(line) + 1
            yield begin, line
        if tail:
            self._hold(tail)

    def _hold(self, block: bytes) -> None:
        """Keeps the beginning of a line; of one that is too long, only its first bytes."""
        if self._held + len(block) <= MAX_LINE_BYTES and not self._skipped:
            self._chunks.append(block)
            self._held += len(block)
            return
        kept = b"".join(self._chunks)[:_KEPT_BYTES] or block[:_KEPT_BYTES]
        self._skipped += self._held + len(block) - len(kept)
        self._chunks, self._held = [kept], len(kept)
