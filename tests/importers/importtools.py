"""What the tests of all importers share: files put together from records, and short views of sessions."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

from infermaxx_tui.core.transcript import Message, Session
from infermaxx_tui.importers import load, stream

Json = dict[str, object]


def put_lines(file: Path, records: Iterable[Json]) -> tuple[Session, ...]:
    """The sessions of a JSONL file of these records."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return load(file)


def put_document(file: Path, document: object, indent: int | None = 1) -> tuple[Session, ...]:
    """The sessions of a file that is one JSON document."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    return load(file)


def replies(session: Session) -> list[list[str]]:
    """The replies' texts, window by window."""
    return [[request.reply.content for request in window.requests] for window in session.windows]


def said(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """Role and text of messages."""
    return [(message.role, message.content) for message in messages]


def loss(session: Session, *without: str) -> dict[str, int]:
    """The ledger, sorted as it has to be, without names that every file of a format has."""
    ledger = dict(session.loss)
    assert list(ledger) == sorted(ledger)
    assert all(count > 0 for count in ledger.values())
    for name in without:
        assert name in ledger, name
        del ledger[name]
    return ledger


def peak_bytes(file: Path) -> tuple[int, list[int]]:
    """The most memory that reading the file takes one session after another, and the requests of each."""
    tracemalloc.start()
    counts = [len(session.requests) for session in stream(file)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, counts
