"""Splits a chat reply into content, reasoning and tool calls, as vLLM's parsers do while the tokens come."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from infermaxx_tui.sim.detok import Detokeniser
from infermaxx_tui.sim.script import Tokens

_CALL = re.compile(r'"name": "([^"]*)", "arguments": ')
_HELD = re.compile(r"[\s}]*\Z")


class Delta(msgspec.Struct, frozen=True):
    """What one event adds to one channel."""

    channel: str
    """`content`, `reasoning`, `tool_name` or `tool_arguments`."""
    text: str
    index: int = 0
    """Which tool call."""


class Channels:
    """Follows one reply. `reasoning_tokens` counts the ids inside think blocks, `calls` the tool calls named so far."""

    def __init__(self, tokens: Tokens, detokeniser: Detokeniser, thinking: bool = False) -> None:
        self._tokens = tokens
        self._detokeniser = detokeniser
        self._marks = frozenset((tokens.think, tokens.unthink, tokens.call, tokens.uncall))
        self._thinking = thinking
        self._call: str | None = None
        self._sent = 0
        self.reasoning_tokens = 0
        self.calls = 0

    def feed(self, ids: Sequence[int]) -> list[Delta]:
        """The deltas of one event's ids; none while a tag or a call's name is being read."""
        if self._marks.isdisjoint(ids):
            return self._run(ids)
        out: list[Delta] = []
        run: list[int] = []
        for token in ids:
            if token not in self._marks:
                run.append(token)
                continue
            out += self._run(run)
            run = []
            self._mark(token, out)
        return out + self._run(run)

    def finish(self) -> list[Delta]:
        """What was held back."""
        return self._text(self._detokeniser.finish())

    def _run(self, ids: Sequence[int]) -> list[Delta]:
        if not ids:
            return []
        self.reasoning_tokens += len(ids) if self._thinking else 0
        return self._text(self._detokeniser.feed(ids))

    def _text(self, text: str) -> list[Delta]:
        if not text:
            return []
        if self._call is None:
            return [Delta("reasoning" if self._thinking else "content", text)]
        self._call += text
        return self._arguments(closed=False)

    def _mark(self, token: int, out: list[Delta]) -> None:
        if token == self._tokens.think:
            self._thinking = True
        elif token == self._tokens.unthink:
            self._thinking = False
        elif token == self._tokens.call:
            self._call, self._sent = "", 0
        elif self._call is not None:
            out += self._arguments(closed=True)
            self._call = None

    def _arguments(self, closed: bool) -> list[Delta]:
        """The call's name once it is known, then its arguments; the brace that closes the call is not one of them."""
        call = self._call or ""
        found = _CALL.search(call)
        if found is None:
            return []
        out = []
        if not self._sent:
            self.calls += 1
            self._sent = found.end()
            out.append(Delta("tool_name", found[1], self.calls - 1))
        end = len(call.rstrip()) - 1 if closed else len(call) - len((_HELD.search(call) or [""])[0])
        if end > self._sent:
            out.append(Delta("tool_arguments", call[self._sent : end], self.calls - 1))
            self._sent = end
        return out
