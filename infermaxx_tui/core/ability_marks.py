"""The mark of each reply that tries an ability. A reply that hit its cap, or never came, has none.

A tool call counts as right only as a client gets it: an entry of the parsed array with valid JSON arguments, nothing of
it left as text in the content, and none of the calls lost. An answer counts only where a client looks for it: in the
content. What stands in the reasoning alone, or was generated and never delivered, has a mark of its own, since it is
the server's parser that has it and not the model that lacks it.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal

import orjson

from infermaxx_tui.core.abilities import Call
from infermaxx_tui.core.events_abilities import AbilityAnswered

Mark = Literal[
    "right",
    "other_call",
    "lost",
    "bad_json",
    "markup",
    "letters",
    "wrong",
    "reasoned",
    "reasoning_only",
    "swallowed",
    "capped",
    "error",
    "unsupported",
]
"""`other_call`: valid calls, but not those. `lost`: fewer calls than were asked for. `markup`: the call stands as text
in the content. `letters`: the right letters, case or blanks not. `reasoned`: right, and it thought although it was
told not to. `reasoning_only`: all that came stands in the reasoning. `swallowed`: the server counts an answer's tokens,
and nothing of them came."""
BLIND: Final[frozenset[Mark]] = frozenset({"capped", "error", "unsupported"})
"""Marks of what could not be seen."""
_MARKUP: Final = re.compile(r"<\W{0,3}(?:\w+:)?tool|<function|\[TOOL_CALLS\]|\{\s*\"name\"\s*:", re.IGNORECASE)
_CALLED: Final = re.compile(r"\"name\"\s*:\s*\"(?:get_weather|find_files)|\b(?:get_weather|find_files)\W{0,3}[({]")
"""A call as other parsers would have it. Beside a call that came it may be talk."""
_UNSUPPORTED: Final = re.compile(
    r"tool[- _]choice|tool[- _]call|not a multimodal|multimodal|image|does not support|chat.?template", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
_THOUGHT_ENDS: Final = "</think>"
_SILENT_TOKENS: Final = 8
"""So many may be an end of turn and blanks, which show nothing. No call and no answer with its line is as short."""


def mark(one: AbilityAnswered) -> Mark:
    """What a reply is worth."""
    if one.status != 200:
        refused = one.status is not None and 400 <= one.status < 500 and _UNSUPPORTED.search(one.error or "")
        return "unsupported" if refused else "error"
    if one.error is not None:
        return "error"
    if one.finish_reason in (None, "length") or (one.completion_tokens or 0) >= one.max_tokens - 1:
        return "capped"
    if not one.calls and not _answer(one).strip():
        if _swallowed(one):
            return "swallowed"
        if reasons(one):
            return "reasoning_only"
    match one.kind:
        case "tools":
            return _calls(one)
        case "vision":
            return _seen(one)
        case "thinking":
            return _thought(one)


def reasons(one: AbilityAnswered) -> bool:
    """Whether the reply holds reasoning, by its text or, where that is not sent, by its tokens.

    A block that holds blanks alone is no reasoning: templates and models put it there to say that there is none.
    """
    if one.reasoning.strip():
        return True
    if not one.reasoning and (one.reasoning_chars or one.reasoning_tokens):
        return True
    before, _, _ = one.content.rpartition(_THOUGHT_ENDS)
    return bool(before.replace("<think>", "").strip())


def _swallowed(one: AbilityAnswered) -> bool:
    """Whether tokens are missing. A server that counts no reasoning where there is some counts it elsewhere."""
    if reasons(one) and not one.reasoning_tokens:
        return False
    return (one.completion_tokens or 0) - (one.reasoning_tokens or 0) > _SILENT_TOKENS


def as_called(one: AbilityAnswered) -> tuple[Mark, tuple[tuple[str, object], ...]]:
    """The same for two replies that come to the same for a client: the mark, and each call with its arguments."""
    return mark(one), tuple((call.name, _read(call)[1] or call.arguments) for call in one.calls)


def as_answered(one: AbilityAnswered) -> str:
    """The last number of the answer, or all of an answer without one."""
    said = _answer(one)
    numbers = _NUMBER.findall(said)
    return numbers[-1].replace(",", "") if numbers else said.strip()


def _answer(one: AbilityAnswered) -> str:
    """The content without what was thought in it, which a server without a reasoning parser leaves there."""
    return one.content.rpartition(_THOUGHT_ENDS)[2]


def _calls(one: AbilityAnswered) -> Mark:
    said = _answer(one)
    if _MARKUP.search(said):
        return "markup"
    if len(one.calls) < len(one.expected):
        return "markup" if _CALLED.search(said) else "lost"
    read = [_read(call) for call in one.calls]
    if any(arguments is None for _, arguments in read):
        return "bad_json"
    wanted = Counter(_text(call.name, _read(call)[1]) for call in one.expected)
    return "right" if Counter(_text(name, arguments) for name, arguments in read) == wanted else "other_call"


def _read(call: Call) -> tuple[str, object]:
    """Name and arguments; None for arguments that are no JSON object."""
    try:
        arguments = orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        return call.name, None
    return call.name, arguments if isinstance(arguments, dict) else None


def _text(name: str, arguments: object) -> str:
    """The same for the same call, whatever the order and the case of its words."""
    return f"{name} {orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS).decode()}".casefold()


def _seen(one: AbilityAnswered) -> Mark:
    said = _answer(one).strip()
    if said == one.answer:
        return "right"
    return "letters" if _bare(one.answer) in _bare(said) else "wrong"


def _bare(text: str) -> str:
    return "".join(text.split()).casefold()


def _thought(one: AbilityAnswered) -> Mark:
    if as_answered(one) != one.answer:
        return "wrong"
    return "reasoned" if one.case == "off" and reasons(one) else "right"
