"""WEKA traces, which SemiAnalysis' AgentX replays: one session a document, lengths and block ids, times in seconds.

Ids count whole blocks only. `think_time` is a tool's time where the reply before it called one. Subagents stand where
they were started. Almost half of the public traces begin in the middle of a session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session, Usage
from infermaxx_tui.importers.building import with_loss
from infermaxx_tui.importers.lengths import LengthsBuilder
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import JsonObject, as_count, as_ids, as_list, as_object, as_text, seconds

__all__ = ["FORMAT", "is_request", "sessions"]

FORMAT = "weka"

FRESH_TOKENS = 40_000
"""A longer first prompt is no fresh start (transcripts.md §3.6)."""


def is_request(item: JsonObject) -> bool:
    """Whether an item of `requests` looks like one of a trace."""
    return "t" in item and ("in" in item or item.get("type") == "subagent")


def sessions(path: Path) -> Iterator[Session]:
    """The sessions of a file, each followed by its subagents."""
    reader = Pieces(path)
    trace, number = _Trace(path, 0), -1
    held: list[Session] = []
    for piece in reader:
        if piece.document != number:
            yield from held
            held = list(trace.finish())
            trace, number = _Trace(path, piece.document), piece.document
        if piece.key == "requests" and piece.item:
            trace.take(as_object(piece.value))
        elif piece.key == "id":
            trace.id = as_text(piece.value) or trace.id
        elif piece.key == "block_size":
            trace.block_tokens = as_count(piece.value) or None
    rest = [*held, *trace.finish()]
    loss = reader.take_loss()
    for session in rest:
        yield with_loss(session, loss)
        loss = Counter()


class _Trace:
    """One session under construction, its subagents set aside."""

    def __init__(self, path: Path, document: int, parent: str | None = None) -> None:
        self.id = f"{stem(path)}-{document}" if document else stem(path)
        self.block_tokens: int | None = None
        self._path = path
        self._parent = parent
        self._spawned_after: int | None = None
        self._loss: Counter[str] = Counter()
        self._builder = LengthsBuilder(self._loss, "subagent" if parent else "start")
        self._model = ""
        self._stopped_for_tool = False
        self._children: list[tuple[int, JsonObject]] = []

    def take(self, item: JsonObject) -> None:
        """Takes a request or a subagent."""
        if item.get("type") == "subagent":
            self._children.append((self._builder.replies, item))
            return
        prompt, output = as_count(item.get("in")), as_count(item.get("out"))
        if not prompt or output is None:
            self._loss["malformed_line"] += 1
            return
        if not self._builder.replies and not self._parent:
            self._loss["starts_midway"] += prompt > FRESH_TOKENS
        waited = seconds(item.get("think_time"))
        for_tool = self._stopped_for_tool
        self._builder.add(
            Usage(prompt, None, output),
            as_ids(item.get("hash_ids")),
            seconds(item.get("t")),
            None if for_tool else waited,
            waited if for_tool else None,
            self.block_tokens,
        )
        self._stopped_for_tool = item.get("stop") == "tool_use"
        self._model = self._model or as_text(item.get("model"))

    def finish(self) -> Iterator[Session]:
        """The session and its subagents; those of a trace without requests of its own too."""
        session = self._builder.finish(
            self.id, FORMAT, self._path.name, self.block_tokens, self._parent, self._model or None, self._spawned_after
        )
        if session is not None:
            yield session
        for place, (after, item) in enumerate(self._children):
            child = _Trace(self._path, 0, self.id)
            child.id = f"{self.id}/{as_text(item.get('agent_id')) or place}"
            child.block_tokens = self.block_tokens
            child._spawned_after = after
            for request in as_list(item.get("requests")):
                child.take(as_object(request))
            yield from child.finish()
