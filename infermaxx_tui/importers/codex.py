"""Codex CLI rollouts: the items that were sent, beside a twin for the screen that is not.

A request is a stretch of what the model wrote (reasoning, text, calls) up to a result, a user's text or a count whose
totals changed. Counts are written again and again, and a forked or spawned session's file begins with its parent's
whole history, stamped anew: taken as requests they would be counted many times over, so they are a prompt here.
The built-in tools' schemas are not in the file, and reasoning is encrypted: only its length is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from infermaxx_tui.core.transcript import Session
from infermaxx_tui.importers.blocks import flatten
from infermaxx_tui.importers.building import Builder, feed
from infermaxx_tui.importers.chat_messages import tools_text
from infermaxx_tui.importers.codex_items import Turn, compacted_history, is_context, read_usage, result_of
from infermaxx_tui.importers.codex_origin import Origin, parent_file
from infermaxx_tui.importers.jsonl import JsonLines
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.values import JsonObject, as_count, as_list, as_object, as_text, dump_json, epoch_s

__all__ = ["FORMAT", "is_record", "sessions"]

FORMAT = "codex"

_ITEMS = frozenset(
    {
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
    }
)
_RECORDS = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})


def is_record(record: JsonObject) -> bool:
    """Whether a line looks like a rollout's."""
    if as_text(record.get("type")) in _RECORDS:
        return isinstance(record.get("payload"), dict)
    bare = isinstance(record.get("id"), str) and "instructions" in record and isinstance(record.get("timestamp"), str)
    return bare and "messages" not in record


def sessions(path: Path) -> Iterator[Session]:
    """The one session of a rollout file; nothing if the file only holds what its parent's file holds too."""
    reader = JsonLines(path)
    rollout = _Rollout(path, reader.loss)
    for _, record in reader:
        rollout.take(record)
        rollout.inherit()
    session = rollout.finish()
    if session is not None:
        yield session


class _Rollout:
    """A session under construction, record by record."""

    def __init__(self, path: Path, loss: Counter[str]) -> None:
        self._path = path
        self._loss = loss
        self._origin: Origin | None = None
        self._builder = Builder(loss)
        self._turn = Turn()
        self._counted = False
        """Whether the reply taken last has its usage."""
        self._totals = ""
        self._system = ""
        self._tools = ""
        self._model = ""
        self._time_s: float | None = None
        self._inherits = True
        self._inherited = False
        """Whether lines come from the parent's file."""

    def inherit(self) -> None:
        """After the first line: takes the history that the session goes on with from its parent's file, as a prompt.

        What that file goes on with in turn is counted as missing: it is not followed any further.
        """
        origin, self._inherits, due = self._origin, False, self._inherits
        if origin is None or not due or not origin.base:
            return
        file = parent_file(self._path, origin.base)
        if file is None:
            self._loss["history_missing"] += 1
            return
        reader = JsonLines(file)
        self._inherited = True
        for place, (_, record) in enumerate(reader):
            ordinal = as_count(record.get("ordinal"))
            if origin.base_records is not None and (place if ordinal is None else ordinal) >= origin.base_records:
                break
            self._loss["history_missing"] += bool(as_object(as_object(record.get("payload")).get("history_base")))
            self.take(record)
        self._close_turn()
        self._inherited = self._builder.copying = False

    def take(self, record: JsonObject) -> None:
        """Takes one line."""
        payload = as_object(record.get("payload"))
        kind = as_text(record.get("type"))
        self._time_s = epoch_s(record.get("timestamp"))
        if not payload:
            payload, kind = record, self._bare_kind(record)
        if self._origin is not None:
            copied = self._inherited or self._origin.is_copied(record, payload, self._time_s)
            if self._builder.copying and not copied:
                self._close_turn()
            self._builder.copying = copied
        match kind:
            case "session_meta":
                self._meta(payload)
            case "turn_context":
                self._model = as_text(payload.get("model")) or self._model
            case "response_item":
                self._item(payload)
            case "event_msg":
                self._event(payload)
            case "compacted":
                self._compacted(payload)
            case _:
                self._loss["unknown_record"] += 1

    @staticmethod
    def _bare_kind(record: JsonObject) -> str:
        """What a line of the oldest rollouts is, which hold items without an envelope."""
        if as_text(record.get("type")) in _ITEMS:
            return "response_item"
        if "instructions" in record and "type" not in record:
            return "session_meta"
        return "state" if "record_type" in record else as_text(record.get("type"))

    def _meta(self, payload: JsonObject) -> None:
        if self._origin is not None:
            return
        self._origin = Origin(payload, self._path, self._time_s)
        self._builder = Builder(self._loss, self._origin.reason)
        base = payload.get("base_instructions")
        self._system = as_text(as_object(base).get("text")) or as_text(base) or as_text(payload.get("instructions"))
        self._builder.system(self._system)
        self._tools = tools_text(
            [{"type": "function", "function": tool} for tool in as_list(payload.get("dynamic_tools"))], None
        )

    def _item(self, item: JsonObject) -> None:
        kind = as_text(item.get("type"))
        role = as_text(item.get("role"))
        if kind == "message" and role != "assistant":
            text = "\n".join(flatten(item.get("content"), self._loss).texts)
            self._close_turn()
            if role in {"developer", "system"}:
                self._builder.system(text)
            else:
                self._builder.say(text, self._time_s, person=not is_context(text))
        elif kind.endswith("_output"):
            self._close_turn()
            call_id, text, took_s = result_of(item, self._loss)
            self._builder.result(call_id, text, self._time_s, took_s)
        elif kind == "ghost_snapshot":
            pass
        elif not self._turn.take(item, self._time_s, self._loss):
            self._loss["unknown_record"] += 1

    def _event(self, event: JsonObject) -> None:
        match event.get("type"):
            case "token_count":
                self._count(as_object(event.get("info")))
            case "thread_rolled_back":
                self._roll_back(as_count(event.get("num_turns")) or 0)
            case "turn_aborted":
                self._loss["turn_aborted"] += 1
            case _:
                pass

    def _count(self, info: JsonObject) -> None:
        """A count whose totals changed closes a request; the others are written again for the screen."""
        totals = dump_json(info.get("total_token_usage"))
        if not info or totals == self._totals:
            self._loss["dup_dropped"] += bool(info)
            return
        self._totals = totals
        self._close_turn()
        if self._builder.copying:
            return
        if self._counted:
            self._loss["reply_lost"] += 1
            return
        self._builder.witness(read_usage(as_object(info.get("last_token_usage"))))
        self._counted = True

    def _close_turn(self) -> None:
        """Gives what the model wrote so far to the builder, if there is anything."""
        if self._turn.empty:
            return
        self._builder.reply(self._turn.message(), ended_s=self._turn.ended_s, called_s=self._turn.called_s)
        self._turn = Turn()
        self._counted = False

    def _compacted(self, payload: JsonObject) -> None:
        self._close_turn()
        self._builder.open("compaction")
        messages = compacted_history(payload, self._loss)
        if not messages or messages[0].role != "system":
            self._builder.system(self._system)
        feed(self._builder, messages)

    def _roll_back(self, turns: int) -> None:
        """Takes the last turns of the user out of the history: what follows is another prompt."""
        self._close_turn()
        history = self._builder.history()
        for _ in range(turns):
            places = [n for n, m in enumerate(history) if m.role == "user" and not is_context(m.content)]
            if not places:
                break
            del history[places[-1] :]
        self._loss["turn_rolled_back"] += turns
        self._builder.restart("fork", history)

    def finish(self) -> Session | None:
        """The session, None if nothing of its own was answered in it."""
        self._close_turn()
        origin = self._origin
        name = origin.id if origin is not None and origin.id else stem(self._path)
        self._loss["builtin_tools_missing"] += bool(self._tools)
        if origin is not None and origin.unresolved:
            self._loss["fork_unresolved"] += 1
        parent = origin.parent if origin is not None else None
        return self._builder.finish(name, FORMAT, self._path.name, self._tools, parent, self._model or None)
