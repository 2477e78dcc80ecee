"""ShareGPT and Hermes sets: turns of `from` and `value`, in a list or in lines.

Tools, calls and results stand in the texts as tags. They stay texts, since a template would write parsed ones anew and
differently; a tool's turn is a user's text for the same reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Message, Role, Session
from infermaxx_tui.importers.blocks import flatten
from infermaxx_tui.importers.building import Builder, last_with_loss
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces, objects
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, first

__all__ = ["FORMAT", "is_turn", "sessions"]

FORMAT = "sharegpt"

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user", "tool", "observation", "function_response"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model", "function_call"), "assistant"),
}


def is_turn(item: JsonObject) -> bool:
    """Whether an item of a list looks like a turn."""
    return isinstance(item.get("from"), str) and "value" in item


def sessions(path: Path) -> Iterator[Session]:
    """The conversations of a file, one after another, named by their ids or by their places in the file."""
    reader = Pieces(path)
    made = (_session(record, f"{stem(path)}-{n}", path.name) for n, (_, record) in enumerate(objects(reader)))
    yield from last_with_loss(made, reader.take_loss)


def _session(record: JsonObject, name: str, source: str) -> Session | None:
    turns = as_list(first(record, "conversations", "conversation", "messages"))
    loss: Counter[str] = Counter()
    builder = Builder(loss)
    builder.system(as_text(record.get("system")))
    loss["tools_unrendered"] += bool(record.get("tools"))
    for turn in map(as_object, turns):
        text = "\n".join(flatten(turn.get("value"), loss).texts)
        match _ROLES.get(as_text(turn.get("from")).lower()):
            case "system":
                builder.system(text)
            case "user":
                builder.say(text)
            case "assistant":
                builder.reply(Message("assistant", text))
            case _:
                loss["unknown_record"] += 1
    recorded = record.get("id")
    return builder.finish(str(recorded) if isinstance(recorded, str | int) else name, FORMAT, source)
