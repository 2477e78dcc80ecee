"""Find out what wrote a file, by looking into it: names say little, and a live file may be torn anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import NothingToUseError, Session, TranscriptError
from infermaxx_tui.importers import (
    atif,
    chat_documents,
    claude_code,
    cline,
    codex,
    gemini,
    mini_swe,
    mooncake,
    native,
    openai_chat,
    opencode,
    openhands,
    qwen_code,
    sharegpt,
    swe_agent,
    weka,
)
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.opencode_store import MAGIC, is_opencode
from infermaxx_tui.importers.packed import SUFFIXES
from infermaxx_tui.importers.pieces import Piece, Pieces
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, first

Importer = Callable[[Path], Iterator[Session]]

KNOWN = "OpenAI chat JSONL (an object with `messages` a line), or what an agent that is known here writes"
"""What an error asks for."""

_OTHERS = (".json", ".traj", ".db")
"""What recordings are called besides JSONL. Other programs use these endings too, so such files are looked into."""

_MAX_PIECES = 400
"""Parts of a document that are looked at: what says what it is stands near its beginning."""


def recordings(folder: Path) -> tuple[Path, ...]:
    """What of a folder, at any depth, can be read: all JSONL files, and whatever else is of a known format.

    A folder that is one recording as a whole comes out as itself. Files come before the folders beside them, so that
    a session is read before its subagents, which it knows more of than their own files do.
    """
    if folder_importer(folder) is not None:
        return (folder,)
    found: list[Path] = []
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path)):
        if path.is_dir():
            found += () if path.is_symlink() else recordings(path)
        elif path.is_file() and (_plain(path, ".jsonl") or (_plain(path, *_OTHERS) and _is_known(path))):
            found.append(path)
    return tuple(found)


def _plain(path: Path, *endings: str) -> bool:
    """Whether a file has such an ending, packed or not."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(endings)


def _is_known(path: Path) -> bool:
    try:
        found = importer_of(path)
        return is_opencode(path) if found is opencode.database else found is not cline.screen
    except TranscriptError:
        return False


def importer_of(path: Path) -> Importer:
    """The importer for a file or folder. Raises TranscriptError with one line if there is none."""
    if path.is_dir():
        found = folder_importer(path)
        if found is None:
            raise TranscriptError(str(path), None, "is a folder: name the files in it")
        return found
    if _magic(path) == MAGIC:
        return opencode.database
    return _by_pieces(path) or _by_lines(path)


def folder_importer(path: Path) -> Importer | None:
    """The importer for a folder that is one recording as a whole, None for a folder of recordings."""
    if all((path / name).is_dir() for name in ("session", "message", "part")):
        return opencode.tree
    if openhands.is_folder(path):
        return openhands.folder
    return openhands.completions if openhands.is_completions(path) else None


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError:
        return b""


def _by_pieces(path: Path) -> Importer | None:
    """By the first document of the file, None if that is no document of a known format."""
    keys: set[str] = set()
    reader = Pieces(path)
    try:
        for number, piece in enumerate(reader):
            if piece.document or number > _MAX_PIECES:
                return None
            value = as_object(piece.value)
            over_lines = piece.line > reader.document_line
            found = _of_element(value) if piece.key == "" else _of_part(piece, value, keys, over_lines)
            if found is not None:
                return found
            keys.add(piece.key)
    except TranscriptError:
        return None
    return None


def _of_element(value: JsonObject) -> Importer | None:
    """What an object in a list at the top says of the list."""
    if opencode.is_message(value):
        return opencode.document
    if isinstance(first(value, "conversations", "conversation"), list):
        return sharegpt.sessions
    if openhands.is_event(value):
        return openhands.document
    if cline.is_screen_message(value):
        return cline.screen
    if as_text(value.get("role")) in {"system", "developer"}:
        return chat_documents.message_list
    if as_text(value.get("role")) in {"user", "assistant"} and "content" in value:
        return cline.history
    if as_list(value.get("messages")):
        return chat_documents.list_sessions
    return None


def _of_part(piece: Piece, value: JsonObject, keys: set[str], over_lines: bool) -> Importer | None:
    """What a part says of its document, with the keys that came before it."""
    match piece.key:
        case "schema_version" if str(piece.value).startswith("ATIF"):
            return atif.sessions
        case "info" if str(value.get("id")).startswith("ses") or ("directory" in value and "time" in value):
            return opencode.document
        case "messages" if opencode.is_message(value):
            return opencode.document
        case "requests" if piece.item and weka.is_request(value):
            return weka.sessions
        case "trajectory" if swe_agent.is_step(value):
            return swe_agent.sessions
        case "trajectory_format" if str(piece.value).startswith("mini-swe-agent"):
            return mini_swe.sessions
        case "info" if "mini_version" in value or ("model_stats" in value and "trajectory" not in keys):
            return mini_swe.sessions
        case "messages" if isinstance(as_object(value.get("extra")).get("response"), dict):
            return mini_swe.sessions
        case "conversations" | "conversation" | "messages" if sharegpt.is_turn(value):
            return sharegpt.sessions
        case "messages" if "sessionId" in keys and gemini.is_message(value):
            return gemini.document
        case "messages" if "sessionId" in keys and cline.is_message(value):
            return cline.document
        case "messages" if over_lines and "info" not in keys and as_text(value.get("role")) == "assistant":
            return chat_documents.object_sessions
        case _:
            return None


def _of_record(record: JsonObject) -> Importer | None:
    if native.is_line(record):
        return native.sessions
    if openai_chat.request_body(record) is not None:
        return openai_chat.sessions
    if codex.is_record(record):
        return codex.sessions
    if qwen_code.is_record(record):
        return qwen_code.sessions
    if gemini.is_line(record):
        return gemini.log
    if mooncake.is_row(record):
        return mooncake.sessions
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
        raise NothingToUseError(str(path), seen, f"JSON lines of no format known here: give {KNOWN}")
    if reader.problem is not None:
        line, reason = reader.problem
        raise TranscriptError(str(path), line, f"{reason}: give {KNOWN}")
    raise NothingToUseError(str(path), None, f"the file is empty: give {KNOWN}")
