"""Cline and Roo tasks: the history as it was sent last, in Anthropic's dialect.

The editor's versions write counts and times into another file beside it, and rewrite the history when they cut it: only
the last window of a task survives. System prompt and tools are in no file; old versions wrote calls as tags in texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session, TranscriptError, Usage
from infermaxx_tui.importers.blocks import flatten
from infermaxx_tui.importers.building import Builder
from infermaxx_tui.importers.chat_messages import read_reply
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import JsonObject, as_count, as_object, as_text, epoch_s, parse_json

__all__ = ["FORMAT", "HISTORY", "document", "history", "is_message", "is_screen_message", "screen"]

FORMAT = "cline"
HISTORY, SCREEN = "api_conversation_history.json", "ui_messages.json"


def is_message(item: JsonObject) -> bool:
    """Whether an item looks like a message of the CLI's document."""
    return isinstance(item.get("role"), str) and any(key in item for key in ("ts", "modelInfo", "metrics"))


def is_screen_message(item: JsonObject) -> bool:
    """Whether an item looks like one of the messages for the screen."""
    return as_text(item.get("type")) in {"say", "ask"} and "ts" in item and "role" not in item


def screen(path: Path) -> Iterator[Session]:
    """Refuses the file for the screen, which has counts and no prompts."""
    raise TranscriptError(str(path), 1, f"holds what was shown and not what was sent: give {HISTORY} beside it")


def document(path: Path) -> Iterator[Session]:
    """The session of a CLI's document."""
    reader = Pieces(path)
    builder = Builder(reader.loss)
    name = model = ""
    for piece in reader:
        message = as_object(piece.value)
        if piece.key == "messages" and piece.item:
            model = as_text(as_object(message.get("modelInfo")).get("id")) or model
            counts = as_object(message.get("metrics"))
            usage = _usage(counts, "inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
            _take(builder, message, usage)
        elif piece.key == "sessionId":
            name = as_text(piece.value)
        elif piece.key in {"systemPrompt", "system_prompt"}:
            builder.system(as_text(piece.value))
    session = builder.finish(name or stem(path), FORMAT, path.name, model=model or None)
    if session is not None:
        yield session


def history(path: Path) -> Iterator[Session]:
    """The session of a list of messages, named by its folder, with the counts of the file beside it.

    The counts are taken only where there are as many as replies: which is whose is never guessed.
    """
    reader = Pieces(path)
    messages = [as_object(piece.value) for piece in reader]
    counts = _screen_counts(path.with_name(SCREEN), reader.loss)
    replies = sum(message.get("role") == "assistant" for message in messages)
    reader.loss["windows_lost"] += len(counts) > replies
    reader.loss["usage_unaligned"] += bool(counts) and len(counts) != replies
    usages = iter(counts if len(counts) == replies else ())
    builder = Builder(reader.loss)
    for message in messages:
        _take(builder, message, next(usages, Usage()) if message.get("role") == "assistant" else Usage())
    name = path.parent.name if path.name == HISTORY and path.parent.name else stem(path)
    session = builder.finish(name, FORMAT, path.name)
    if session is not None:
        yield session


def _take(builder: Builder, message: JsonObject, usage: Usage) -> None:
    time_s = epoch_s(message.get("ts"))
    flat = flatten(message.get("content"), builder.loss)
    match message.get("role"):
        case "assistant":
            builder.reply(read_reply(message, builder.loss, flat), usage, time_s)
        case "user":
            for result in flat.results:
                builder.result(result.call_id, result.content, time_s)
            builder.say("\n".join(flat.texts), time_s, person=not flat.results)
        case _:
            builder.loss["unknown_record"] += 1


def _screen_counts(path: Path, loss: Counter[str]) -> list[Usage]:
    """The counts of each request in the file for the screen, none if there is no such file."""
    out: list[Usage] = []
    if not path.is_file():
        return out
    try:
        for piece in Pieces(path):
            item = as_object(piece.value)
            if item.get("say") == "api_req_started":
                try:
                    counts = as_object(parse_json(as_text(item.get("text"))))
                except ValueError:
                    counts = {}
                out.append(_usage(counts, "tokensIn", "cacheReads", "cacheWrites", "tokensOut"))
    except TranscriptError:
        loss["malformed_line"] += 1
        return []
    return out


def _usage(counts: JsonObject, new: str, read: str, written: str, output: str) -> Usage:
    """Counts of one request; the prompt is the sum of what was new, read from and written to a cache."""
    parts = [as_count(counts.get(key)) or 0 for key in (new, read, written)]
    return Usage(sum(parts) or None, as_count(counts.get(read)), as_count(counts.get(output)) or None)
