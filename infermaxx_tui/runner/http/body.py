"""The bytes of a response's body out of those of its connection, as they come and under any cut.

Each decoder hands out what a read brought and holds back nothing but an unfinished line of framing.
"""

from __future__ import annotations

import re
from typing import Final, Literal, Protocol

from infermaxx_tui.runner.http.head import Head

MAX_LINE_BYTES: Final = 1 << 12
"""Longest line of framing: a chunk's size with its extensions, or one trailer."""
_MAX_TRAILERS: Final = 256
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")


class FramingError(ValueError):
    """The body does not keep to the framing that its head announced."""

    before = b""
    """What the same read brought of the body before that."""


class Decoder(Protocol):
    """The body's end is where `over` becomes true; what comes behind it is left out."""

    over: bool

    def feed(self, data: bytes) -> bytes:
        """The body bytes in a read, maybe none. Raises FramingError."""

    def at_eof(self) -> bool:
        """Whether the connection may end here."""


class Chunked:
    """A body in chunks."""

    def __init__(self) -> None:
        self.over = False
        self._phase: Literal["size", "data", "border", "trailer"] = "size"
        self._left = 0
        self._line = b""
        self._trailers = 0
        self._between = True  # at the beginning of a size line

    def feed(self, data: bytes) -> bytes:
        """The body bytes in a read: those of all its chunks together. Raises FramingError."""
        if self._between:
            # a read that is one chunk, which is what a server that flushes each token sends
            end = data.find(b"\r\n", 0, 8)
            digits = data[:end]
            if end > 0 and digits.isalnum() and digits[0] != 0x30:  # int would take 0x1f
                try:
                    size = int(digits, 16)
                except ValueError:
                    size = 0
                if end + size + 4 == len(data) and data[-2:] == b"\r\n":
                    return data[end + 2 : -2]
        return self._feed_any(data)

    def at_eof(self) -> bool:
        """Never: a whole body says so itself."""
        return self.over

    def _feed_any(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        try:
            self._take(data, pieces)
        except FramingError as error:
            error.before = b"".join(pieces)
            raise
        self._between = self._phase == "size" and not self._line
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take(self, data: bytes, pieces: list[bytes]) -> None:
        at = 0
        while at < len(data) and not self.over:
            if self._phase == "data":
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._phase = "border"
                continue
            end = data.find(b"\n", at)
            self._line += data[at:] if end < 0 else data[at:end]
            if len(self._line) > (1 if self._phase == "border" else MAX_LINE_BYTES):
                raise FramingError(f"a chunk is followed by {self._line[:40]!r}")
            if end < 0:
                break
            at = end + 1
            line, self._line = self._line, b""
            self._end_line(line)

    def _end_line(self, line: bytes) -> None:
        match self._phase:
            case "size":
                found = _SIZE.fullmatch(line.removesuffix(b"\r"))
                if found is None:
                    raise FramingError(f"a chunk has the size {line[:40]!r}")
                self._left = int(found[1], 16)
                self._phase = "data" if self._left else "trailer"
            case "border":
                if line != b"\r":
                    raise FramingError(f"a chunk is followed by {line[:40]!r}")
                self._phase = "size"
            case _:
                self.over = line in (b"\r", b"")
                self._trailers += 1
                if self._trailers > _MAX_TRAILERS:
                    raise FramingError(f"more than {_MAX_TRAILERS} trailers come behind the last chunk")


class Counted:
    """A body of so many bytes."""

    def __init__(self, length: int) -> None:
        self.over = length == 0
        self._left = length

    def feed(self, data: bytes) -> bytes:
        """The body bytes in a read."""
        piece = data[: self._left]
        self._left -= len(piece)
        self.over = self._left == 0
        return piece

    def at_eof(self) -> bool:
        """Only when all came."""
        return self.over


class UntilClose:
    """A body that the end of the connection ends, so that a whole one cannot be told from a torn one."""

    over = False

    def feed(self, data: bytes) -> bytes:
        """All of it."""
        return data

    def at_eof(self) -> bool:
        """Always."""
        return True


def decoder_of(head: Head) -> Decoder:
    """What reads the body behind `head`."""
    match head.framing:
        case "chunked":
            return Chunked()
        case "close":
            return UntilClose()
        case "length" | "none":
            return Counted(head.length)
