"""mini-swe-agent trajectories: one linear conversation, its system prompt included.

Beside each message stands what the program noted about it; only the stamp and the counts are taken from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers.blocks import flatten
from infermaxx_tui.importers.building import Builder, with_loss
from infermaxx_tui.importers.chat_messages import read_reply, read_usage
from infermaxx_tui.importers.codex_items import Turn, result_of
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, epoch_s, first

__all__ = ["FORMAT", "sessions"]

FORMAT = "mini-swe-agent"


def sessions(path: Path) -> Iterator[Session]:
    """The sessions of a file, one a trajectory."""
    reader = Pieces(path)
    held: Session | None = None
    talk, number = _Trajectory(), -1
    for piece in reader:
        if piece.document != number:
            done = talk.finish(stem(path), path.name)
            if done is not None:
                if held is not None:
                    yield held
                held = done
            talk, number = _Trajectory(), piece.document
        if piece.key == "messages" and piece.item:
            talk.take(as_object(piece.value))
        else:
            talk.describe(piece.key, piece.value)
    last = talk.finish(stem(path), path.name)
    if held is not None and last is not None:
        yield held
    last = last or held
    if last is not None:
        yield with_loss(last, reader.take_loss())


class _Trajectory:
    def __init__(self) -> None:
        self._loss: Counter[str] = Counter()
        self._builder = Builder(self._loss)
        self._id = ""
        self._model = ""
        self._made = 0

    def describe(self, key: str, value: object) -> None:
        match key:
            case "instance_id":
                self._id = as_text(value)
            case "info":
                model = as_object(as_object(as_object(value).get("config")).get("model"))
                self._model = as_text(model.get("model_name"))
            case _:
                pass

    def take(self, item: JsonObject) -> None:
        """Takes a message of the chat API, or an item of the responses API."""
        extra = as_object(item.get("extra"))
        time_s = epoch_s(extra.get("timestamp"))
        usage = first(as_object(extra.get("response")), "usage") or item.get("usage")
        if item.get("object") == "response":
            turn = Turn()
            for part in map(as_object, as_list(item.get("output"))):
                turn.take(part, time_s, self._loss)
            self._builder.reply(turn.message(), read_usage(usage), time_s)
        elif item.get("type") == "function_call_output":
            call_id, text, took_s = result_of(item, self._loss)
            self._builder.result(call_id, text, time_s, took_s)
        elif item.get("role") == "assistant":
            self._builder.reply(read_reply(item, self._loss), read_usage(usage), time_s)
        else:
            self._prompt(item, time_s)

    def _prompt(self, item: JsonObject, time_s: float | None) -> None:
        text = "\n".join(flatten(item.get("content"), self._loss).texts)
        match item.get("role"):
            case "system":
                self._builder.system(text)
            case "user":
                self._builder.say(text, time_s, person=False)
            case "tool":
                self._builder.result(as_text(item.get("tool_call_id")), text, time_s)
            case "exit":
                pass
            case _:
                self._loss["unknown_record"] += 1

    def finish(self, stem: str, source: str) -> Session | None:
        return self._builder.finish(self._id or stem, FORMAT, source, model=self._model or None)
