"""Follow one conversation through the lines of a log, so that retries and rewritten histories are seen as such."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from infermaxx_tui.core.transcript import Message, Request, Session, Usage, Window
from infermaxx_tui.importers.chat_messages import (
    Parsed,
    read_messages,
    read_response,
    read_usage,
    same_key,
    tools_text,
)
from infermaxx_tui.importers.values import JsonObject, as_list, as_object, as_text, first, parse_json

FORMAT = "openai-chat"

_RESPONSE_KEYS = ("response", "response_body", "output", "chunks")
_SESSION_KEYS = ("session_id", "sessionId", "conversation_id")
_Reason = Literal["start", "compaction", "fork"]


def opened(value: object) -> JsonObject:
    """An object, also where it was logged as JSON text; an empty one for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            return as_object(parse_json(value))
        except ValueError:
            return {}
    return as_object(value)


class Line:
    """What one line says: messages with their keys, the reply if it is logged beside them, counts and names."""

    def __init__(self, record: JsonObject, body: JsonObject, file: str, number: int) -> None:
        self.number = number
        meta = as_object(record.get("metadata"))
        group = first(record, *_SESSION_KEYS) or first(body, *_SESSION_KEYS) or first(meta, *_SESSION_KEYS)
        self.group = str(group) if isinstance(group, str | int) else None
        self.name = str(record["id"]) if isinstance(record.get("id"), str | int) else None
        self.parsed = read_messages(as_list(body["messages"]), body.get("system"), file, number)
        self.keys = [same_key(item.message) for item in self.parsed]
        self.reply_loss: Counter[str] = Counter()
        self.reply = read_response(_response(record), self.reply_loss)
        self.tools = tools_text(body.get("tools") or record.get("tools"), body.get("functions"))
        self.model = as_text(first(body, "model") or first(record, "model")) or None
        response = opened(first(record, *_RESPONSE_KEYS))
        self.usage = read_usage(record.get("usage") or response.get("usage") or _last_usage(record))


def _response(record: JsonObject) -> object:
    if "choices" in record:
        return record
    value = first(record, *_RESPONSE_KEYS)
    return value if isinstance(value, list) else opened(value)


def _last_usage(record: JsonObject) -> object:
    """The usage that a logged stream reported; the last chunk that has one counts."""
    chunks = as_list(first(record, *_RESPONSE_KEYS))
    return next((usage for chunk in reversed(chunks) if (usage := as_object(chunk).get("usage"))), None)


class Conversation:
    """A session under construction."""

    def __init__(self, line: Line, session_id: str, source: str) -> None:
        self.id = session_id
        self.group = line.group
        self.whole = line.group is None and line.reply is None and line.keys[-1][0] == "assistant"
        """Looks like a whole conversation, which only the very next line may extend."""
        self.loss: Counter[str] = Counter()
        self._source = source
        self._tools = line.tools
        self._model = line.model
        self._windows: list[tuple[_Reason, list[Request]]] = []
        self._history: list[tuple[object, ...]] = []
        self._delta: list[Message] = []
        self._asked = Usage()
        self._open_window("start")
        self._extend(line, 0)

    def shared(self, line: Line) -> int:
        """How many messages of the line are what this window has seen, from the front."""
        same = 0
        for mine, theirs in zip(self._history, line.keys, strict=False):
            if mine != theirs:
                break
            same += 1
        return same

    def takes(self, line: Line) -> bool:
        """Whether the line goes on with this window, or repeats a part of it."""
        users = any(key[0] == "user" for key in self._history)
        return users and self.shared(line) >= min(len(self._history), len(line.keys))

    def add(self, line: Line) -> None:
        """Takes the line in: the messages that are new, its reply, its counts; or as a new window."""
        shared = self.shared(line)
        if line.tools != self._tools:
            self.loss["tools_changed"] += 1
        if shared < min(len(self._history), len(line.keys)):
            spoken = any(key[0] != "system" for key in self._history[:shared])
            self._close_delta()
            self._open_window("fork" if spoken else "compaction")
            self._extend(line, 0, carried=line.reply is not None)
        elif shared == len(line.keys):
            self._repeat(line)
        else:
            self._extend(line, shared)

    def _open_window(self, reason: _Reason) -> None:
        self._windows.append((reason, []))
        self._history = []
        self._asked = Usage()

    def _extend(self, line: Line, start: int, carried: bool = False) -> None:
        """Takes the messages from a place on. Replies that are carried over into a rewritten history are a part of the
        prompt: in a log that has the reply beside each request they were requests before."""
        fresh: list[Parsed] = line.parsed[start:]
        for item in fresh:
            self.loss.update(item.loss)
            if item.message.role == "assistant" and not carried:
                self._answer(item.message, self._asked)
            else:
                self._delta.append(item.message)
                self._asked = Usage()
        self._history += line.keys[start:]
        if line.reply is not None:
            self.loss.update(line.reply_loss)
            self._history.append(same_key(line.reply))
            self._answer(line.reply, line.usage)
        elif self._delta:
            self._asked = line.usage
        elif line.usage != Usage():
            self._replace_last(self._windows[-1][1][-1].reply, line.usage)

    def _answer(self, reply: Message, usage: Usage) -> None:
        self._windows[-1][1].append(Request(delta=tuple(self._delta), reply=reply, usage=usage))
        self._delta = []
        self._asked = Usage()

    def _repeat(self, line: Line) -> None:
        """A retry: the same prompt again. If it was answered anew, that answer is the one the client went on with."""
        self.loss["dup_dropped"] += 1
        if line.reply is None:
            return
        if len(line.keys) == len(self._history):
            self._extend(line, len(line.keys))
        elif len(line.keys) == len(self._history) - 1 and self._history[-1][0] == "assistant":
            self._history[-1] = same_key(line.reply)
            self._replace_last(line.reply, line.usage)

    def _replace_last(self, reply: Message, usage: Usage) -> None:
        requests = self._windows[-1][1]
        requests[-1] = Request(delta=requests[-1].delta, reply=reply, usage=usage)

    def _close_delta(self) -> None:
        if self._delta:
            self.loss["unanswered_prompt"] += 1
            self._delta = []

    def finish(self) -> Session | None:
        """The session, None if nothing in it was ever answered."""
        self._close_delta()
        windows = tuple(Window(reason, tuple(requests)) for reason, requests in self._windows if requests)
        if not windows:
            return None
        opening = windows[0].requests[0].delta
        if not opening or opening[0].role != "system":
            self.loss["no_system_prompt"] += 1
        if not self._tools:
            self.loss["no_tools"] += 1
        self.loss["no_timing"] += 1
        return Session(
            id=self.id,
            format=FORMAT,
            source=self._source,
            windows=windows,
            tools=self._tools,
            model=self._model,
            loss=tuple(sorted((+self.loss).items())),
        )
