"""Qwen Code chats: lines that form a tree, with contents in Gemini's dialect; a reply's reasoning is there in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Message, Session
from infermaxx_tui.importers.building import Builder
from infermaxx_tui.importers.gemini_parts import Parts, read_parts, read_usage
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, epoch_s

__all__ = ["FORMAT", "is_record", "sessions"]

FORMAT = "qwen-code"


def is_record(record: JsonObject) -> bool:
    """Whether a line looks like one of a chat."""
    parts = isinstance(as_object(record.get("message")).get("parts"), list)
    return isinstance(record.get("uuid"), str) and (parts or "systemPayload" in record)


def sessions(path: Path) -> Iterator[Session]:
    """The session of a file, then its subagents: each the way from its last record back to its root."""
    reader = JsonLines(path)
    parts: dict[str, dict[str, JsonObject]] = {"": {}}
    for number, record in reader:
        agent = as_text(record.get("agentId")) if record.get("isSidechain") is True else ""
        records = parts.setdefault(agent, {})
        uuid = as_text(record.get("uuid")) or f"line {number}"
        reader.loss["dup_dropped"] += uuid in records
        records.setdefault(uuid, record)
    loss = reader.loss
    for agent, records in parts.items():
        session = _session(records, agent, path, loss)
        if session is not None:
            yield session
            loss = Counter()


def _session(records: dict[str, JsonObject], agent: str, path: Path, loss: Counter[str]) -> Session | None:
    kept = _path(records)
    loss["branch_dropped"] += sum(record.get("type") == "assistant" for u, record in records.items() if u not in kept)
    builder = Builder(loss, "subagent" if agent else "start")
    model, name, parent = "", "", ""
    for uuid in kept:
        record = records[uuid]
        name = as_text(record.get("sessionId")) or name
        model = as_text(record.get("model")) or model
        parent = as_text(as_object(record.get("systemPayload")).get("parentSessionId")) or parent
        _take(builder, record)
    name = name or stem(path)
    if agent:
        name, parent = f"{name}/{agent}", name
    return builder.finish(name, FORMAT, path.name, parent=parent or None, model=model or None)


def _path(records: dict[str, JsonObject]) -> list[str]:
    """The ids from the root to the last record; where a parent was never written, the record before it is taken."""
    order = list(records)
    before = dict(zip(order[1:], order, strict=False))
    here = order[-1] if order else ""
    seen: dict[str, None] = {}
    while here and here not in seen:
        seen[here] = None
        parent = records[here].get("parentUuid")
        here = as_text(parent) if as_text(parent) in records else before.get(here, "") if parent is not None else ""
    return list(seen)[::-1]


def _take(builder: Builder, record: JsonObject) -> None:
    time_s = epoch_s(record.get("timestamp"))
    parts = read_parts(as_object(record.get("message")).get("parts"), builder.loss)
    match record.get("type"):
        case "user":
            _prompt(builder, parts, time_s, person=record.get("subtype") not in ("notification", "cron"))
        case "tool_result":
            _prompt(builder, parts, time_s, person=False)
        case "assistant":
            builder.reply(_message(parts), read_usage(as_object(record.get("usageMetadata"))), time_s)
        case "system" if record.get("subtype") == "chat_compression":
            builder.open("compaction")
            _carry(builder, as_object(record.get("systemPayload")).get("compressedHistory"))
        case "system" if record.get("subtype") == "agent_bootstrap":
            _carry(builder, as_object(record.get("systemPayload")).get("history"))
        case "system":
            pass
        case _:
            builder.loss["unknown_record"] += 1


def _carry(builder: Builder, history: object) -> None:
    """Takes a history that is a part of the next prompt."""
    builder.loss["preserved_lost"] += not as_list(history)
    for content in map(as_object, as_list(history)):
        parts = read_parts(content.get("parts"), builder.loss)
        if content.get("role") == "model":
            builder.carry(_message(parts))
        else:
            _prompt(builder, parts, None, person=False)


def _prompt(builder: Builder, parts: Parts, time_s: float | None, person: bool) -> None:
    for result in parts.results:
        builder.result(result.call_id, result.content, time_s)
    builder.say("\n".join(parts.texts), time_s, person)


def _message(parts: Parts) -> Message:
    return Message("assistant", "\n".join(parts.texts), "\n".join(parts.reasonings), parts.calls)
