"""Put a session together from what an agent's log says was sent, one rule for all formats that log messages.

The unit is the API request: what came since the last reply, and the reply. A result stands behind the reply that made
its call, whenever it was written; what the file does not say stays unknown and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from infermaxx_tui.core.transcript import Message, Request, Session, TokenIds, ToolCall, Usage, Window

Reason = Literal["start", "compaction", "clear", "fork", "subagent"]


class Builder:
    """A session under construction, fed in the order in which things were sent."""

    def __init__(self, loss: Counter[str], reason: Reason = "start") -> None:
        self.loss = loss
        self.copying = False
        """While this is set, replies are history that came from elsewhere: part of the next prompt, no requests."""
        self.replies = 0
        """Requests so far, over all windows."""
        self._windows: list[tuple[Reason, list[Request]]] = [(reason, [])]
        self._timed = False
        self._clear()

    def _clear(self) -> None:
        self._delta: list[Message] = []
        self._said: list[str] = []
        self._calls: list[str] = []
        self._waiting: dict[str, float | None] = {}
        self._results_at = 0
        self._results = 0
        self._think_s = 0.0
        self._delay_s = 0.0
        self._ended_s: float | None = None

    @property
    def waiting(self) -> bool:
        """Whether a call of the last reply has no result yet."""
        return bool(self._waiting)

    @property
    def pending(self) -> bool:
        """Whether anything was said or answered since the last reply."""
        return bool(self._delta or self._said)

    def open(self, reason: Reason) -> None:
        """Begins a window: what follows is a new prompt from its first token on."""
        self._lose_prompt()
        self._clear()
        if self._windows[-1][1]:
            self._windows.append((reason, []))
        elif len(self._windows) > 1:
            self._windows[-1] = (reason, [])

    def history(self) -> list[Message]:
        """All messages of this window so far, those not yet answered included."""
        self._settle()
        out: list[Message] = []
        for request in self._windows[-1][1]:
            out += [*request.delta, request.reply]
        return out + self._delta

    def restart(self, reason: Reason, messages: Iterable[Message]) -> None:
        """Begins a window whose prompt is these messages: the history so far, rewritten. Delays go on as they were."""
        self._delta, self._said = [], []
        think_s, delay_s, ended_s = self._think_s, self._delay_s, self._ended_s
        self.open(reason)
        feed(self, messages)
        self._think_s, self._delay_s, self._ended_s = think_s, delay_s, ended_s

    def blank(self) -> None:
        """Takes a user's text that was sent and is not in the file."""
        self._settle()
        self._delta.append(Message("user"))
        self.loss["prompt_missing"] += 1

    def system(self, text: str) -> None:
        """Takes a system prompt, joined to the one before it; one that comes late is kept as a user's text."""
        if not text:
            return
        fresh = not self._windows[-1][1] and not self._said
        if fresh and not self._delta:
            self._delta.append(Message("system", text))
        elif fresh and len(self._delta) == 1 and self._delta[0].role == "system":
            self._delta[0] = Message("system", f"{self._delta[0].content}\n\n{text}")
        else:
            self.loss["late_system"] += 1
            self._said.append(text)

    def say(self, text: str, time_s: float | None = None, person: bool = True) -> None:
        """Takes a user's text; where a person wrote it, the time since the last reply is the time to think."""
        if not text:
            return
        self._timed |= time_s is not None
        if person and not self._said and time_s is not None and self._ended_s is not None:
            self._think_s = max(0.0, time_s - self._ended_s)
        self._said.append(text)

    def result(self, call_id: str, text: str, time_s: float | None = None, took_s: float | None = None) -> None:
        """Takes what a tool answered; one that no call of the last reply asked for is dropped and counted."""
        if call_id not in self._waiting:
            self.loss["dup_dropped" if call_id in self._calls else "orphan_result"] += 1
            return
        asked_s = self._waiting.pop(call_id)
        if took_s is None and time_s is not None and asked_s is not None:
            took_s = time_s - asked_s
        self._timed |= took_s is not None
        self._delay_s = max(self._delay_s, took_s or 0.0)
        self._delta.insert(self._results_at + self._results, Message("tool", text, tool_call_id=call_id))
        self._results += 1

    def carry(self, message: Message) -> None:
        """Takes a reply that is only a part of the prompt: it was made before this window or in another session."""
        self._settle()
        self._delta.append(message)
        self._await(message.tool_calls, {}, len(self._delta))

    def reply(
        self,
        message: Message,
        usage: Usage = Usage(),  # noqa: B008  (frozen)
        ended_s: float | None = None,
        called_s: Mapping[str, float | None] | None = None,
        ids: TokenIds | None = None,
    ) -> None:
        """Takes a reply: one request. `called_s` says when each call was made, else it was when the reply ended.

        A first reply to nothing had a prompt all the same, which is counted as missing.
        """
        if self.copying:
            self.carry(message)
            self.loss["history_copied"] += 1
            return
        self._settle()
        requests = self._windows[-1][1]
        self.loss["unanswered_call"] += len(self._waiting)
        if not self._delta and not requests:
            self.blank()
        if not self._delta:
            self._join(requests, message, usage, ids)
        else:
            self._count(requests, usage)
            requests.append(Request(tuple(self._delta), message, usage, self._think_s, self._delay_s, ids))
            self.replies += 1
        self._clear()
        self._ended_s = ended_s
        self._await(message.tool_calls, called_s or {}, 0)

    def amend(self, message: Message) -> None:
        """Puts another record of the reply that was taken last in its place, with the calls that only it shows."""
        requests = self._windows[-1][1]
        if requests and not self.pending:
            requests[-1] = msgspec.structs.replace(requests[-1], reply=message)
            self._await(message.tool_calls, {}, 0)

    def delayed(self, seconds: float) -> None:
        """Takes how long the tools ran before the next request, where it is noted beside their results."""
        self._timed = True
        self._delay_s = max(self._delay_s, seconds)

    def witness(self, usage: Usage) -> None:
        """Puts a recorded usage to the reply that was taken last."""
        requests = self._windows[-1][1]
        if requests and requests[-1].usage == Usage():
            last = requests.pop()
            self.loss["usage_missing"] -= 1
            self._count(requests, usage)
            requests.append(msgspec.structs.replace(last, usage=usage))

    def _count(self, requests: list[Request], usage: Usage) -> None:
        before = requests[-1].usage.prompt_tokens if requests else None
        now = usage.prompt_tokens
        self.loss["context_shrank"] += now is not None and before is not None and now < before
        self.loss["usage_missing"] += now is None

    def _join(self, requests: list[Request], message: Message, usage: Usage, ids: TokenIds | None) -> None:
        """Two replies with nothing between them go on as one, since nothing was sent for the second."""
        last = requests[-1]
        self.loss["assistant_joined"] += 1
        outputs = [count for count in (last.usage.output_tokens, usage.output_tokens) if count is not None]
        both = Usage(
            last.usage.prompt_tokens or usage.prompt_tokens, last.usage.cached_tokens, sum(outputs) if outputs else None
        )
        requests[-1] = msgspec.structs.replace(last, reply=joined(last.reply, message), usage=both, ids=ids)

    def _await(self, calls: tuple[ToolCall, ...], called_s: Mapping[str, float | None], at: int) -> None:
        self._calls = [call.id for call in calls]
        self._waiting = {call.id: called_s.get(call.id, self._ended_s) for call in calls}
        self._results_at, self._results = at, 0

    def _settle(self) -> None:
        """Puts the results into the order of their calls and the texts behind them."""
        start, end = self._results_at, self._results_at + self._results
        order = {call_id: n for n, call_id in enumerate(self._calls)}
        self._delta[start:end] = sorted(self._delta[start:end], key=lambda m: order.get(m.tool_call_id, 0))
        if self._said:
            self._delta.append(Message("user", "\n".join(self._said)))
            self._said = []

    def _lose_prompt(self) -> None:
        self._settle()
        self.loss["unanswered_prompt"] += any(message.role == "user" for message in self._delta)

    def windows(self) -> tuple[Window, ...]:
        """The windows in which anything was answered; what came after the last reply is counted, not kept."""
        self._lose_prompt()
        self._clear()
        full = [(reason, tuple(requests)) for reason, requests in self._windows if requests]
        return tuple(Window(reason, requests) for reason, requests in full)

    def finish(
        self,
        session_id: str,
        form: str,
        source: str,
        tools: str = "",
        parent: str | None = None,
        model: str | None = None,
        spawned_after: int | None = None,
    ) -> Session | None:
        """The session, None if nothing in it was ever answered; what it lacks is written into its ledger."""
        windows = self.windows()
        if not windows:
            return None
        opening = windows[0].requests[0].delta
        self.loss["no_system_prompt"] += not opening or opening[0].role != "system"
        self.loss["no_tools"] += not tools
        self.loss["no_timing"] += not self._timed
        return Session(
            id=session_id,
            format=form,
            source=source,
            windows=windows,
            tools=tools,
            parent=parent,
            model=model,
            loss=ledger(self.loss),
            spawned_after=spawned_after,
        )


def joined(a: Message, b: Message) -> Message:
    """Two assistant messages as one."""
    return Message(
        role="assistant",
        content="\n\n".join(text for text in (a.content, b.content) if text),
        reasoning="\n\n".join(text for text in (a.reasoning, b.reasoning) if text),
        tool_calls=a.tool_calls + b.tool_calls,
    )


def appended_ids(
    before: Sequence[int], prompt: tuple[int, ...], reply: tuple[int, ...], loss: Counter[str]
) -> TokenIds:
    """A request's recorded ids as what they add to the last prompt and reply, which they may not go on with."""
    same = zip(before, prompt, strict=False)
    kept = next((n for n, (a, b) in enumerate(same) if a != b), min(len(before), len(prompt)))
    loss["prefix_broken"] += kept < len(before)
    return TokenIds(kept, prompt[kept:], reply)


def feed(builder: Builder, messages: Iterable[Message]) -> None:
    """Gives messages that are known as a whole to a builder as parts of the next prompt."""
    for message in messages:
        match message.role:
            case "system":
                builder.system(message.content)
            case "user":
                builder.say(message.content)
            case "assistant":
                builder.carry(message)
            case "tool":
                builder.result(message.tool_call_id, message.content)


def ledger(loss: Counter[str]) -> tuple[tuple[str, int], ...]:
    """A loss ledger as sessions hold it."""
    return tuple(sorted((+loss).items()))


def last_with_loss(sessions: Iterable[Session | None], loss: Callable[[], Counter[str]]) -> Iterator[Session]:
    """The sessions that are there; what their file lost, asked when it is through, stands in the last one's ledger."""
    held: Session | None = None
    for session in sessions:
        if session is not None:
            if held is not None:
                yield held
            held = session
    if held is not None:
        yield with_loss(held, loss())


def with_loss(session: Session, loss: Counter[str]) -> Session:
    """The session with more in its ledger."""
    merged = Counter(dict(session.loss))
    merged.update(loss)
    return msgspec.structs.replace(session, loss=ledger(merged))
