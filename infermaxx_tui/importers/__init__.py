"""Turn the logs of other programs into sessions: one module a format, and the format is found by looking.

What a file cannot know, or what had to be left out, is counted in each session's ledger under the names in `losses`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.transcript import NothingToUseError, Session
from infermaxx_tui.importers.detect import KNOWN, importer_of, recordings
from infermaxx_tui.importers.losses import LOSSES

__all__ = ["KNOWN", "LOSSES", "load", "load_all", "recordings", "stream", "stream_all", "unseen"]


def load(path: Path) -> tuple[Session, ...]:
    """All sessions of a transcript file (plain or .gz), whichever known format it has.

    Raises TranscriptError with one line for people if the file cannot be read, is empty, is not JSON lines of a known
    format, holds a conversation that makes no sense, or holds no reply at all.
    """
    return tuple(stream(path))


def stream(path: Path) -> Iterator[Session]:
    """As `load`, one session after another; of chat JSONL only conversations that may still go on are held.

    Sessions of one file whose recorded ids are the same are told apart by `:2`, `:3` and so on.
    """
    names: set[int] = set()
    again: Counter[str] = Counter()
    for session in importer_of(path)(path):
        if hash(session.id) in names:
            again[session.id] += 1
            session = msgspec.structs.replace(session, id=f"{session.id}:{again[session.id] + 1}")
        names.add(hash(session.id))
        yield session
    if not names:
        raise NothingToUseError(str(path), None, "no reply of an assistant in it: there is nothing to replay")


def load_all(paths: Iterable[Path]) -> tuple[Session, ...]:
    """The sessions of several files in order, each once: a subagent's file may be named beside its parent's."""
    return tuple(stream_all(paths))


def stream_all(paths: Iterable[Path]) -> Iterator[Session]:
    """As `load_all`, one session after another."""
    seen: set[int] = set()
    for path in paths:
        yield from unseen(stream(path), seen)


REMEMBERED = 500_000
"""Sessions that are told from those that come later; more of them would fill the memory."""


def unseen(sessions: Iterable[Session], seen: set[int]) -> Iterator[Session]:
    """Those sessions that were not seen before, neither by name nor by what is in them; `seen` takes them in."""
    for session in sessions:
        key = hash((session.format, session.source, session.id, session.windows))
        if key not in seen:
            if len(seen) < REMEMBERED:
                seen.add(key)
            yield session
