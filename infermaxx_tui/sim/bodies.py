"""The request bodies of the endpoints, typed, and the checks that vLLM makes of them, in its words (vllm-wire §2)."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from infermaxx_tui.core.transcript import Message, Role, ToolCall
from infermaxx_tui.sim.http import Refusal, Request, bad_request, error_response

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
_SALT_REFUSED = frozenset("@/\\\0")
_MAX_SALT = 128


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream tells besides its text."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """What both generating endpoints take."""

    model: str | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    seed: int | None = None
    n: int | None = None
    cache_salt: str | None = None
    ignore_eos: bool = False
    return_token_ids: bool | None = None
    skip_special_tokens: bool = True
    request_id: str | None = None


class CompletionBody(Common, frozen=True, kw_only=True):
    """The body of /v1/completions."""

    prompt: str | list[int] | None = None


class Part(msgspec.Struct, frozen=True):
    """A piece of a message's content."""

    type: str = "text"
    text: str = ""


class Function(msgspec.Struct, frozen=True):
    """What a call calls."""

    name: str
    arguments: str = "{}"


class Call(msgspec.Struct, frozen=True):
    """A tool call in a message."""

    function: Function
    id: str = ""


class ChatMessage(msgspec.Struct, frozen=True):
    """A message as it comes over the wire."""

    role: str
    content: str | list[Part] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class ChatBody(Common, frozen=True, kw_only=True):
    """The body of /v1/chat/completions."""

    messages: list[ChatMessage] = []
    tools: list[msgspec.Raw] | None = None
    tool_choice: object = None
    max_completion_tokens: int | None = None
    add_generation_prompt: bool = True
    chat_template_kwargs: dict[str, msgspec.Raw] | None = None


class TokenizeBody(msgspec.Struct, frozen=True):
    """The body of /tokenize: a prompt, or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[msgspec.Raw] | None = None
    return_token_strs: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class DetokenizeBody(msgspec.Struct, frozen=True):
    """The body of /detokenize."""

    tokens: list[int]
    model: str | None = None


Body = TypeVar("Body", CompletionBody, ChatBody, TokenizeBody, DetokenizeBody)


def parse(request: Request, kind: type[Body]) -> Body:
    """The body of a request. Raises Refusal with vLLM's 400 for what is not one."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise _invalid("  Unsupported Media Type: Only 'application/json' is allowed", None)
    try:
        return msgspec.json.decode(request.body, type=kind)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = f"body{where.rstrip('`')}"
        raise _invalid(f"  {{'type': 'type_error', 'loc': '{place}', 'msg': '{what}'}}", place) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        detail = f"  {{'type': 'json_invalid', 'loc': 'body.1', 'msg': 'JSON decode error', 'ctx': '{error}'}}"
        raise _invalid(detail, None) from None


def _invalid(detail: str, param: str | None) -> Refusal:
    return Refusal(error_response(400, f"1 validation error:\n{detail}", "Bad Request", param))


def check_common(body: Common) -> None:
    """Refuses parameters that make no sense. Raises Refusal."""
    if body.stream_options is not None and not body.stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
    if body.temperature is not None and body.temperature < 0:
        raise bad_request(f"temperature must be non-negative, got {body.temperature}.", "temperature", body.temperature)
    if "" in stops_of(body):
        raise bad_request("stop cannot contain an empty string.")
    if body.n not in (None, 1):
        raise bad_request(f"n must be 1 on this simulated server, got {body.n}.", "n", body.n)
    salt = body.cache_salt
    if salt == "":
        raise bad_request("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
    if salt is not None and (len(salt) > _MAX_SALT or not _SALT_REFUSED.isdisjoint(salt)):
        rule = "must be at most 128 characters and must not contain '@', '/', '\\\\', or NUL."
        raise bad_request(f"Parameter 'cache_salt' {rule}", "cache_salt")


def stops_of(body: Common) -> tuple[str, ...]:
    """The stop strings."""
    if body.stop is None:
        return ()
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)


def budget(body: Common, asked: int | None, prompt_tokens: int, max_model_len: int, default: int | None) -> int:
    """How many tokens may be generated: what was asked for, silently cut to what the window leaves.

    `default` None means the rest of the window. Raises Refusal for a prompt that is too long and for impossible wishes.
    """
    if prompt_tokens > max_model_len:
        raise too_long(prompt_tokens, max_model_len)
    if asked is not None and asked > max_model_len:
        name = "max_completion_tokens" if isinstance(body, ChatBody) else "max_tokens"
        limit = f"{name}={asked} cannot be greater than max_model_len={max_model_len}."
        raise bad_request(f"{limit} Please request fewer output tokens.", name, asked)
    room = max_model_len - prompt_tokens
    wanted = asked if asked is not None else default if default is not None else room
    granted = min(wanted, room)
    if granted < 1:
        raise bad_request(f"max_tokens must be at least 1, got {granted}.", "max_tokens", granted)
    return granted


def too_long(prompt_tokens: int, max_model_len: int) -> Refusal:
    """The 400 for a prompt that does not fit (vllm-wire §2.3)."""
    return bad_request(
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains {prompt_tokens}"
        " input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input"
        " prompt.",
        "input_tokens",
        prompt_tokens,
    )


def messages_of(wire: list[ChatMessage]) -> tuple[Message, ...]:
    """The messages of a request. Raises Refusal for none and for a role that nobody has."""
    if not wire:
        raise bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    out = []
    for message in wire:
        role = _ROLES.get(message.role)
        if role is None:
            raise bad_request(f"Unexpected message role: {message.role}", "messages")
        content = message.content or ""
        if not isinstance(content, str):
            other = next((part.type for part in content if part.type != "text"), None)
            if other is not None:
                raise bad_request(f"infermaxx-sim is not a multimodal model: it takes no {other}", "messages")
            content = "\n".join(part.text for part in content)
        calls = tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ())
        reasoning = message.reasoning or message.reasoning_content or ""
        out.append(Message(role, content, reasoning, calls, message.tool_call_id or "", message.name or ""))
    return tuple(out)


def tools_of(tools: list[msgspec.Raw] | None) -> str:
    """The tool list as JSON text, empty for none. Raises Refusal for a list of nothing."""
    if tools is None:
        return ""
    if not tools:
        raise bad_request("`tools` must not be an empty list.", "tools")
    return "[" + ",".join(bytes(tool).decode() for tool in tools) + "]"
