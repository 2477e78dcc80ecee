"""Sessions without any text: lengths, roles, delays, and which blocks of a prompt are the same as others'.

Rows are Mooncake's with a session's name, so that this program and others replay them. An id stands for all tokens up
to the end of its block. Without a salt, anyone who guesses a prompt could prove the guess by its ids, so each export
has one of its own that is kept nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from infermaxx_tui.core.redact import Count
from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.transcript import Message, Session

BLOCK_TOKENS = 64
_ID_BYTES = 6
"""Ids stay whole in a JSON number, which is exact to 53 bits."""


class _Row(msgspec.Struct, frozen=True, omit_defaults=True):
    session_id: str
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]
    roles: tuple[tuple[str, int], ...]
    """Role and tokens of each message that is new in the prompt, without what the template adds."""
    reply: tuple[tuple[str, int], ...]
    """Tokens of the reply's reasoning, text and calls."""
    parent_session_id: str | None = None
    prefix_reset: bool = False
    delay: float = 0.0
    tool_wait_ms: float = 0.0


class _Blocks:
    """Ids of a prompt's whole blocks, as it grows."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._chain = b""
        self._rest: list[int] = []
        self.ids: list[int] = []

    def add(self, tokens: tuple[int, ...]) -> None:
        """Takes the next tokens."""
        self._rest += tokens
        place = 0
        while place + BLOCK_TOKENS <= len(self._rest):
            text = ",".join(map(str, self._rest[place : place + BLOCK_TOKENS])).encode()
            self._chain = hashlib.blake2b(self._chain + text, key=self._salt, digest_size=16).digest()
            self.ids.append(int.from_bytes(self._chain[:_ID_BYTES], "big"))
            place += BLOCK_TOKENS
        del self._rest[:place]


def rows(
    session: Session, tokens: TokenisedTranscript, name: str, parent: str | None, salt: bytes, count: Count
) -> Iterator[bytes]:
    """One line for each request, with its newline."""
    blocks = _Blocks(salt)
    for number, (request, counted) in enumerate(zip(session.requests, tokens.requests, strict=True)):
        if counted.opens_window:
            blocks = _Blocks(salt)
        blocks.add(counted.delta_ids)
        row = _Row(
            session_id=name,
            input_length=counted.prompt_tokens,
            output_length=len(counted.reply_ids),
            hash_ids=tuple(blocks.ids),
            roles=tuple((message.role, sum(size for _, size in _sizes(message, count))) for message in request.delta),
            reply=_sizes(request.reply, count),
            parent_session_id=parent,
            prefix_reset=counted.opens_window and number > 0,
            delay=round(request.think_s * 1000),
            tool_wait_ms=round(request.tool_delay_s * 1000),
        )
        yield msgspec.json.encode(row) + b"\n"
        blocks.add(counted.reply_ids)


def _sizes(message: Message, count: Count) -> tuple[tuple[str, int], ...]:
    parts = [("reasoning", message.reasoning), ("text", message.content)]
    parts += [("call", call.arguments) for call in message.tool_calls]
    return tuple((kind, count(text)) for kind, text in parts if text)
