"""Claude Code session JSONL: one record a content block, a tree of them, and subagents as sessions of their own.

A request is one reply: all records with its message id, wherever they stand. The tools' results are paired by id and
come after it in the order of its calls; what was sent is `message.content`, never the copy for the screen.
The files hold neither the system prompt nor the tool list, so every session is larger than its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.transcript import Session, TranscriptError, Window
from infermaxx_tui.importers.claude_records import Node, is_record, read_nodes
from infermaxx_tui.importers.claude_requests import RequestBuilder
from infermaxx_tui.importers.claude_tree import segments
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.packed import stem

__all__ = ["FORMAT", "is_record", "sessions"]

FORMAT = "claude-code"


def sessions(path: Path) -> Iterator[Session]:
    """The main conversation of a file, then its sidechains, then those of the subagent files in the folder beside it.

    What could not be read in a file is counted in its first session; a subagent file that cannot be used at all is
    counted as `subagent_unreadable` there too. Raises TranscriptError if the file itself cannot be read.
    """
    children: list[Session] = []
    unreadable = 0
    for child in _subagent_files(path):
        try:
            found, _ = _sessions_of_file(child, 0)
        except TranscriptError:
            found = []
        unreadable += not found
        children.extend(found)
    own, spawned = _sessions_of_file(path, unreadable)
    for session in (*own, *children):
        place = spawned.get(session.id)
        yield session if place is None else msgspec.structs.replace(session, spawned_after=place)


def _subagent_files(path: Path) -> list[Path]:
    folder = path.parent / stem(path) / "subagents"
    return sorted(folder.rglob("agent-*.jsonl*")) if folder.is_dir() else []


def _sessions_of_file(path: Path, unreadable: int) -> tuple[list[Session], dict[str, int]]:
    """The sessions of one file, and after how many replies of its main one others were spawned, by their ids."""
    reader = JsonLines(path)
    nodes = read_nodes(reader)
    loss = reader.take_loss()
    loss["subagent_unreadable"] += unreadable
    out: list[Session] = []
    main_id = next((node.session for node in reversed(nodes) if node.session), stem(path))
    for name, part in _conversations(nodes):
        session = _session(name or main_id, main_id if name else None, part, path.name, loss)
        if session is not None:
            out.append(session)
            loss = Counter()
    main = next((session for session in out if session.parent is None), None)
    return out, _spawned(main, nodes) if main is not None else {}


def _spawned(session: Session, nodes: list[Node]) -> dict[str, int]:
    """Which of the session's replies made the calls whose results name a subagent, counted from 1."""
    agents = {result.call_id: node.spawned for node in nodes if node.spawned for result in node.flat.results}
    return {
        f"agent-{agents[call.id]}": place
        for place, request in enumerate(session.requests, 1)
        for call in request.reply.tool_calls
        if call.id in agents
    }


def _conversations(nodes: list[Node]) -> list[tuple[str, list[Node]]]:
    """The main conversation under an empty name, and each sidechain by its agent's id, or by its root's where that is
    not written. A sidechain is linked by id alone, never by time."""
    parts: dict[str, list[Node]] = {"": []}
    names: dict[str, str] = {}
    for node in nodes:
        name = ""
        if node.sidechain:
            name = f"agent-{node.agent}" if node.agent else names.get(node.parent or "", f"agent-{node.uuid}")
            names[node.uuid] = name
        parts.setdefault(name, []).append(node)
    return list(parts.items())


def _session(name: str, parent: str | None, nodes: list[Node], source: str, loss: Counter[str]) -> Session | None:
    """The session that these nodes make, None if no model ever answered in it."""
    loss = loss.copy()
    builder = RequestBuilder(nodes, loss)
    windows: list[Window] = []
    for segment in segments(nodes, loss):
        requests = builder.window(segment)
        reason = segment.reason if parent is None or windows else "subagent"
        if requests:
            windows.append(Window(reason if windows or reason != "clear" else "start", requests))
    if not windows:
        return None
    builder.finish()
    loss["no_system_prompt"] += 1
    loss["no_tools"] += 1
    loss["no_timing"] += all(node.time_s is None for node in nodes)
    return Session(
        id=name,
        format=FORMAT,
        source=source,
        windows=tuple(windows),
        parent=parent,
        model=next((node.model for node in nodes if node.model and not node.synthetic), None),
        loss=tuple(sorted((+loss).items())),
    )
