"""All that follows a log line by line, in step: the fold, the feed, the clock that dates both, and what to mark."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.events import Record, RequestEnded, Unknown
from infermaxx_tui.core.evidence import Leak, Recall
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_parts import FoldParts
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.marks import Mark, degenerate, mark_of, mark_of_leak, mark_of_miss
from infermaxx_tui.core.stories import QUIET, Feed


class WatchParts(msgspec.Struct):
    """All that a watch keeps."""

    fold: FoldParts = msgspec.field(default_factory=FoldParts)
    feed: Feed = msgspec.field(default_factory=Feed)
    clock: LogClock = msgspec.field(default_factory=LogClock)
    next: dict[int, int] = {}
    """Of each part, the number that its next line must have at the least."""


class Watch:
    """A run as far as it was watched."""

    def __init__(self, parts: WatchParts | None = None) -> None:
        """A watch from the first line on, or one that goes on from what another one kept."""
        self.parts = parts = parts or WatchParts()
        """Everything that is kept."""
        self.fold = Fold(parts.fold)
        self.feed = parts.feed
        self.clock = parts.clock
        self.marks: tuple[Mark, ...] = ()
        """What the newest line is for whoever looks for failures, by itself and by what the fold made of it."""
        self._next = parts.next

    def add(self, record: Record | Unknown) -> bool:
        """Takes in the next line; False for one that is no event, or whose number had been there."""
        self.fold.add(record)
        if self.marks:
            self.marks = ()
        if isinstance(record, Unknown) or record.seq < self._next.get(record.part, 0):
            return False
        self._next[record.part] = record.seq + 1
        now = self.clock.at(record)
        event = record.event
        if type(event) in QUIET or (isinstance(event, RequestEnded) and _ordinary(event)):
            return True
        recall, leak = self._newest(record)
        marks = (
            mark_of(now, record),
            None if recall is None else mark_of_miss(now, recall),
            None if leak is None else mark_of_leak(now, leak),
        )
        self.marks = tuple(mark for mark in marks if mark is not None)
        self.feed.add(now, record, recall, leak)
        return True

    def _newest(self, record: Record) -> tuple[Recall | None, Leak | None]:
        """The recall reply and the leak in this very line."""
        recall, leak = self.fold.newest
        ref = record.part, record.seq
        return (
            recall if recall is not None and recall.at == ref else None,
            leak if leak is not None and leak.at == ref else None,
        )


def _ordinary(event: RequestEnded) -> bool:
    """A main-line turn that went as it should: there are so many that nothing is spent on them."""
    return event.kind == "turn" and event.outcome == "ok" and not event.hits and degenerate(event) is None
