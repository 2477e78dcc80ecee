"""Tell what a Codex rollout copied from its parent from what happened in it.

The copy is stamped anew and has its counts, so nothing in a line gives it away. Newer files say at which ordinal the
own history begins; else the parent's file is looked for and its counts are compared; else the stamps have to do.
"""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers.building import Reason
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.values import JsonObject, as_count, as_object, as_text, dump_json

_COPIED_WITHIN_S = 1.0
"""No model answers in a session within a second of its start; whole histories are copied in less."""


class Origin:
    """Where a session comes from, by the first line of its file."""

    def __init__(self, meta: JsonObject, path: Path, time_s: float | None) -> None:
        spawn = as_object(as_object(as_object(meta.get("source")).get("subagent")).get("thread_spawn"))
        self.id = as_text(meta.get("id"))
        self.parent = as_text(spawn.get("parent_thread_id")) or as_text(meta.get("parent_thread_id")) or None
        """The session that spawned this one as a subagent."""
        forked = as_text(meta.get("forked_from_id"))
        self.reason: Reason = "subagent" if self.parent else "fork" if forked else "start"
        self.unresolved = False
        """Whether stamps alone had to tell what was copied."""
        self._source = forked or self.parent or ""
        self._start = as_count(meta.get("subagent_history_start_ordinal"))
        self._time_s = time_s
        self._line = 0
        self._last_copied: int | None = None
        base = as_object(meta.get("history_base"))
        self.base = as_text(base.get("thread_id"))
        """The session whose history this one goes on with without a copy of it."""
        self.base_records = as_count(base.get("end_ordinal_exclusive"))
        """How many records of it."""
        if self._source and self._start is None and not self.base:
            self._last_copied = _last_copied(path, self._source)
            self.unresolved = self._last_copied is None

    def is_copied(self, record: JsonObject, payload: JsonObject, time_s: float | None) -> bool:
        """Whether the next line of the file after the first is a copy; lines are asked for in order."""
        self._line += 1
        if self.base or not (self._source or self._start):
            return False
        ordinal = as_count(record.get("ordinal"))
        ordinal = as_count(payload.get("ordinal")) if ordinal is None else ordinal
        if self._start is not None:
            return ordinal is not None and ordinal < self._start
        if self._last_copied is not None:
            return self._line <= self._last_copied
        return time_s is not None and self._time_s is not None and time_s - self._time_s < _COPIED_WITHIN_S


def _last_copied(path: Path, parent: str) -> int | None:
    """Which object of the file, from the second on, is the last count that the parent's file has too.

    None if the parent's file is not found.
    """
    file = parent_file(path, parent)
    if file is None:
        return None
    try:
        known = {pair for _, record in JsonLines(file) if (pair := _pair(record))}
    except TranscriptError:
        return None
    last = 0
    for place, (_, record) in enumerate(JsonLines(path)):
        if _pair(record) in known:
            last = place
    return last


def parent_file(path: Path, parent: str) -> Path | None:
    """The parent's rollout beside this one, or in the tree of years, months and days that both are in."""
    if any(char in parent for char in "/*?[]"):
        return None
    folder = path.parent
    for _ in range(3):
        if not folder.name.isdigit():
            break
        folder = folder.parent
    found = sorted(file for file in folder.rglob(f"*{parent}.jsonl*") if file.is_file() and file != path)
    return found[0] if found else None


def _pair(record: JsonObject) -> str:
    """Total and last count of a line, empty if it has none."""
    payload = as_object(record.get("payload"))
    info = as_object(payload.get("info"))
    if payload.get("type") != "token_count" or not info:
        return ""
    return dump_json([info.get("total_token_usage"), info.get("last_token_usage")])
