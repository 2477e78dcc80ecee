"""Flatten message content: strings, OpenAI parts and Anthropic blocks become text, reasoning, calls and results."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from infermaxx_tui.core.transcript import ToolCall
from infermaxx_tui.importers.values import as_list, as_object, as_text, call_arguments

IMAGE = "[image]"
"""What stands in the text for an image. Its bytes are never kept as text: a 1 MB picture is 1.4 million characters of
base64, and what a server makes of it is known to that server alone."""

_DATA_URL = re.compile(r"data:[a-zA-Z]+/[a-zA-Z0-9.+-]+(?:;[a-zA-Z0-9=._-]+)*;base64,[A-Za-z0-9+/=_-]{64,}")
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})


class Result(NamedTuple):
    """What a tool answered to one call."""

    call_id: str
    content: str


class Flat(NamedTuple):
    """The content of one message, taken apart; each tuple in the order of the file, without empty texts."""

    texts: tuple[str, ...] = ()
    reasonings: tuple[str, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[Result, ...] = ()


def flatten(content: object, loss: Counter[str]) -> Flat:
    """The parts of a message's content. What cannot be shown as text is counted in `loss`, never turned into a repr."""
    texts: list[str] = []
    reasonings: list[str] = []
    calls: list[ToolCall] = []
    results: list[Result] = []
    for item in [content] if isinstance(content, str) else as_list(content):
        part = {"type": "text", "text": item} if isinstance(item, str) else as_object(item)
        kind = as_text(part.get("type"))
        if kind in _TEXT_TYPES or (not kind and isinstance(part.get("text"), str)):
            texts.append(without_images(as_text(part.get("text")) or as_text(part.get("refusal")), loss))
        elif kind in _IMAGE_TYPES:
            loss["image_dropped"] += 1
            texts.append(IMAGE)
        elif kind == "thinking":
            reasonings.append(as_text(part.get("thinking")))
        elif kind == "redacted_thinking":
            loss["reasoning_encrypted"] += 1
        elif kind == "tool_use":
            calls.append(tool_call(part.get("id"), part.get("name"), part.get("input"), loss))
        elif kind == "tool_result":
            text = "\n".join(flatten(part.get("content"), loss).texts)
            results.append(Result(as_text(part.get("tool_use_id")), text))
        else:
            loss["unknown_block"] += 1
    return Flat(tuple(t for t in texts if t), tuple(r for r in reasonings if r), tuple(calls), tuple(results))


def tool_call(call_id: object, name: object, arguments: object, loss: Counter[str]) -> ToolCall:
    """A call whose arguments are JSON text of an object, wrapped and counted if they were none."""
    text, wrapped = call_arguments(arguments)
    loss["arguments_wrapped"] += wrapped
    return ToolCall(id=as_text(call_id), name=as_text(name), arguments=without_images(text, loss))


def without_images(text: str, loss: Counter[str]) -> str:
    """The text with base64 pictures replaced by a mark and counted."""
    if "base64," not in text:
        return text
    text, count = _DATA_URL.subn(IMAGE, text)
    loss["image_dropped"] += count
    return text
