"""SWE-agent trajectories: each step holds the exact prompt that was sent, which no other format does.

The program leaves old observations out of later prompts, so a prompt need not begin with the one before: a window
begins wherever it does not. Only sums of tokens are recorded, and how long each command ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Message, Session
from infermaxx_tui.importers.building import Builder, feed, with_loss
from infermaxx_tui.importers.chat_messages import read_messages, read_reply, same_key
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text

__all__ = ["FORMAT", "is_step", "sessions"]

FORMAT = "swe-agent"


def is_step(item: JsonObject) -> bool:
    """Whether an item of `trajectory` looks like a step."""
    return "action" in item and ("observation" in item or "response" in item)


def sessions(path: Path) -> Iterator[Session]:
    """The one session of a file. Raises TranscriptError for a message that makes no sense."""
    reader = Pieces(path)
    trajectory = _Trajectory(path)
    for piece in reader:
        value = as_object(piece.value)
        if piece.key == "trajectory" and piece.item:
            trajectory.step(value, piece.line)
        elif piece.key == "history" and piece.item:
            trajectory.history(value, piece.line)
    session = trajectory.finish()
    if session is not None:
        yield with_loss(session, reader.take_loss())


class _Trajectory:
    def __init__(self, path: Path) -> None:
        self._file = str(path)
        self._path = path
        self._loss: Counter[str] = Counter()
        self._builder = Builder(self._loss)
        self._seen: list[Message] = []
        """The last prompt and its reply."""
        self._history: list[object] = []
        self._history_line = 1
        self._bare: list[tuple[str, str]] = []
        """Replies and observations of steps that hold no prompts."""

    def step(self, step: JsonObject, line: int) -> None:
        """Takes a step."""
        text = as_text(step.get("response")) or as_text(step.get("thought"))
        reply = read_reply({"content": text, "tool_calls": step.get("tool_calls")}, self._loss)
        query = [_message(message) for message in as_list(step.get("query"))]
        if not query:
            self._bare.append((text, as_text(step.get("observation"))))
            return
        parsed = read_messages(query, None, self._file, line)
        prompt = [item.message for item in parsed]
        if len(prompt) >= len(self._seen) and all(map(_same, self._seen, prompt)):
            if self._seen:
                self._builder.amend(prompt[len(self._seen) - 1])
            fresh = parsed[len(self._seen) :]
            for item in fresh:
                self._loss.update(item.loss)
            feed(self._builder, (item.message for item in fresh))
        else:
            self._loss["context_rewritten"] += 1
            self._builder.restart("compaction", prompt)
        self._builder.reply(reply)
        self._seen = [*prompt, reply]
        took_s = step.get("execution_time")
        if isinstance(took_s, int | float) and 0 < took_s < 1e9:
            self._builder.delayed(float(took_s))

    def history(self, message: JsonObject, line: int) -> None:
        """Takes a message of the whole history, which counts only where the steps hold no prompts."""
        self._history_line = self._history_line if self._history else line
        if not self._seen:
            self._history.append(_message(message))

    def finish(self) -> Session | None:
        """The session, None if there was no reply."""
        if not self._seen:
            self._loss["prompts_rebuilt"] += 1
            if self._history:
                parsed = read_messages(self._history, None, self._file, self._history_line)
                self._say_all([item.message for item in parsed])
            else:
                for text, observation in self._bare:
                    self._builder.reply(Message("assistant", text))
                    self._builder.say(observation, person=False)
        return self._builder.finish(stem(self._path), FORMAT, self._path.name)

    def _say_all(self, messages: list[Message]) -> None:
        for message in messages:
            if message.role == "assistant":
                self._builder.reply(message)
            else:
                feed(self._builder, (message,))


def _same(a: Message, b: Message) -> bool:
    """Whether two records of a message are of the same; a step's own record of its reply may lack the calls."""
    if a.role == "assistant" == b.role:
        return a.content.strip() == b.content.strip()
    return same_key(a) == same_key(b)


def _message(message: object) -> object:
    """A message with its call's id where the chat API has it."""
    item = as_object(message)
    ids = as_list(item.get("tool_call_ids"))
    if ids and "tool_call_id" not in item:
        return {**item, "tool_call_id": ids[0]}
    return message
