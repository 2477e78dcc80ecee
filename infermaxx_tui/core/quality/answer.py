"""What a reply gives as its answer, and whether that is the key: strict in value, fair in decoration.

Only the final answer counts, so that thinking aloud, a corrected mistake or a repeated question is neither held against
a reply nor counted for it.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final

from infermaxx_tui.core.quality.task import Form

_THOUGHT: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_MARK: Final = re.compile(
    r"^[ \t*_#>`-]*(?:the +)?(?:final +)?answer(?: +is)?[ *_`]*:[*_]*(.*)", re.IGNORECASE | re.MULTILINE
)
_FENCED: Final = re.compile(r"```[a-zA-Z]*\n(.*?)\n?```", re.DOTALL)
_BOXED: Final = re.compile(r"\$*\\boxed\{([^{}]*)\}\$*\.?")
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?")
_AROUND: Final = "*_`\"'“”‘’ \t\r\n"


def final_answer(content: str) -> str | None:
    """The text behind the last answer line, to the end of the reply; without such a line the reply's last line.

    A think block, closed or cut off, is no part of a reply. None if nothing is left. A last line is taken because many
    models answer a short question with the bare result; more than one line of prose answers nothing.
    """
    text = _THOUGHT.sub("", content)
    text = text.rpartition("</think>")[2].strip()
    if not text:
        return None
    marks = list(_MARK.finditer(text))
    if marks:
        return text[marks[-1].start(1) :].strip() or None
    blocks = _FENCED.findall(text)
    if blocks and text.endswith("```"):
        return str(blocks[-1]).strip() or None
    return text.splitlines()[-1].strip()


def plain(answer: str) -> str:
    """The first line of an answer without marks of emphasis, quotes, a box around it or a full stop."""
    fenced = _FENCED.match(answer)
    lines = (fenced.group(1) if fenced else answer).strip().splitlines()
    line = lines[0] if lines else ""
    boxed = _BOXED.fullmatch(line.strip(_AROUND))
    line = boxed.group(1) if boxed else line
    return line.strip(_AROUND).removesuffix(".").strip(_AROUND)


def number_of(text: str, units: tuple[str, ...] = ()) -> Decimal | None:
    """The one number that a text is, with one of the units behind it or none; None if it is anything else.

    `1,024` is a thousand and twenty-four: a comma is only read between groups of three digits.
    """
    text = text.replace("\u2212", "-").replace("$", "").strip()
    found = _NUMBER.match(text)
    if found is None:
        return None
    rest = text[found.end() :].replace("\u00a0", " ").strip()
    if rest and rest.casefold() not in {unit.casefold() for unit in units}:
        return None
    return Decimal(found.group(0).replace(",", ""))


def is_right(answer: str, form: Form, expected: str, tolerance: float = 0.0, units: tuple[str, ...] = ()) -> bool:
    """Whether an answer is the key: by value, character by character, item by item, or as JSON."""
    match form:
        case "number":
            said, key = number_of(plain(answer), units), number_of(expected)
            return said is not None and key is not None and abs(said - key) <= Decimal(repr(tolerance))
        case "text":
            return plain(answer) == expected
        case "list":
            return _items(plain(answer)) == _items(expected)
        case _:
            return _json_right(answer, expected)


def _items(text: str) -> list[str | Decimal]:
    """The items of a list, numbers by value. A comma inside a number of more than three digits is never meant."""
    bare = text.removeprefix("[").removesuffix("]")
    items = [item.strip(_AROUND) for item in bare.split(",")]
    numbers = [number_of(item) for item in items]
    return [item if number is None else number for item, number in zip(items, numbers, strict=True)]


def _json_right(answer: str, expected: str) -> bool:
    fenced = _FENCED.search(answer)
    text = fenced.group(1) if fenced else answer.strip().strip("`*").strip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return _alike(said, json.loads(expected))


def _alike(one: object, other: object) -> bool:
    """JSON equality: numbers by value, and true is not 1."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case (dict(), dict()):
            return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
        case (list(), list()):
            return len(one) == len(other) and all(map(_alike, one, other))
        case _:
            return one == other
