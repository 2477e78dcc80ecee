"""The mark of each reply that tries an ability, and their figures. A reply that hit its cap, or never came, has none.

A tool call counts as right only as a client gets it: an entry of the parsed array with valid JSON arguments, nothing of
it left as text in the content, and none of the calls lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import orjson

from infermaxx_tui.core.abilities import CASES, Ability, Call
from infermaxx_tui.core.events_abilities import AbilityAnswered
from infermaxx_tui.core.measures import Measure

Mark = Literal[
    "right",
    "other_call",
    "lost",
    "bad_json",
    "markup",
    "letters",
    "wrong",
    "reasoned",
    "capped",
    "error",
    "unsupported",
]
"""`other_call`: valid calls, but not those. `lost`: fewer calls than were asked for. `markup`: the call stands as text
in the content. `letters`: the right letters, case or blanks not. `reasoned`: right, and it thought although it was
told not to."""
_BLIND: Final[frozenset[Mark]] = frozenset({"capped", "error", "unsupported"})
_MARKUP: Final = re.compile(r"<\|?/?tool|<function|\[TOOL_CALLS\]|\{\s*\"name\"\s*:", re.IGNORECASE)
_UNSUPPORTED: Final = re.compile(
    r"tool[- _]choice|tool[- _]call|not a multimodal|multimodal|image|does not support|chat.?template", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def mark(one: AbilityAnswered) -> Mark:
    """What a reply is worth."""
    if one.status != 200:
        refused = one.status is not None and 400 <= one.status < 500 and _UNSUPPORTED.search(one.error or "")
        return "unsupported" if refused else "error"
    if one.error is not None:
        return "error"
    if one.finish_reason in (None, "length") or (one.completion_tokens or 0) >= one.max_tokens - 1:
        return "capped"
    match one.kind:
        case "tools":
            return _calls(one)
        case "vision":
            return _seen(one)
        case "thinking":
            return _thought(one)


def _calls(one: AbilityAnswered) -> Mark:
    if _MARKUP.search(one.content):
        return "markup"
    if len(one.calls) < len(one.expected):
        return "lost"
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
    said = one.content.strip()
    if said == one.answer:
        return "right"
    return "letters" if _bare(one.answer) in _bare(said) else "wrong"


def _bare(text: str) -> str:
    return "".join(text.split()).casefold()


def _thought(one: AbilityAnswered) -> Mark:
    numbers = _NUMBER.findall(one.content)
    if not numbers or numbers[-1].replace(",", "") != one.answer:
        return "wrong"
    return "reasoned" if one.case == "off" and reasons(one) else "right"


def reasons(one: AbilityAnswered) -> bool:
    """Whether the reply holds reasoning, by its tokens or its text."""
    return bool(one.reasoning_tokens or one.reasoning_chars or "</think>" in one.content)


def ability_measures(
    abilities: Sequence[Ability], answers: Iterable[AbilityAnswered], withheld: str | None = None
) -> tuple[Measure, ...]:
    """Right answers of each case, with all marks beside them; of thinking also what it costs, and whether off is off.

    `withheld`: why no speed of the run may be shown.
    """
    every = list(answers)
    found: list[Measure] = []
    for place, ability in enumerate(abilities):
        for case in CASES[ability.kind]:
            got = [one for one in every if (one.ability, one.case) == (place, case)]
            planned = ability.n * (4 if case == "concurrent" else 1)
            name = f"{ability.kind}.{case}"
            found.append(_share(f"{name}.right", got, planned, lambda one: mark(one) in ("right", "reasoned")))
            if ability.kind == "vision":
                found.append(_share(f"{name}.letters", got, planned, lambda one: mark(one) in ("right", "letters")))
            if ability.kind == "thinking":
                found += _costs(name, got, planned, withheld)
            if case == "off":
                found.append(_share(f"{name}.is_off", got, planned, lambda one: not reasons(one)))
    return tuple(found)


def _share(name: str, got: list[AbilityAnswered], planned: int, holds: Callable[[AbilityAnswered], bool]) -> Measure:
    counted = [one for one in got if mark(one) not in _BLIND]
    marks = Counter(mark(one) for one in got)
    return Measure(
        name=name,
        unit="of 1",
        values=tuple(float(holds(one)) for one in counted),
        better="more",
        planned=planned,
        reason=_missing(got, planned),
        note=", ".join(f"{count} {kind}" for kind, count in marks.most_common()) or None,
    )


def _costs(name: str, got: list[AbilityAnswered], planned: int, withheld: str | None) -> list[Measure]:
    counted = [one for one in got if mark(one) not in _BLIND]
    tokens = [float(one.completion_tokens) for one in counted if one.completion_tokens is not None]
    seconds = [one.total_ms / 1000 for one in counted] if withheld is None else []
    missing = _missing(got, planned)
    slow = missing if withheld is None else f"withheld: {withheld}"
    speed = Measure(
        name=f"{name}.seconds",
        unit="s",
        values=tuple(seconds),
        better="less",
        is_speed=True,
        planned=planned,
        reason=slow,
    )
    size = Measure(
        name=f"{name}.tokens", unit="tokens", values=tuple(tokens), better="less", planned=planned, reason=missing
    )
    return [speed, size]


def _missing(got: list[AbilityAnswered], planned: int) -> str | None:
    blind = next(((mark(one), one) for one in got if mark(one) in _BLIND), None)
    if blind is not None:
        kind, one = blind
        said = one.error or (f"its budget of {one.max_tokens} tokens was used up" if kind == "capped" else "no answer")
        return f"{kind}: {said}"
    return f"{planned - len(got)} of {planned} were not asked" if len(got) < planned else None
