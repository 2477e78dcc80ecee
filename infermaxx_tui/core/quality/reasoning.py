"""Tasks that are followed step by step: what a few lines of code print, and what comes before what."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from infermaxx_tui.core.quality.task import Draw, Form, Task, asking

_STRINGS: Final = ("lantern", "harvest", "copper", "meadow", "anchor", "granite", "violet", "timber")
_WORDS: Final = ("walnut", "pepper", "saffron", "cumin", "basil", "thyme", "ginger", "fennel", "clove", "anise")
_NAMES: Final = ("Ada", "Bo", "Cem", "Dina", "Edo", "Fay", "Gil", "Hana")


def tracing(draw: Draw, kind: int, name: str) -> Task:
    """What a loop, a countdown, a slice or a reversed text prints."""
    code, key = (_loop, _countdown, _slice, _reversed)[kind](draw)
    form: Form = "text" if kind == 3 else "number"
    text = f"What does this Python program print?\n{code}"
    return Task(task=name, family="tracing", question=asking(text, "what it prints"), form=form, expected=key)


def _loop(draw: Draw) -> tuple[str, str]:
    start, turns, by = draw.number(1, 30), draw.number(4, 8), draw.number(2, 9)
    total = start
    for i in range(turns):
        total += i * by
    return f"total = {start}\nfor i in range({turns}):\n    total += i * {by}\nprint(total)", str(total)


def _countdown(draw: Draw) -> tuple[str, str]:
    left, by = draw.number(30, 95), draw.number(6, 13)
    code = f"left = {left}\nsteps = 0\nwhile left > 0:\n    left -= {by}\n    steps += 1\nprint(steps - left)"
    steps = 0
    while left > 0:
        left -= by
        steps += 1
    return code, str(steps - left)


def _slice(draw: Draw) -> tuple[str, str]:
    values = [draw.number(1, 60) for _ in range(8)]
    first, last = draw.number(1, 3), draw.number(5, 7)
    return f"values = {values}\nprint(sum(values[{first}:{last}]))", str(sum(values[first:last]))


def _reversed(draw: Draw) -> tuple[str, str]:
    word, count = draw.one(_STRINGS), draw.number(3, 5)
    return f'word = "{word}"\nprint(word[::-1][:{count}].upper())', word[::-1][:count].upper()


def ordering(draw: Draw, kind: int, name: str) -> Task:
    """Numbers by size, words by the alphabet, a rank, or who came when."""
    text, key, what, form = (_numbers, _words, _rank, _arrivals)[kind](draw)
    return Task(task=name, family="ordering", question=asking(text, what), form=form, expected=key)


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values))


def _numbers(draw: Draw) -> tuple[str, str, str, Form]:
    values = draw.some(range(10, 990), 6)
    text = f"Sort these numbers from the smallest to the largest: {_listed(values)}."
    return text, _listed(sorted(values)), "all of them, with commas between", "list"


def _words(draw: Draw) -> tuple[str, str, str, Form]:
    words = draw.some(_WORDS, 5)
    text = f"Sort these words alphabetically: {', '.join(words)}."
    return text, ", ".join(sorted(words)), "all of them, with commas between", "list"


def _rank(draw: Draw) -> tuple[str, str, str, Form]:
    values, place = draw.some(range(100, 990), 7), draw.number(0, 2)
    text = f"Which of these numbers is the {('second', 'third', 'fourth')[place]} largest: {_listed(values)}?"
    return text, str(sorted(values, reverse=True)[place + 1]), "the number alone", "number"


def _arrivals(draw: Draw) -> tuple[str, str, str, Form]:
    order = draw.some(_NAMES, 5)
    pairs = [f"{one} arrived just before {other}." for one, other in pairwise(order)]
    place = draw.number(0, 2)
    asked = f"Who arrived {('second', 'third', 'fourth')[place]}?"
    return " ".join([*draw.some(pairs, len(pairs)), asked]), order[place + 1], "the name alone", "text"
