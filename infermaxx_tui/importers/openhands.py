"""OpenHands conversations: a folder of events, a list of them in one file, or a folder of logged completions.

A reply is all events with its response id, wherever they stand. A condensation takes any events out of a prompt, not
only the oldest, so a window begins there with what is left. Recorded token ids are taken as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.transcript import Message, Session, TokenIds, TranscriptError, Usage
from infermaxx_tui.importers.building import Builder, appended_ids, joined, with_loss
from infermaxx_tui.importers.chat_log import Conversation, Line
from infermaxx_tui.importers.openhands_events import Event, is_event, read_event
from infermaxx_tui.importers.packed import stem
from infermaxx_tui.importers.pieces import Pieces, objects
from infermaxx_tui.importers.values import JsonObject, as_count, as_list, as_object, as_text

__all__ = ["FORMAT", "completions", "document", "folder", "is_completions", "is_event", "is_folder"]

FORMAT = "openhands"


def is_folder(path: Path) -> bool:
    """Whether a folder is one persisted conversation, or the events in it."""
    return any(_events(path).glob("event-*.json"))


def _events(path: Path) -> Path:
    return path / "events" if (path / "events").is_dir() else path


def folder(path: Path) -> Iterator[Session]:
    """The conversation that a folder holds. Raises TranscriptError if a file of it cannot be read."""
    loss: Counter[str] = Counter()
    state: JsonObject = {}
    if (path / "base_state.json").is_file():
        state = next((value for _, value in objects(Pieces(path / "base_state.json"))), {})
    values = (value for file in sorted(_events(path).glob("event-*.json")) for value in _file(file, loss))
    name = path.resolve().name
    session = _session(values, loss, state, name, name)
    if session is not None:
        yield session


def _file(file: Path, loss: Counter[str]) -> Iterator[JsonObject]:
    """The event of a file; one that is torn or no JSON costs itself alone."""
    reader = Pieces(file)
    try:
        for _, value in objects(reader):
            yield value
    except TranscriptError:
        loss["malformed_line"] += 1
    loss.update(reader.take_loss())


def document(path: Path) -> Iterator[Session]:
    """The conversation whose events a file lists."""
    reader = Pieces(path)
    session = _session((value for _, value in objects(reader)), reader.loss, {}, stem(path), path.name)
    if session is not None:
        yield session


def _session(
    values: Iterable[JsonObject], loss: Counter[str], state: JsonObject, stem: str, source: str
) -> Session | None:
    events = [event for value in values if (event := read_event(value, loss)) is not None]
    talk = _Conversation(events, _usages(state), loss)
    for event in events:
        talk.take(event)
    model = as_text(as_object(as_object(state.get("agent")).get("llm")).get("model"))
    return talk.builder.finish(as_text(state.get("id")) or stem, FORMAT, source, talk.tools, None, model or None)


def _usages(state: JsonObject) -> dict[str, Usage]:
    """The recorded counts by response id."""
    out: dict[str, Usage] = {}
    for metrics in as_object(as_object(state.get("stats")).get("usage_to_metrics")).values():
        for entry in map(as_object, as_list(as_object(metrics).get("token_usages"))):
            out[as_text(entry.get("response_id"))] = Usage(
                as_count(entry.get("prompt_tokens")) or None,
                as_count(entry.get("cache_read_tokens")),
                as_count(entry.get("completion_tokens")) or None,
                as_count(entry.get("reasoning_tokens")),
            )
    return out


class _Conversation:
    """The requests of one conversation, event by event."""

    def __init__(self, events: list[Event], usages: dict[str, Usage], loss: Counter[str]) -> None:
        self.builder = Builder(loss)
        self.tools = ""
        self._loss = loss
        self._usages = usages
        self._kept: list[Event] = []
        """The events that the next prompt is made of."""
        self._whole: dict[str, Message] = {}
        self._done: set[str] = set()
        self._ids = _token_ids(events, loss)
        for event in events:
            if event.kind == "reply":
                before = self._whole.get(event.group)
                self._whole[event.group] = _put_together(before, event.message) if before else event.message

    def take(self, event: Event) -> None:
        """Takes an event in its order."""
        match event.kind:
            case "system":
                self.tools = event.tools or self.tools
                self.builder.system(event.text)
            case "user":
                self.builder.say(event.text, event.time_s, event.person)
            case "result":
                self.builder.result(event.call_id, event.text, event.time_s)
            case "reply" if event.group not in self._done:
                self._done.add(event.group)
                usage = self._usages.get(event.group, event.usage)
                message, ids = self._whole[event.group], self._ids.get(event.group)
                self.builder.reply(message, usage, event.time_s, ids=ids)
            case "condensation":
                self._condense(event)
                return
            case _:
                pass
        self._kept.append(event)

    def _condense(self, event: Event) -> None:
        """Takes what is forgotten out of the prompt and puts the summary where it belongs."""
        self._kept = [kept for kept in self._kept if kept.id not in event.forgotten]
        if event.text:
            self._kept.insert(min(event.offset, len(self._kept)), Event(event.id, "user", event.text))
        self.builder.restart("compaction", self._history())

    def _history(self) -> Iterator[Message]:
        seen: set[str] = set()
        for event in self._kept:
            match event.kind:
                case "system":
                    yield Message("system", event.text)
                case "user":
                    yield Message("user", event.text)
                case "reply" if event.group not in seen:
                    seen.add(event.group)
                    yield self._whole[event.group]
                case "result":
                    yield Message("tool", event.text, tool_call_id=event.call_id)
                case _:
                    pass


def _put_together(a: Message, b: Message) -> Message:
    """Two parts of a reply; a call that both hold is one call, and a text too."""
    known = {call.id for call in a.tool_calls}
    calls = tuple(call for call in b.tool_calls if call.id not in known)
    content = "" if b.content == a.content else b.content
    reasoning = "" if b.reasoning == a.reasoning else b.reasoning
    return joined(a, Message("assistant", content, reasoning, calls))


def _token_ids(events: list[Event], loss: Counter[str]) -> dict[str, TokenIds]:
    """The recorded ids of each reply: those noted after it, or before it where the last one has its ids already."""
    noted: dict[str, Event] = {}
    group = ""
    early: Event | None = None
    for event in events:
        if event.kind == "reply" and event.group != group:
            group = event.group
            if early is not None:
                noted[group], early = early, None
        elif event.kind == "ids" and event.prompt_ids and event.reply_ids:
            if group and group not in noted:
                noted[group] = event
            else:
                early = event
    out: dict[str, TokenIds] = {}
    before: tuple[int, ...] = ()
    for name, event in noted.items():
        out[name] = appended_ids(before, event.prompt_ids, event.reply_ids, loss)
        before = event.prompt_ids + event.reply_ids
    return out


def is_completions(path: Path) -> bool:
    """Whether a folder holds nothing but logged completions: one JSON file a request, with the whole prompt in it."""
    files = sorted(path.glob("*.json"))
    if not files:
        return False
    try:
        value = next((value for _, value in objects(Pieces(files[0]))), {})
    except TranscriptError:
        return False
    return isinstance(value.get("messages"), list) and "response" in value


def completions(path: Path) -> Iterator[Session]:
    """The conversations of a folder of logged completions. Raises TranscriptError for a bad message."""
    loss: Counter[str] = Counter()
    open_talks: list[Conversation] = []
    for file in sorted(path.glob("*.json")):
        for value in _file(file, loss):
            if not as_list(value.get("messages")):
                loss["foreign_record"] += 1
                continue
            tools = as_object(value.get("kwargs")).get("tools")
            line = Line({**value, "tools": value.get("tools") or tools}, value, str(file), 1)
            talk = next((talk for talk in reversed(open_talks) if talk.takes(line)), None)
            if talk is None:
                open_talks.append(Conversation(line, stem(file), path.name))
            else:
                talk.add(line)
    for talk in open_talks:
        session = talk.finish()
        if session is not None:
            yield with_loss(msgspec.structs.replace(session, format=FORMAT), loss)
            loss = Counter()
