"""Read the records of a Claude Code session file into the nodes of its tree; most record types are bookkeeping."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from infermaxx_tui.core.transcript import Usage
from infermaxx_tui.importers.blocks import Flat, flatten
from infermaxx_tui.importers.chat_messages import read_usage
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, epoch_s, first

Kind = Literal["user", "assistant", "attachment", "boundary", "link"]
"""What a node is for a replay; a link (progress, hooks, API errors) only joins others together."""

_BOOKKEEPING = frozenset(
    {
        "agent-color",
        "agent-name",
        "agent-setting",
        "ai-title",
        "attribution-snapshot",
        "content-replacement",
        "custom-title",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "progress",
        "queue-operation",
        "speculation-accept",
        "summary",
        "system",
        "tag",
        "task-summary",
        "worktree-state",
    }
)


class Preserved(NamedTuple):
    """Which messages a compaction carried over into the new window."""

    anchor: str = ""
    """The node that they come after, empty if the record does not say."""
    head: str = ""
    tail: str = ""
    uuids: tuple[str, ...] = ()
    """The messages one by one, where the record lists them instead of naming both ends."""


class Node(NamedTuple):
    """One record that takes part in the conversation or joins two that do."""

    at: int
    """Its place in the file."""
    uuid: str
    parent: str | None
    """None for a root. For a compaction boundary the last record before it, as far as it is named."""
    kind: Kind
    sidechain: bool = False
    agent: str = ""
    session: str = ""
    time_s: float | None = None
    flat: Flat = Flat()
    loss: tuple[tuple[str, int], ...] = ()
    """What was lost in reading its content."""
    meta: bool = False
    """A user record that no person typed: it was sent all the same."""
    summary: bool = False
    """The summary that a compaction put in place of the conversation."""
    synthetic: bool = False
    """An assistant record that no model wrote."""
    message_key: str = ""
    """What all records of one reply share."""
    usage: Usage = Usage()
    stopped: bool = False
    model: str = ""
    preserved: Preserved = Preserved()
    spawned: str = ""
    """The agent that the call whose result this is has started."""


def is_record(record: JsonObject) -> bool:
    """Whether a line looks like Claude Code's."""
    known = as_text(record.get("type")) in {"user", "assistant"} and isinstance(record.get("message"), dict)
    named = isinstance(first(record, "sessionId", "uuid", "leafUuid", "messageId"), str)
    return isinstance(record.get("type"), str) and (named or (known and "parentUuid" in record))


def read_nodes(reader: JsonLines) -> list[Node]:
    """The nodes of a file in file order, each uuid once. Record types that nobody knows pass and are counted."""
    nodes: list[Node] = []
    seen: set[str] = set()
    for number, record in reader:
        kind = _kind(record)
        if kind in {None, "link"} and as_text(record.get("type")) not in _BOOKKEEPING:
            reader.loss["unknown_record"] += 1
        if kind is None:
            continue
        before = nodes[-1].uuid if nodes else None
        uuid = as_text(record.get("uuid")) or f"line {number}"
        if uuid in seen:
            reader.loss["dup_dropped"] += 1
            continue
        seen.add(uuid)
        if record.get("isVisibleInTranscriptOnly") is True and record.get("isCompactSummary") is not True:
            reader.loss["transcript_only_dropped"] += 1
            kind = "link"
        nodes.append(_node(record, kind, number, uuid, before))
    return nodes


def _kind(record: JsonObject) -> Kind | None:
    match record.get("type"):
        case "user" if isinstance(record.get("message"), dict):
            return "user"
        case "assistant" if isinstance(record.get("message"), dict):
            return "assistant"
        case "attachment":
            return "attachment"
        case "system" if record.get("subtype") == "compact_boundary":
            return "boundary"
        case _:
            return "link" if isinstance(record.get("uuid"), str) else None


def _node(record: JsonObject, kind: Kind, number: int, uuid: str, before: str | None) -> Node:
    message = as_object(record.get("message"))
    loss: Counter[str] = Counter()
    parent = first(record, "logicalParentUuid", "parentUuid") if kind == "boundary" else record.get("parentUuid")
    if not isinstance(parent, str):
        parent = before if kind == "boundary" or "parentUuid" not in record else None
    metadata = as_object(first(record, "compactMetadata", "compact_metadata"))
    model = as_text(message.get("model"))
    spawned = as_text(record.get("parent_tool_use_id"))
    return Node(
        at=number,
        uuid=uuid,
        parent=parent,
        kind=kind,
        sidechain=record.get("isSidechain") is True or spawned != "",
        agent=as_text(record.get("agentId")) or spawned,
        session=as_text(first(record, "sessionId", "session_id")),
        time_s=epoch_s(record.get("timestamp")),
        flat=flatten(message.get("content"), loss) if kind in {"user", "assistant"} else Flat(),
        loss=tuple((+loss).items()),
        meta=record.get("isMeta") is True,
        summary=record.get("isCompactSummary") is True,
        synthetic=kind == "assistant" and (record.get("isApiErrorMessage") is True or model == "<synthetic>"),
        message_key=as_text(message.get("id")) or as_text(record.get("requestId")) or uuid,
        usage=read_usage(message.get("usage")),
        stopped=message.get("stop_reason") is not None,
        model=model,
        preserved=_preserved(metadata),
        spawned=as_text(as_object(record.get("toolUseResult")).get("agentId")),
    )


def _preserved(metadata: JsonObject) -> Preserved:
    segment = as_object(metadata.get("preservedSegment"))
    listed = as_object(metadata.get("preservedMessages"))
    uuids = tuple(uuid for uuid in as_list(listed.get("uuids")) if isinstance(uuid, str))
    return Preserved(
        anchor=as_text(first(segment, "anchorUuid") or first(listed, "anchorUuid")),
        head=as_text(segment.get("headUuid")),
        tail=as_text(segment.get("tailUuid")),
        uuids=uuids,
    )
