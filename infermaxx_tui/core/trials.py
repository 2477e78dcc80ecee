"""The questions that try an ability, each with its key, drawn from a seed so that two arms are asked the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import orjson

from infermaxx_tui.core.abilities import AT_ONCE, CASES, Ability, AbilityKind, Call, Case
from infermaxx_tui.core.plan import draw

TURNS_BEFORE: Final = 10
_CITIES: Final = (
    "Oslo", "Lima", "Cairo", "Porto", "Hanoi", "Quito", "Turin", "Dakar", "Perth", "Sofia", "Minsk", "Accra",
)  # fmt: skip
_UNITS: Final = ("celsius", "fahrenheit")
_LETTERS: Final = "ABCDEFHKLMNPRSTUVXYZ"
"""Without those that are easily taken for a digit or another letter."""


class Turn(msgspec.Struct, frozen=True):
    """An earlier question with the call that was made and its result."""

    question: str
    call: Call
    result: str


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One question of one case."""

    ability: int
    kind: AbilityKind
    case: Case
    rep: int
    place: int = 0
    """Which of those that are sent at once."""
    question: str
    expected: tuple[Call, ...] = ()
    """Of tools."""
    answer: str = ""
    """Of vision the text in the image, of thinking the number."""
    before: tuple[Turn, ...] = ()
    stream: bool = True
    thinking: bool | None = None
    """None: as the model does by itself."""


def trials(abilities: Sequence[Ability], seed: int) -> Iterator[tuple[Trial, ...]]:
    """All questions, in groups that are sent at once."""
    for place, ability in enumerate(abilities):
        for case in CASES[ability.kind]:
            for rep in range(ability.n):
                count = AT_ONCE if case == "concurrent" else 1
                yield tuple(_trial(seed, place, ability.kind, case, rep, beside) for beside in range(count))


def _trial(seed: int, ability: int, kind: AbilityKind, case: Case, rep: int, place: int) -> Trial:
    # the same in each case and with each choice, so that what differs there is not the question
    number = draw(seed, "ability", kind, rep, place, *((case,) if case == "two" else ()))
    blank = Trial(ability=ability, kind=kind, case=case, rep=rep, place=place, question="")
    replace = msgspec.structs.replace
    match kind:
        case "tools":
            question, expected = _weather(number, 2 if case == "two" else 1)
            return replace(
                blank,
                question=question,
                expected=expected,
                before=tuple(_turn(seed, rep, turn) for turn in range(TURNS_BEFORE)) if case == "after_turns" else (),
                stream=case not in ("plain", "two"),
                thinking=True if case == "streamed_thinking" else None,
            )
        case "vision":
            question = "Which text stands in the image? Reply with that text alone."
            return replace(blank, question=question, answer=_picture_text(number), stream=False)
        case "thinking":
            a, b, c = 12 + number % 80, 11 + number // 80 % 80, 3 + number // 6400 % 40
            question = f"What is {a} * {b} + {c}? End with a line that holds the number alone."
            return replace(blank, question=question, answer=str(a * b + c), thinking=case == "on")


def _weather(number: int, count: int) -> tuple[str, tuple[Call, ...]]:
    cities = [_CITIES[(number + 5 * place) % len(_CITIES)] for place in range(count)]
    unit = _UNITS[number // 64 % 2]
    asked = f"Use get_weather: what is the weather in {' and in '.join(cities)}, in {unit}?"
    calls = [orjson.dumps({"city": city, "unit": unit}).decode() for city in cities]
    return asked + (" Make one call for each city." if count > 1 else ""), tuple(
        Call("get_weather", text) for text in calls
    )


def _turn(seed: int, rep: int, turn: int) -> Turn:
    number = draw(seed, "ability turn", rep, turn)
    question, (call,) = _weather(number, 1)
    return Turn(question, call, f'{{"degrees": {number % 31}, "sky": "clear"}}')


def _picture_text(number: int) -> str:
    """Six capitals, a blank, and two digits."""
    letters = ""
    for _ in range(6):
        number, place = divmod(number, len(_LETTERS))
        letters += _LETTERS[place]
    return f"{letters} {22 + number % 77}"
