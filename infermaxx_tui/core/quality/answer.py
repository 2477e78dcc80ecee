"""What a reply gives as its answer, and whether that is the key: strict in value, fair in decoration.

Only the final answer counts, so that thinking aloud, a corrected mistake or a repeated question is neither held against
a reply nor counted for it.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Final

from infermaxx_tui.core.quality.stated import stated, taken_back, without_remark
from infermaxx_tui.core.quality.task import Form

_THOUGHT: Final = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_MARK: Final = re.compile(
    r"^[ \t*_#>`-]*(?:the +)?(?:final +)?answer(?: +is)?[ *_`]*(?::[*_]*(.*)|$)", re.IGNORECASE | re.MULTILINE
)
_SAID: Final = re.compile(
    r"^[ \t*_>-]*(?:(?:so|thus|hence|therefore),? +)?the +(?:final +|correct +)?answer +is\b(.*)",
    re.IGNORECASE | re.MULTILINE,
)
_FENCED: Final = re.compile(r"```[a-zA-Z]*\n(.*?)\n?```", re.DOTALL)
_BOXED: Final = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_LATEX: Final = re.compile(r"\\text\{([^{}]*)\}|\\[()\[\]]|\$")
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?")
_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_AROUND: Final = "*_`\"'“”‘’ \t\r\n"


def final_answer(content: str, form: Form = "text") -> str | None:
    """The text behind the last answer line, to the end of the reply; without such a line what stands last in it.

    A think block, closed or cut off, is no part of a reply. None if nothing is left. What stands last is the last box
    of LaTeX, a closing fenced block, JSON where that is asked for, or the last line, since many models answer a short
    question with the bare result.
    """
    text = _THOUGHT.sub("", content)
    text = text.rpartition("</think>")[2].strip()
    if not text:
        return None
    marks = list(_MARK.finditer(text))
    if marks:
        mark = marks[-1]
        return text[mark.end() if mark.group(1) is None else mark.start(1) :].strip() or None
    if form == "json" and (found := _last_json(text)) is not None:
        return found
    blocks = _FENCED.findall(text)
    if blocks and text.endswith("```"):
        return str(blocks[-1]).strip() or None
    return _last_words(text)


def _last_words(text: str) -> str:
    """The last box, what the last `The answer is` is followed by, or the last line."""
    last = text.splitlines()[-1].strip()
    boxes = list(_BOXED.finditer(text))
    if boxes and not _says_more(text[boxes[-1].end() :]):
        return boxes[-1].group(0)
    said = list(_SAID.finditer(text))
    if said and not _says_more(text[said[-1].end() :]):
        return said[-1].group(1).strip() or last
    return last


def _says_more(rest: str) -> bool:
    """Whether the text behind an answer may be another one, which then counts."""
    return any(char.isdigit() for char in rest) or taken_back(rest)


def _last_json(text: str) -> str | None:
    """The last JSON object or array that stands in a text by itself; None if there is none."""
    decoder, found, place = json.JSONDecoder(), None, 0
    for _ in range(_MOST_JSON):
        starts = [at for at in (text.find("{", place), text.find("[", place)) if at >= 0]
        if not starts:
            break
        place = min(starts)
        try:
            _, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place += 1
            continue
        found, place = text[place:end], end
    return found


_MOST_JSON: Final = 64
"""Braces and brackets of a reply that are tried."""


def plain(answer: str) -> str:
    """The first line of an answer without marks of emphasis, quotes, a box around it or a full stop."""
    fenced = _FENCED.match(answer)
    lines = (fenced.group(1) if fenced else answer).strip().splitlines()
    return _bare(lines[0] if lines else "")


def _bare(line: str) -> str:
    """A line without decoration."""
    line = _LATEX.sub(r"\1", line.replace("{,}", ",").replace("\\,", "")).strip(_AROUND).rstrip("." + _AROUND)
    boxed = _BOXED.fullmatch(line)
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


def is_right(
    answer: str, form: Form, expected: str, tolerance: float = 0.0, units: tuple[str, ...] = (), question: str = ""
) -> bool:
    """Whether an answer is the key: by value, character by character, item by item, or as JSON.

    A line of the question that is only said again states nothing.
    """
    if taken_back(answer):
        return False
    line = plain(answer)
    says = None if line in {_bare(one) for one in question.splitlines()} else line
    match form:
        case "number":
            said, key = _number_said(line, says, units), number_of(expected)
            return said is not None and key is not None and abs(said - key) <= Decimal(repr(tolerance))
        case "text":
            return expected in (line, _bare(stated(says) or "") if says else None)
        case "list":
            return _items(expected) in (_items(line), _items(stated(says) or "") if says else [], _listed(answer))
        case _:
            return _json_right(answer, expected)


def _number_said(line: str, says: str | None, units: tuple[str, ...]) -> Decimal | None:
    """The number that a line is, with or without a remark behind it, or that its sentence states."""
    number = number_of(line, units)
    if number is None:
        line = without_remark(line)
        number = number_of(_bare(line), units)
    if number is None and says is not None:
        number = number_of(_bare(stated(line) or ""), units)
    return number


def _listed(answer: str) -> list[str | Decimal]:
    """The items of a list that has a line for each."""
    lines = [line for line in answer.splitlines() if line.strip()]
    bullets = [line for line in lines if _ITEM.match(line)]
    if len(bullets) < 2 or len(bullets) < len(lines):
        return []
    return [_item(_ITEM.sub("", line)) for line in bullets]


def _items(text: str) -> list[str | Decimal]:
    """The items of a list, numbers by value. A comma inside a number of more than three digits is never meant."""
    bare = text.removeprefix("[").removesuffix("]")
    return [_item(item) for item in re.split(r",(?:\s*and )?| and (?!.*(?:,| and ))", bare)]


def _item(text: str) -> str | Decimal:
    bare = _bare(text)
    number = number_of(bare)
    return bare if number is None else number


def _json_right(answer: str, expected: str) -> bool:
    """By value. Text before and behind the JSON is none of it, unless there is more JSON behind."""
    fenced = _FENCED.search(answer)
    text = fenced.group(1) if fenced else answer.strip().strip("`*").strip()
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    text = text[min(starts, default=0) :]
    try:
        said, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return not any(char in text[end:] for char in "{[") and _alike(said, json.loads(expected))


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
