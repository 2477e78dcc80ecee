"""Narrow values of foreign JSON, so that an importer never trusts a type that it did not check."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime

import orjson

JsonObject = dict[str, object]


def as_object(value: object) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """A token count, None if the value is no whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if value >= 0 else None


def as_ids(value: object) -> tuple[int, ...]:
    """Token or block ids, empty if the value is no list of whole numbers of at least 0."""
    ids = as_list(value)
    whole = tuple(item for item in ids if isinstance(item, int) and not isinstance(item, bool) and item >= 0)
    return whole if len(whole) == len(ids) else ()


def seconds(value: object) -> float | None:
    """A length of time as it is written, None if the value is no finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def first(value: Mapping[str, object], *keys: str) -> object:
    """The first of these keys that has a value, None if none has."""
    return next((value[key] for key in keys if value.get(key) is not None), None)


def repair(text: str) -> str:
    """Valid Unicode: surrogate pairs are joined, a lone surrogate becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_json(text: str) -> object:
    """What JSON text says, also where it escapes lone surrogates, which are repaired. Raises ValueError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return orjson.loads(repair(json.dumps(json.loads(text), ensure_ascii=False)))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def dump_json(value: object) -> str:
    """JSON text of a parsed value, compact, key order kept."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def call_arguments(value: object) -> tuple[str, bool]:
    """JSON text of an object for a tool call's arguments, and whether they had to be wrapped to become one.

    A string that holds a JSON object stays as it is; a template that needs a mapping can parse whatever comes out.
    """
    if isinstance(value, dict):
        return dump_json(value), False
    if value is None or value == "":
        return "{}", False
    if isinstance(value, str):
        try:
            parsed = parse_json(value)
        except ValueError:
            return dump_json({"_raw": value}), True
        if isinstance(parsed, dict):
            return (value if _is_plain(value) else dump_json(parsed)), False
    return dump_json({"_raw": value}), True


def _is_plain(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def epoch_s(value: object) -> float | None:
    """Unix seconds of an ISO time (naive means UTC) or of an epoch number in s, ms or µs, told apart by magnitude."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    if value > 1e14:
        return value / 1e6
    return value / 1e3 if value > 1e11 else float(value)
