"""Turn the nodes of one Claude Code conversation into requests: replies made whole, results paired with their calls."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from infermaxx_tui.core.transcript import Message, Request, ToolCall, Usage
from infermaxx_tui.importers.claude_records import Node
from infermaxx_tui.importers.claude_tree import Segment


class _Reply(NamedTuple):
    """All records of one reply put together."""

    message: Message
    usage: Usage
    ended_s: float | None
    called_s: dict[str, float | None]
    """When each call was recorded, by its id."""


class _Answer(NamedTuple):
    """What a tool said, and when that was recorded."""

    content: str
    time_s: float | None


class RequestBuilder:
    """Builds the windows of one conversation and counts what is left out.

    `nodes` are all records of the conversation, also those off the path: parallel calls and their results hang on
    branches of the tree, and belong to their reply all the same.
    """

    def __init__(self, nodes: list[Node], loss: Counter[str]) -> None:
        self._loss = loss
        self._groups: dict[str, list[Node]] = {}
        self._answers: dict[str, _Answer] = {}
        self._used: set[str] = set()
        self._paired: set[str] = set()
        for node in nodes:
            if node.kind == "assistant" and not node.synthetic:
                self._groups.setdefault(node.message_key, []).append(node)
            for result in node.flat.results if node.kind == "user" else ():
                if result.call_id in self._answers:
                    loss["dup_dropped"] += 1
                self._answers.setdefault(result.call_id, _Answer(result.content, node.time_s))

    def window(self, segment: Segment) -> tuple[Request, ...]:
        """The requests of one window; what came after the last reply is counted, not kept."""
        window = _Window(self, self._loss)
        for node in segment.nodes:
            match node.kind:
                case "attachment":
                    self._loss["attachment_unrendered"] += 1
                case "user":
                    self._loss.update(dict(node.loss))
                    window.say(node)
                case "assistant" if node.synthetic:
                    self._loss["synthetic_dropped"] += 1
                case "assistant" if node.message_key != window.current:
                    if node.uuid in segment.carried:
                        window.carry(node.message_key, self._reply(node.message_key))
                    elif node.message_key in self._used:
                        window.forget_repeat(node.message_key)
                    else:
                        window.answer(node.message_key, self._reply(node.message_key))
                case _:
                    pass
        window.close()
        return tuple(window.requests)

    def finish(self) -> None:
        """Counts the replies on abandoned branches and the results that answer no call of this conversation."""
        unused = [key for key in self._groups if key not in self._used]
        off_path = {call.id for key in unused for node in self._groups[key] for call in node.flat.calls}
        self._loss["branch_dropped"] += len(unused)
        self._loss["orphan_result"] += len(self._answers.keys() - self._paired - off_path)

    def answers(self, calls: tuple[ToolCall, ...]) -> list[tuple[str, _Answer]]:
        """The results of these calls, in the order of the calls; a call that was never answered has none."""
        self._paired.update(call.id for call in calls)
        return [(call.id, self._answers[call.id]) for call in calls if call.id in self._answers]

    def _reply(self, key: str) -> _Reply:
        fresh = key not in self._used
        self._used.add(key)
        texts: list[str] = []
        reasonings: list[str] = []
        calls: dict[str, ToolCall] = {}
        called: dict[str, float | None] = {}
        nodes = self._groups[key]
        loss: Counter[str] = Counter()
        for node in nodes:
            loss.update(dict(node.loss))
            for text in node.flat.texts:
                loss["dup_dropped"] += _put(texts, text)
            for text in node.flat.reasonings:
                loss["dup_dropped"] += _put(reasonings, text)
            for call in node.flat.calls:
                loss["dup_dropped"] += call.id in calls
                calls[call.id] = call
                called.setdefault(call.id, node.time_s)
        if fresh:
            self._loss.update(loss)
        message = Message("assistant", "\n".join(texts), "\n".join(reasonings), tuple(calls.values()))
        return _Reply(message, _best_usage(nodes), nodes[-1].time_s, called)


def _put(texts: list[str], text: str) -> bool:
    """Adds a block unless it is a copy of the last or a longer snapshot of it; says whether one was dropped."""
    if texts and text.startswith(texts[-1]):
        texts[-1] = text
        return True
    texts.append(text)
    return False


def _best_usage(nodes: list[Node]) -> Usage:
    """The fullest count of a reply: early records of it hold a few tokens of output, some hold nothing at all."""

    def score(node: Node) -> tuple[int, int, bool]:
        return (node.usage.output_tokens or -1, node.usage.prompt_tokens or -1, node.stopped)

    return max(nodes, key=score).usage


class _Window:
    """One window under construction."""

    def __init__(self, builder: RequestBuilder, loss: Counter[str]) -> None:
        self.requests: list[Request] = []
        self.current = ""
        """The reply that was taken last."""
        self._builder = builder
        self._loss = loss
        self._settled: list[Message] = []
        """Messages of the next prompt up to the last reply's results."""
        self._said: list[str] = []
        self._think_s = 0.0
        self._delay_s = 0.0
        self._unanswered = 0
        self._ended_s: float | None = None

    def say(self, node: Node) -> None:
        """Takes the text of a user record; results in it are found by their ids."""
        if not node.flat.texts:
            return
        if not (node.meta or node.summary or self._said or node.time_s is None or self._ended_s is None):
            self._think_s = max(0.0, node.time_s - self._ended_s)
        self._said.extend(node.flat.texts)

    def carry(self, key: str, reply: _Reply) -> None:
        """Takes a reply that was made in an earlier window as a part of the prompt."""
        self._settle()
        self._settled.append(reply.message)
        self._next(key, reply)
        self._delay_s = 0.0

    def answer(self, key: str, reply: _Reply) -> None:
        """Takes a reply: one request."""
        self._settle()
        self._loss["unanswered_call"] += self._unanswered
        prompt = reply.usage.prompt_tokens
        before = self.requests[-1].usage.prompt_tokens if self.requests else None
        self._loss["context_shrank"] += prompt is not None and before is not None and prompt < before
        self._loss["usage_missing"] += prompt is None
        delta = tuple(self._settled)
        self.requests.append(Request(delta, reply.message, reply.usage, self._think_s, self._delay_s))
        self._settled = []
        self._next(key, reply)

    def forget_repeat(self, key: str) -> None:
        """Drops a stretch of history that was written twice: what was said since the last reply, and a reply."""
        self._loss["dup_dropped"] += 1 + bool(self._said)
        self._said.clear()
        self.current = key

    def close(self) -> None:
        """Counts a prompt that nobody answered."""
        self._loss["unanswered_prompt"] += bool(self._said)

    def _settle(self) -> None:
        if self._said:
            self._settled.append(Message("user", "\n".join(self._said)))
        self._said.clear()

    def _next(self, key: str, reply: _Reply) -> None:
        calls = reply.message.tool_calls
        answers = self._builder.answers(calls)
        self._settled.extend(Message("tool", answer.content, tool_call_id=call_id) for call_id, answer in answers)
        waits = [
            answer.time_s - asked
            for call_id, answer in answers
            if answer.time_s is not None and (asked := reply.called_s[call_id]) is not None
        ]
        self.current = key
        self._unanswered = len(calls) - len(answers)
        self._think_s = 0.0
        self._delay_s = max([0.0, *waits])
        self._ended_s = reply.ended_s
