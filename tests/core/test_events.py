"""The codec: every event comes back as it was, and a line that says something else is counted, never fatal."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.events import AnyEvent, Event, Record, Unknown, decode, encode

_TYPES: tuple[type[Event], ...] = typing.get_args(AnyEvent)
_SCALARS: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    str: st.text(max_size=12),
    type(None): st.none(),
}


def _strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type as events use it."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_strategy(arg) for arg in args])
    if origin is dict:
        return st.dictionaries(_strategy(args[0]), _strategy(args[1]), max_size=3)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(_strategy(args[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(_strategy, args))
    assert issubclass(kind, msgspec.Struct), kind
    hints = typing.get_type_hints(kind)
    fields = {field.name: _strategy(hints[field.name]) for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


def _records(kind: type[Event]) -> st.SearchStrategy[Record]:
    numbers = st.integers(0, 2**53)
    return st.builds(Record, st.integers(0, 9), numbers, numbers, numbers, _strategy(kind))


@pytest.mark.parametrize("kind", _TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_every_event_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    record = data.draw(_records(kind))
    line = encode(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert not any(byte < 0x20 for byte in line[:-1])
    assert decode(line) == record
    assert decode(line[:-1]) == record


@pytest.mark.parametrize("kind", _TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=4)
@given(data=st.data())
def test_a_key_that_a_newer_program_wrote_is_read_over(kind: type[Event], data: st.DataObject) -> None:
    record = data.draw(_records(kind))
    raw = orjson.loads(encode(record))
    raw["event"]["from_the_future"] = [1, {"a": None}]
    raw["also"] = True
    assert decode(orjson.dumps(raw)) == record


def test_an_event_of_a_newer_program_is_told_from_a_damaged_line() -> None:
    newer = b'{"part":0,"seq":1,"wall_ms":1,"mono_us":1,"event":{"e":"sensorread","x":1}}'
    assert decode(newer) == Unknown("unknown_event", decode(newer).detail)  # type: ignore[union-attr]  # it is one
    wrong = b'{"part":0,"seq":1,"wall_ms":1,"mono_us":1,"event":{"e":"noted","text":3}}'
    for line in (wrong, b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"part":0}', newer[:-5]):
        found = decode(line)
        assert isinstance(found, Unknown)
        assert found.reason == "invalid"


@given(st.binary(max_size=200))
def test_no_bytes_are_fatal(line: bytes) -> None:
    assert isinstance(decode(line), (Record, Unknown))


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.booleans(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_json_is_fatal(value: object) -> None:
    try:
        line = orjson.dumps(value)
    except (TypeError, ValueError):
        return
    assert isinstance(decode(line), (Record, Unknown))
