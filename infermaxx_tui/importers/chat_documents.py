"""Chat conversations in a JSON document: what vLLM's multi-turn benchmark takes, and chat JSON written over many lines.

Each object is one whole conversation in OpenAI's dialect; nothing in such a file is a log of requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers import openai_chat
from infermaxx_tui.importers.building import last_with_loss, with_loss
from infermaxx_tui.importers.chat_log import Conversation, Line
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces, objects

__all__ = ["MULTI_TURN", "list_sessions", "message_list", "object_sessions"]

MULTI_TURN = "vllm-multi-turn"


def list_sessions(path: Path) -> Iterator[Session]:
    """The conversations of a list, named by their ids or their places. Raises TranscriptError for a bad message."""
    return _sessions(path, MULTI_TURN)


def object_sessions(path: Path) -> Iterator[Session]:
    """The conversations of objects that stand one after another."""
    return _sessions(path, openai_chat.FORMAT)


def message_list(path: Path) -> Iterator[Session]:
    """The one conversation whose messages are the items of a list."""
    reader = Pieces(path)
    messages = [piece.value for piece in reader if piece.item]
    line = Line({"messages": messages}, {"messages": messages}, str(path), 1)
    session = Conversation(line, stem(path), path.name).finish()
    if session is not None:
        yield with_loss(session, reader.take_loss())


def _sessions(path: Path, form: str) -> Iterator[Session]:
    reader = Pieces(path)
    made = (None if one is None else msgspec.structs.replace(one, format=form) for one in _read(reader, path))
    yield from last_with_loss(made, reader.take_loss)


def _read(reader: Pieces, path: Path) -> Iterator[Session | None]:
    for number, (line, record) in enumerate(objects(reader)):
        body = openai_chat.request_body(record)
        if body is None or not body["messages"]:
            reader.loss["foreign_record" if body is None else "empty_conversation"] += 1
            continue
        one = Line(record, body, str(path), line)
        yield Conversation(one, one.group or one.name or f"{stem(path)}-{number}", path.name).finish()
