"""Reading what a server sends in an unusual shape: each function gives the value if it can be understood, else None.

Apart from `wire` because none of this is on the path of a healthy stream.
"""

from __future__ import annotations

import orjson

MAX_COUNT = 2**53
"""Above it a float is no exact count, and no server counts so far."""
MAX_LINE_CHARS = 500


def as_dict(value: object) -> dict[str, object]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, object]]:
    """The objects of a JSON array; a bare object counts as an array of one."""
    items = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict)]


def count_of(value: object) -> int | None:
    """A count given as an integer, a whole float or decimal digits, if it lies between 0 and 2**53."""
    match value:
        case bool():
            return None
        case int():
            number = value
        case float() if value.is_integer():
            number = int(value)
        case str() if value.isascii() and value.isdigit() and len(value) <= 16:
            number = int(value)
        case _:
            return None
    return number if 0 <= number <= MAX_COUNT else None


def ids_of(value: object) -> tuple[int, ...] | None:
    """Token ids, if the value is an array of nothing but counts."""
    if not isinstance(value, list):
        return None
    ids = tuple(number for number in map(count_of, value) if number is not None)
    return ids if len(ids) == len(value) else None


def text_of(value: object) -> str | None:
    """A string as it is; an array of content parts as their texts joined; any other object as JSON."""
    match value:
        case None | bool():
            return None
        case str():
            return value
        case list():
            parts = [part.get("text") if isinstance(part, dict) else part for part in value]
            return "".join(part for part in parts if isinstance(part, str))
        case _:
            return as_json(value)


def as_text(data: bytes) -> str:
    """The bytes as UTF-8, with replacement characters for what is not."""
    return data.decode("utf-8", "replace")


def as_json(value: object) -> str:
    """The value as JSON text; a remark instead if it is nested deeper than orjson writes (254 levels)."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        return "(nested too deeply)"


def one_line(text: str) -> str:
    """The text with all white space as single spaces, at most 500 characters."""
    return " ".join(text[: 4 * MAX_LINE_CHARS].split())[:MAX_LINE_CHARS]


def usual_shape(raw: dict[str, object]) -> dict[str, object]:
    """The event with every field that can be understood in its usual type, and None for the others."""
    return {
        "id": raw.get("id") if isinstance(raw.get("id"), str) else None,
        "choices": [_choice(choice) for choice in dicts_of(raw.get("choices"))],
        "usage": _usage(as_dict(raw.get("usage"))),
        "prompt_token_ids": ids_of(raw.get("prompt_token_ids")),
    }


def _usage(raw: dict[str, object]) -> dict[str, object] | None:
    if not raw:
        return None
    prompt, completion = as_dict(raw.get("prompt_tokens_details")), as_dict(raw.get("completion_tokens_details"))
    return {
        "prompt_tokens": count_of(raw.get("prompt_tokens")),
        "completion_tokens": count_of(raw.get("completion_tokens")),
        "prompt_tokens_details": {"cached_tokens": count_of(prompt.get("cached_tokens"))},
        "completion_tokens_details": {"reasoning_tokens": count_of(completion.get("reasoning_tokens"))},
    }


def _choice(raw: dict[str, object]) -> dict[str, object]:
    stop_reason = raw.get("stop_reason")
    return {
        "index": count_of(raw.get("index")),
        "delta": _delta(as_dict(raw.get("delta"))),
        "text": text_of(raw.get("text")),
        "finish_reason": text_of(raw.get("finish_reason")),
        "stop_reason": stop_reason if isinstance(stop_reason, str) else count_of(stop_reason),
        "token_ids": ids_of(raw.get("token_ids")),
        "prompt_token_ids": ids_of(raw.get("prompt_token_ids")),
    }


def _delta(raw: dict[str, object]) -> dict[str, object] | None:
    if not raw:
        return None
    delta: dict[str, object] = {
        key: text_of(raw.get(key)) for key in ("content", "reasoning", "reasoning_content", "role")
    }
    delta["function_call"] = _function(as_dict(raw.get("function_call")))
    delta["tool_calls"] = [
        {
            "index": count_of(call.get("index")),
            "id": text_of(call.get("id")),
            "function": _function(as_dict(call.get("function"))),
        }
        for call in dicts_of(raw.get("tool_calls"))
    ]
    return delta


def _function(raw: dict[str, object]) -> dict[str, object] | None:
    return {"name": text_of(raw.get("name")), "arguments": text_of(raw.get("arguments"))} if raw else None
