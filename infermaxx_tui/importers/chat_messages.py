"""Read the messages, the replies and the counts of one logged chat request, in OpenAI's and Anthropic's dialects."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import orjson

from infermaxx_tui.core.transcript import Message, Role, ToolCall, TranscriptError, Usage
from infermaxx_tui.importers.blocks import Flat, flatten, tool_call
from infermaxx_tui.importers.values import (
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    dump_json,
    first,
    parse_json,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class Parsed(NamedTuple):
    """A message and what was lost in reading it."""

    message: Message
    loss: Counter[str]


def read_messages(raw: list[object], system: object, file: str, line: int) -> list[Parsed]:
    """The messages of one request, roles mapped, results paired with calls, neighbouring assistant messages joined.

    `system` is Anthropic's separate system prompt (a string or text blocks), None if there is none.
    Raises TranscriptError for what is no message, for an unknown role and for a second or a late system message.
    """
    reader = _Reader(file, line)
    if system:
        reader.add({"role": "system", "content": system}, "system")
    for index, item in enumerate(raw):
        if not isinstance(item, dict):
            raise TranscriptError(file, line, f"messages[{index}] is no object with a role and a content")
        reader.add(item, f"messages[{index}]")
    return reader.out


class _Reader:
    """Keeps the calls that wait for results while messages are read in order."""

    def __init__(self, file: str, line: int) -> None:
        self.out: list[Parsed] = []
        self._file = file
        self._line = line
        self._waiting: list[str] = []
        self._made = 0

    def add(self, item: JsonObject, where: str) -> None:
        role = _ROLES.get(as_text(item.get("role")))
        loss: Counter[str] = Counter()
        flat = flatten(item.get("content"), loss)
        match role:
            case "system":
                self._check_system(where)
                self._put(Message(role="system", content="\n".join(flat.texts)), loss)
            case "user":
                for result in flat.results:
                    self._put_result(result.call_id, result.content, "", Counter())
                if flat.texts or not flat.results:
                    self._put(Message(role="user", content="\n".join(flat.texts)), loss)
                else:
                    self.out[-1].loss.update(loss)
            case "assistant":
                self._put_assistant(read_reply(item, loss, flat), loss)
            case "tool":
                call_id = as_text(item.get("tool_call_id")) or (self._waiting[0] if self._waiting else "")
                self._put_result(call_id, "\n".join(flat.texts), as_text(item.get("name")), loss)
            case None:
                raise TranscriptError(self._file, self._line, f"{where} has the unknown role {item.get('role')!r}")

    def _check_system(self, where: str) -> None:
        if not self.out:
            return
        if self.out[0].message.role == "system":
            raise TranscriptError(
                self._file, self._line, f"two system messages in one conversation ({where}): join them into the first"
            )
        raise TranscriptError(self._file, self._line, f"{where} is a system message after others: move it to the front")

    def _put(self, message: Message, loss: Counter[str]) -> None:
        self.out.append(Parsed(message, +loss))

    def _put_result(self, call_id: str, content: str, name: str, loss: Counter[str]) -> None:
        if call_id in self._waiting:
            self._waiting.remove(call_id)
        else:
            loss["orphan_result"] += 1
        self._put(Message(role="tool", content=content, tool_call_id=call_id, name=name), loss)

    def _put_assistant(self, reply: Message, loss: Counter[str]) -> None:
        calls = tuple(self._named(call) for call in reply.tool_calls)
        reply = _with_calls(reply, calls)
        joins = bool(self.out) and self.out[-1].message.role == "assistant"
        if joins:
            before = self.out.pop()
            reply = _join(before.message, reply)
            loss = before.loss + loss
            loss["assistant_joined"] += 1
        elif self._waiting:
            loss["unanswered_call"] += len(self._waiting)
        self._waiting = [*self._waiting, *(call.id for call in calls)] if joins else [call.id for call in calls]
        self._put(reply, loss)

    def _named(self, call: ToolCall) -> ToolCall:
        """The call, with an id made up from its position where the file has none (legacy function calls)."""
        self._made += 1
        return call if call.id else ToolCall(id=f"call_{self._made}", name=call.name, arguments=call.arguments)


def _with_calls(reply: Message, calls: tuple[ToolCall, ...]) -> Message:
    return Message(role="assistant", content=reply.content, reasoning=reply.reasoning, tool_calls=calls)


def _join(a: Message, b: Message) -> Message:
    return Message(
        role="assistant",
        content="\n\n".join(text for text in (a.content, b.content) if text),
        reasoning="\n\n".join(text for text in (a.reasoning, b.reasoning) if text),
        tool_calls=a.tool_calls + b.tool_calls,
    )


def read_reply(item: JsonObject, loss: Counter[str], flat: Flat | None = None) -> Message:
    """An assistant message: text, reasoning under any of its three names, and calls in any of their three forms."""
    flat = flatten(item.get("content"), loss) if flat is None else flat
    reasoning = as_text(first(item, "reasoning", "reasoning_content", "thinking"))
    if not flat.texts and isinstance(item.get("refusal"), str):
        flat = flat._replace(texts=(as_text(item["refusal"]),))
    calls = list(flat.calls)
    for entry in as_list(item.get("tool_calls")):
        function = as_object(as_object(entry).get("function")) or as_object(entry)
        calls.append(tool_call(as_object(entry).get("id"), function.get("name"), function.get("arguments"), loss))
    legacy = as_object(item.get("function_call"))
    if legacy:
        calls.append(tool_call("", legacy.get("name"), legacy.get("arguments"), loss))
    return Message(
        role="assistant",
        content="\n".join(flat.texts),
        reasoning="\n".join(text for text in (reasoning, *flat.reasonings) if text),
        tool_calls=tuple(calls),
    )


def read_response(value: object, loss: Counter[str]) -> Message | None:
    """The reply in a logged response: a body with choices, an Anthropic message, or a list of stream chunks."""
    if isinstance(value, list):
        return _from_chunks(value, loss)
    body = as_object(value)
    choices = as_list(body.get("choices"))
    if choices:
        message = as_object(as_object(choices[0]).get("message"))
        return read_reply(message, loss) if message else None
    return read_reply(body, loss) if body.get("role") == "assistant" else None


def _from_chunks(chunks: list[object], loss: Counter[str]) -> Message | None:
    """The reply that the deltas of a stream add up to; tool calls are put together by their index."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: dict[object, tuple[list[str], list[str], list[str]]] = {}
    for chunk in chunks:
        choices = as_list(as_object(chunk).get("choices"))
        delta = as_object(as_object(choices[0]).get("delta")) if choices else {}
        content.append(as_text(delta.get("content")))
        reasoning.append(as_text(first(delta, "reasoning", "reasoning_content")))
        for entry in map(as_object, as_list(delta.get("tool_calls"))):
            function = as_object(entry.get("function"))
            texts = calls.setdefault(as_count(entry.get("index")), ([], [], []))
            for held, new in zip(
                texts, (entry.get("id"), function.get("name"), function.get("arguments")), strict=True
            ):
                held.append(as_text(new))
    reply = Message(
        role="assistant",
        content="".join(content),
        reasoning="".join(reasoning),
        tool_calls=tuple(tool_call("".join(i), "".join(n), "".join(a), loss) for i, n, a in calls.values()),
    )
    return reply if reply.content or reply.reasoning or reply.tool_calls else None


def read_usage(value: object) -> Usage:
    """Token counts in OpenAI's names (prompt includes cached) or Anthropic's (prompt is the sum of three).

    A count of 0 is what recorders write for one they do not know, so it comes out as None: no prompt is empty.
    """
    usage = as_object(value)
    if "prompt_tokens" in usage or "completion_tokens" in usage:
        cached = as_count(as_object(usage.get("prompt_tokens_details")).get("cached_tokens"))
        return Usage(
            as_count(usage.get("prompt_tokens")) or None, cached, as_count(usage.get("completion_tokens")) or None
        )
    read = as_count(usage.get("cache_read_input_tokens"))
    parts = [as_count(usage.get("input_tokens")), as_count(usage.get("cache_creation_input_tokens")), read]
    prompt = sum(part for part in parts if part is not None)
    return Usage(prompt or None, read, as_count(usage.get("output_tokens")) or None)


def tools_text(value: object, functions: object) -> str:
    """JSON text of a tool list; legacy functions and Anthropic's tools in the form that chat templates expect."""
    tools: list[object] = []
    for tool in as_list(value):
        entry = as_object(tool)
        if "input_schema" in entry:
            function = {"name": entry.get("name"), "description": entry.get("description", "")}
            tool = {"type": "function", "function": {**function, "parameters": entry["input_schema"]}}
        tools.append(tool)
    tools += [{"type": "function", "function": function} for function in as_list(functions)]
    return dump_json(tools) if tools else ""


def same_key(message: Message) -> tuple[object, ...]:
    """What makes two logged copies of a message the same: clients drop reasoning and trim or re-serialise replies."""
    if message.role != "assistant":
        return (message.role, message.content, message.tool_call_id)
    calls = tuple((call.name, _canonical(call.arguments)) for call in message.tool_calls)
    return ("assistant", message.content.strip(), calls)


def _canonical(arguments: str) -> bytes:
    try:
        return orjson.dumps(parse_json(arguments), option=orjson.OPT_SORT_KEYS)
    except ValueError:
        return arguments.encode()
