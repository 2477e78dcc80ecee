"""What a log holds where: marked lines all along it, failures and gaps, and each conversation's lines."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, Literal

from infermaxx_tui.core import events as e
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.marks import FAILURES, MARKED, mark_of
from infermaxx_tui.core.watch import Watch
from infermaxx_tui.seek.indexfile import IndexFile, Places, Position, places

MARK_RECORDS: Final = 1024
MARK_US: Final = 60_000_000
"""A line is marked after so many lines, or after so much log time; the first one of each file is too."""
_FILE_SHIFT: Final = 48
_LONGEST_US: Final = 1 << 62
SeekTarget = Literal["failure", "gap"]
"""failure: a miss, a leak, a failed request, a lost server. gap: a noted silence of a stream."""
_TOLD: Final[frozenset[type[e.Event]]] = frozenset(
    {e.SessionStarted, e.SessionEnded, e.TagPlanted, e.RequestStarted, e.TagAsked, e.RequestEnded, e.GapNoted}
)
"""Events that a conversation's story is made of."""


class LogMap:
    """Grows with the log: a position a minute, 24 bytes a failure, 16 bytes a line of a conversation."""

    def __init__(self, saved: IndexFile | None = None) -> None:
        self.marks: list[Position] = list(saved.marks) if saved is not None else []
        self.failures = places(saved.failures) if saved is not None else Places()
        self.gaps = places(saved.gaps) if saved is not None else Places()
        self._stories: dict[int, array[int]] = {}
        self._since_mark = 0

    def note(self, file: int, offset: int, record: e.Record, watch: Watch) -> None:
        """Takes in a line and its place, after `watch` took it in."""
        at_us = watch.clock.now_us
        self._since_mark += 1
        last = self.marks[-1] if self.marks else None
        if last is None or self._since_mark >= MARK_RECORDS or at_us - last.at_us >= MARK_US or file != last.file:
            self._mark(file, offset, record, watch)
        event = record.event
        if type(event) in _TOLD:
            self._tell(event, file << _FILE_SHIFT | offset, at_us)
        if type(event) in MARKED:
            self._find(record, at_us, watch)

    def _mark(self, file: int, offset: int, record: e.Record, watch: Watch) -> None:
        clock = watch.clock
        ref = record.part, record.seq
        self.marks.append(Position(file, offset, *ref, record.wall_ms, record.mono_us, clock.now_us, clock.segment))
        self._since_mark = 0

    def _tell(self, event: e.Event, place: int, at_us: int) -> None:
        session: int = getattr(event, "session")  # noqa: B009 -- every event of _TOLD has one, the base class has not
        lines = self._stories.get(session)
        if lines is None:
            lines = self._stories[session] = array("q")
        lines.append(place)
        lines.append(min(at_us, _LONGEST_US))

    def _find(self, record: e.Record, at_us: int, watch: Watch) -> None:
        ref = record.part, record.seq
        mark = mark_of(at_us, record)
        missed = watch.recall is not None and watch.recall.miss
        if missed or watch.leak is not None or (mark is not None and mark.kind in FAILURES):
            self.failures.add(at_us, ref)
        elif mark is not None and mark.kind == "gap":
            self.gaps.add(at_us, ref)

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
