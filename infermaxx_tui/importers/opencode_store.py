"""Find the sessions, messages and parts where OpenCode keeps them: in SQLite, before that in a tree of JSON files."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, parse_json

MAGIC = b"SQLite format 3\x00"

_BOOKKEEPING = ("idle", "model-switched", "agent-switched")
_FIRST, _SECOND = {"session", "message", "part"}, {"session_v2", "session_message"}
"""The tables of the two layouts."""


class Stored(NamedTuple):
    """One session: what is said of it, and its messages with their parts, which are read as they are asked for."""

    info: JsonObject
    messages: Iterator[tuple[JsonObject, list[object]]]
    loss: Counter[str]


def of_tree(path: Path) -> Iterator[Stored]:
    """The sessions of a `storage` folder. Raises TranscriptError if a file cannot be read."""
    for file in sorted(path.glob("session/**/*.json")):
        loss: Counter[str] = Counter()
        info = _read(file, loss)
        name = as_text(info.get("id")) or file.stem
        if info:
            yield Stored({"id": name, **info}, _tree_messages(path, name, loss), loss)


def _tree_messages(path: Path, session: str, loss: Counter[str]) -> Iterator[tuple[JsonObject, list[object]]]:
    for file in sorted((path / "message" / session).glob("*.json")):
        info = _read(file, loss)
        parts = [_read(part, loss) for part in sorted((path / "part" / file.stem).glob("*.json"))]
        if info:
            yield info, [part for part in parts if part]


def _read(file: Path, loss: Counter[str]) -> JsonObject:
    try:
        return _parsed(file.read_text(encoding="utf-8-sig", errors="replace"), loss)
    except OSError as error:
        raise TranscriptError(str(file), None, f"cannot be read: {error.strerror or error}") from None


def _parsed(text: object, loss: Counter[str]) -> JsonObject:
    try:
        found = as_object(parse_json(as_text(text)))
    except ValueError:
        found = {}
    loss["malformed_line"] += not found
    return found


def is_opencode(path: Path) -> bool:
    """Whether a database has the tables that are read here."""
    try:
        with contextlib.ExitStack() as stack:
            tables = _tables(_opened(path, stack))
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    return tables >= _FIRST or tables >= _SECOND


def _tables(db: sqlite3.Connection) -> set[str]:
    return {str(row[0]) for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def of_database(path: Path) -> Generator[Stored, None, None]:
    """The sessions of a database, the oldest first; to be closed if it is left early.

    A database that was moved to the second layout still has the tables of the first, which hold the same sessions.

    Raises TranscriptError if it is of another program, and sqlite3.Error where it is damaged.
    """
    with contextlib.ExitStack() as stack:
        db = _opened(path, stack)
        tables = _tables(db)
        if tables >= _SECOND and next(_rows(db, "session_v2", ""), None) is not None:
            yield from _second_layout(db)
        elif tables >= _FIRST:
            yield from _first_layout(db)
        elif not tables >= _SECOND:
            raise TranscriptError(str(path), None, "an SQLite database of no program known here: give opencode.db")


def _opened(path: Path, stack: contextlib.ExitStack) -> sqlite3.Connection:
    """A connection that cannot write. A database whose log of recent turns cannot be read in place is copied first."""
    db = stack.enter_context(contextlib.closing(_connect(path)))
    try:
        db.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infermaxx-"))) / "copy.db"
        try:
            shutil.copyfile(path, copy)
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        except OSError as error:
            raise TranscriptError(str(path), None, f"cannot be read: {error.strerror or error}") from None
        db = stack.enter_context(contextlib.closing(_connect(copy)))
    return db


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return db


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"PRAGMA table_info({table})")]


def _order(columns: list[str]) -> str:
    return ", ".join([name for name in ("seq", "time_created", "id") if name in columns] or ["rowid"])


def _rows(db: sqlite3.Connection, table: str, where: str, *values: object) -> Iterator[JsonObject]:
    """The rows of a table as objects, in the order in which they were made."""
    columns = _columns(db, table)
    query = f"SELECT * FROM {table} {where} ORDER BY {_order(columns)}"
    for row in db.execute(query, values):
        yield dict(zip(columns, row, strict=True))


def _session_info(row: JsonObject, loss: Counter[str]) -> JsonObject:
    """A session's row, with what it holds as JSON opened."""
    info = {**(_parsed(row["data"], loss) if isinstance(row.get("data"), str) else {}), **row}
    revert = row.get("revert")
    if isinstance(revert, str):
        info["revert"] = _parsed(revert, loss)
    return info


def _first_layout(db: sqlite3.Connection) -> Iterator[Stored]:
    for row in _rows(db, "session", ""):
        loss: Counter[str] = Counter()
        yield Stored(_session_info(row, loss), _messages(db, as_text(row.get("id")), loss), loss)


def _messages(db: sqlite3.Connection, session: str, loss: Counter[str]) -> Iterator[tuple[JsonObject, list[object]]]:
    for row in _rows(db, "message", "WHERE session_id = ?", session):
        info = {"id": row.get("id"), **_parsed(row.get("data"), loss)}
        parts: list[object] = [
            _parsed(part.get("data"), loss) for part in _rows(db, "part", "WHERE message_id = ?", row.get("id"))
        ]
        yield info, parts


def _second_layout(db: sqlite3.Connection) -> Iterator[Stored]:
    """Rows that are typed; how their results are cleared is not known, so that is counted as `layout_unverified`."""
    for row in _rows(db, "session_v2", ""):
        loss: Counter[str] = Counter({"layout_unverified": 1})
        yield Stored(_session_info(row, loss), _typed_messages(db, as_text(row.get("id")), loss), loss)


def _typed_messages(
    db: sqlite3.Connection, session: str, loss: Counter[str]
) -> Iterator[tuple[JsonObject, list[object]]]:
    for row in _rows(db, "session_message", "WHERE session_id = ?", session):
        data = _parsed(row.get("data"), loss)
        text = {"type": "text", "text": data.get("text")}
        head = {"id": row.get("id"), "time": as_object(data.get("time"))}
        match row.get("type"):
            case "user":
                yield {**head, "role": "user"}, [text, *as_list(data.get("files"))]
            case "synthetic" | "skill" | "shell":
                shell = "\n".join(as_text(data.get(key)) for key in ("command", "output") if data.get(key))
                text = {"type": "text", "text": as_text(data.get("text")) or shell}
                yield {**head, "role": "user"}, [{**text, "synthetic": True}]
            case "system":
                yield {**head, "role": "user", "system": as_text(data.get("text"))}, []
            case "assistant":
                model = as_object(data.get("model"))
                yield {**data, **head, "role": "assistant", "modelID": model.get("id")}, as_list(data.get("content"))
            case "compaction":
                summary = {"type": "text", "text": first_text(data, "summary", "text")}
                yield {**head, "role": "user"}, [{"type": "compaction"}]
                yield {**head, "role": "assistant", "summary": True}, [summary]
            case kind:
                loss["unknown_record"] += kind not in _BOOKKEEPING


def first_text(data: JsonObject, *keys: str) -> str:
    """The first of these keys that holds a text."""
    return next((text for key in keys if (text := as_text(data.get(key)))), "")
