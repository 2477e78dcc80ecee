"""A conversation's main line as the server sees it: exact ids in token mode, messages in chat mode."""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

import msgspec

from infermaxx_tui.core import segments
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message


class Prompt(msgspec.Struct, frozen=True):
    """What one request sends: ids or messages, never both."""

    ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] = ()
    tools: str = ""
    no_thinking: bool = False
    """The reply is not to begin with a think block, or inside one."""
    known_tokens: int = 0
    """Its length as far as it is known: exact with ids, else that of the conversation up to the last turn."""


class Line(Protocol):
    """The growing main line of one conversation."""

    @property
    def depth_tokens(self) -> int:
        """Tokens of the line up to its last closed turn."""

    def begin(self, messages: tuple[Message, ...], tools: str) -> None:
        """Starts the line with its first prompt."""

    def add(self, messages: tuple[Message, ...], ids: tuple[int, ...] | None = None) -> None:
        """Adds a turn's new messages; `ids` are their rendering if it is known."""

    def fit(self, messages: tuple[Message, ...], room_tokens: int) -> tuple[tuple[Message, ...], int]:
        """The messages cut to the room, and how many tokens were cut away."""

    def measure(self, messages: tuple[Message, ...]) -> int:
        """Tokens that `add` would add."""

    def prompt(self) -> Prompt:
        """The prompt of the turn that was added last."""

    def close(self, text: str, ids: tuple[int, ...] | None, used_tokens: int | None, stopped: bool) -> None:
        """Ends the turn with the reply that came.

        `used_tokens` is prompt and reply as the server counted; `stopped`: the model ended it, not a cap.
        """

    def close_with(self, reply: Message, ids: tuple[int, ...] | None = None, prompt_tokens: int | None = None) -> None:
        """Ends the turn with a recorded reply; `prompt_tokens` is the prompt as the server counted."""

    def tell(self, statement: str, answer: str) -> None:
        """Adds a whole exchange that needs no request."""

    def where(self, text: str) -> int | None:
        """Tokens of the rendered line before `text` in what was added last; None if that is not known."""

    def branch(self, question: str, told: tuple[str, str] | None = None) -> Prompt:
        """A prompt that leaves the main line as it is: an exchange if one is `told`, then the question."""


class TokenLine:
    """A line of exact token ids; the model's own ids are appended and never tokenised again."""

    def __init__(self, renderer: Renderer, close_thinking: bool) -> None:
        self._renderer = renderer
        self._ids: list[int] = []
        self._closed = 0
        self._added_at = 0
        self._system: Message | None = None
        self._end: tuple[int, ...] = ()
        self._suffix: tuple[int, ...] = ()
        self._close_thinking = close_thinking

    @property
    def depth_tokens(self) -> int:
        """Tokens of the line up to its last closed turn."""
        return self._closed

    def begin(self, messages: tuple[Message, ...], tools: str) -> None:
        """Starts the line with its first prompt."""
        self._end = segments.end_of_turn(self._renderer)
        self._suffix = self._closing_suffix()
        system = next((m for m in messages if m.role == "system"), None)
        self._system = segments.brief_system(self._renderer, system)
        self._ids = list(segments.first_prompt(self._renderer, messages, tools))
        self._added_at = self._closed = 0

    def _closing_suffix(self) -> tuple[int, ...]:
        return segments.closed_think_suffix(self._renderer) if self._close_thinking else ()

    def add(self, messages: tuple[Message, ...], ids: tuple[int, ...] | None = None) -> None:
        """Adds a turn's new messages."""
        self._added_at = len(self._ids)
        self._ids += ids if ids is not None else self._delta(messages)

    def _delta(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        return segments.delta_ids(self._renderer, self._system, messages)

    def fit(self, messages: tuple[Message, ...], room_tokens: int) -> tuple[tuple[Message, ...], int]:
        """The messages cut to the room, and how many tokens were cut away."""
        return segments.trim_messages(self._renderer, messages, room_tokens, self._system)

    def measure(self, messages: tuple[Message, ...]) -> int:
        """Tokens that `add` would add."""
        return len(self._delta(messages))

    def prompt(self) -> Prompt:
        """The prompt of the turn that was added last."""
        return Prompt(ids=tuple(self._ids), known_tokens=len(self._ids))

    def close(self, text: str, ids: tuple[int, ...] | None, used_tokens: int | None, stopped: bool) -> None:
        """Ends the turn with the ids that came, and the template's end of turn where they lack it.

        A control token at which the model stopped stays. Without ids from the server the text is tokenised here, which
        may differ from what the server holds.
        """
        if ids is None:
            self.close_with(Message("assistant", text))
            return
        stop_ids = ids[-1:] if stopped and self._is_hidden(ids[-1:], text) else ()
        self._ids += segments.close_reply(ids, self._end, stop_ids)
        self._closed = len(self._ids)

    def _is_hidden(self, ids: tuple[int, ...], text: str) -> bool:
        """Whether it is a control token that the server left out of the text, as it does with those that end a turn."""
        spelled = self._renderer.decode(ids)
        return bool(ids) and self._renderer.special_id(spelled) == ids[0] and not text.endswith(spelled)

    def close_with(self, reply: Message, ids: tuple[int, ...] | None = None, prompt_tokens: int | None = None) -> None:
        """Ends the turn with a recorded reply."""
        self._ids += ids if ids is not None else segments.reply_ids(self._renderer, self._system, reply)
        self._closed = len(self._ids)

    def tell(self, statement: str, answer: str) -> None:
        """Adds a whole exchange that needs no request."""
        self._added_at = len(self._ids)
        self._ids += self._exchange(statement, answer)
        self._closed = len(self._ids)

    def where(self, text: str) -> int | None:
        """Tokens of the rendered line before the token in which `text` begins, in what was added last."""
        added, decode = tuple(self._ids[self._added_at :]), self._renderer.decode
        offset = decode(added).find(text)
        if offset < 0:
            return None
        before = bisect_right(range(len(added)), offset, key=lambda n: len(decode(added[:n]))) - 1
        return self._added_at + before

    def _exchange(self, statement: str, answer: str) -> tuple[int, ...]:
        return segments.scripted_turn(self._renderer, self._system, (Message("user", statement),), answer)

    def branch(self, question: str, told: tuple[str, str] | None = None) -> Prompt:
        """A prompt that leaves the main line as it is."""
        before = self._exchange(*told) if told else ()
        ids = (*self._ids[: self._closed], *before, *self._delta((Message("user", question),)), *self._suffix)
        return Prompt(ids=ids, no_thinking=self._close_thinking, known_tokens=len(ids))


class ChatLine:
    """A line of messages that the server's own template renders.

    Tool results travel as user messages when replies are live, since the reply before them made no such call.
    """

    def __init__(self, renderer: Renderer | None, live: bool, close_thinking: bool) -> None:
        self._renderer = renderer
        self._live = live
        self._close_thinking = close_thinking
        self._messages: list[Message] = []
        self._tools = ""
        self._used = 0

    @property
    def depth_tokens(self) -> int:
        """Tokens of prompt and reply of the last turn, as the server counted, and of what was told since."""
        return self._used

    def begin(self, messages: tuple[Message, ...], tools: str) -> None:
        """Starts the line with its first prompt."""
        self._messages = []
        self._used = 0
        self._append(messages)
        self._tools = "" if self._live else tools

    def _append(self, messages: tuple[Message, ...]) -> None:
        """Appends, with user messages that follow one another joined, since many templates demand alternation."""
        for message in messages:
            if message.role == "tool" and self._live:
                message = Message("user", f"Tool result:\n{message.content}")
            last = self._messages[-1] if self._messages else None
            if last is not None and last.role == message.role == "user":
                self._messages[-1] = Message("user", f"{last.content}\n\n{message.content}")
            else:
                self._messages.append(message)

    def add(self, messages: tuple[Message, ...], ids: tuple[int, ...] | None = None) -> None:
        """Adds a turn's new messages."""
        self._append(messages)

    def fit(self, messages: tuple[Message, ...], room_tokens: int) -> tuple[tuple[Message, ...], int]:
        """The messages cut to the room, and how many tokens were cut away; uncut where no tokenizer is known."""
        if self._renderer is None:
            return messages, 0
        return segments.trim_messages(self._renderer, messages, room_tokens)

    def measure(self, messages: tuple[Message, ...]) -> int:
        """Tokens that `add` would add; 0 where no tokenizer is known, and the depth follows from usage."""
        if self._renderer is None:
            return 0
        return sum(len(self._renderer.encode(m.content)) + 8 for m in messages)

    def prompt(self) -> Prompt:
        """The prompt of the turn that was added last."""
        return Prompt(messages=tuple(self._messages), tools=self._tools, known_tokens=self._used)

    def close(self, text: str, ids: tuple[int, ...] | None, used_tokens: int | None, stopped: bool) -> None:
        """Ends the turn with the reply that came."""
        self._messages.append(Message("assistant", text))
        if used_tokens is not None:
            self._used = used_tokens

    def close_with(self, reply: Message, ids: tuple[int, ...] | None = None, prompt_tokens: int | None = None) -> None:
        """Ends the turn with a recorded reply, whose length is only known with a tokenizer."""
        self._messages.append(Message("assistant", reply.content) if self._live else reply)
        if prompt_tokens is not None:
            self._used = prompt_tokens + self.measure((reply,))

    def tell(self, statement: str, answer: str) -> None:
        """Adds a whole exchange that needs no request."""
        told = (Message("user", statement), Message("assistant", answer))
        self._messages += told
        self._used += self.measure(told)

    def where(self, text: str) -> int | None:
        """Not known: the server renders."""
        return None

    def branch(self, question: str, told: tuple[str, str] | None = None) -> Prompt:
        """A prompt that leaves the main line as it is."""
        before = (Message("user", told[0]), Message("assistant", told[1])) if told else ()
        return Prompt(
            messages=(*self._messages, *before, Message("user", question)),
            tools=self._tools,
            no_thinking=self._close_thinking,
            known_tokens=self._used,
        )
