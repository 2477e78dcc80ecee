"""What one OpenHands event means for a prompt: of the SDK's kinds, and of the actions and observations before them."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from infermaxx_tui.core.transcript import Message, Usage
from infermaxx_tui.importers.blocks import flatten, tool_call
from infermaxx_tui.importers.chat_messages import read_reply, read_usage, tools_text
from infermaxx_tui.importers.values import (
    JsonObject,
    as_count,
    as_ids,
    as_list,
    as_object,
    as_text,
    epoch_s,
    first,
)


class Event(NamedTuple):
    """An event that takes part in a prompt, or that changes which ones do."""

    id: str
    kind: Literal["system", "user", "reply", "result", "condensation", "ids"]
    text: str = ""
    message: Message = Message("assistant")
    """A reply, or the part of one that this event holds."""
    group: str = ""
    """What all parts of one reply share."""
    call_id: str = ""
    time_s: float | None = None
    person: bool = False
    tools: str = ""
    usage: Usage = Usage()
    forgotten: frozenset[str] = frozenset()
    offset: int = 0
    """Where a condensation's summary is put."""
    prompt_ids: tuple[int, ...] = ()
    reply_ids: tuple[int, ...] = ()


_SDK = frozenset(
    {
        "SystemPromptEvent",
        "MessageEvent",
        "ActionEvent",
        "ObservationEvent",
        "UserRejectObservation",
        "AgentErrorEvent",
        "Condensation",
        "TokenEvent",
    }
)
_BOOKKEEPING = frozenset(
    {
        "ConversationStateUpdateEvent",
        "CondensationRequest",
        "PauseEvent",
        "ConversationErrorEvent",
        "LLMCompletionLogEvent",
    }
)


def is_event(value: JsonObject) -> bool:
    """Whether an object looks like an event, of either generation."""
    if as_text(value.get("kind")) in _SDK | _BOOKKEEPING:
        return True
    old = isinstance(value.get("action"), str) or isinstance(value.get("observation"), str)
    return old and as_text(value.get("source")) in {"user", "agent", "environment"}


def read_event(value: JsonObject, loss: Counter[str]) -> Event | None:
    """The event, None if it is for the program alone; kinds that nobody knows are counted."""
    if "kind" in value:
        return _sdk(value, loss)
    return _old(value, loss)


def _text(value: object, loss: Counter[str]) -> str:
    return "\n".join(flatten([value] if isinstance(value, dict) else value, loss).texts)


def _sdk(value: JsonObject, loss: Counter[str]) -> Event | None:
    name, time_s = as_text(value.get("id")), epoch_s(value.get("timestamp"))
    match as_text(value.get("kind")):
        case "SystemPromptEvent":
            texts = (_text(value.get(key), loss) for key in ("system_prompt", "dynamic_context"))
            tools = tools_text([_tool(as_object(tool)) for tool in as_list(value.get("tools"))], None)
            return Event(name, "system", "\n\n".join(text for text in texts if text), tools=tools)
        case "MessageEvent":
            return _sdk_message(value, name, time_s, loss)
        case "ActionEvent":
            return _sdk_action(value, name, time_s, loss)
        case "ObservationEvent":
            body = as_object(value.get("observation"))
            text = _text(first(body, "content", "output"), loss)
            return Event(name, "result", text, call_id=as_text(value.get("tool_call_id")), time_s=time_s)
        case "UserRejectObservation" | "AgentErrorEvent":
            text = as_text(first(value, "error", "rejection_reason"))
            return Event(name, "result", text, call_id=as_text(value.get("tool_call_id")), time_s=time_s)
        case "Condensation":
            gone = frozenset(as_text(item) for item in as_list(value.get("forgotten_event_ids")))
            at = as_count(value.get("summary_offset")) or 0
            return Event(name, "condensation", as_text(value.get("summary")), forgotten=gone, offset=at)
        case "TokenEvent":
            prompt, reply = as_ids(value.get("prompt_token_ids")), as_ids(value.get("response_token_ids"))
            return Event(name, "ids", prompt_ids=prompt, reply_ids=reply)
        case kind:
            loss["unknown_record"] += kind not in _BOOKKEEPING
            return None


def _sdk_message(value: JsonObject, name: str, time_s: float | None, loss: Counter[str]) -> Event:
    message = as_object(value.get("llm_message"))
    if value.get("source") == "agent" or message.get("role") == "assistant":
        group = as_text(value.get("llm_response_id")) or name
        return Event(name, "reply", message=read_reply(message, loss), group=group, time_s=time_s)
    texts = (_text(message.get("content"), loss), _text(value.get("extended_content"), loss))
    return Event(name, "user", "\n".join(text for text in texts if text), time_s=time_s, person=True)


def _sdk_action(value: JsonObject, name: str, time_s: float | None, loss: Counter[str]) -> Event:
    call = as_object(value.get("tool_call"))
    function = as_object(call.get("function")) or call
    call_id = as_text(value.get("tool_call_id")) or as_text(call.get("id"))
    reasonings = flatten(value.get("thinking_blocks"), loss).reasonings
    message = Message(
        "assistant",
        _text(value.get("thought"), loss),
        as_text(value.get("reasoning_content")) or "\n".join(reasonings),
        (tool_call(call_id, function.get("name") or value.get("tool_name"), function.get("arguments"), loss),),
    )
    group = as_text(value.get("llm_response_id")) or name
    return Event(name, "reply", message=message, group=group, call_id=call_id, time_s=time_s)


def _tool(tool: JsonObject) -> JsonObject:
    """A tool as chat templates expect it, also where the file holds the SDK's own description."""
    if "function" in tool:
        return tool
    named = first(tool, "name", "title", "kind")
    parameters = first(tool, "parameters", "input_schema", "inputSchema")
    return {"type": "function", "function": {**tool, "name": named, "parameters": parameters or {"type": "object"}}}


def _old(value: JsonObject, loss: Counter[str]) -> Event | None:
    """An event of the first generation, whose own counts add up over the run; those of single replies are used."""
    name, time_s = str(value.get("id")), epoch_s(value.get("timestamp"))
    arguments = as_object(value.get("args"))
    metadata = as_object(value.get("tool_call_metadata"))
    call_id = as_text(metadata.get("tool_call_id"))
    action = value.get("action")
    if action == "system":
        return Event(name, "system", as_text(arguments.get("content")), tools=tools_text(arguments.get("tools"), None))
    if isinstance(value.get("observation"), str):
        text = as_text(value.get("content"))
        if call_id:
            return Event(name, "result", text, call_id=call_id, time_s=time_s)
        return None if value.get("source") == "environment" else Event(name, "user", text, time_s=time_s)
    if action == "message" and value.get("source") == "user":
        return Event(name, "user", as_text(arguments.get("content")), time_s=time_s, person=True)
    response = as_object(metadata.get("model_response"))
    if response:
        message = as_object(as_object(first_of(response.get("choices"))).get("message"))
        reply, usage = read_reply(message, loss), read_usage(response.get("usage"))
        return Event(
            name, "reply", message=reply, group=as_text(response.get("id")) or name, time_s=time_s, usage=usage
        )
    if value.get("source") == "agent" and action == "message":
        return Event(name, "reply", message=Message("assistant", as_text(arguments.get("content"))), group=name)
    return None


def first_of(value: object) -> object:
    """The first item of a list, None without one."""
    return next(iter(as_list(value)), None)
