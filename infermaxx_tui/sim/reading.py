"""Reads a prompt's token ids as a conversation, because the embedded server may answer only from what it was sent.

Prompts of one conversation extend one another, so what was read of an earlier one is not read again.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.wording import QUESTION, STATEMENT
from infermaxx_tui.sim.solver import solve
from infermaxx_tui.vocabulary import Vocabulary

_KEPT = 64
_TAIL_TURNS = 3
"""A sentinel's statement, its repetition and the question: what was said there is at the tail."""


class Turn(msgspec.Struct, frozen=True):
    """One closed turn of a prompt."""

    role: str
    text: str


class Told(msgspec.Struct, frozen=True):
    """A tag that stands in a prompt, and the turn that said it first."""

    tag: str
    turn: int


class Reading(msgspec.Struct, frozen=True):
    """A prompt, understood."""

    closed: bytes
    """The ids up to the end of the last closed turn, four bytes each."""
    turns: tuple[Turn, ...]
    told: dict[str, Told]
    """Label to tag, in the order in which they were first said."""
    opened: str = ""
    """What already stands in the turn that is to be continued."""

    @property
    def last(self) -> Turn:
        """The turn that is answered."""
        return self.turns[-1] if self.turns else Turn("user", "")

    @property
    def question(self) -> str | None:
        """The label that the last turn asks for."""
        if self.last.role != "user":
            return None
        asked = QUESTION.findall(self.last.text)
        return asked[-1] if asked else None

    @property
    def task(self) -> str | None:
        """The answer to the task that the last turn sets, None if it sets none."""
        return solve(self.last.text) if self.last.role == "user" else None

    @property
    def has_tools(self) -> bool:
        """Whether the prompt offers functions."""
        return bool(self.turns) and self.turns[0].role == "system" and "# Tools\n" in self.turns[0].text

    def at_tail(self, label: str) -> bool:
        """Whether the label's tag was first said at the very end, as a tail sentinel is."""
        told = self.told.get(label)
        return told is not None and told.turn >= len(self.turns) - _TAIL_TURNS


def pack(ids: Sequence[int]) -> bytes:
    """The ids as four bytes each, which compare and hash at memory speed. Raises OverflowError for a negative id."""
    return array("I", ids).tobytes()


class Reader:
    """Reads prompts, and remembers the last ones read."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._start = vocabulary.special_id("<|im_start|>")
        self._end = vocabulary.special_id("<|im_end|>")
        self._known: OrderedDict[bytes, Reading] = OrderedDict()

    def read(self, ids: Sequence[int], packed: bytes) -> Reading:
        """The conversation in `ids`; `packed` is `pack(ids)`. A prompt without turns is one turn of a user."""
        base = self._longest_known(packed)
        at = len(base.closed) // 4
        turns = list(base.turns)
        told = dict(base.told)
        opened = ""
        while at < len(ids):
            start = _find(ids, self._start, at)
            if start is None:
                break
            end = _find(ids, self._end, start)
            role, _, text = self._vocabulary.decode(ids[start + 1 : end]).partition("\n")
            if end is None:
                opened = text
                break
            for label, tag in STATEMENT.findall(text):
                told.setdefault(label, Told(tag, len(turns)))
            turns.append(Turn(role, text))
            at = end + 1
        if not turns:
            return self._plain(ids)
        reading = Reading(packed[: at * 4], tuple(turns), told)
        self._remember(reading)
        return msgspec.structs.replace(reading, opened=opened) if opened else reading

    def _plain(self, ids: Sequence[int]) -> Reading:
        text = self._vocabulary.decode(ids)
        return Reading(b"", (Turn("user", text),), {label: Told(tag, 0) for label, tag in STATEMENT.findall(text)})

    def _longest_known(self, packed: bytes) -> Reading:
        best = Reading(b"", (), {})
        for closed, reading in self._known.items():
            if len(closed) > len(best.closed) and packed.startswith(closed):
                best = reading
        return best

    def _remember(self, reading: Reading) -> None:
        self._known[reading.closed] = reading
        self._known.move_to_end(reading.closed)
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)


def _find(ids: Sequence[int], wanted: int | None, start: int) -> int | None:
    try:
        return ids.index(wanted, start) if wanted is not None else None
    except ValueError:
        return None
