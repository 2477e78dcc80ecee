"""Write any session as OpenAI chat JSONL and read it back without loss: one window a line, a whole conversation each.

Other programs find `messages` and `tools` as they expect them. What chat JSONL has no place for (which replies were
requests, their counts and delays, the ledger) stands beside them under `infermaxx`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from infermaxx_tui.core.transcript import (
    Message,
    Request,
    Role,
    Session,
    TokenIds,
    ToolCall,
    TranscriptError,
    Usage,
    Window,
)
from infermaxx_tui.importers.building import Reason, with_loss
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.values import JsonObject, dump_json, parse_json

__all__ = ["FORMAT", "KEY", "is_line", "lines", "sessions"]

FORMAT: Literal["openai-chat"] = "openai-chat"
KEY = "infermaxx"


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class _Call(msgspec.Struct, frozen=True):
    id: str
    function: _Function
    type: Literal["function"] = "function"


class _Message(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    content: str | None
    reasoning: str = ""
    tool_calls: tuple[_Call, ...] = ()
    tool_call_id: str = ""
    name: str = ""


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the request whose reply stands at `at` in the messages."""

    at: int
    usage: Usage = Usage()
    think_s: float = 0.0
    tool_delay_s: float = 0.0
    ids: TokenIds | None = None


class _Notes(msgspec.Struct, frozen=True, omit_defaults=True):
    """What chat JSONL has no place for."""

    reason: Reason
    replies: tuple[_Reply, ...]
    format: str = FORMAT
    """The format that the session was read from."""
    parent: str | None = None
    spawned_after: int | None = None
    loss: dict[str, int] = {}


def is_line(record: JsonObject) -> bool:
    """Whether a line was written by this module."""
    return isinstance(record.get(KEY), dict) and isinstance(record.get("messages"), list)


def lines(session: Session) -> Iterator[bytes]:
    """The session's lines, each with its newline. Sessions without text have none to write: the caller refuses them."""
    for number, window in enumerate(session.windows):
        messages: list[_Message] = []
        replies: list[_Reply] = []
        for request in window.requests:
            messages += map(_written, request.delta)
            replies.append(_Reply(len(messages), request.usage, request.think_s, request.tool_delay_s, request.ids))
            messages.append(_written(request.reply))
        record: dict[str, object] = {"messages": messages, "session_id": session.id}
        if session.tools:
            record["tools"] = parse_json(session.tools)
        if session.model is not None:
            record["model"] = session.model
        loss = {} if number else dict(session.loss)
        record[KEY] = _Notes(window.reason, tuple(replies), session.format, session.parent, session.spawned_after, loss)
        yield msgspec.json.encode(record) + b"\n"


def _written(message: Message) -> _Message:
    calls = tuple(_Call(call.id, _Function(call.name, call.arguments)) for call in message.tool_calls)
    return _Message(message.role, message.content, message.reasoning, calls, message.tool_call_id, message.name)


def sessions(path: Path) -> Iterator[Session]:
    """The sessions of a file that this module wrote. Raises TranscriptError where a line's notes do not fit it."""
    reader = JsonLines(path)
    held: Session | None = None
    for number, record in reader:
        if not is_line(record):
            reader.loss["foreign_record"] += 1
            continue
        one = _session(record, path, number)
        if held is not None and held.id == one.id:
            held = with_loss(msgspec.structs.replace(held, windows=held.windows + one.windows), Counter(dict(one.loss)))
            continue
        if held is not None:
            yield held
        held = with_loss(one, reader.take_loss())
    if held is not None:
        yield with_loss(held, reader.take_loss())


def _session(record: JsonObject, path: Path, number: int) -> Session:
    try:
        notes = msgspec.convert(record[KEY], _Notes)
        messages = msgspec.convert(record["messages"], tuple[_Message, ...])
        name = msgspec.convert(record.get("session_id"), str)
        model = msgspec.convert(record.get("model"), str | None)
    except msgspec.ValidationError as error:
        raise TranscriptError(str(path), number, f"{error}: without the key `{KEY}` it is read as plain chat") from None
    tools = record.get("tools")
    return Session(
        id=name,
        format=FORMAT,
        source=path.name,
        windows=(Window(notes.reason, _requests(notes, messages, path, number)),),
        tools=dump_json(tools) if tools else "",
        parent=notes.parent,
        model=model,
        loss=tuple(sorted((name, count) for name, count in notes.loss.items() if count > 0)),
        spawned_after=notes.spawned_after,
    )


def _requests(notes: _Notes, messages: tuple[_Message, ...], path: Path, number: int) -> tuple[Request, ...]:
    out: list[Request] = []
    start = 0
    for reply in notes.replies:
        if not start <= reply.at < len(messages) or messages[reply.at].role != "assistant":
            break
        delta = tuple(map(_read, messages[start : reply.at]))
        out.append(Request(delta, _read(messages[reply.at]), reply.usage, reply.think_s, reply.tool_delay_s, reply.ids))
        start = reply.at + 1
    if not out or len(out) != len(notes.replies):
        what = f"its notes under `{KEY}` do not fit its messages: without that key it is read as plain chat"
        raise TranscriptError(str(path), number, what)
    return tuple(out)


def _read(message: _Message) -> Message:
    calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in message.tool_calls)
    return Message(message.role, message.content or "", message.reasoning, calls, message.tool_call_id, message.name)
