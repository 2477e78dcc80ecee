"""Read one large JSON document, or several after another, without ever holding it whole.

Agents and benchmarks write sessions as one object whose messages, steps or requests are a list, or as a list of
sessions. Such a list is handed out item by item; everything else at the top of a document is handed out by its key.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers.jsonl import mend_strings, parse
from infermaxx_tui.importers.packed import chunks
from infermaxx_tui.importers.values import JsonObject

MAX_VALUE_BYTES = 128 * 1024 * 1024
"""No single message is larger; a value that is says that the file is not what it seems."""

_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_PLAIN = re.compile(rb'[^"\[\]{}]*+')
_SCALAR = re.compile(rb"[^,\]}\s]*+")


class Piece(NamedTuple):
    """One part of a document."""

    document: int
    """Which top-level value of the file, from 0."""
    key: str
    """The key at the top of the document; empty for the items of a list at the top."""
    value: object
    item: bool
    """Whether it is one item of the list under that key."""
    line: int
    """Where it begins, from 1."""


class Pieces:
    """The pieces of a file, with a count of what could not be read.

    Iterating raises TranscriptError where the text is no JSON; a document that ends too early gives what it holds.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loss: Counter[str] = Counter()
        self._source = chunks(path)
        self._data = bytearray()
        self._at = 0
        self._lines = 1
        self.document_line = 1
        """Where the document begins that is read."""
        self._counted = 0
        """Up to where the newlines of the data are in `_lines`."""

    def __iter__(self) -> Iterator[Piece]:
        document = 0
        try:
            while self._peek():
                yield from self._document(document)
                document += 1
        except _Torn:
            self.loss["torn_tail"] += 1

    def take_loss(self) -> Counter[str]:
        """What was lost since this was last asked."""
        loss = self.loss.copy()
        self.loss.clear()
        return loss

    def _document(self, number: int) -> Iterator[Piece]:
        self.document_line = self.line
        match self._peek():
            case b"[":
                yield from self._items(number, "")
            case b"{":
                yield from self._members(number)
            case _:
                raise self._wrong("is no JSON object or list")

    def _members(self, number: int) -> Iterator[Piece]:
        self._at += 1
        while self._need() != b"}":
            if self._need() != b'"':
                raise self._wrong("a key was expected")
            key = self._parse(self._value())
            if self._need() != b":":
                raise self._wrong("a colon was expected after a key")
            self._at += 1
            if self._need() == b"[":
                yield from self._items(number, str(key))
            else:
                line = self.line
                yield Piece(number, str(key), self._parse(self._value()), False, line)
            self._comma(b"}")
        self._at += 1

    def _items(self, number: int, key: str) -> Iterator[Piece]:
        line, empty = self.line, True
        self._at += 1
        while self._need() != b"]":
            empty, start = False, self.line
            yield Piece(number, key, self._parse(self._value()), True, start)
            self._comma(b"]")
        self._at += 1
        if empty:
            yield Piece(number, key, [], False, line)

    def _comma(self, end: bytes) -> None:
        if self._need() == b",":
            self._at += 1
        elif self._need() != end:
            raise self._wrong(f"a comma or {end.decode()} was expected")

    @property
    def line(self) -> int:
        """The line of the place that is read next."""
        self._lines += self._data.count(b"\n", self._counted, self._at)
        self._counted = self._at
        return self._lines

    def _wrong(self, what: str) -> TranscriptError:
        return TranscriptError(str(self.path), self.line, f"not JSON: {what}")

    def _more(self) -> bool:
        chunk = next(self._source, None)
        if chunk is None:
            return False
        self._data += chunk
        return True

    def _forget(self) -> None:
        """Drops what was read; seldom, since what is left has to move."""
        if self._at > 1 << 20:
            self._lines = self.line
            del self._data[: self._at]
            self._at = self._counted = 0

    def _peek(self) -> bytes:
        """The next byte that is no space, empty at the end."""
        while True:
            match = _SPACE.match(self._data, self._at)
            self._at = match.end() if match is not None else self._at
            if self._at < len(self._data):
                return bytes(self._data[self._at : self._at + 1])
            if not self._more():
                return b""

    def _need(self) -> bytes:
        found = self._peek()
        if not found:
            raise _Torn
        return found

    def _value(self) -> bytes:
        """The text of the value at this place."""
        self._forget()
        match self._need():
            case b'"':
                end = self._string(self._at + 1)
            case b"[" | b"{":
                end = self._nested(self._at)
            case _:
                end = self._run(_SCALAR, self._at)
                if end == self._at:
                    raise self._wrong("a value was expected")
        text = bytes(self._data[self._at : end])
        self._at = end
        return text

    def _nested(self, at: int) -> int:
        depth = 0
        while True:
            at = self._run(_PLAIN, at)
            if at >= len(self._data):
                raise _Torn
            match self._data[at]:
                case 0x22:
                    at = self._string(at + 1)
                    continue
                case 0x5B | 0x7B:
                    depth += 1
                case _:
                    depth -= 1
            at += 1
            if depth == 0:
                return at

    def _string(self, at: int) -> int:
        """The place after the quote that ends a string."""
        while True:
            match = _STRING.match(self._data, at)
            at = match.end() if match is not None else at
            if at < len(self._data) and self._data[at] == 0x22:
                return at + 1
            self._grow()

    def _run(self, pattern: re.Pattern[bytes], at: int) -> int:
        """Where the run of a pattern ends; the end of the data if nothing else follows."""
        while True:
            match = pattern.match(self._data, at)
            at = match.end() if match is not None else at
            if at < len(self._data):
                return at
            self._check_size()
            if not self._more():
                return at

    def _grow(self) -> None:
        self._check_size()
        if not self._more():
            raise _Torn

    def _check_size(self) -> None:
        if len(self._data) - self._at > MAX_VALUE_BYTES:
            raise TranscriptError(
                str(self.path), self.line, f"one value of it is longer than {MAX_VALUE_BYTES} bytes: split the file"
            )

    def _parse(self, text: bytes) -> object:
        try:
            value, mend = parse(text, self.loss)
        except ValueError as error:
            raise TranscriptError(str(self.path), self.line, f"not JSON: {error}") from None
        if mend:
            root = [value]
            self.loss["surrogate_repaired"] += mend_strings(root)
            return root[0]
        return value


def objects(reader: Pieces) -> Iterator[tuple[int, JsonObject]]:
    """The objects of a file with the lines they begin in, each whole: those of a list, or one after another.

    What is no object is counted as `foreign_record`; an object that the file ends in comes out as far as it goes.
    """
    here: JsonObject = {}
    number = line = -1
    for piece in reader:
        if piece.document != number:
            if here:
                yield line, here
            here, number, line = {}, piece.document, piece.line
        if piece.key == "":
            if isinstance(piece.value, dict):
                yield piece.line, piece.value
            else:
                reader.loss["foreign_record"] += piece.item
        elif piece.item:
            held = here.setdefault(piece.key, [])
            if isinstance(held, list):
                held.append(piece.value)
        else:
            here[piece.key] = piece.value
    if here:
        yield line, here


class _Torn(Exception):
    """The file ends inside a document."""
