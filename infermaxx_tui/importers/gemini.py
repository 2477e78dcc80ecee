"""Gemini CLI and Qwen Code chats: one document, or a log of changes to one, or a tree of records.

In the log a message comes again when it changes, and the user can go back: what was rewound is out of every later
prompt. Gemini's thoughts are summaries of what the model reasoned, so their text is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Message, Session, Usage
from infermaxx_tui.importers.blocks import tool_call, without_images
from infermaxx_tui.importers.building import Builder, last_with_loss
from infermaxx_tui.importers.gemini_parts import read_parts, read_usage, response_text
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces, objects
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, epoch_s

__all__ = ["FORMAT", "document", "is_line", "is_message", "log"]

FORMAT = "gemini"

_TYPES = frozenset({"user", "gemini", "qwen", "info", "error", "warning"})


def is_message(item: JsonObject) -> bool:
    """Whether an item looks like a message of a chat."""
    known = as_text(item.get("type")) in _TYPES and not ("role" in item or "message" in item)
    return known and ("content" in item or "toolCalls" in item)


def is_line(record: JsonObject) -> bool:
    """Whether a line looks like one of a log of changes."""
    head = isinstance(record.get("sessionId"), str) and "projectHash" in record
    return (
        head or "$set" in record or "$rewindTo" in record or (is_message(record) and isinstance(record.get("id"), str))
    )


def document(path: Path) -> Iterator[Session]:
    """The sessions of documents that hold their messages."""
    reader = Pieces(path)
    yield from last_with_loss((_document(record, path) for _, record in objects(reader)), reader.take_loss)


def _document(record: JsonObject, path: Path) -> Session | None:
    messages = (as_object(item) for item in as_list(record.get("messages")))
    parent = path.parent.name if record.get("kind") == "subagent" else None
    return _session(messages, as_text(record.get("sessionId")) or stem(path), path.name, Counter(), parent)


def log(path: Path) -> Iterator[Session]:
    """The session that a log of changes ends in."""
    reader = JsonLines(path)
    loss = reader.loss
    name = ""
    parent: str | None = None
    messages: dict[str, JsonObject] = {}
    for number, record in reader:
        name = as_text(record.get("sessionId")) or as_text(as_object(record.get("$set")).get("sessionId")) or name
        if record.get("kind") == "subagent":
            parent = path.parent.name
        key = as_text(record.get("id"))
        rewound = as_text(record.get("$rewindTo"))
        if rewound:
            _rewind(messages, rewound, loss)
        elif isinstance(record.get("$set"), dict):
            fresh = as_list(as_object(record["$set"]).get("messages"))
            if fresh:
                messages = {
                    as_text(as_object(m).get("id")) or f"{number}.{n}": as_object(m) for n, m in enumerate(fresh)
                }
        elif record.get("type") == "message_update":
            change = as_object(record.get("message")) or {k: v for k, v in record.items() if k != "type"}
            messages[key] = {**messages.get(key, {}), **change}
        elif is_message(record):
            key = key or f"line {number}"
            messages[key] = {**messages.get(key, {}), **record}
        elif "sessionId" not in record:
            loss["unknown_record"] += 1
    session = _session(messages.values(), name or stem(path), path.name, loss, parent)
    if session is not None:
        yield session


def _rewind(messages: dict[str, JsonObject], to: str, loss: Counter[str]) -> None:
    """Takes a message and all after it out; everything if it is not there, as the program itself does."""
    loss["broken_parent"] += to not in messages
    keys = list(messages)
    for key in keys[keys.index(to) :] if to in messages else keys:
        loss["branch_dropped"] += as_text(messages.pop(key).get("type")) not in {"user", "info"}


def _session(
    messages: Iterable[JsonObject], name: str, source: str, loss: Counter[str], parent: str | None
) -> Session | None:
    """The session; a subagent's file stands in a folder that is named by its parent's id."""
    builder = Builder(loss, "subagent" if parent else "start")
    model = ""
    for message in messages:
        time_s = epoch_s(message.get("timestamp"))
        match message.get("type"):
            case "user":
                builder.say("\n".join(read_parts(message.get("content"), loss).texts), time_s)
            case "gemini" | "qwen":
                model = as_text(message.get("model")) or model
                _reply(builder, message, time_s, loss)
            case "info" | "error" | "warning":
                pass
            case _:
                loss["unknown_record"] += 1
    return builder.finish(name, FORMAT, source, parent=parent, model=model or None)


def _reply(builder: Builder, message: JsonObject, time_s: float | None, loss: Counter[str]) -> None:
    entries = [as_object(entry) for entry in as_list(message.get("toolCalls"))]
    calls = tuple(tool_call(entry.get("id"), entry.get("name"), entry.get("args"), loss) for entry in entries)
    parts = read_parts(message.get("content"), loss)
    loss["reasoning_summarised"] += bool(as_list(message.get("thoughts")))
    usage = read_usage(as_object(message.get("tokens")))
    text = "\n".join(parts.texts)
    if not text and not calls and usage == Usage():
        loss["failed_reply"] += 1
        return
    builder.reply(Message("assistant", text, "\n".join(parts.reasonings), calls), usage, time_s)
    for entry, call in zip(entries, calls, strict=True):
        if entry.get("result") is not None:
            text = without_images(response_text(entry["result"], loss), loss)
            builder.result(call.id, text, epoch_s(entry.get("timestamp")))
