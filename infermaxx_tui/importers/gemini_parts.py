"""Read contents, tool responses and counts in the dialect of Gemini's API."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from infermaxx_tui.core.transcript import ToolCall, Usage
from infermaxx_tui.importers.blocks import IMAGE, Result, tool_call, without_images
from infermaxx_tui.importers.values import JsonObject, as_count, as_list, as_object, as_text, dump_json, first


class Parts(NamedTuple):
    """A content, taken apart."""

    texts: tuple[str, ...]
    reasonings: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[Result, ...]


def read_parts(content: object, loss: Counter[str]) -> Parts:
    """The parts of a content, which is a text, a part or a list of both."""
    texts: list[str] = []
    reasonings: list[str] = []
    calls: list[ToolCall] = []
    results: list[Result] = []
    for item in content if isinstance(content, list) else [content]:
        part = {"text": item} if isinstance(item, str) else as_object(item)
        call, response = as_object(part.get("functionCall")), as_object(part.get("functionResponse"))
        if call:
            calls.append(tool_call(call.get("id") or call.get("name"), call.get("name"), call.get("args"), loss))
        elif response:
            call_id = as_text(first(response, "id", "name"))
            results.append(Result(call_id, without_images(response_text([part], loss), loss)))
        elif isinstance(part.get("text"), str):
            (reasonings if part.get("thought") is True else texts).append(without_images(as_text(part["text"]), loss))
        elif "inlineData" in part or "fileData" in part:
            loss["image_dropped"] += 1
            texts.append(IMAGE)
        elif item is not None:
            loss["unknown_block"] += 1
    return Parts(tuple(t for t in texts if t), tuple(r for r in reasonings if r), tuple(calls), tuple(results))


def response_text(result: object, loss: Counter[str]) -> str:
    """What a tool's response says: its `output` or `error`, else the whole as JSON; text that stands beside it too."""
    if isinstance(result, str):
        return result
    texts: list[str] = []
    for part in map(as_object, as_list(result)):
        response = as_object(as_object(part.get("functionResponse")).get("response"))
        if response:
            said = first(response, "output", "error")
            texts.append(said if isinstance(said, str) else dump_json(response))
        elif isinstance(part.get("text"), str):
            texts.append(as_text(part["text"]))
        elif "inlineData" in part:
            loss["image_dropped"] += 1
            texts.append(IMAGE)
    return "\n".join(texts)


def read_usage(tokens: JsonObject) -> Usage:
    """Counts of one request in the chat's names or the API's. The prompt includes what was cached; thoughts come on
    top of the output, so both are added up."""
    output = as_count(first(tokens, "output", "candidatesTokenCount"))
    thoughts = as_count(first(tokens, "thoughts", "thoughtsTokenCount"))
    return Usage(
        as_count(first(tokens, "input", "promptTokenCount")) or None,
        as_count(first(tokens, "cached", "cachedContentTokenCount")),
        (output + (thoughts or 0)) or None if output is not None else None,
        thoughts,
    )
