"""Read JSON lines as agents write them: live, torn, huge, gzipped, with a BOM and with broken Unicode.

Lines are bytes between `\\n`; nothing else separates them, since U+2028 and U+0085 are ordinary characters of a string.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from infermaxx_tui.importers.packed import chunks
from infermaxx_tui.importers.values import JsonObject, repair

MAX_LINE_BYTES = 128 * 1024 * 1024
"""A longer line is left out and counted: agents have written single records of 79 MB (transcripts.md §3.8)."""

TOO_DEEP = "nested too deeply"


class RawLine(NamedTuple):
    """One line without its newline."""

    number: int
    """1-based."""
    data: bytes
    ended: bool
    """Whether a newline followed."""
    overlong: bool
    """Whether it passed the cap and its data was thrown away."""


class JsonLines:
    """The JSON objects of a file, one after another, with a count of what could not be read.

    Iterating yields (line number, object).
    Raises TranscriptError if the file cannot be opened or unpacked.
    """

    def __init__(self, path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path
        self.loss: Counter[str] = Counter()
        self.lines = 0
        """Lines that were not blank."""
        self.problem: tuple[int, str] | None = None
        """Line number and reason of the first line that was no object."""
        self._max = max_line_bytes

    def take_loss(self) -> Counter[str]:
        """What was lost since this was last asked."""
        loss = self.loss.copy()
        self.loss.clear()
        return loss

    def __iter__(self) -> Iterator[tuple[int, JsonObject]]:
        for line in _split(chunks(self.path), self._max):
            if not line.overlong and not line.data.strip():
                continue
            self.lines += 1
            record = self._parse(line)
            if record is not None:
                yield line.number, record

    def _parse(self, line: RawLine) -> JsonObject | None:
        if line.overlong:
            self._bad(line, "line_too_long", f"longer than {self._max} bytes")
            return None
        try:
            value, mend = parse(line.data, self.loss)
        except ValueError as error:
            torn = not line.ended and str(error) != TOO_DEEP
            self._bad(line, "torn_tail" if torn else "malformed_line", f"not JSON: {error}")
            return None
        if not isinstance(value, dict):
            self._bad(line, "malformed_line", f"a JSON {_KINDS.get(type(value), 'value')}, not an object")
            return None
        if mend:
            self.loss["surrogate_repaired"] += mend_strings(value)
        return value

    def _bad(self, line: RawLine, name: str, reason: str) -> None:
        self.loss[name] += 1
        if self.problem is None:
            self.problem = (line.number, reason)


_KINDS: dict[type, str] = {list: "list", str: "string", int: "number", float: "number", bool: "truth value"}


def _split(stream: Iterator[bytes], max_bytes: int) -> Iterator[RawLine]:
    """Lines of a stream of chunks; never holds more than the cap and a chunk."""
    number, held, parts = 1, 0, list[bytes]()
    for chunk in stream:
        pieces = chunk.split(b"\n")
        for i, piece in enumerate(pieces):
            held += len(piece)
            if held <= max_bytes:
                parts.append(piece)
            else:
                parts.clear()
            if i < len(pieces) - 1:
                yield _line(number, parts, held > max_bytes, ended=True)
                number, held, parts = number + 1, 0, []
    if held:
        yield _line(number, parts, held > max_bytes, ended=False)


def _line(number: int, parts: list[bytes], overlong: bool, ended: bool) -> RawLine:
    data = b"".join(parts)
    return RawLine(number, data.removesuffix(b"\r"), ended, overlong)


def parse(data: bytes, loss: Counter[str]) -> tuple[object, bool]:
    """What JSON says, and whether its strings may hold lone surrogates. Raises ValueError.

    What the quick parser refuses goes to the standard library's, which takes lone surrogates and NaN.
    """
    try:
        return orjson.loads(data), False
    except orjson.JSONDecodeError:
        pass
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        loss["invalid_utf8"] += 1
    try:
        return json.loads(text), True
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def mend_strings(root: object) -> int:
    """Makes every key and string valid Unicode in place and returns how many were not; no recursion, so no limit."""
    mended = 0
    stack: list[object] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            for key in [key for key in node if repair(key) != key]:
                node[repair(key)] = node.pop(key)
                mended += 1
        elif not isinstance(node, list):
            continue
        for index, value in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(value, str):
                node[index], text = repair(value), value
                mended += node[index] != text
            else:
                stack.append(value)
    return mended
