"""Turn the messages of one OpenCode session and their parts into requests."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from infermaxx_tui.core.transcript import Message, Session, ToolCall, Usage
from infermaxx_tui.importers.blocks import IMAGE, flatten, tool_call, without_images
from infermaxx_tui.importers.building import Builder
from infermaxx_tui.importers.values import JsonObject, as_count, as_list, as_object, as_text, epoch_s, first

FORMAT = "opencode"

CLEARED = "[Old tool result content cleared]"
"""What stands in the prompt for a tool result that was cleared to make room."""


QUESTION = "What did we do so far?"
"""What stands in the prompt for the user's place before the summary that a compaction made."""


class _Step(NamedTuple):
    """What one request brought."""

    texts: list[str]
    reasonings: list[str]
    tools: list[JsonObject]


class Conversation:
    """A session under construction, message by message."""

    def __init__(self, info: JsonObject, loss: Counter[str]) -> None:
        self.loss = loss
        self.spawned: dict[str, int] = {}
        """Sessions that calls of this one started, and how many replies there were then."""
        self._info = info
        self._builder = Builder(loss, "subagent" if self._parent else "start")
        self._model = ""
        self._cleared: list[tuple[float, str]] = []
        """Tool results that were cleared later: when, and by which call."""
        self._compacting = False
        self._reverted = False

    @property
    def _parent(self) -> str:
        return as_text(first(self._info, "parentID", "parent_id"))

    def describe(self, info: JsonObject) -> None:
        """Takes what the file says of the session, where that comes before its messages."""
        self._info = info
        if self._parent and not self._builder.replies and not self._builder.pending:
            self._builder = Builder(self.loss, "subagent")

    def take(self, info: JsonObject, parts: list[object]) -> None:
        """Takes a message with its parts, in order."""
        revert = as_text(as_object(self._info.get("revert")).get("messageID"))
        self._reverted |= bool(revert) and as_text(info.get("id")) == revert
        if self._reverted:
            self.loss["branch_dropped"] += info.get("role") == "assistant"
            return
        objects = [as_object(part) for part in parts]
        match info.get("role"):
            case "user":
                self._user(info, objects)
            case "assistant":
                self._assistant(info, objects)
            case _:
                self.loss["foreign_record"] += 1

    def _user(self, info: JsonObject, parts: list[JsonObject]) -> None:
        time_s = epoch_s(as_object(info.get("time")).get("created"))
        self._builder.system(as_text(info.get("system")))
        for part in parts:
            match part.get("type"):
                case "text" if part.get("ignored") is not True:
                    text = without_images(as_text(part.get("text")), self.loss)
                    self._builder.say(text, time_s, person=part.get("synthetic") is not True)
                case "file" if as_text(part.get("mime")).startswith("image/"):
                    self.loss["image_dropped"] += 1
                    self._builder.say(IMAGE, time_s)
                case "compaction":
                    self._compacting = True
                    self._builder.blank()
                case "file" | "agent" | "subtask":
                    self.loss["attachment_unrendered"] += 1
                case _:
                    pass

    def _assistant(self, info: JsonObject, parts: list[JsonObject]) -> None:
        time = as_object(info.get("time"))
        self._model = (
            as_text(info.get("modelID")) or as_text(as_object(info.get("model")).get("modelID")) or self._model
        )
        self._clear_due(epoch_s(time.get("created")))
        summary = info.get("summary") is True and self._compacting
        step = _Step([], [], [])
        ended_s = epoch_s(time.get("completed"))
        finished = 0
        for part in parts:
            if part.get("type") == "step-finish":
                self._request(step, read_usage(part.get("tokens")), ended_s)
                step, finished = _Step([], [], []), finished + 1
            else:
                self._part(part, step)
        if any(step):
            usage = Usage() if finished else read_usage(info.get("tokens"))
            self._request(step, usage, ended_s)
        elif not finished:
            self.loss["failed_reply"] += 1
        if summary:
            self._compact(parts)

    def _part(self, part: JsonObject, step: _Step) -> None:
        text = as_text(part.get("text"))
        match part.get("type"):
            case "text" if text and part.get("ignored") is not True:
                step.texts.append(without_images(text, self.loss))
            case "reasoning" if text:
                step.reasonings.append(text)
            case "tool":
                step.tools.append(part)
            case "step-start" | "snapshot" | "patch" | "text" | "reasoning" | "retry":
                pass
            case _:
                self.loss["unknown_block"] += 1

    def _request(self, step: _Step, usage: Usage, ended_s: float | None) -> None:
        if not any(step):
            self.loss["failed_reply"] += 1
            return
        calls: list[ToolCall] = []
        for tool in step.tools:
            call_id = as_text(first(tool, "callID", "id"))
            calls.append(
                tool_call(call_id, first(tool, "tool", "name"), as_object(tool.get("state")).get("input"), self.loss)
            )
        message = Message("assistant", "\n".join(step.texts), "\n".join(step.reasonings), tuple(calls))
        self._builder.reply(message, usage, ended_s)
        for tool, call in zip(step.tools, calls, strict=True):
            self._result(as_object(tool.get("state")), call.id)

    def _result(self, state: JsonObject, call_id: str) -> None:
        time = as_object(state.get("time"))
        start_s, end_s = epoch_s(time.get("start")), epoch_s(time.get("end"))
        child = as_text(first(as_object(state.get("metadata")), "sessionId", "sessionID"))
        if child:
            self.spawned[child] = self._builder.replies
        cleared_s = epoch_s(time.get("compacted"))
        if cleared_s is not None:
            self._cleared.append((cleared_s, call_id))
        match state.get("status"):
            case "completed":
                text = as_text(state.get("output")) or "\n".join(flatten(state.get("content"), self.loss).texts)
            case "error":
                text = as_text(state.get("error"))
            case _:
                return
        for attachment in map(as_object, as_list(state.get("attachments"))):
            image = as_text(attachment.get("mime")).startswith("image/")
            self.loss["image_dropped" if image else "attachment_unrendered"] += 1
        took_s = max(0.0, end_s - start_s) if start_s is not None and end_s is not None else None
        self._builder.result(call_id, without_images(text, self.loss), end_s, took_s)

    def _clear_due(self, now_s: float | None) -> None:
        """Puts stubs for the results that had been cleared when a request was made."""
        due = {call_id for at_s, call_id in self._cleared if now_s is not None and at_s <= now_s}
        if not due:
            return
        self._cleared = [(at_s, call_id) for at_s, call_id in self._cleared if call_id not in due]
        history = [
            msgspec.structs.replace(message, content=CLEARED) if message.tool_call_id in due else message
            for message in self._builder.history()
        ]
        self.loss["pruned_tool_result"] += sum(message.content == CLEARED for message in history)
        self._builder.restart("compaction", history)

    def _compact(self, parts: list[JsonObject]) -> None:
        """The window after a compaction: a question that the program asks, and the summary as its answer."""
        self._compacting = False
        self._cleared = []
        text = "\n".join(as_text(part.get("text")) for part in parts if part.get("type") == "text")
        self._builder.open("compaction")
        self._builder.say(QUESTION, person=False)
        self._builder.carry(Message("assistant", text))

    def finish(self, stem: str, source: str, spawned_after: int | None) -> Session | None:
        """The session, None if nothing was answered in it."""
        name = as_text(self._info.get("id")) or stem
        return self._builder.finish(name, FORMAT, source, "", self._parent or None, self._model or None, spawned_after)


def read_usage(value: object) -> Usage:
    """Counts of one step. The prompt is the sum of what was new, read from and written to a cache.

    Newer versions take the reasoning out of `output`; where the total says so, it is put back.
    """
    tokens = as_object(value)
    cache = as_object(tokens.get("cache"))
    read = as_count(cache.get("read"))
    prompt = sum(part or 0 for part in (as_count(tokens.get("input")), read, as_count(cache.get("write"))))
    output, reasoning = as_count(tokens.get("output")), as_count(tokens.get("reasoning"))
    total = as_count(tokens.get("total"))
    if output is not None and reasoning and total == prompt + output + reasoning:
        output += reasoning
    return Usage(prompt or None, read, output or None, reasoning)
