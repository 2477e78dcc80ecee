"""The JSON of vLLM 0.32's streams and bodies, key by key in its order (vllm-wire §1 and §2).

The parts of an event that stay the same through a stream are encoded once, since an event must cost next to nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import orjson

from infermaxx_tui.sim.channels import Channels, Delta
from infermaxx_tui.sim.config import ENGINE_VERSION
from infermaxx_tui.sim.detok import Detokeniser
from infermaxx_tui.sim.engine import Generation

Text = Callable[[str], bytes]
"""How a text becomes a JSON string."""
FINGERPRINT = f"vllm-{ENGINE_VERSION}-{hashlib.blake2b(ENGINE_VERSION.encode(), digest_size=4).hexdigest()}"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants to see of a reply."""

    request_id: str
    """With its prefix, `cmpl-` or `chatcmpl-`."""
    created_s: int
    model: str
    token_ids: bool = False
    usage: bool = False
    """A usage event at the end."""
    running_usage: bool = False
    """Usage in every event."""
    text: Text = orjson.dumps


class Writer(Protocol):
    """Turns a generation into events and bodies; one for each endpoint."""

    detokeniser: Detokeniser

    def opening(self) -> list[bytes]:
        """Events that come with the first token, before it."""

    def tokens(self, ids: Sequence[int]) -> list[bytes]:
        """The events of one engine step."""

    def blank(self) -> bytes:
        """An event that adds nothing."""

    def closing(self, ids: Sequence[int], finish: str | None) -> list[bytes]:
        """The events of the last step, with the finish reason, and the usage event."""

    def body(self) -> bytes:
        """The whole reply at once, for a request that does not stream; after `closing`."""


class CompletionWriter:
    """Events of /v1/completions."""

    def __init__(self, shape: Shape, generation: Generation, detokeniser: Detokeniser) -> None:
        self._shape = shape
        self._generation = generation
        self.detokeniser = detokeniser
        self._text = ""
        self._finish: str | None = None
        self._top = _top(shape, "text_completion")
        self._head = self._top + b'"choices":[{"index":0,"text":'
        self._first = True

    def opening(self) -> list[bytes]:
        """Nothing: a completion has no role."""
        return []

    def tokens(self, ids: Sequence[int]) -> list[bytes]:
        """One event, with text or without."""
        return [self._event(self.detokeniser.feed(ids), ids, b"null", b"null", b"")]

    def blank(self) -> bytes:
        """See Writer."""
        return self._event("", (), b"null", b"null", b"")

    def closing(self, ids: Sequence[int], finish: str | None) -> list[bytes]:
        """The finishing event, and the usage event if it was asked for."""
        shape = self._shape
        text = self.detokeniser.feed(ids) + self.detokeniser.finish()
        finish = self._finish = "stop" if self.detokeniser.stopped_by is not None else finish
        mark = b"" if shape.usage or finish is None else _FINGERPRINT_KEY
        out = [self._event(text, ids, _string(finish), _string(self.detokeniser.stopped_by), mark)]
        if shape.usage:
            usage = usage_json(self._generation, None, "completion")
            out.append(self._top + b'"choices":[],"usage":' + usage + _FINGERPRINT_KEY + b"}")
        return out

    def _event(self, text: str, ids: Sequence[int], finish: bytes, reason: bytes, mark: bytes) -> bytes:
        self._text += text
        shape = self._shape
        prompt = b"null"
        if self._first:
            self._first = False
            prompt = orjson.dumps(self._generation.job.ids) if shape.token_ids else prompt
        parts = [self._head, shape.text(text), b',"logprobs":null,"finish_reason":', finish, b',"stop_reason":', reason]
        parts += (b',"prompt_token_ids":', prompt, b',"token_ids":', _ids(ids) if shape.token_ids else b"null", b"}]")
        if shape.running_usage:
            parts += (b',"usage":', _running_usage(self._generation, b""))
        parts += (mark, b"}")
        return b"".join(parts)

    def body(self) -> bytes:
        """See Writer."""
        shape, generation = self._shape, self._generation
        choice = {
            "index": 0,
            "text": self._text,
            "logprobs": None,
            "finish_reason": self._finish,
            "stop_reason": self.detokeniser.stopped_by,
            "token_ids": generation.sent if shape.token_ids else None,
            "prompt_logprobs": None,
            "prompt_token_ids": generation.job.ids if shape.token_ids else None,
            "routed_experts": None,
        }
        tail = b',"service_tier":null' + _FINGERPRINT_KEY + b',"usage":' + usage_json(generation, None, "body")
        return self._top + b'"choices":[' + orjson.dumps(choice) + b"]" + tail + b',"kv_transfer_params":null}'


class ChatWriter:
    """Events of /v1/chat/completions."""

    def __init__(self, shape: Shape, generation: Generation, channels: Channels, detokeniser: Detokeniser) -> None:
        self._shape = shape
        self._generation = generation
        self._channels = channels
        self.detokeniser = detokeniser
        self._top = _top(shape, "chat.completion.chunk")
        self._head = self._top + b'"choices":[{"index":0,"delta":'
        self._said: dict[tuple[str, int], str] = {}
        self._finish: str | None = None

    def opening(self) -> list[bytes]:
        """The role, which comes in the same instant as the first token."""
        shape = self._shape
        prompt = orjson.dumps(self._generation.job.ids) if shape.token_ids else b"null"
        usage = b',"usage":' + _running_usage(self._generation, _NO_DETAILS) if shape.running_usage else b""
        choice = b'{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return [self._head + choice + usage + b',"prompt_token_ids":' + prompt + b',"prompt_text":null}']

    def tokens(self, ids: Sequence[int]) -> list[bytes]:
        """An event for each channel that grew; one without text only if ids are wanted."""
        deltas = self._channels.feed(ids)
        if not deltas:
            return [self._event(b"{}", ids, b"null", b"")] if self._shape.token_ids else []
        return self._events(deltas, ids)

    def blank(self) -> bytes:
        """See Writer."""
        return self._event(b"{}", (), b"null", b"")

    def closing(self, ids: Sequence[int], finish: str | None) -> list[bytes]:
        """The finishing event, and the usage event if it was asked for. A reply with calls that stops says so."""
        shape = self._shape
        deltas = self._channels.feed(ids) + self._channels.finish()
        finish = "stop" if self.detokeniser.stopped_by is not None else finish
        self._finish = "tool_calls" if finish == "stop" and self._channels.calls else finish
        out = self._events(deltas[:-1], ()) if len(deltas) > 1 else []
        last = self._delta(deltas[-1]) if deltas else b'{"content":""}' if not self._channels.calls else b"{}"
        mark = b"" if shape.usage or finish is None else _FINGERPRINT_KEY
        reason = b',"stop_reason":' + _string(self.detokeniser.stopped_by) if finish is not None else b""
        out.append(self._event(last, ids, _string(self._finish) + reason, mark))
        if shape.usage:
            usage = usage_json(self._generation, self._channels.reasoning_tokens, "chat")
            out.append(self._top + b'"choices":[],"usage":' + usage + _FINGERPRINT_KEY + b"}")
        return out

    def _events(self, deltas: list[Delta], ids: Sequence[int]) -> list[bytes]:
        """The ids go with the last of the deltas."""
        last = len(deltas) - 1
        return [self._event(self._delta(d), ids if n == last else (), b"null", b"") for n, d in enumerate(deltas)]

    def _event(self, delta: bytes, ids: Sequence[int], finish: bytes, mark: bytes) -> bytes:
        shape = self._shape
        usage = b',"usage":' + _running_usage(self._generation, _NO_DETAILS) if shape.running_usage else b""
        shown = _ids(ids) if shape.token_ids else b"null"
        middle = b',"logprobs":null,"finish_reason":' + finish + b',"token_ids":' + shown
        return b"".join((self._head, delta, middle, b"}]", usage, mark, b"}"))

    def _delta(self, delta: Delta) -> bytes:
        key = (delta.channel, delta.index)
        self._said[key] = self._said.get(key, "") + delta.text
        text = self._shape.text(delta.text)
        match delta.channel:
            case "tool_name":
                call = b'{"id":"' + self._call_id(delta.index) + b'","type":"function","index":%d' % delta.index
                return b'{"content":null,"tool_calls":[' + call + b',"function":{"name":' + text + b"}}]}"
            case "tool_arguments":
                call = b'{"index":%d,"function":{"arguments":' % delta.index
                return b'{"content":null,"tool_calls":[' + call + text + b"}}]}"
            case channel:
                return b'{"' + channel.encode() + b'":' + text + b"}"

    def _call_id(self, index: int) -> bytes:
        seed = f"{self._shape.request_id}/{index}".encode()
        return b"chatcmpl-tool-" + hashlib.blake2b(seed, digest_size=8).hexdigest().encode()

    def body(self) -> bytes:
        """See Writer."""
        shape, generation = self._shape, self._generation
        message: dict[str, object] = {
            "role": "assistant",
            "content": self._said.get(("content", 0)),
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
        }
        if self._channels.calls:
            message["tool_calls"] = [self._whole_call(index) for index in range(self._channels.calls)]
        message["reasoning"] = self._said.get(("reasoning", 0))
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish,
            "stop_reason": self.detokeniser.stopped_by,
            "token_ids": generation.sent if shape.token_ids else None,
            "routed_experts": None,
        }
        usage = usage_json(generation, self._channels.reasoning_tokens, "body")
        prompt = orjson.dumps(generation.job.ids) if shape.token_ids else b"null"
        head = _top(shape, "chat.completion") + b'"choices":[' + orjson.dumps(choice) + b'],"service_tier":null'
        tail = b',"prompt_logprobs":null,"prompt_token_ids":' + prompt + b',"prompt_text":null'
        rest = b',"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
        return head + _FINGERPRINT_KEY + b',"usage":' + usage + tail + rest

    def _whole_call(self, index: int) -> dict[str, object]:
        arguments = self._said.get(("tool_arguments", index), "")
        function = {"name": self._said[("tool_name", index)], "arguments": arguments}
        return {"id": self._call_id(index).decode(), "type": "function", "function": function}


def usage_json(generation: Generation, reasoning_tokens: int | None, where: str) -> bytes:
    """The last word on token counts: `where` is `completion`, `chat` or `body`, which differ in their details."""
    prompt, sent, cached = len(generation.job.ids), len(generation.sent), generation.cached_tokens
    details: dict[str, int | None] = {"cached_tokens": cached}
    if where != "completion":
        details["created_cache_tokens"] = generation.new_block_tokens
    if where == "body":
        details["multimodal_tokens"] = None
    usage: dict[str, object] = {"prompt_tokens": prompt, "total_tokens": prompt + sent, "completion_tokens": sent}
    usage["prompt_tokens_details"] = details
    if reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    elif where == "body":
        usage["completion_tokens_details"] = None
    return orjson.dumps(usage)


_FINGERPRINT_KEY = b',"system_fingerprint":' + orjson.dumps(FINGERPRINT)
_NO_DETAILS = b',"completion_tokens_details":null'


def _running_usage(generation: Generation, more: bytes) -> bytes:
    prompt, sent = len(generation.job.ids), len(generation.sent)
    counts = (prompt, prompt + sent, sent)
    return b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d' % counts + more + b"}"


def _top(shape: Shape, kind: str) -> bytes:
    fields = {"id": shape.request_id, "object": kind, "created": shape.created_s, "model": shape.model}
    return orjson.dumps(fields)[:-1] + b","


def _ids(ids: Sequence[int]) -> bytes:
    return b"[%d]" % ids[0] if len(ids) == 1 else orjson.dumps(list(ids))


def _string(value: str | None) -> bytes:
    return b"null" if value is None else orjson.dumps(value)
