"""Traces of one request a line, lengths and block ids without text: Mooncake's, Bailian's, TraceLab's and their kin.

Mooncake's rows name no session. Each block id stands for everything up to it, so a prompt that holds the id of the last
whole block of another prompt goes on with that one: sessions are put together by that alone, and marked as inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session, Usage
from infermaxx_tui.importers.building import with_loss
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.lengths import LengthsBuilder
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.values import JsonObject, as_count, as_ids, as_list, as_text, first, seconds

__all__ = ["FORMAT", "OPEN_SESSIONS", "is_row", "sessions"]

FORMAT = "mooncake"

OPEN_SESSIONS = 2048
"""Sessions kept open at once for the rows to come; the one least recently used goes."""

_INPUT = ("input_length", "input_tokens", "input_tokens_total")
_OUTPUT = ("output_length", "output_tokens")
_SIZES = (512, 256, 128, 64, 32, 16)
_ROWS_FOR_SIZE = 200


def is_row(record: JsonObject) -> bool:
    """Whether a line looks like a request of such a trace."""
    return as_count(first(record, *_INPUT)) is not None and as_count(first(record, *_OUTPUT)) is not None


def sessions(path: Path) -> Iterator[Session]:
    """The sessions of a file, each when nothing goes on with it any more or too many others are open."""
    reader = JsonLines(path)
    trace = _Trace(path, _block_size(path))
    held: Session | None = None
    for _, record in reader:
        if not is_row(record):
            reader.loss["foreign_record"] += 1
            continue
        for session in trace.take(record):
            if held is not None:
                yield held
            held = with_loss(session, reader.take_loss())
    for session in trace.drain():
        if held is not None:
            yield held
        held = session
    if held is not None:
        yield with_loss(held, reader.take_loss())


def _block_size(path: Path) -> int | None:
    """The block size that explains the number of ids of the first rows, rounded up or down; None if none does."""
    fitting = list(_SIZES)
    seen = 0
    for _, record in JsonLines(path):
        ids, length = as_ids(record.get("hash_ids")), as_count(first(record, *_INPUT))
        if not ids or not length:
            continue
        fitting = [size for size in fitting if len(ids) in (length // size, -(-length // size))]
        seen += 1
        if seen >= _ROWS_FOR_SIZE:
            break
    return fitting[0] if seen and fitting else None


class _Open:
    """A session that may go on."""

    def __init__(self, name: str, parent: str | None) -> None:
        self.name = name
        self.parent = parent
        self.builder = LengthsBuilder(Counter(), "subagent" if parent else "start")
        self.tail: int | None = None
        """The id of the last whole block of its last prompt."""


class _Trace:
    def __init__(self, path: Path, block_tokens: int | None) -> None:
        self._source = path.name
        self._stem = stem(path)
        self._block_tokens = block_tokens
        self._open: dict[str, _Open] = {}
        """By name, the one used last at the end."""
        self._tails: dict[int, str] = {}
        self._roots: dict[str, str] = {}
        """The session of each chat id, where rows name the chat that they go on with."""
        self._made = 0
        self._start_s: float | None = None

    def take(self, row: JsonObject) -> Iterator[Session]:
        """Gives a row to its session, and lets go of those that are too many."""
        ids = as_ids(row.get("hash_ids"))
        talk, inferred = self._session(row, ids)
        prompt, output = as_count(first(row, *_INPUT)) or 0, as_count(first(row, *_OUTPUT))
        loss = talk.builder.loss
        loss["graph_flattened"] += bool(as_list(row.get("wait_for")) or as_list(row.get("branches")))
        loss["malformed_line"] += not prompt
        if prompt:
            loss["sessions_inferred"] = int(inferred)
            loss["block_size_unknown"] = int(bool(ids) and self._block_tokens is None)
            tool_ms = seconds(row.get("tool_wait_ms"))
            delay_ms = seconds(first(row, "delay", "delay_ms"))
            talk.builder.add(
                Usage(prompt, as_count(row.get("prefix_tokens")), output),
                ids,
                self._at_s(row),
                None if delay_ms is None else delay_ms / 1000,
                None if tool_ms is None else tool_ms / 1000,
                self._block_tokens,
                row.get("prefix_reset") is True,
            )
            self._move_tail(talk, ids, prompt)
        while len(self._open) > OPEN_SESSIONS:
            yield from self._close(next(iter(self._open)))

    def drain(self) -> Iterator[Session]:
        """Everything that is left."""
        for name in list(self._open):
            yield from self._close(name)

    def _session(self, row: JsonObject, ids: tuple[int, ...]) -> tuple[_Open, bool]:
        """The session of a row, and whether that had to be inferred."""
        named = first(row, "session_id", "conversation_id")
        chat = first(row, "chat_id")
        inferred = False
        if isinstance(named, str | int):
            name = str(named)
        elif isinstance(chat, str | int):
            name = self._roots.get(str(row.get("parent_chat_id")), str(chat))
            self._roots[str(chat)] = name
        else:
            inferred = True
            name = next((self._tails[block] for block in reversed(ids) if block in self._tails), "")
            self._made += not name
            name = name or f"{self._stem}-{self._made}"
        talk = self._open.pop(name, None) or _Open(name, as_text(row.get("parent_session_id")) or None)
        self._open[name] = talk
        return talk, inferred

    def _move_tail(self, talk: _Open, ids: tuple[int, ...], prompt: int) -> None:
        if talk.tail is not None and self._tails.get(talk.tail) == talk.name:
            del self._tails[talk.tail]
        whole = min(len(ids), prompt // self._block_tokens) if self._block_tokens else len(ids) - 1
        talk.tail = ids[whole - 1] if whole > 0 else None
        if talk.tail is not None:
            self._tails.setdefault(talk.tail, talk.name)

    def _at_s(self, row: JsonObject) -> float | None:
        """Seconds since the first row. Stamps are milliseconds, but for rows with chat ids, which have seconds."""
        stamp = seconds(first(row, "timestamp", "created_time"))
        if stamp is None:
            return None
        stamp = stamp if "chat_id" in row else stamp / 1000
        self._start_s = stamp if self._start_s is None else self._start_s
        return stamp - self._start_s

    def _close(self, name: str) -> Iterator[Session]:
        talk = self._open.pop(name)
        if talk.tail is not None and self._tails.get(talk.tail) == name:
            del self._tails[talk.tail]
        session = talk.builder.finish(name, FORMAT, self._source, self._block_tokens, talk.parent)
        if session is not None:
            yield session
