"""All that follows a log line by line, in step: the fold, the feed, and the clock that dates both."""

from __future__ import annotations

from infermaxx_tui.core.events import Record, RequestEnded, Unknown
from infermaxx_tui.core.evidence import Leak, Recall
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.stories import Feed


class Watch:
    """A run as far as it was watched. A twin of it goes on by itself."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.feed = Feed()
        self.clock = LogClock()
        self.recall: Recall | None = None
        """The reply to a recall question in the newest line, if it holds one."""
        self.leak: Leak | None = None
        """The leak in the newest line."""

    def add(self, record: Record | Unknown) -> None:
        """Takes in the next line."""
        self.fold.add(record)
        if isinstance(record, Unknown):
            return
        now = self.clock.at(record)
        self.recall = self.leak = None
        if isinstance(record.event, RequestEnded):
            recall, leak = self.fold.newest
            ref = (record.part, record.seq)
            self.recall = recall if recall is not None and recall.at == ref else None
            self.leak = leak if leak is not None and leak.at == ref else None
        self.feed.add(now, record, self.recall, self.leak)
