"""Read JSON lines as agents write them: live, torn, huge, gzipped, with a BOM and with broken Unicode.

Lines are bytes between `\\n`; nothing else separates them, since U+2028 and U+0085 are ordinary characters of a string.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import orjson

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers.values import JsonObject, repair

MAX_LINE_BYTES = 128 * 1024 * 1024
"""A longer line is left out and counted: agents have written single records of 79 MB (transcripts.md §3.8)."""

_CHUNK_BYTES = 1 << 20
_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"


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

    Iterating yields (line number, object). `drop` names top-level keys to forget at once.
    Raises TranscriptError if the file cannot be opened or is compressed in a way that cannot be read.
    """

    def __init__(self, path: Path, drop: tuple[str, ...] = (), max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.path = path
        self.loss: Counter[str] = Counter()
        self.lines = 0
        """Lines that were not blank."""
        self.problem: tuple[int, str] | None = None
        """Line number and reason of the first line that was no object."""
        self._drop = drop
        self._max = max_line_bytes

    def take_loss(self) -> Counter[str]:
        """What was lost since this was last asked."""
        loss, self.loss = self.loss, Counter()
        return loss

    def __iter__(self) -> Iterator[tuple[int, JsonObject]]:
        for line in _raw_lines(self.path, self._max):
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
            value, lenient = orjson.loads(line.data), False
        except orjson.JSONDecodeError:
            try:
                value, lenient = _lenient(line.data, self.loss), True
            except ValueError as error:
                self._bad(line, "malformed_line" if line.ended else "torn_tail", f"not JSON: {error}")
                return None
            except RecursionError:
                self._bad(line, "malformed_line", "not JSON: nested too deeply")
                return None
        if not isinstance(value, dict):
            self._bad(line, "malformed_line", f"a JSON {_KINDS.get(type(value), 'value')}, not an object")
            return None
        for key in self._drop:
            value.pop(key, None)
        if lenient:
            self.loss["surrogate_repaired"] += _mend(value)
        return value

    def _bad(self, line: RawLine, name: str, reason: str) -> None:
        self.loss[name] += 1
        if self.problem is None:
            self.problem = (line.number, reason)


_KINDS: dict[type, str] = {list: "list", str: "string", int: "number", float: "number", bool: "truth value"}


def _raw_lines(path: Path, max_bytes: int) -> Iterator[RawLine]:
    try:
        with path.open("rb") as file:
            yield from _split(_unpacked(file, path), max_bytes)
    except FileNotFoundError:
        raise TranscriptError(str(path), None, "no such file") from None
    except IsADirectoryError:
        raise TranscriptError(str(path), None, "is a folder: name the files in it") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TranscriptError(str(path), None, f"damaged gzip: {error}") from None
    except OSError as error:
        raise TranscriptError(str(path), None, f"cannot be read: {error.strerror or error}") from None


def _unpacked(file: BufferedReader, path: Path) -> BufferedReader | gzip.GzipFile:
    magic = file.read(4)
    file.seek(0)
    if magic == _ZSTD:
        raise TranscriptError(str(path), None, "zstd is not read here: unpack it with `zstd -d` first")
    if magic[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise TranscriptError(str(path), 1, "not UTF-8 but UTF-16: convert it with `iconv -f UTF-16 -t UTF-8`")
    return gzip.GzipFile(fileobj=file) if magic[:2] == _GZIP else file


def _chunks(file: BufferedReader | gzip.GzipFile) -> Iterator[bytes]:
    while True:
        try:
            chunk = file.read1(_CHUNK_BYTES)
        except EOFError:  # a gzip that is still being written
            return
        if not chunk:
            return
        yield chunk


def _split(file: BufferedReader | gzip.GzipFile, max_bytes: int) -> Iterator[RawLine]:
    """Lines of a stream of chunks; never holds more than the cap and a chunk."""
    number, held, parts = 1, 0, list[bytes]()
    for chunk in _chunks(file):
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
    if number == 1:
        data = data.removeprefix(_BOM)
    return RawLine(number, data.removesuffix(b"\r"), ended, overlong)


def _lenient(data: bytes, loss: Counter[str]) -> object:
    """What the standard library's parser makes of it, which takes lone surrogates and NaN. Raises ValueError."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        loss["invalid_utf8"] += 1
    return json.loads(text)


def _mend(root: JsonObject) -> int:
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
