"""A second accumulator that goes on from where the first one stands: how a view jumps to any moment of a long log.

A fold is made of plain parts: objects, lists, dicts, sets, deques and arrays of frozen values. Frozen values are
shared, for nobody can change them; everything else is made again, with the same parts shared between the same owners.
So a part that is added to a fold is copied too, without anybody having to think of it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, UnionType
from typing import Annotated, Final, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

T = TypeVar("T")
_ATOMS: Final[set[type]] = {
    int,
    float,
    str,
    bytes,
    bool,
    complex,
    type(None),
    frozenset,
    type,
    FunctionType,
    BuiltinFunctionType,
}
"""Types whose values never change; frozen structs join them as they are met."""
_MADE_AGAIN: Final[set[type]] = set()
"""Frozen structs with a field that can change all the same, such as a dict."""


def twin(thing: T) -> T:
    """The same thing again: what is done to the one does not show in the other."""
    return cast("T", _copied(thing, {}))


def _copied(thing: object, made: dict[int, object]) -> object:
    """`made` knows by id what was copied already, so that what two owners share stays shared."""
    if _is_atom(type(thing)):
        return thing
    before = made.get(id(thing))
    if before is not None:
        return before
    match thing:
        case dict():
            return _copied_dict(thing, made)
        case list() | set() | deque() | array():
            return _copied_row(thing, made)
        case tuple():
            return thing if _all_atoms(thing) else tuple(_copied(one, made) for one in thing)
        case MethodType():
            return MethodType(thing.__func__, _copied(thing.__self__, made))
        case _:
            return _copied_object(thing, made)


def _is_atom(kind: type) -> bool:
    if kind in _ATOMS:
        return True
    if kind in _MADE_AGAIN or not issubclass(kind, msgspec.Struct):
        return False
    frozen = kind.__struct_config__.frozen and all(_holds_atoms(field.type) for field in msgspec.structs.fields(kind))
    (_ATOMS if frozen else _MADE_AGAIN).add(kind)
    return frozen


def _holds_atoms(annotation: object) -> bool:
    """Whether a field of that type can only hold what never changes."""
    origin = get_origin(annotation)
    if origin in (Literal, Callable, type):
        return True
    if origin in (tuple, frozenset, Union, UnionType, Annotated):
        return all(_holds_atoms(one) for one in get_args(annotation) if one is not Ellipsis)
    return isinstance(annotation, type) and _is_atom(annotation)


def _all_atoms(values: object) -> bool:
    kinds = set(map(type, cast("list[object]", values)))
    return kinds <= _ATOMS or all(_is_atom(kind) for kind in kinds)


def _copied_dict(thing: dict[object, object], made: dict[int, object]) -> dict[object, object]:
    copy = thing.copy()
    made[id(thing)] = copy
    if not _all_atoms(thing.values()):
        for key, value in thing.items():
            copy[key] = _copied(value, made)
    return copy


def _copied_row(thing: object, made: dict[int, object]) -> object:
    """A list, set, deque or array."""
    match thing:
        case list() if not _all_atoms(thing):
            row: list[object] = []
            made[id(thing)] = row
            row += (_copied(one, made) for one in thing)
            return row
        case deque() if not _all_atoms(thing):
            queue: deque[object] = deque(maxlen=thing.maxlen)
            made[id(thing)] = queue
            queue.extend(_copied(one, made) for one in thing)
            return queue
        case list() | set() | deque():
            made[id(thing)] = copy = thing.copy()
            return copy
        case _:
            made[id(thing)] = fresh = cast("array[float]", thing)[:]
            return fresh


def _copied_object(thing: object, made: dict[int, object]) -> object:
    kind = type(thing)
    if isinstance(thing, msgspec.Struct):
        made[id(thing)] = same = kind(**{name: _copied(getattr(thing, name), made) for name in thing.__struct_fields__})
        return same
    copy = kind.__new__(kind)
    made[id(thing)] = copy
    names = _names(kind)
    for name in (*names, *thing.__dict__) if hasattr(thing, "__dict__") else names:
        value = getattr(thing, name, _UNSET)
        if value is not _UNSET:
            setattr(copy, name, value if type(value) in _ATOMS else _copied(value, made))
    return copy


_UNSET: Final = object()


_NAMES: Final[dict[type, tuple[str, ...]]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """The slots of a class and of those it is made from."""
    known = _NAMES.get(kind)
    if known is None:
        slots = (base.__dict__.get("__slots__", ()) for base in kind.__mro__)
        known = tuple(name for some in slots for name in ((some,) if isinstance(some, str) else some))
        _NAMES[kind] = known
    return known
