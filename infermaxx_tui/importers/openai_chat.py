"""OpenAI chat JSONL: whole conversations, or a proxy's log of requests that each hold the whole history.

The two look alike. A line whose messages begin with everything an open conversation has seen goes on with it; any other
line begins one, or a new window where its session id is known. Lines are read one at a time, and conversations are let
go as soon as nothing can extend them: one in a file of whole conversations, at most OPEN_CONVERSATIONS in a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers.building import last_with_loss, with_loss
from infermaxx_tui.importers.chat_log import FORMAT, Conversation, Line, opened
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.values import JsonObject

__all__ = ["FORMAT", "OPEN_CONVERSATIONS", "request_body", "sessions"]

OPEN_CONVERSATIONS = 64
"""Conversations of a request log that are kept open at once for the lines to come; the one least recently used goes."""

_BODY_KEYS = ("payload", "request", "body", "request_body", "kwargs")


def request_body(record: JsonObject) -> JsonObject | None:
    """The object that holds the messages of a line, None if the line is of another format."""
    for value in (record, *(record.get(key) for key in _BODY_KEYS)):
        body = opened(value)
        if isinstance(body.get("messages"), list):
            return body
    return None


def sessions(path: Path) -> Iterator[Session]:
    """The conversations of a file, each as soon as it is known to be over.

    What could not be read in the file is counted in the conversation that is let go next. A conversation is named by
    its session id, else its own id, else the file and the line. Raises TranscriptError for messages that make no sense.
    """
    reader = JsonLines(path)
    yield from last_with_loss(_pooled(reader, path), reader.take_loss)


def _pooled(reader: JsonLines, path: Path) -> Iterator[Session]:
    pool = _Pool(path)
    for number, record in reader:
        body = request_body(record)
        if body is None or not body["messages"]:
            reader.loss["foreign_record" if body is None else "empty_conversation"] += 1
            continue
        for session in pool.put(Line(record, body, str(path), number)):
            yield with_loss(session, reader.take_loss())
    yield from pool.drain()


class _Pool:
    """The conversations that a later line may still extend, the one used last at the end."""

    def __init__(self, path: Path) -> None:
        self._source = path.name
        self._stem = stem(path)
        self._open: list[Conversation] = []
        self._names: set[str] = set()

    def put(self, line: Line) -> Iterator[Session]:
        """Gives the line to its conversation and lets go of those that are over."""
        found = next((talk for talk in reversed(self._open) if _belongs(line, talk)), None)
        if found is not None:
            self._open.remove(found)
            found.add(line)
            self._open.append(found)
            return
        over = [talk for talk in self._open if talk.whole] or self._open[: len(self._open) - OPEN_CONVERSATIONS + 1]
        self._open = [talk for talk in self._open if talk not in over]
        self._open.append(Conversation(line, self._name(line), self._source))
        yield from self._finish(over)

    def drain(self) -> Iterator[Session]:
        """Everything that is left, in the order of its last line."""
        yield from self._finish(self._open)
        self._open = []

    def _name(self, line: Line) -> str:
        wanted = line.group or line.name or self._stem
        name = wanted if wanted not in self._names else f"{wanted}:{line.number}"
        self._names.add(name)
        return name

    @staticmethod
    def _finish(talks: list[Conversation]) -> Iterator[Session]:
        for talk in talks:
            session = talk.finish()
            if session is not None:
                yield session


def _belongs(line: Line, talk: Conversation) -> bool:
    return line.group == talk.group if line.group or talk.group else talk.takes(line)
