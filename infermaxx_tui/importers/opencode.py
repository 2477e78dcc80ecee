"""OpenCode sessions: its database, what `opencode export` writes, and the tree of JSON files that older versions kept.

A request is one step of an assistant message. Tool results stand in the file whole, also those that were cleared
later: from that moment on the model saw a stub, so a window begins there. System prompt and tools are in no file.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.importers.building import with_loss
from infermaxx_tui.importers.opencode_parts import FORMAT, Conversation
from infermaxx_tui.importers.opencode_store import Stored, of_database, of_tree
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text

__all__ = ["FORMAT", "database", "document", "is_message", "tree"]


def is_message(item: JsonObject) -> bool:
    """Whether an item of a list looks like a message of an export."""
    return isinstance(item.get("info"), dict) and isinstance(item.get("parts"), list)


def database(path: Path) -> Iterator[Session]:
    """The sessions of a database, the oldest first, subagents as sessions of their own."""
    try:
        with contextlib.closing(of_database(path)) as found:
            yield from _stored(found, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from a message about a damaged name
        raise TranscriptError(str(path), None, f"damaged database, or of an unknown version: {error}") from None


def tree(path: Path) -> Iterator[Session]:
    """The sessions of a `storage` folder of an older version."""
    return _stored(of_tree(path), path)


def _stored(found: Iterable[Stored], path: Path) -> Iterator[Session]:
    """Sessions with the place in their parent where they were spawned, which a call of the parent names."""
    places: dict[str, int] = {}
    for stored in found:
        talk = Conversation(stored.info, stored.loss)
        for info, parts in stored.messages:
            talk.take(info, parts)
        places.update(talk.spawned)
        session = talk.finish(stem(path), path.name, places.get(as_text(stored.info.get("id"))))
        if session is not None:
            yield session


def document(path: Path) -> Iterator[Session]:
    """The sessions of exports: objects with `info` and `messages`, or lists of messages."""
    reader = Pieces(path)
    talk: Conversation | None = None
    number = -1
    held: Session | None = None
    for piece in reader:
        if piece.document != number or talk is None:
            done = talk.finish(stem(path), path.name, None) if talk is not None else None
            if done is not None:
                if held is not None:
                    yield held
                held = done
            number, talk = piece.document, Conversation({}, Counter())
        value = as_object(piece.value)
        if piece.key == "info":
            talk.describe(value)
        elif piece.item and is_message(value):
            talk.take(as_object(value["info"]), as_list(value["parts"]))
        elif piece.item:
            talk.loss["foreign_record"] += 1
    last = talk.finish(stem(path), path.name, None) if talk is not None else None
    if held is not None and last is not None:
        yield held
    last = last if last is not None else held
    if last is not None:
        yield with_loss(last, reader.take_loss())
