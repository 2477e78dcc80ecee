"""Find out what wrote a file, by looking into it: names say little, and a live file may be torn anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session, TranscriptError
from infermaxx_tui.importers import claude_code, codex, openai_chat
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.values import JsonObject

Importer = Callable[[Path], Iterator[Session]]

KNOWN = "a file of an agent that is known here (README: transcripts), or OpenAI chat JSONL with `messages` in each line"


def importer_of(path: Path) -> Importer:
    """The importer for a file or folder. Raises TranscriptError with one line if there is none."""
    return _by_lines(path)


def _of_record(record: JsonObject) -> Importer | None:
    if openai_chat.request_body(record) is not None:
        return openai_chat.sessions
    if codex.is_record(record):
        return codex.sessions
    if claude_code.is_record(record):
        return claude_code.sessions
    return None


def _by_lines(path: Path) -> Importer:
    """By the first line that says what it is; what is broken before it does not matter."""
    reader = JsonLines(path)
    seen: int | None = None
    for number, record in reader:
        found = _of_record(record)
        if found is not None:
            return found
        seen = number if seen is None else seen
    if seen is not None:
        raise TranscriptError(str(path), seen, f"JSON lines of no format known here: give {KNOWN}")
    if reader.problem is not None:
        line, reason = reader.problem
        raise TranscriptError(str(path), line, f"{reason}: give {KNOWN}")
    raise TranscriptError(str(path), None, f"the file is empty: give {KNOWN}")
