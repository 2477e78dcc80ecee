"""Text of a wanted length, by any tokenizer: what a session weighs in the pool is tokens, not characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message, ToolCall

Count = Callable[[str], int]
"""How many tokens a text has."""

_ROUNDS = 8


class Overhead(msgspec.Struct, frozen=True):
    """What a chat template adds to texts, in tokens."""

    message: int
    call: int
    result: int


def overhead_of(renderer: Renderer) -> Overhead:
    """The same for the renderer's template, by rendering small conversations; 5, 12 and 5 where it refuses them."""

    def size(*messages: Message) -> int:
        return len(renderer.render(messages, "", False))

    ask, say, call = Message("user", "a"), Message("assistant", "a"), ToolCall("call00001", "a", '{"a": "a"}')
    calling = Message("assistant", "a", tool_calls=(call,))
    try:
        message = size(ask, say) - size(ask)
        called = size(ask, calling)
        result = size(ask, calling, Message("tool", "a", tool_call_id=call.id, name="a")) - called
        inner = len(renderer.encode(call.name)) + len(renderer.encode(call.arguments))
        return Overhead(max(message - 1, 0), max(called - size(ask, say) - inner, 0), max(result - 1, 0))
    except ValueError:
        return Overhead(5, 12, 5)


def fitted(lines: Iterator[str], tokens: int, count: Count) -> str:
    """As many of the lines as make that many tokens; the last one is cut. Off by 3 tokens or 1 % at most.

    Tokens cross the ends of lines, so the sum over lines is only a guess and the whole is counted at the end.
    """
    if tokens <= 0:
        return ""
    parts: list[str] = []
    text, have = "", 0
    for _ in range(_ROUNDS):
        while have < tokens:
            parts.append(f"{next(lines)}\n")
            have += count(parts[-1])
        text = "".join(parts)
        have = count(text)
        if have >= tokens:
            break
    return _cut(text, tokens, have, count).rstrip("\n")


def _cut(text: str, tokens: int, have: int, count: Count) -> str:
    for _ in range(_ROUNDS):
        if have <= tokens or len(text) < 2:
            break
        each = len(text) / have
        text = text[: -max(1, int((have - tokens) * each))]
        have = count(text)
    return text
