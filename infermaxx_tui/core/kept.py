"""How a fold is put away and taken out again: as bytes, typed, and what did not change since the last time only once.

Everything that a fold keeps is a msgspec struct of plain typed values, which msgspec writes and reads by itself. What
grows with the run lies in `Rows` and `Table`, which are cut into blocks: a block that many copies of a fold have in
common is kept once. Nothing is ever made from a name in the bytes, so bytes from a stranger can be wrong, not harmful.
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    Floats = array[float]
    Integers = array[int]
else:
    Floats = Integers = array  # before Python 3.12 an array takes no parameter when the program runs

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")
Part = TypeVar("Part")

BLOCK: Final = 64
"""Entries of a block: small enough that the last one, which changes, costs little; large enough to be written fast."""
_LARGEST_BLOCK: Final = 64 << 20
_LEVEL: Final = 1


class DamagedError(ValueError):
    """Bytes that are no fold."""


class Blocks:
    """Encoded blocks by number, each once."""

    def __init__(self, packed: Iterable[bytes] = ()) -> None:
        self._packed = list(packed)
        self._number: dict[bytes, int] = {}
        self._decoded: dict[tuple[int, object], Sequence[object]] = {}
        self.used: list[int] = []
        """Numbers of the blocks that were put or found since somebody emptied this list."""

    def put(self, data: bytes) -> int:
        """The number of a block."""
        digest = blake2b(data, digest_size=20).digest()
        number = self._number.get(digest)
        if number is None:
            number = self._number[digest] = len(self._packed)
            self._packed.append(zlib.compress(data, _LEVEL))
        self.used.append(number)
        return number

    def packed(self, number: int) -> bytes:
        """A block as it lies here, for another `Blocks`."""
        return self._packed[number]

    def get(self, number: int, kind: object, size: int) -> Sequence[object]:
        """The entries of a block. Those that cannot change are shared. Raises DamagedError."""
        known = self._decoded.get((number, kind))
        if known is not None:
            return known
        if not 0 <= number < len(self._packed):
            raise DamagedError(f"no block {number}")
        try:
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(self._packed[number], _LARGEST_BLOCK)
            entries = cast("Sequence[object]", _decoder(kind).decode(data))
        except (zlib.error, msgspec.MsgspecError, RecursionError) as error:
            raise DamagedError(str(error)) from None
        if size == BLOCK and _never_changes(kind):
            self._decoded[number, kind] = entries
        return entries


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(tuple[kind, ...])


@cache
def _never_changes(kind: Any) -> bool:
    """Whether values of a type can be shared: atoms, tuples of such, frozen structs."""
    if get_origin(kind) is tuple:
        return all(one is Ellipsis or _never_changes(one) for one in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return kind in (int, float, str, bytes, bool, type(None))


class _Cut:
    """Entries that are put away in blocks; how many of the blocks are known to be as they were put away before."""

    __slots__ = ("_blocks", "_settled")

    def __init__(self) -> None:
        self._blocks: Blocks | None = None
        self._settled: list[int] = []

    def changed(self, place: int = 0) -> None:
        """An entry at `place` or after it is not what it was."""
        del self._settled[place // BLOCK :]

    def dropped_first_block(self) -> None:
        """The first BLOCK entries are gone."""
        del self._settled[:1]

    def put_away(self, entries: Iterator[object], size: int, blocks: Blocks, *, lasting: bool) -> list[int]:
        """Number of entries, then the numbers of their blocks. `entries` are all of them."""
        if self._blocks is not blocks or not lasting:
            self._blocks, self._settled = blocks, []
        settled = self._settled
        blocks.used += settled
        numbers = [size, *settled]
        rest = islice(entries, len(settled) * BLOCK, None)
        while some := tuple(islice(rest, BLOCK)):
            number = blocks.put(msgspec.msgpack.encode(some))
            numbers.append(number)
            if len(some) == BLOCK:
                settled.append(number)
        return numbers

    def taken(self, numbers: list[int], kind: object, blocks: Blocks) -> Iterator[Sequence[object]]:
        """The entries of the blocks. Raises DamagedError."""
        size, *rest = numbers
        if len(rest) != -(-size // BLOCK):
            raise DamagedError("entries are missing")
        self._blocks = blocks
        for number in rest:
            entries = blocks.get(number, kind, min(size, BLOCK))
            if len(entries) != min(size, BLOCK):
                raise DamagedError("entries are missing")
            size -= BLOCK
            yield entries
            if len(entries) == BLOCK:
                self._settled.append(number)


class Rows(Generic[Item]):
    """A list that grows: read `rows`, change it by the methods."""

    __slots__ = ("_cut", "rows")

    def __init__(self) -> None:
        self.rows: list[Item] = []
        self._cut = _Cut()

    def append(self, item: Item) -> None:
        """One more at the end."""
        self.rows.append(item)

    def replace(self, place: int, item: Item) -> None:
        """Another one in its place."""
        self.rows[place] = item
        self._cut.changed(place)

    def drop_first_block(self) -> None:
        """Without its first BLOCK entries."""
        del self.rows[:BLOCK]
        self._cut.dropped_first_block()

    def put_away(self, blocks: Blocks) -> list[int]:
        """What `taken` makes the same of."""
        kind: Any = type(self.rows[0]) if self.rows else int
        return self._cut.put_away(iter(self.rows), len(self.rows), blocks, lasting=_never_changes(kind))

    @classmethod
    def taken(cls, numbers: list[int], kinds: tuple[object, ...], blocks: Blocks) -> Rows[Item]:
        """Rows that were put away. Raises DamagedError."""
        made = cls()
        for entries in made._cut.taken(numbers, kinds[0], blocks):
            made.rows += cast("Sequence[Item]", entries)
        return made


class Table(Generic[Key, Value]):
    """A dict that grows: read `by`, change it by the methods. Values that can change may be changed where they lie."""

    __slots__ = ("_cut", "by")

    def __init__(self) -> None:
        self.by: dict[Key, Value] = {}
        self._cut = _Cut()

    def put(self, key: Key, value: Value) -> None:
        """The value of a key from now on."""
        if key in self.by:
            self._cut.changed()
        self.by[key] = value

    def drop(self, key: Key) -> Value | None:
        """Without that key; its value, None if it was not there."""
        self._cut.changed()
        return self.by.pop(key, None)

    def put_away(self, blocks: Blocks) -> list[int]:
        """What `taken` makes the same of."""
        kind: Any = type(next(iter(self.by.values()), None))
        return self._cut.put_away(iter(self.by.items()), len(self.by), blocks, lasting=_never_changes(kind))

    @classmethod
    def taken(cls, numbers: list[int], kinds: tuple[object, ...], blocks: Blocks) -> Table[Key, Value]:
        """A table that was put away. Raises DamagedError."""
        made = cls()
        for entries in made._cut.taken(numbers, _pair(*kinds), blocks):
            made.by.update(cast("Sequence[tuple[Key, Value]]", entries))
        return made


@cache
def _pair(key: Any, value: Any) -> object:
    return tuple[key, value]


def put_away(part: object, blocks: Blocks) -> tuple[bytes, tuple[int, ...]]:
    """A struct or dataclass that a fold is made of as bytes, and the blocks that hold the rest of it."""
    blocks.used = []
    data = msgspec.msgpack.encode(part, enc_hook=lambda thing: _plain(thing, blocks))
    return data, tuple(blocks.used)


def _plain(thing: object, blocks: Blocks) -> object:
    match thing:
        case Rows() | Table():
            return thing.put_away(blocks)
        case deque():
            return [thing.maxlen, list(thing)]
        case array():
            return [thing.typecode, thing.tobytes()]
        case _:
            raise NotImplementedError(f"{type(thing).__name__} cannot be put away")


def taken(data: bytes, kind: type[Part], blocks: Blocks) -> Part:
    """A part of a fold that goes on as the one that was put away would have. Raises DamagedError."""

    def made(of: Any, raw: object) -> object:
        origin, kinds = get_origin(of), get_args(of)
        if origin is Rows or origin is Table:
            return origin.taken(msgspec.convert(raw, list[int]), kinds, blocks)
        if origin is deque:
            most, values = msgspec.convert(raw, tuple[int | None, list[kinds[0]]])  # type: ignore[valid-type]  # known at run time only
            return deque(values, most)
        if of is array:
            code, data = msgspec.convert(raw, tuple[Literal["d", "q"], bytes])
            return array(code, data)
        raise NotImplementedError(f"{of} cannot be taken out")

    try:
        return msgspec.msgpack.decode(data, type=kind, dec_hook=made)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise DamagedError(str(error)) from None
