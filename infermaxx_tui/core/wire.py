"""What one event of an OpenAI-compatible stream says, typed, for `/v1/completions` and `/v1/chat/completions` alike.

A field that is not there is None, never 0 or an empty list. What cannot be read strictly is mended once, aloud:
the mending stands in the chunk's anomalies. NaN and Infinity are not JSON and are refused.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
import orjson

from infermaxx_tui.core.sse import NamedEvent, Payload, SseFault
from infermaxx_tui.core.wire_odd import MAX_COUNT, as_dict, as_json, as_text, count_of, one_line, usual_shape

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
"""Bounded, so that whatever a server sends can be written to the log and sent back."""


class _PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: Count | None = None


class _CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: Count | None = None


class Usage(msgspec.Struct, frozen=True):
    """The server's own token counts; what it did not say is None."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that came from the prefix cache."""
        return None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of the completion that a reasoning parser took as thinking."""
        return None if self.completion_tokens_details is None else self.completion_tokens_details.reasoning_tokens


class ToolDelta(msgspec.Struct, frozen=True, gc=False):
    """A fragment of a tool call. `index` None belongs to the call before, unless it brings an id."""

    index: int | None
    call_id: str | None
    name: str
    arguments: str


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """One event of the first choice. Text that is not there is empty."""

    content: str = ""
    """`delta.content`, or `text` of a completion."""
    reasoning: str = ""
    """`delta.reasoning`, else `delta.reasoning_content`."""
    tools: tuple[ToolDelta, ...] = ()
    token_ids: tuple[int, ...] | None = None
    """The ids generated since the chunk before; None if the server did not say."""
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    usage: Usage | None = None
    has_choice: bool = False
    """False for an event that carries usage or nothing."""
    role_only: bool = False
    """The opening of a chat reply: no token, whatever its usage says."""
    server_id: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    """The prompt as the server saw it, on the first chunk if asked for."""
    anomalies: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True):
    """`[DONE]`: the server sends no more. It does not mean success."""


class ServerError(msgspec.Struct, frozen=True):
    """The server reports an error inside the stream."""

    message: str
    """One line, at most 500 characters."""
    code: int | None = None


class Malformed(msgspec.Struct, frozen=True):
    """Not an event of this protocol; `detail` is one line."""

    detail: str


WireEvent = Chunk | Done | ServerError | Malformed

DONE = Done()


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Tool(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Tool] | None = None
    function_call: _Function | None = None
    role: str | None = None


_Ids = tuple[Count, ...]


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: _Ids | None = None
    prompt_token_ids: _Ids | None = None


class _Root(msgspec.Struct, gc=False):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: object = None
    prompt_token_ids: _Ids | None = None


_decode = msgspec.json.Decoder(_Root).decode


def plain_token(payload: bytes, server_id: str) -> _Choice | None:
    """The one choice of an event of this reply that brings ids and text alone; None for any other (see `parse`)."""
    try:
        root = _decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None
    choices = root.choices
    if not choices or len(choices) > 1 or root.usage is not None or root.error is not None:
        return None
    choice = choices[0]
    if (
        (root.id != server_id and root.id)
        or choice.index
        or choice.finish_reason
        or not choice.token_ids
        or choice.prompt_token_ids is not None
    ):
        return None
    delta = choice.delta
    tools = delta is not None and (delta.tool_calls or delta.function_call)
    return None if tools or root.prompt_token_ids is not None else choice


def parse(payload: Payload) -> WireEvent:
    """What one SSE payload says. Never raises: what is not an event of this protocol comes out as `Malformed`."""
    if type(payload) is bytes:
        if payload == b"[DONE]":
            return DONE
        try:
            root = _decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return _mend(payload)
        if root.choices and root.error is None:
            return _chunk(root, root.choices)
        return _without_choice(root, payload)
    if isinstance(payload, NamedEvent):
        return _named_error(payload.data) if payload.name == "error" else parse(payload.data)
    if isinstance(payload, SseFault):
        return Malformed(payload.detail)
    return parse(bytes(payload))


def _chunk(root: _Root, choices: list[_Choice], anomalies: tuple[str, ...] = ()) -> Chunk:
    choice = choices[0]
    if choice.index or len(choices) > 1:
        anomalies = (*anomalies, "multi_choice")
        first = [other for other in choices if not other.index]
        if not first:
            return Chunk(usage=root.usage, server_id=root.id, anomalies=anomalies)
        choice = first[0]
    content, reasoning, role_only = choice.text or "", "", False
    tools: tuple[ToolDelta, ...] = ()
    delta = choice.delta
    if delta is not None:
        content = delta.content or content
        reasoning = delta.reasoning or delta.reasoning_content or ""
        if delta.tool_calls or delta.function_call:
            tools = _tools(delta)
        role_only = delta.role is not None and not (content or reasoning or tools or choice.token_ids)
        role_only = role_only and not choice.finish_reason
    return Chunk(
        content,
        reasoning,
        tools,
        choice.token_ids,
        choice.finish_reason or None,
        choice.stop_reason,
        root.usage,
        True,
        role_only,
        root.id,
        root.prompt_token_ids if choice.prompt_token_ids is None else choice.prompt_token_ids,
        anomalies,
    )


def _tools(delta: _Delta) -> tuple[ToolDelta, ...]:
    calls = list(delta.tool_calls or ())
    if delta.function_call is not None:
        calls.append(_Tool(0, None, delta.function_call))
    return tuple(
        ToolDelta(call.index, call.id, call.function.name or "", call.function.arguments or "")
        if call.function is not None
        else ToolDelta(call.index, call.id, "", "")
        for call in calls
    )


def _without_choice(root: _Root, payload: bytes) -> WireEvent:
    """An error, a usage event, or an object of some other kind."""
    if root.error is not None or root.usage is None:
        return _read_object(payload, ())
    return Chunk(usage=root.usage, server_id=root.id, prompt_ids=root.prompt_token_ids)


_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _mend(payload: bytes) -> WireEvent:
    """The event in a payload that strict reading refused: bad UTF-8 and lone surrogates are replaced, and flagged."""
    if payload.strip() == b"[DONE]":
        return DONE
    anomalies: tuple[str, ...] = ()
    try:
        payload.decode()
    except UnicodeDecodeError:
        payload = payload.decode("utf-8", "replace").encode()
        anomalies = ("bad_utf8",)
    mended = _ESCAPES.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], payload)
    if mended != payload:
        payload = mended
        anomalies = (*anomalies, "lone_surrogate")
    try:
        root = _decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return _read_object(payload, (*anomalies, "odd_shape"))
    if root.choices and root.error is None:
        return _chunk(root, root.choices, anomalies)
    return _read_object(payload, anomalies)


def _read_object(payload: bytes, anomalies: tuple[str, ...]) -> WireEvent:
    """Whatever can be understood of a JSON object whose shape is not the usual one."""
    try:
        raw: object = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        return Malformed(one_line(f"not JSON ({error}): {as_text(payload[:200])}"))
    if not isinstance(raw, dict):
        return Malformed(one_line(f"not a JSON object: {as_text(payload[:200])}"))
    if raw.get("error") not in (None, "", False):
        return _server_error(raw["error"])
    if raw.get("object") == "error" or raw.get("type") == "error":
        return _server_error(raw)
    root = msgspec.convert(usual_shape(raw), _Root)
    if root.choices:
        return _chunk(root, root.choices, anomalies)
    return Chunk(usage=root.usage, server_id=root.id, anomalies=anomalies)


def _named_error(data: bytes) -> ServerError:
    """The error in an event of that name, whatever form its data has."""
    try:
        raw: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ServerError(one_line(as_text(data)) or "event: error without data")
    return _server_error((raw.get("error") if isinstance(raw, dict) else None) or raw)


def _server_error(raw: object) -> ServerError:
    fields = as_dict(raw)
    message = fields.get("message") or fields.get("detail") or raw
    code = count_of(fields.get("code"))
    if code is None:
        code = count_of(fields.get("status"))
    return ServerError(one_line(message if isinstance(message, str) else as_json(message)), code)
