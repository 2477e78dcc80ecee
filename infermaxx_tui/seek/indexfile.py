"""`events.idx`: what a log was folded to, so that it need not be folded again. A cache, and never trusted blindly.

It holds copies of the fold all along the log, the newest one with the series and places that a review needs, and says
of which log and by which program it was made. It serves only if the log still begins with the very same bytes and the
program is still the same, and if its own bytes are whole; else it is made again. The verdict of a run never comes from
here: whoever judges folds the log. This guards against accidents; whoever could forge the file could forge the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui import __version__, core
from infermaxx_tui.core.events import SCHEMA
from infermaxx_tui.core.kept import Blocks, DamagedError, put_away, taken
from infermaxx_tui.core.series import SERIES
from infermaxx_tui.core.timeline import TimelineParts
from infermaxx_tui.core.watch import WatchParts
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import replace_file
from infermaxx_tui.seek.places import LogMap

NAME: Final = "events.idx"
MOST_BYTES: Final = 1 << 30
LARGEST_SHARE: Final = 4
"""The file takes at most this part of what the log takes: a fourth."""
_MAGIC: Final = b"infermaxx index 2\n"
_DIGEST_BYTES: Final = 32
_READ_BYTES: Final = 1 << 20


class Copy(msgspec.Struct, frozen=True, array_like=True):
    """A fold, and the place of the line that it takes in next."""

    at_us: int
    """Log time of the newest line that it knows."""
    file: int
    """Which of the log's files, in order."""
    offset: int
    data: bytes
    blocks: tuple[int, ...]
    """Numbers of the blocks that hold the rest of it."""

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands, in the order of the log."""
        return self.file, self.offset


class _Stamp(msgspec.Struct, frozen=True, array_like=True):
    """One file of the log as it was when the index was made."""

    name: str
    size: int
    taken: int
    """Bytes of its complete lines, which were folded."""
    sha256: bytes
    """Of those bytes."""


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    """The whole file."""

    program: str
    files: tuple[_Stamp, ...]
    lines: int
    spacing: int
    blocks: tuple[bytes, ...]
    copies: tuple[Copy, ...]
    timeline: bytes
    places: bytes


class Kept(msgspec.Struct, frozen=True):
    """What was folded of a log, to go on from."""

    taken: tuple[int, ...]
    """Of each file, the bytes that were folded."""
    lines: int
    spacing: int
    """Lines between two copies."""
    blocks: Blocks
    copies: list[Copy]
    """In the order of the log. The last one is the newest, and knows all lines that were folded."""
    newest: WatchParts
    timeline: TimelineParts
    places: LogMap


@cache
def _program() -> str:
    """What made an index: release, schema, and the very code that folds."""
    digest = hashlib.sha256()
    for root in core.__path__:
        for path in sorted(Path(root).rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{__version__} {SCHEMA} {digest.hexdigest()}"


def _sha256(path: Path, size: int, passed: Callable[[int], bool]) -> bytes:
    """Of the first bytes of a file; less than that if it is shorter, or if `passed` has enough. Raises OSError."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0 and (data := file.read(min(size, _READ_BYTES))):
            digest.update(data)
            size -= len(data)
            if not passed(len(data)):
                break
    return digest.digest()


def save(
    folder: Path,
    taken_bytes: Sequence[int],
    lines: int,
    spacing: int,
    blocks: Blocks,
    copies: list[Copy],
    review: Review,
) -> None:
    """Writes the index of what was folded of a log; nothing where it would be too large for it. Raises OSError."""
    found = parts(folder)[: len(taken_bytes)]
    timeline, _ = put_away(review.timeline, blocks)
    places, _ = put_away(review.places, blocks)
    room = sum(taken_bytes) // LARGEST_SHARE - len(timeline) - len(places)
    while (size := _size(copies, blocks)) > room and len(copies) > 1:
        copies = copies[-1::-2][::-1]
    if size > room:
        return
    used = {number for copy in copies for number in copy.blocks}
    made = _Saved(
        program=_program(),
        files=tuple(
            _Stamp(path.name, path.stat().st_size, size, _sha256(path, size, lambda _: True))
            for path, size in zip(found, taken_bytes, strict=True)
        ),
        lines=lines,
        spacing=spacing,
        blocks=tuple(blocks.packed(n) if n in used else b"" for n in range(max(used, default=-1) + 1)),
        copies=tuple(copies),
        timeline=timeline,
        places=places,
    )
    data = msgspec.msgpack.encode(made)
    replace_file(folder / NAME, _MAGIC + hashlib.sha256(data).digest() + data)


class Review(msgspec.Struct, frozen=True):
    """What a review needs beside the fold."""

    timeline: TimelineParts
    places: LogMap


def _size(copies: list[Copy], blocks: Blocks) -> int:
    used = {number for copy in copies for number in copy.blocks}
    numbers = sum(len(copy.data) + 5 * len(copy.blocks) for copy in copies)
    return numbers + sum(len(blocks.packed(number)) for number in used)


def load(folder: Path, progress: Callable[[int, int], bool] | None = None) -> Kept | None:
    """What was folded of this log by this program, else None, whatever is wrong with it.

    `progress(bytes looked at, bytes in all)` is called now and then; False gives up.
    """
    path = folder / NAME
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            return None
        raw = path.read_bytes()
        head = len(_MAGIC) + _DIGEST_BYTES
        if raw[:head] != _MAGIC + hashlib.sha256(raw[head:]).digest():
            return None
        saved = msgspec.msgpack.decode(memoryview(raw)[head:], type=_Saved)
        if saved.program != _program() or not _sound(saved) or not _same(saved, folder, progress):
            return None
        return _kept(saved)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, DamagedError):
        return None


def _sound(saved: _Saved) -> bool:
    """Whether every place can be one, and the order is that of the log."""
    taken_bytes = [stamp.taken for stamp in saved.files]
    places = [copy.place for copy in saved.copies]
    inside = all(0 <= file < len(taken_bytes) and 0 <= offset <= taken_bytes[file] for file, offset in places)
    ordered = places == sorted(places) and all(
        one.at_us <= other.at_us for one, other in zip(saved.copies, saved.copies[1:], strict=False)
    )
    newest = bool(places and taken_bytes) and places[-1] == (len(taken_bytes) - 1, taken_bytes[-1])
    return inside and ordered and newest and saved.lines >= 0 and saved.spacing > 0


def _same(saved: _Saved, folder: Path, progress: Callable[[int, int], bool] | None) -> bool:
    """Whether the log still begins with what was folded. Raises OSError."""
    found = parts(folder)
    if [path.name for path in found[: len(saved.files)]] != [stamp.name for stamp in saved.files]:
        return False
    *before, last = zip(found, saved.files, strict=False)
    if any(path.stat().st_size != stamp.size for path, stamp in before):
        return False
    if last[0].stat().st_size < last[1].taken:
        return False
    done, total = 0, sum(stamp.taken for stamp in saved.files)

    def passed(count: int) -> bool:
        nonlocal done
        done += count
        return progress is None or progress(done, total)

    return all(_sha256(path, stamp.taken, passed) == stamp.sha256 for path, stamp in (*before, last))


def _kept(saved: _Saved) -> Kept | None:
    """Raises DamagedError."""
    blocks = Blocks(saved.blocks)
    timeline = taken(saved.timeline, TimelineParts, blocks)
    if list(timeline.readings) != [series.name for series in SERIES]:
        return None
    return Kept(
        taken=tuple(stamp.taken for stamp in saved.files),
        lines=saved.lines,
        spacing=saved.spacing,
        blocks=blocks,
        copies=list(saved.copies),
        newest=taken(saved.copies[-1].data, WatchParts, blocks),
        timeline=timeline,
        places=taken(saved.places, LogMap, blocks),
    )
