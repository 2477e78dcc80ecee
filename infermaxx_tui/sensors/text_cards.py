"""Cards that are known from text: gives them numbers, and remembers their XIDs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import NOT_GIVEN, GpuCard, GpuReading
from infermaxx_tui.core.gpu_text import TextRow, card_of, reading_of

MOST_CARDS: Final = 64
"""A source may say anything; more cards than this no host has."""


class TextCards:
    """The cards of one source of text. One that is called by a number keeps it; the others follow in order."""

    def __init__(self, first: int, why_missing: Callable[[str], str] = lambda metric: NOT_GIVEN) -> None:
        self._first = first
        self._why = why_missing
        self._numbers: dict[str, int] = {}
        self._xid: dict[str, float] = {}
        self.cards: dict[int, GpuCard] = {}
        self.dirty = False
        """Whether a card came, or came to say more or less, since it was last looked at."""

    def take(self, rows: Sequence[TextRow]) -> tuple[GpuReading, ...]:
        """Rows as readings, numbered."""
        return tuple(self._reading(row) for row in rows if self._number(row.key) is not None)

    def _number(self, key: str) -> int | None:
        if key not in self._numbers and len(self._numbers) >= MOST_CARDS:
            return None
        if key not in self._numbers:
            taken = set(self._numbers.values())
            own = self._first + int(key) if key.isascii() and key.isdigit() and len(key) <= 2 else None
            if own is None or own in taken:
                own = next(number for number in range(self._first, self._first + 1000) if number not in taken)
            self._numbers[key] = own
        return self._numbers[key]

    def _reading(self, row: TextRow) -> GpuReading:
        number = self._numbers[row.key]
        known = self.cards.get(number)
        card = card_of(row, number, self._why)
        if known is None:
            self.cards[number] = card
            self.dirty = True
        elif known.metrics != (metrics := _both(known.metrics, card.metrics)):
            self.cards[number] = msgspec.structs.replace(known, metrics=metrics)
            self.dirty = True
        xid = row.numbers.get("xid")
        before = self._xid.get(row.key)
        if xid is not None:
            self._xid[row.key] = xid
        new = xid is not None and before is not None and xid != before and xid > 0
        return reading_of(row, number, (int(xid),) if new and xid is not None else ())


def _both(before: dict[str, str], now: dict[str, str]) -> dict[str, str]:
    """A reading that was given once stays one that can be given, unless the source now says that it is no number."""
    return {
        name: before[name] if status == NOT_GIVEN and before.get(name) == "ok" else status
        for name, status in now.items()
    }
