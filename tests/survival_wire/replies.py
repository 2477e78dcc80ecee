"""Replies that are known to the last letter, and every legal way to put one on the wire."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

Channel = Literal["content", "reasoning", "tool"]


class Delta(msgspec.Struct, frozen=True):
    """What one event brings."""

    channel: Channel
    text: str
    ids: tuple[int, ...]
    """Never empty; not sent in chat without ids."""


class Model(msgspec.Struct, frozen=True):
    """A reply as the server knows it."""

    chat: bool
    deltas: tuple[Delta, ...]
    finish: str
    with_ids: bool
    usage: Literal["none", "last", "each", "on_finish"]
    server_id: str = "cmpl-1f"

    def text(self, channel: Channel) -> str:
        """All that was said in a channel; a tool call begins with its name."""
        said = "".join(delta.text for delta in self.deltas if delta.channel == channel)
        return f"look {said}" if channel == "tool" and said else said

    @property
    def ids(self) -> tuple[int, ...]:
        """All ids, in order."""
        return tuple(number for delta in self.deltas for number in delta.ids)

    @property
    def counted(self) -> int | None:
        """What the client must take for the number of tokens."""
        if self.usage != "none" or self.with_ids:
            return len(self.ids)
        return None

    def prefixes(self, channel: Channel) -> set[str]:
        """What may have come of a channel when the stream is torn between two events."""
        out, said = {""}, "look " if channel == "tool" else ""
        for delta in self.deltas:
            if delta.channel == channel:
                said += delta.text
                out.add(said)
        return out


TEXT = st.one_of(
    st.text(min_size=1, max_size=12),
    st.sampled_from(
        ["data: x\n\n", "[DONE]", "\r\n\r\n", "🚗\u2028", '"}]}', "\\u0041", "</think>", "\x00\x1b[2J", "é"]
    ),
).map(lambda text: text.encode("utf-8", "replace").decode())
"""Anything but lone surrogates, which are not text, and much that looks like framing."""


@st.composite
def models(draw: st.DrawFn, chat: bool | None = None) -> Model:
    """Any reply. Its ids are none of the think tokens', which decide where the text of a completion goes."""
    is_chat = draw(st.booleans()) if chat is None else chat
    channels: tuple[Channel, ...] = ("content", "reasoning", "tool") if is_chat else ("content",)
    ids = st.lists(st.integers(1000, 151_935), min_size=1, max_size=3).map(tuple)
    deltas = draw(st.lists(st.builds(Delta, st.sampled_from(channels), TEXT, ids), min_size=1, max_size=9))
    return Model(
        is_chat,
        tuple(deltas),
        draw(st.sampled_from(["stop", "length", "tool_calls" if is_chat else "stop"])),
        not is_chat or draw(st.booleans()),
        draw(st.sampled_from(["none", "last", "each", "on_finish"])),
    )


def events(model: Model) -> list[dict[str, Any]]:
    """The reply's events in order, without `[DONE]`."""
    out: list[dict[str, Any]] = []
    if model.chat:
        out.append(_event(model, {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}))
    count, opened = 0, False
    for delta in model.deltas:
        choice: dict[str, Any] = {"finish_reason": None}
        if not model.chat:
            choice["text"] = delta.text
        elif delta.channel == "tool":
            function = {"arguments": delta.text} if opened else {"name": "look", "arguments": delta.text}
            call = {"index": 0, "function": function, **({} if opened else {"id": "call_1", "type": "function"})}
            choice["delta"] = {"tool_calls": [call]}
            opened = True
        else:
            choice["delta"] = {delta.channel: delta.text}
        if model.with_ids:
            choice["token_ids"] = list(delta.ids)
        count += len(delta.ids)
        out.append(_event(model, choice, count if model.usage == "each" else None))
    end: dict[str, Any] = {"finish_reason": model.finish, **({"delta": {}} if model.chat else {"text": ""})}
    out.append(_event(model, end, count if model.usage in ("each", "on_finish") else None))
    if model.usage == "last":
        out.append({"id": model.server_id, "choices": [], "usage": _usage(count)})
    return out


def _event(model: Model, choice: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    event: dict[str, Any] = {"id": model.server_id, "choices": [{"index": 0, **choice}]}
    return event if count is None else {**event, "usage": _usage(count)}


def _usage(count: int) -> dict[str, int]:
    return {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": 3 + count}


def _compact(event: object) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def _ascii(event: object) -> str:
    return json.dumps(event)


def _tall(event: object) -> str:
    return json.dumps(event, indent=1, ensure_ascii=False)


def _backwards(event: dict[str, Any]) -> str:
    """The keys in the other order, with some that nobody knows."""
    return _compact(dict(reversed([*event.items(), ("object", "x"), ("system_fingerprint", None), ("new", [{}])])))


def _all_escaped(event: object) -> str:
    """Each letter of each text as an escape."""

    def escaped(text: str) -> str:
        units = text.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02X}" for at in range(0, len(units), 2))

    def write(value: object) -> str:
        match value:
            case str():
                return f'"{escaped(value)}"'
            case dict():
                return "{" + " , ".join(f"{write(key)} : {write(one)}" for key, one in value.items()) + "}"
            case list():
                return "[ " + ",".join(map(write, value)) + "]"
            case _:
                return json.dumps(value)

    return write(event)


_SPELLINGS: tuple[Callable[[dict[str, Any]], str], ...] = (_compact, _ascii, _tall, _backwards, _all_escaped)
_ENDS = (b"\n", b"\r\n", b"\r")
_BETWEEN = (b"", b": ping", b":", b"id: 7", b"retry: 10", b"event: message", b"data", b"data:", b": \xff\xfe", b"x: y")


def sse(model: Model, rng: random.Random) -> bytes:
    """The reply as a body, in any framing that the standard allows."""
    return b"".join(sse_pieces(model, rng))


def sse_pieces(model: Model, rng: random.Random) -> list[bytes]:
    """The same, an event at a time; the last one is `[DONE]`."""
    plain = rng.random() < 0.3
    pieces = [] if plain or rng.random() < 0.7 else [b"\xef\xbb\xbf"]
    wanted: list[dict[str, Any] | str] = [*events(model), "[DONE]"]
    for event in wanted:
        end = b"\n" if plain else rng.choice(_ENDS)
        out = b"" if plain or rng.random() < 0.7 else _other(rng.choice(_BETWEEN), end)
        text = event if isinstance(event, str) else _spelt(event, plain, rng)
        space = b" " if plain or rng.random() < 0.6 else b""
        for line in text.encode().split(b"\n"):
            out += b"data:" + (space or (b" " if line.startswith(b" ") else b"")) + line + end
        pieces.append(out + end)
    if not plain and rng.random() < 0.2:
        pieces[-1] = pieces[-1].rstrip(b"\r\n")  # the body's end stands for the blank line
    return [b"".join(pieces[:2]), *pieces[2:]] if pieces[0] == b"\xef\xbb\xbf" else pieces


def _spelt(event: dict[str, Any], plain: bool, rng: random.Random) -> str:
    return _compact(event) if plain else rng.choice(_SPELLINGS)(event)


def _other(line: bytes, end: bytes) -> bytes:
    """A line that carries nothing, as an event of its own: a field may stand before data of another one."""
    return line + end + end if line else end


def http(body: bytes, rng: random.Random) -> bytes:
    """A whole answer around a body, in any framing of HTTP/1.1."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if rng.random() < 0.2:
        head = b"HTTP/1.1 100 Continue\r\n\r\n" + head
    match rng.randrange(4):
        case 0:
            return head + b"content-length: %d\r\n\r\n" % len(body) + body
        case 1:
            return head + b"connection: close\r\n\r\n" + body
        case _:
            return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body, rng)


def chunked(body: bytes, rng: random.Random) -> bytes:
    """A body in chunks of any size."""
    out = b""
    for piece in chop(body, rng, rng.randrange(8)):
        out += rng.choice((b"%x", b"%X", b"0%x", b"%x;a=b")) % len(piece) + b"\r\n" + piece + b"\r\n"
    return out + b"0\r\n" + rng.choice((b"", b"x: y\r\n")) + b"\r\n"


def chop(data: bytes, rng: random.Random, cuts: int) -> list[bytes]:
    """The data in pieces that are not empty."""
    places = sorted({0, len(data), *(rng.randint(0, len(data)) for _ in range(cuts))})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def joined(pieces: Iterable[bytes]) -> bytes:
    """The pieces as one."""
    return b"".join(pieces)
