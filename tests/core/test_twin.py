"""A twin goes on as the first would have, and neither sees what is done to the other."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from types import FunctionType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paneltools import NAMES, log

from infermaxx_tui.core.events import Record, Unknown
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories import Shape, history, records
from infermaxx_tui.core.timeline import Timeline
from infermaxx_tui.core.twin import twin
from infermaxx_tui.core.watch import Watch

LOGS: dict[str, tuple[Record | Unknown, ...]] = {name: tuple(log(name)) for name in NAMES}
LOGS["synthetic"] = tuple(records(history(Shape())))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(sorted(LOGS)), st.floats(0, 1), st.floats(0, 1))
def test_a_twin_of_a_fold_goes_on_like_the_fold(name: str, where: float, until: float) -> None:
    logged = LOGS[name]
    cut = int(where * len(logged))
    end = cut + int(until * (len(logged) - cut))
    fold = Fold()
    for record in logged[:cut]:
        fold.add(record)
    before = fold.snapshot()
    other = twin(fold)
    for record in logged[cut:end]:
        other.add(record)
    assert fold.snapshot() == before
    for record in logged[cut:end]:
        fold.add(record)
    assert other.snapshot() == fold.snapshot()
    for record in logged[end:]:
        fold.add(record)
        other.add(record)
    assert other.snapshot() == fold.snapshot()


@settings(deadline=None, max_examples=15)
@given(st.floats(0, 1))
def test_watches_and_timelines_have_twins_too(where: float) -> None:
    logged = LOGS["leak"]
    cut = int(where * len(logged))
    watch, line = Watch(), Timeline()
    for record in logged[:cut]:
        watch.add(record)
        line.add(record)
    other, other_line = twin(watch), twin(line)
    before = other.feed.entries(), other.clock.now_us, other_line.snapshot(0, other_line.end_us, 50)
    for record in logged[cut:]:
        watch.add(record)
        line.add(record)
    assert (other.feed.entries(), other.clock.now_us, other_line.snapshot(0, other_line.end_us, 50)) == before
    for record in logged[cut:]:
        other.add(record)
        other_line.add(record)
    assert other.feed.entries() == watch.feed.entries()
    assert other.fold.snapshot() == watch.fold.snapshot()
    assert other_line.snapshot(0, 9_000_000, 50) == line.snapshot(0, 9_000_000, 50)


def reach(thing: object, seen: dict[int, object]) -> None:
    """Everything that can change and hangs on `thing`, by id."""
    if isinstance(thing, (str, bytes, int, float, type, FunctionType)) or thing is None or id(thing) in seen:
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
            reach(getattr(thing, "__self__", None), seen)


@pytest.mark.parametrize("name", sorted(LOGS))
def test_nothing_that_can_change_is_shared(name: str) -> None:
    watch = Watch()
    for record in LOGS[name]:
        watch.add(record)
    mine: dict[int, object] = {}
    reach(watch, mine)
    other: dict[int, object] = {}
    reach(twin(watch), other)
    assert len(mine) > 50
    assert [thing for key, thing in mine.items() if key in other] == []


class Plain:
    """Parts that are shared, a cycle, and all kinds of containers."""

    def __init__(self) -> None:
        self.numbers = [1, 2]
        self.same = self.numbers
        self.table = {"a": [1], "b": [2]}
        self.tail = deque([[1], [2]], maxlen=2)
        self.counts = Counter("hello")
        self.values = array("d", [1.0])
        self.names = {"x"}
        self.pair = ([1], 2)
        self.me = self
        self.call = self.add

    def add(self) -> None:
        """Changes itself."""
        self.numbers.append(3)


def test_shared_parts_stay_shared_and_methods_belong_to_the_twin() -> None:
    first = Plain()
    second = twin(first)
    assert second.me is second
    assert second.same is second.numbers
    second.call()
    second.table["a"].append(9)
    second.tail.append([3])
    second.counts["z"] += 1
    second.values.append(2.0)
    second.names.add("y")
    second.pair[0].append(5)
    assert second.same == [1, 2, 3]
    assert second.tail.maxlen == 2
    assert (first.numbers, first.table, list(first.tail)) == ([1, 2], {"a": [1], "b": [2]}, [[1], [2]])
    assert (first.counts["z"], list(first.values), first.names, first.pair) == (0, [1.0], {"x"}, ([1], 2))
