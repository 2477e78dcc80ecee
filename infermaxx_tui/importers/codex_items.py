"""What one item of a Codex rollout means: a piece of a reply, a tool's result, a compacted history, a count."""

from __future__ import annotations

import re
from collections import Counter

from infermaxx_tui.core.transcript import Message, ToolCall, Usage
from infermaxx_tui.importers.blocks import flatten, tool_call, without_images
from infermaxx_tui.importers.values import (
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    dump_json,
    first,
)

_WALL_TIME = re.compile(r"^Wall time: ([0-9]+(?:\.[0-9]+)?) seconds", re.MULTILINE)
_CONTEXT = ("<", "# AGENTS.md instructions")
"""How the texts begin that the program writes into the user's place: tags, and the project's own instructions."""


class Turn:
    """What the model wrote in one request."""

    def __init__(self) -> None:
        self.ended_s: float | None = None
        self.called_s: dict[str, float | None] = {}
        self._reasonings: list[str] = []
        self._texts: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self.empty = True

    def take(self, item: JsonObject, time_s: float | None, loss: Counter[str]) -> bool:
        """Takes an item; False if it is none that a model writes."""
        match as_text(item.get("type")):
            case "message":
                self._texts += flatten(item.get("content"), loss).texts
            case "reasoning":
                self._reason(item, loss)
            case "function_call":
                self._call(item, item.get("arguments"), time_s, loss)
            case "custom_tool_call":
                self._call(item, {"input": as_text(item.get("input"))}, time_s, loss)
            case "local_shell_call":
                self._call({**item, "name": "local_shell"}, as_object(item.get("action")), time_s, loss)
            case "web_search_call" | "image_generation_call":
                loss["server_tool_dropped"] += 1
            case _:
                return False
        self.empty = False
        self.ended_s = time_s
        return True

    def _reason(self, item: JsonObject, loss: Counter[str]) -> None:
        parts = [as_text(as_object(part).get("text")) for part in as_list(item.get("content"))]
        texts = [part for part in parts if part]
        self._reasonings += texts
        loss["reasoning_encrypted"] += not texts

    def _call(self, item: JsonObject, arguments: object, time_s: float | None, loss: Counter[str]) -> None:
        call_id = as_text(item.get("call_id")) or as_text(item.get("id"))
        loss["dup_dropped"] += call_id in self._calls
        self._calls[call_id] = tool_call(call_id, item.get("name"), arguments, loss)
        self.called_s[call_id] = time_s

    def message(self) -> Message:
        """The reply."""
        return Message("assistant", "\n".join(self._texts), "\n".join(self._reasonings), tuple(self._calls.values()))


def is_context(text: str) -> bool:
    """Whether a user's text was written by the program: no person thought before it, and no turn begins with it."""
    return text.lstrip().startswith(_CONTEXT)


def result_of(item: JsonObject, loss: Counter[str]) -> tuple[str, str, float | None]:
    """The call's id, what was sent back, and the seconds it says that it took.

    The output is a text, which is what was sent as it stands, an object around one, or a list of parts.
    """
    output = item.get("output")
    body = as_object(output)
    if body:
        output = first(body, "content", "output", "content_items")
    if isinstance(output, dict):
        output = dump_json(output)
    text = without_images(output, loss) if isinstance(output, str) else "\n".join(flatten(output, loss).texts)
    found = _WALL_TIME.search(text[:400])
    return as_text(item.get("call_id")), text, float(found[1]) if found is not None else None


def compacted_history(payload: JsonObject, loss: Counter[str]) -> list[Message]:
    """The prompt that a compaction put in place of everything before.

    Where it is not written out, only the summary is known: the user's last texts were kept too, but not how many.
    """
    out: list[Message] = []
    items = as_list(payload.get("replacement_history"))
    turn = Turn()
    for item in map(as_object, items):
        kind, role = as_text(item.get("type")), as_text(item.get("role"))
        if kind == "compaction":
            loss["compaction_encrypted"] += 1
        elif (kind != "message" or role == "assistant") and turn.take(item, None, loss):
            continue
        else:
            if not turn.empty:
                out.append(turn.message())
                turn = Turn()
            out += _prompt_item(item, loss)
    if not turn.empty:
        out.append(turn.message())
    if not items:
        loss["preserved_lost"] += 1
        summary = as_text(payload.get("message"))
        out += [Message("user", summary)] if summary else []
    return out


def _prompt_item(item: JsonObject, loss: Counter[str]) -> list[Message]:
    kind, role = as_text(item.get("type")), as_text(item.get("role"))
    if kind == "message":
        text = "\n".join(flatten(item.get("content"), loss).texts)
        return [Message("system" if role in {"developer", "system"} else "user", text)] if text else []
    if kind.endswith("_output"):
        call_id, text, _ = result_of(item, loss)
        return [Message("tool", text, tool_call_id=call_id)]
    loss["unknown_record"] += 1
    return []


def read_usage(usage: JsonObject) -> Usage:
    """The counts of one request; `input_tokens` includes what was cached, `output_tokens` what was reasoned."""
    return Usage(
        as_count(usage.get("input_tokens")) or None,
        as_count(usage.get("cached_input_tokens")),
        as_count(usage.get("output_tokens")) or None,
        as_count(usage.get("reasoning_output_tokens")),
    )
