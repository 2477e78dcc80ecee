"""The head of a response: strict where leniency would invent an answer, since whatever listens may not speak HTTP."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

MAX_HEAD_BYTES: Final = 1 << 16
"""Largest head, interim ones (1xx) together with the last."""

_END = re.compile(rb"\r?\n\r?\n")
_START: Final = b"HTTP/1."
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9]{2})(?: [^\x00\r\n]*)?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00\r]*?)[ \t]*")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_DIGITS = re.compile(rb"[0-9]{1,18}")
_BODILESS: Final = frozenset({204, 304})

Framing = Literal["none", "length", "chunked", "close"]


class HeadError(ValueError):
    """What came is no head of an HTTP/1.x response; the text says why, in one line."""


class Head(msgspec.Struct, frozen=True):
    """What a server says before a body."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    framing: Framing
    """What ends the body: nothing comes; a count of bytes; its own last chunk; the end of the connection."""
    length: int = 0
    """Bytes of the body, if `framing` is `length`."""


class HeadParser:
    """Collects the bytes of a head. Interim responses are passed over."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._held = b""
        self._passed = 0

    @property
    def started(self) -> bool:
        """Something came."""
        return bool(self._held) or self._passed > 0

    def feed(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and what came behind it, once it is whole. Raises HeadError."""
        held = self._held + data
        while True:
            if not held.startswith(_START[: len(held)]):
                raise HeadError(f"it begins with {held[:40]!r}")
            end = _END.search(held)
            if self._passed + (len(held) if end is None else end.end()) > MAX_HEAD_BYTES:
                raise HeadError(f"its head is larger than {MAX_HEAD_BYTES} bytes")
            if end is None:
                self._held = held
                return None
            head = parse_head(held[: end.start()], self._method)
            if head.status >= 200:
                return head, held[end.end() :]
            if head.status == 101:
                raise HeadError("it changes to a protocol that nobody asked for")
            self._passed += end.end()
            held = held[end.end() :]


def parse_head(block: bytes, method: str) -> Head:
    """The head in `block`, which has no empty line at its end. Raises HeadError."""
    first, *lines = _FOLD.sub(b" ", block).split(b"\n")
    status = _STATUS.fullmatch(first.removesuffix(b"\r"))
    if status is None:
        raise HeadError(f"its first line is {first[:80]!r}")
    fields: list[tuple[bytes, bytes]] = []
    for line in lines:
        field = _FIELD.fullmatch(line.removesuffix(b"\r"))
        if field is None:
            raise HeadError(f"its head has the line {line[:80]!r}")
        fields.append((field[1], field[2]))
    return _framed(int(status[1]), tuple(fields), method)


def _framed(status: int, fields: tuple[tuple[bytes, bytes], ...], method: str) -> Head:
    """With what ends the body (RFC 9112 §6.3): chunks overrule a length, and two different lengths are none."""
    if status < 200 or status in _BODILESS or method == "HEAD":
        return Head(status, fields, "none")
    codings = _values(fields, b"transfer-encoding")
    if codings:
        return Head(status, fields, "chunked" if codings[-1].lower() == b"chunked" else "close")
    lengths = set(_values(fields, b"content-length"))
    if not lengths:
        return Head(status, fields, "close")
    length = lengths.pop()
    if lengths or not _DIGITS.fullmatch(length):
        raise HeadError(f"its content-length is {b', '.join((length, *lengths))[:80]!r}")
    return Head(status, fields, "length", int(length))


def _values(fields: tuple[tuple[bytes, bytes], ...], wanted: bytes) -> list[bytes]:
    return [part.strip() for name, value in fields if name.lower() == wanted for part in value.split(b",")]
