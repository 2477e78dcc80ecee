"""What a log holds where: marked lines all along it, failures and gaps, and each conversation's lines."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.kept import Integers
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.marks import FAILURES, Mark

_FILE_SHIFT: Final = 48
_LONGEST_US: Final = 1 << 62
SeekTarget = Literal["failure", "gap"]
"""failure: a miss, a leak, a failed request, a lost server. gap: a noted silence of a stream."""
TOLD: Final[frozenset[type[e.Event]]] = frozenset(
    {e.SessionStarted, e.SessionEnded, e.TagPlanted, e.RequestStarted, e.TagAsked, e.RequestEnded, e.GapNoted}
)
"""Events that a conversation's story is made of."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A line of the log: where it is and when it was."""

    file: int
    """Which of the log's files, in order."""
    offset: int
    part: int
    seq: int
    wall_ms: int
    mono_us: int
    at_us: int
    """Log time."""
    segment: int | None


def _numbers() -> Integers:
    return array("q")


@dataclass(slots=True)
class Places:
    """Log times and places of one sort of thing, in the order of the log."""

    _at_us: Integers = field(default_factory=_numbers)
    _part: Integers = field(default_factory=_numbers)
    _seq: Integers = field(default_factory=_numbers)

    def add(self, at_us: int, ref: Ref) -> None:
        """One more; one that is there already, or that no array could hold, is left out."""
        if self._seq and (self._part[-1], self._seq[-1]) == ref:
            return
        with suppress(OverflowError):
            values = array("q", (at_us, *ref))
            self._at_us.append(values[0])
            self._part.append(values[1])
            self._seq.append(values[2])

    def after(self, at_us: int) -> tuple[int, Ref] | None:
        """The first one later than a moment."""
        return self._get(bisect_right(self._at_us, at_us))

    def before(self, at_us: int) -> tuple[int, Ref] | None:
        """The last one earlier than a moment."""
        return self._get(bisect_left(self._at_us, at_us) - 1)

    def _get(self, at: int) -> tuple[int, Ref] | None:
        return (self._at_us[at], (self._part[at], self._seq[at])) if 0 <= at < len(self._seq) else None


@dataclass(slots=True)
class LogMap:
    """Grows with the log: a position a minute, 24 bytes a failure, 16 bytes a line of a conversation."""

    marks: list[Position] = field(default_factory=list)
    failures: Places = field(default_factory=Places)
    gaps: Places = field(default_factory=Places)
    _stories: dict[int, Integers] = field(default_factory=dict)

    def mark(self, file: int, offset: int, record: e.Record, clock: LogClock) -> None:
        """Keeps the place of a line that `clock` has just dated."""
        ref = record.part, record.seq
        self.marks.append(Position(file, offset, *ref, record.wall_ms, record.mono_us, clock.now_us, clock.segment))

    def tell(self, session: int, file: int, offset: int, at_us: int) -> None:
        """Keeps the place of a line of a conversation's story."""
        lines = self._stories.get(session)
        if lines is None:
            lines = self._stories[session] = array("q")
        lines.extend((file << _FILE_SHIFT | offset, min(at_us, _LONGEST_US)))

    def found(self, mark: Mark) -> None:
        """Keeps the place of a failure or a gap."""
        if mark.kind in FAILURES:
            self.failures.add(mark.at_us, mark.ref)
        elif mark.kind == "gap":
            self.gaps.add(mark.at_us, mark.ref)

    def find(self, target: SeekTarget, after_us: int, backwards: bool) -> tuple[int, Ref] | None:
        """Log time and place of the next such thing after a moment, or of the last one before it."""
        kept = self.failures if target == "failure" else self.gaps
        return kept.before(after_us) if backwards else kept.after(after_us)

    def before(self, at_us: int) -> Position | None:
        """The last marked line at or before a moment; the first one if there is none."""
        at = bisect_right(self.marks, at_us, key=lambda mark: mark.at_us) - 1
        return self.marks[max(at, 0)] if self.marks else None

    def before_ref(self, ref: Ref) -> Position | None:
        """A marked line of the same part, not after an event, and near it."""
        same = [mark for mark in self.marks if mark.part == ref[0] and mark.seq <= ref[1]]
        return max(same, key=lambda mark: mark.seq, default=None)

    def story(self, session: int, until_us: int | None) -> Iterator[tuple[int, int, int]]:
        """(file, offset, log time) of a conversation's lines up to a moment, in the order of the log."""
        lines = self._stories.get(session, array("q"))
        for n in range(0, len(lines), 2):
            place, at_us = lines[n], lines[n + 1]
            if until_us is not None and at_us > until_us:
                return
            yield place >> _FILE_SHIFT, place & ((1 << _FILE_SHIFT) - 1), at_us
