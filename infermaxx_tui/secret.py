"""The key that requests carry: where it comes from, and how it is kept out of all that this program writes.

A server may send it back in an error, a header, a model's name or a reply, whole or cut off where a line was too long.
So it is masked at the borders, where lines become bytes in a file or on a terminal, and not where they are made.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote

from infermaxx_tui.core.scenario import ScenarioError

LEAST_SECRET: Final = 8
"""Characters of the shortest secret that is masked; a shorter one would be found everywhere."""
MASK: Final = "[key]"
_LONGEST_HEAD: Final = 16
_BACKSLASH: Final = 0x5C
_BLOCK: Final = 1 << 20


def read_key(name: str) -> str | None:
    """The key in the environment variable `name`, without blanks around it; None if there is none.

    Raises ScenarioError for one that no header can carry, and does not show it.
    """
    key = os.environ.get(name, "").strip()
    if not key:
        return None
    if not (key.isascii() and key.isprintable()):
        raise ScenarioError(f"the variable {name}", "", "holds a line break or a letter that no HTTP header can carry")
    return key


class Mask:
    """Masks one secret, and its beginning where something cut it off: that much of it is at most half."""

    def __init__(self, secret: str | None) -> None:
        self._forms: tuple[tuple[bytes, bytes], ...] = ()
        if secret is None or len(secret) < LEAST_SECRET:
            return
        spelt = {secret, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1], quote(secret, "")}
        forms = sorted((form.encode("utf-8", "surrogateescape") for form in spelt), key=len, reverse=True)
        self._forms = tuple((form[: _head_bytes(form)], form) for form in forms)

    def raw(self, data: bytes) -> bytes:
        """The data with `[key]` for it. JSON stays JSON, and UTF-8 stays UTF-8."""
        for head, _ in self._forms:
            if head in data:
                return _masked(data, self._forms)
        return data

    def text(self, text: str) -> str:
        """The text with `[key]` for it."""
        if not self._forms:
            return text
        return self.raw(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def file(self, path: Path) -> int:
        """Overwrites it with stars in a file that somebody else wrote; how often. Raises OSError."""
        if not self._forms:
            return 0
        with open_to_mask(path) as file:
            return self.opened(file)

    def opened(self, file: BinaryIO) -> int:
        """The same in an open one, whatever its name is by now."""
        places = list(_places(file, [form for _, form in self._forms])) if self._forms else []
        for at, size in places:
            file.seek(at)
            file.write(b"*" * size)
        file.flush()
        return len(places)


def open_to_mask(path: Path) -> BinaryIO:
    """A file that is there, open for reading and writing, and no link to one. Raises OSError."""
    return open(path, "r+b", opener=_no_link)


class MaskedStream(io.TextIOWrapper):
    """A text stream that masks what is written through it, for what Python itself prints."""

    def __init__(self, stream: BinaryIO, mask: Mask) -> None:
        super().__init__(stream, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self.mask = mask

    def write(self, text: str) -> int:
        """Writes it masked."""
        super().write(self.mask.text(text))
        return len(text)


def _head_bytes(form: bytes) -> int:
    """How much of a secret is told apart from other text by itself."""
    return min(len(form), max(LEAST_SECRET, min(_LONGEST_HEAD, len(form) // 2)))


def _masked(data: bytes, forms: tuple[tuple[bytes, bytes], ...]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while True:
        found = min((place for place in (data.find(head, at) for head, _ in forms) if place >= 0), default=-1)
        if found < 0:
            return b"".join((*pieces, data[at:]))
        pieces += [data[at:found], MASK.encode()]
        at = max(_end_of(data, found, forms), found + 1)


def _end_of(data: bytes, found: int, forms: tuple[tuple[bytes, bytes], ...]) -> int:
    """Where the secret that begins at `found` ends, in the spelling that goes on longest."""
    longest, whole = 0, False
    for head, form in forms:
        if not data.startswith(head, found):
            continue
        size = len(head)
        while size < len(form) and data[found + size : found + size + 1] == form[size : size + 1]:
            size += 1
        if size > longest:
            longest, whole = size, size == len(form)
    end = found + longest
    if whole:
        return end
    # torn out of it: neither half an escape nor half a character may stay
    while end > found and data[end - 1] == _BACKSLASH:
        end -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return end


def _places(file: BinaryIO, forms: list[bytes]) -> Iterator[tuple[int, int]]:
    """Where any of the forms stands in a file, and its size; blocks overlap, so that none is missed at a border."""
    overlap = max(len(form) for form in forms) - 1
    offset, held = 0, b""
    file.seek(0)
    while block := file.read(_BLOCK):
        held += block
        for form in forms:
            at = held.find(form)
            while at >= 0:
                yield offset + at, len(form)
                at = held.find(form, at + len(form))
        keep = min(overlap, len(held))
        offset += len(held) - keep
        held = held[len(held) - keep :]


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
