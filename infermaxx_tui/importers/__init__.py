"""Turn the logs of other programs into sessions: one module a format, and the format is found by looking.

What a file cannot know, or what had to be left out, is counted in each session's loss ledger under these names:

no_system_prompt, no_tools, no_timing: not in the file at all. usage_missing: replies without recorded counts.
image_dropped, reasoning_encrypted, unknown_block, attachment_unrendered: content that has no text to replay.
torn_tail, malformed_line, line_too_long, foreign_record, unknown_record, empty_conversation: lines left out.
surrogate_repaired, invalid_utf8, arguments_wrapped, assistant_joined: content that was changed to be usable.
dup_dropped: copies of blocks, results, records, requests. synthetic_dropped: messages that no model wrote.
orphan_result: a result without its call (dropped from Claude Code files, whose API refuses one; kept from chat logs,
where it was sent). unanswered_call: a call without a result. unanswered_prompt: a prompt without a reply.
branch_dropped: replies on abandoned branches. broken_parent: parents never written, file order used instead.
preserved_lost: messages that a compaction carried over and that cannot be found. transcript_only_dropped: not sent.
context_shrank: the recorded prompt fell inside a window, so the agent cut something that the file still shows whole.
tools_changed: requests whose tools differ from the session's. subagent_unreadable: subagent files without a session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.importers.detect import KNOWN, importer_of, recordings

__all__ = ["KNOWN", "load", "load_all", "recordings", "stream", "stream_all", "unseen"]


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
        raise TranscriptError(str(path), None, "no reply of an assistant in it: there is nothing to replay")


def load_all(paths: Iterable[Path]) -> tuple[Session, ...]:
    """The sessions of several files in order, each once: a subagent's file may be named beside its parent's."""
    return tuple(stream_all(paths))


def stream_all(paths: Iterable[Path]) -> Iterator[Session]:
    """As `load_all`, one session after another."""
    seen: set[int] = set()
    for path in paths:
        yield from unseen(stream(path), seen)


def unseen(sessions: Iterable[Session], seen: set[int]) -> Iterator[Session]:
    """Those sessions that were not seen before, neither by name nor by what is in them; `seen` takes them in."""
    for session in sessions:
        key = hash((session.format, session.source, session.id, session.windows))
        if key not in seen:
            seen.add(key)
            yield session
