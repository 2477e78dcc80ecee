"""What is sent to the server, and what its refusals mean."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable

import httpx
import msgspec
import orjson

from infermaxx_tui.core.events import Outcome
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.http.connection import Sink
from infermaxx_tui.runner.http.transport import PUSH, PushBody
from infermaxx_tui.runner.lines import Prompt

_TOO_LONG = re.compile(
    r"maximum context length|maximum model length|max_tokens must be at least 1, got 0"
    r"|cannot be greater than max_model_len"
)
"""vllm-wire.md §2.3: every body that says that our prompt does not fit."""
_MAX_RETRY_AFTER_S = 5.0
_REFUSAL_BYTES = 65536
_PIECE_BYTES = 256 * 1024


class Refusal(msgspec.Struct, frozen=True):
    """An answer other than 200."""

    outcome: Outcome
    text: str
    retry_after_s: float


def body_of(
    prompt: Prompt, model: str, scenario: Scenario, max_tokens: int, salt: str | None, forced: bool = False
) -> tuple[str, bytes]:
    """Path and JSON body of the request; `forced`: neither fewer nor more tokens than `max_tokens`."""
    body: dict[str, object] = {
        "model": model,
        "max_tokens": max_tokens,
        "temperature": scenario.reply.temperature,
        "seed": scenario.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
    if forced:
        body["min_tokens"], body["ignore_eos"] = max_tokens, True
    if salt is not None:
        body["cache_salt"] = salt
    if prompt.ids is not None:
        body["prompt"] = prompt.ids
        return "/v1/completions", orjson.dumps(body)
    body["messages"] = [_message(message) for message in prompt.messages]
    if prompt.no_thinking:
        body["chat_template_kwargs"] = {"enable_thinking": False}
    if prompt.tools:
        body["tools"] = orjson.Fragment(prompt.tools)
        body["tool_choice"] = "none"
    return "/v1/chat/completions", orjson.dumps(body)


def _message(message: Message) -> dict[str, object]:
    out: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        out["reasoning"] = message.reasoning
        out["reasoning_content"] = message.reasoning
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        out["tool_call_id"] = message.tool_call_id
    return out


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(content), _PIECE_BYTES):
        yield content[at : at + _PIECE_BYTES]


def request_of(client: httpx.AsyncClient, path: str, content: bytes, server_id: str) -> httpx.Request:
    """The request. A large body travels in pieces, so that writing it does not hold up the other streams."""
    headers = {"content-type": "application/json", "content-length": str(len(content)), "x-request-id": server_id}
    body = content if len(content) <= _PIECE_BYTES else _pieces(content)
    return client.build_request("POST", path, content=body, headers=headers)


async def pour(response: httpx.Response, sink: Sink, mono_us: Callable[[], int]) -> None:
    """Gives the body to `sink` as it comes, until its end or until no more is wanted.

    A transport that can push does, with stamps of its own; the others are read, and stamped when they are.
    """
    body = response.extensions.get(PUSH)
    if isinstance(body, PushBody):
        await body.push_to(sink)
        return
    async for piece in byte_stream(response):
        if not sink(piece, mono_us()):
            return


def byte_stream(response: httpx.Response) -> httpx.AsyncByteStream:
    """The body as it comes from the transport, without httpx's re-chunking in between."""
    if not isinstance(response.stream, httpx.AsyncByteStream):
        raise TypeError("an async client gave a response that is not async")
    return response.stream


async def read_refusal(response: httpx.Response) -> Refusal:
    """What a 4xx or 5xx means: shed (429, 503), too long (our prompt), or rejected."""
    body = b""
    async for chunk in byte_stream(response):
        body += chunk
        if len(body) > _REFUSAL_BYTES:
            break
    text = f"HTTP {response.status_code}: {error_text(body)}"
    status = response.status_code
    outcome: Outcome = "rejected"
    if status in (429, 503):
        outcome = "shed"
    elif status == 413 or (status == 400 and _TOO_LONG.search(text)):
        outcome = "too_long"
    return Refusal(outcome, text, _retry_after_s(response.headers.get("retry-after")))


def error_text(body: bytes) -> str:
    """The message of an error's body, on one line; the body itself where it has none."""
    try:
        raw: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return " ".join(body[:400].decode("utf-8", "replace").split())
    error = raw.get("error", raw) if isinstance(raw, dict) else raw
    message = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(message).split())


def _retry_after_s(header: str | None) -> float:
    """Seconds that the server asks for, at most 5; 1 if it names none."""
    if header is not None and re.fullmatch(r"\d+(\.\d+)?", header.strip()):
        return min(float(header), _MAX_RETRY_AFTER_S)
    return 1.0
