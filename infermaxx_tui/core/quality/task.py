"""What a task is, and how one is drawn: the same from the same seed on each Python and each machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

import msgspec

from infermaxx_tui.core.plan import draw

T = TypeVar("T")

Form = Literal["number", "text", "list", "json"]
"""How an answer is compared: by value within a tolerance; character by character; item by item; as parsed JSON."""
Family = Literal["arithmetic", "extraction", "tracing", "units", "json", "ordering"]

INSTRUCTION: Final = 'Think as long as you need. Then finish with one line that begins with "Answer:" and holds {what}.'
"""Closes each question. The marker never begins a line of it, so that an echo of the question answers nothing."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One question whose key was computed."""

    task: str
    """Family and number, unique in a set."""
    family: Family
    question: str
    form: Form
    expected: str
    """The key; of a list its items with a comma and a blank between, of JSON its text."""
    tolerance: float = 0.0
    """Of a number, absolute and inclusive."""
    units: tuple[str, ...] = ()
    """Spellings of a unit that may follow a number; without them nothing may."""


class Draw:
    """Choices of one task that follow from a seed and the task's name alone."""

    def __init__(self, seed: int, name: str) -> None:
        self._seed = seed
        self._name = name
        self._drawn = 0

    def number(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`, both included."""
        self._drawn += 1
        return least + draw(self._seed, "quality", self._name, self._drawn) % (most - least + 1)

    def one(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.number(0, len(choices) - 1)]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """So many different ones, in any order."""
        left = list(choices)
        return [left.pop(self.number(0, len(left) - 1)) for _ in range(count)]


def asking(text: str, what: str) -> str:
    """A question with the instruction how to answer; `what` names what stands after the marker."""
    return f"{text}\n{INSTRUCTION.format(what=what)}"
