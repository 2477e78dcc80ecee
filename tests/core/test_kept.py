"""What was put away goes on as the first would have, neither sees what is done to the other."""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass, field
from types import FunctionType, MethodType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paneltools import NAMES, log

from infermaxx_tui.core.events import Record, Unknown
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_parts import FoldParts
from infermaxx_tui.core.histories import Shape, history, records
from infermaxx_tui.core.kept import BLOCK, Blocks, DamagedError, Floats, Rows, Table, put_away, taken
from infermaxx_tui.core.stories import FEED_KEPT
from infermaxx_tui.core.timeline import Timeline, TimelineParts
from infermaxx_tui.core.watch import Watch, WatchParts

LOGS: dict[str, tuple[Record | Unknown, ...]] = {name: tuple(log(name)) for name in NAMES}
LOGS["synthetic"] = tuple(records(history(Shape())))


def again(watch: Watch, blocks: Blocks) -> Watch:
    """The same watch, put away and taken out."""
    data, _ = put_away(watch.parts, blocks)
    return Watch(taken(data, WatchParts, blocks))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(LOGS)), st.lists(st.floats(0, 1), min_size=1, max_size=5).map(sorted))
def test_a_watch_that_is_put_away_anywhere_goes_on(name: str, cuts: list[float]) -> None:
    logged, blocks = LOGS[name], Blocks()
    places = [int(cut * len(logged)) for cut in cuts]
    watch, first = Watch(), Watch()
    kept = []
    for begin, end in zip([0, *places], [*places, len(logged)], strict=True):
        for record in logged[begin:end]:
            watch.add(record)
            first.add(record)
        assert watch.fold.snapshot() == first.fold.snapshot()
        assert watch.feed.entries() == first.feed.entries()
        assert watch.clock == first.clock
        kept.append((put_away(watch.parts, blocks)[0], first.fold.snapshot()))
        watch = again(watch, blocks)
    packed = Blocks(blocks.packed(n) for n in range(max(blocks.used, default=-1) + 1))
    for data, state in kept:
        assert Watch(taken(data, WatchParts, blocks)).fold.snapshot() == state
    assert Watch(taken(kept[-1][0], WatchParts, packed)).fold.snapshot() == kept[-1][1]


@settings(deadline=None, max_examples=15)
@given(st.floats(0, 1))
def test_a_timeline_goes_on_too(where: float) -> None:
    logged, blocks = LOGS["leak"], Blocks()
    cut, line = int(where * len(logged)), Timeline()
    for record in logged[:cut]:
        line.add(record)
    data, used = put_away(line.parts, blocks)
    other = Timeline(parts=taken(data, TimelineParts, blocks))
    before = other.snapshot(0, max(other.end_us, 1), 50)
    for record in logged[cut:]:
        line.add(record)
    assert other.snapshot(0, max(other.end_us, 1), 50) == before
    for record in logged[cut:]:
        other.add(record)
    assert other.snapshot(0, 9_000_000, 50) == line.snapshot(0, 9_000_000, 50)
    assert used == ()


def reach(thing: object, seen: dict[int, object]) -> None:
    """Everything that can change and hangs on `thing`, by id."""
    if isinstance(thing, (str, bytes, int, float, type, FunctionType, Blocks)) or thing is None or id(thing) in seen:
        return
    match thing:
        case dict():
            seen[id(thing)] = thing
            for one in (*thing.keys(), *thing.values()):
                reach(one, seen)
        case list() | set() | deque() | tuple() | frozenset():
            if not isinstance(thing, (tuple, frozenset)):
                seen[id(thing)] = thing
            for one in thing:
                reach(one, seen)
        case array():
            seen[id(thing)] = thing
        case msgspec.Struct():
            if not type(thing).__struct_config__.frozen:
                seen[id(thing)] = thing
            for name in thing.__struct_fields__:
                reach(getattr(thing, name), seen)
        case _:
            seen[id(thing)] = thing
            slots = [name for base in type(thing).__mro__ for name in base.__dict__.get("__slots__", ())]
            for name in (*slots, *getattr(thing, "__dict__", {})):
                reach(getattr(thing, name, None), seen)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_nothing_that_can_change_is_shared(name: str) -> None:
    watch, blocks = Watch(), Blocks()
    for record in LOGS[name]:
        watch.add(record)
    mine: dict[int, object] = {}
    reach(watch.parts, mine)
    other: dict[int, object] = {}
    reach(again(watch, blocks).parts, other)
    third: dict[int, object] = {}
    reach(again(watch, blocks).parts, third)
    assert len(mine) > 40
    assert [thing for key, thing in mine.items() if key in other or key in third] == []
    assert [thing for key, thing in other.items() if key in third] == []


def test_a_fold_keeps_nothing_beside_its_parts() -> None:
    fold = Fold()
    parts = {id(getattr(fold.parts, name)) for name in FoldParts.__struct_fields__}
    for name, value in vars(fold).items():
        if isinstance(value, dict):
            for handler in value.values():
                owner = handler.__self__ if isinstance(handler, MethodType) else None
                assert owner is None or owner is fold or id(owner) in parts, f"{name} goes to what is not kept"
        else:
            assert value is fold.parts or id(value) in parts, f"{name} is not among the parts, so no copy has it"


class Item(msgspec.Struct, frozen=True):
    """Something in a row."""

    number: int


@dataclass
class Shelf:
    """All kinds of containers."""

    rows: Rows[Item] = field(default_factory=Rows)
    table: Table[tuple[int, str], int] = field(default_factory=Table)
    lists: Table[int, list[int]] = field(default_factory=Table)
    tail: deque[int] = field(default_factory=lambda: deque(maxlen=3))
    values: Floats = field(default_factory=lambda: array("d"))

    def same(self) -> tuple[object, ...]:
        """All that is in them."""
        return (
            self.rows.rows,
            self.table.by,
            list(self.table.by),
            self.lists.by,
            self.tail,
            self.tail.maxlen,
            self.values,
        )


STEP = st.tuples(
    st.sampled_from(["append", "replace", "drop", "put", "pop", "list", "tail", "keep"]), st.integers(0, 300)
)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEP, max_size=60))
def test_whatever_was_done_between_two_copies_is_in_the_second(steps: list[tuple[str, int]]) -> None:
    shelf, blocks, copies = Shelf(), Blocks(), []
    for number, (what, n) in enumerate(steps):
        match what:
            case "append":
                for i in range(n):
                    shelf.rows.append(Item(i))
            case "replace" if shelf.rows.rows:
                shelf.rows.replace(n % len(shelf.rows.rows), Item(-number))
            case "drop" if len(shelf.rows.rows) >= BLOCK:
                shelf.rows.drop_first_block()
            case "put":
                for i in range(n):
                    shelf.table.put((i + number % 2 * 200, "x"), number)
            case "pop":
                shelf.table.drop((n, "x"))
            case "list":
                shelf.lists.put(n, []) if n not in shelf.lists.by else shelf.lists.by[n].append(number)
            case "tail":
                shelf.tail.append(n)
                shelf.values.append(n / 7)
            case _:
                data, _ = put_away(shelf, blocks)
                other = taken(data, Shelf, blocks)
                assert other.same() == shelf.same()
                copies.append((data, msgspec.msgpack.encode(other.rows.rows), dict(other.table.by)))
                if n % 2:
                    shelf = other
    for data, rows, table in copies:
        kept = taken(data, Shelf, blocks)
        assert (msgspec.msgpack.encode(kept.rows.rows), kept.table.by) == (rows, table)


def test_what_did_not_change_is_kept_once() -> None:
    shelf, blocks = Shelf(), Blocks()
    for number in range(10 * BLOCK):
        shelf.rows.append(Item(number))
    _, first = put_away(shelf, blocks)
    shelf.rows.append(Item(-1))
    _, second = put_away(shelf, blocks)
    assert set(first) < set(second)
    assert len(set(second) - set(first)) == 1


def test_a_feed_hands_out_the_newest_only() -> None:
    watch = Watch()
    for record in LOGS["leak"]:
        watch.add(record)
    one = watch.feed.entries()[0]
    for _ in range(3 * FEED_KEPT):
        watch.parts.feed._kept.append(one)
    assert len(watch.feed.entries()) == FEED_KEPT


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81\xa4rows\x91\x01", b"\x81\xa4rows\x92\x01\x07", b"\x81\xa4tail\x91\x01"]
)
def test_bytes_that_are_none_are_an_error_of_its_own(data: bytes) -> None:
    with pytest.raises(DamagedError):
        taken(data, Shelf, Blocks([b"no zlib"]))
