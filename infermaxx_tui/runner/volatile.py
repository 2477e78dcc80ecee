"""What clients and proxies put at the head of a system prompt: a random line, or the time. Nothing behind it is cached.

The line is put into each prompt when it is sent, so that what is told of depths and tags holds without it but for the
few tokens that it takes.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Sessions
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.lines import Prompt

_FORMATS = {"second": "%Y-%m-%d %H:%M:%S", "minute": "%Y-%m-%d %H:%M", "hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d"}
_BARE = Message("system", "You help with the work below.")
"""Stands where a conversation has no system prompt."""


class Volatile:
    """The changing head of one conversation's prompts."""

    def __init__(self, sessions: Sessions, key: str) -> None:
        self._nonce = sessions.request_nonce
        self._timestamp = sessions.timestamp
        self._key = key
        self._sent = 0
        self._renderer: Renderer | None = None
        self._at = 0

    @property
    def wanted(self) -> bool:
        """Whether prompts change at all."""
        return self._nonce or self._timestamp != "none"

    def led(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The first messages of a prompt with a system prompt that a line can be put into."""
        if not self.wanted or any(message.role == "system" for message in messages):
            return messages
        return (_BARE, *messages)

    def begin(self, renderer: Renderer | None, messages: tuple[Message, ...], tools: str) -> None:
        """Finds where the system prompt's own text begins in ids: two renderings with other texts share what is before.

        Raises TemplateRefused.
        """
        self._renderer = renderer
        if not self.wanted or renderer is None:
            return
        one, other = (renderer.render(_headed(messages, said), tools, True) for said in ("d ", "7 "))
        self._at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)

    def stamped(self, prompt: Prompt, wall_ms: int) -> Prompt:
        """The prompt as it is sent now."""
        if not self.wanted:
            return prompt
        self._sent += 1
        line = self._line(wall_ms)
        if prompt.ids is None:
            return msgspec.structs.replace(prompt, messages=_headed(prompt.messages, line))
        added = self._renderer.encode(line) if self._renderer is not None else ()
        ids = (*prompt.ids[: self._at], *added, *prompt.ids[self._at :])
        return msgspec.structs.replace(prompt, ids=ids, known_tokens=len(ids))

    def _line(self, wall_ms: int) -> str:
        parts = []
        if self._nonce:
            drawn = hashlib.sha256(f"{self._key}\x1f{self._sent}".encode()).hexdigest()
            parts.append(f"x-request-nonce: {drawn[:16]}\n")
        if self._timestamp != "none":
            now = datetime.fromtimestamp(wall_ms / 1000, UTC)
            parts.append(f"Current time: {now.strftime(_FORMATS[self._timestamp])} UTC\n")
        return "".join(parts)


def _headed(messages: tuple[Message, ...], line: str) -> tuple[Message, ...]:
    """The messages with the line at the head of the first system prompt."""
    place = next((n for n, message in enumerate(messages) if message.role == "system"), None)
    if place is None:
        return messages
    headed = msgspec.structs.replace(messages[place], content=f"{line}{messages[place].content}")
    return (*messages[:place], headed, *messages[place + 1 :])
