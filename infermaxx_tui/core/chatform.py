"""Messages in the shape that chat templates and servers expect, with what people said kept apart from control tokens.

A transcript of somebody who develops LLM tools holds strings such as `<|im_end|>`. Rendered as they are, they become
real control tokens and break the turn in two. So before rendering each such string is replaced by one character that
no text of the conversation holds, and after rendering the text is cut inside the string, where no tokenizer can see
it as one token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from infermaxx_tui.core.transcript import Message

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))
"""Unicode's private-use areas: no tokenizer has a control token there, and templates pass them through."""


def arguments_object(text: str) -> tuple[dict[str, object], bool]:
    """Tool-call arguments as templates need them, and whether they had to be wrapped.

    Templates iterate over a mapping, and a string that is written as JSON once more is encoded twice. Empty text is an
    empty object; what is not a JSON object comes back whole under the key `arguments`.
    """
    if not text.strip():
        return {}, False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"arguments": text}, True
    return (value, False) if isinstance(value, dict) else ({"arguments": value}, True)


def wrapped_arguments(messages: Iterable[Message]) -> int:
    """How many tool calls have arguments that are not a JSON object, and are rendered wrapped in one."""
    return sum(arguments_object(call.arguments)[1] for message in messages for call in message.tool_calls)


def chat_messages(messages: Iterable[Message], arguments_as_text: bool = False) -> list[object]:
    """Messages as OpenAI-style objects: content is always text, reasoning stands under both names in use.

    Arguments are objects for a template, JSON text for a server (`arguments_as_text`).
    """
    return [_chat_message(message, arguments_as_text) for message in messages]


def _chat_message(message: Message, arguments_as_text: bool) -> dict[str, object]:
    out: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        out["reasoning_content"] = out["reasoning"] = message.reasoning
    if message.tool_calls:
        calls: list[object] = []
        for call in message.tool_calls:
            value = arguments_object(call.arguments)[0]
            arguments: object = json.dumps(value, ensure_ascii=False) if arguments_as_text else value
            calls.append({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        out["tool_calls"] = calls
    if message.tool_call_id:
        out["tool_call_id"] = message.tool_call_id
    if message.name:
        out["name"] = message.name
    return out


def chat_tools(tools: str) -> list[object] | None:
    """The tool list in OpenAI's shape, None if there is none. Raises ValueError if it is not a JSON list of objects.

    Entries in Anthropic's shape (`input_schema`) and bare functions are put into a `function` object.
    """
    if not tools.strip():
        return None
    try:
        listed = json.loads(tools)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the tool list is not JSON: {error}") from None
    if not isinstance(listed, list) or not all(isinstance(tool, dict) for tool in listed):
        raise ValueError("the tool list is not a JSON list of objects")
    return [_chat_tool(tool) for tool in listed] or None


def _chat_tool(tool: Mapping[str, object]) -> object:
    if "function" in tool:
        return tool
    function = {"name": tool.get("name", ""), "description": tool.get("description", "")}
    function["parameters"] = tool.get("parameters") or tool.get("input_schema") or {"type": "object", "properties": {}}
    return {"type": "function", "function": function}


def strings(value: object) -> Iterator[str]:
    """All strings of a JSON value, object keys included."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from strings(item)
        case _:
            return


def replaced(value: object, change: Callable[[str], str]) -> object:
    """The JSON value with `change` applied to all of its strings, object keys included."""
    match value:
        case str():
            return change(value)
        case list():
            return [replaced(item, change) for item in value]
        case dict():
            return {change(key): replaced(item, change) for key, item in value.items()}
        case _:
            return value


def found_in(value: object, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """The different matches of `pattern` in a JSON value's strings, sorted."""
    return tuple(sorted({match for text in strings(value) for match in pattern.findall(text)}))


def any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds any of the tokens, the longest first; for no tokens, one that finds nothing."""
    listed = sorted((token for token in tokens if token), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, listed)) or r"(?!)")


def stand_ins(tokens: Collection[str], value: object) -> dict[str, str]:
    """For each token one private-use character that occurs in no string of the JSON value."""
    if not tokens:
        return {}
    used = set[str]().union(*strings(value))
    free = (chr(code) for area in _PRIVATE_USE for code in area if chr(code) not in used)
    return dict(zip(tokens, free, strict=False))


def hide(text: str, hidden: Mapping[str, str]) -> str:
    """The text with each token replaced by its stand-in."""
    return any_of(hidden).sub(lambda match: hidden[match.group(0)], text) if hidden else text


def hide_all(values: list[object], hidden: Mapping[str, str]) -> list[object]:
    """The JSON values with each token in them replaced by its stand-in."""
    return [replaced(value, lambda text: hide(text, hidden)) for value in values] if hidden else values


def plain_pieces(text: str, hidden: Mapping[str, str]) -> tuple[str, ...]:
    """The rendered text with the stand-ins turned back into their tokens, cut after the first character of each.

    Encoded one by one and joined, the pieces give the same text and never one of those tokens.
    """
    tokens = {char: token for token, char in hidden.items()}
    pieces = [""]
    for part in re.split(f"([{''.join(tokens)}])", text) if tokens else [text]:
        token = tokens.get(part)
        if token is None:
            pieces[-1] += part
        else:
            pieces[-1] += token[0]
            pieces.append(token[1:])
    return tuple(piece for piece in pieces if piece)
