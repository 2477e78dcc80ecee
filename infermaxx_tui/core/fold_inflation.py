"""The pace of the first wave of conversations, of the newest one and of all: controls of a speed that grows too good.

Waves play the same kinds of conversations to the same depth beside as many others.
"""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.events import MetricsRead, RequestEnded
from infermaxx_tui.core.inflation import Inflation, Pace, inflation


class Paces(msgspec.Struct):
    """Of constant size."""

    wave: int = 0
    first: Pace = msgspec.field(default_factory=Pace)
    newest: Pace = msgspec.field(default_factory=Pace)
    whole: Pace = msgspec.field(default_factory=Pace)
    """All waves together."""
    _drafted: tuple[float, float, float] | None = None
    """The server's counters in the last reading: drafts, drafted tokens, accepted tokens."""

    def ended(self, event: RequestEnded, wave: int) -> None:
        """A main-line turn of a wave; one that is played alone (wave -1) belongs to none."""
        if wave < 0:
            return
        if wave > self.wave:
            self.wave, self.newest = wave, Pace()
        if wave in (0, self.wave):
            self._of(wave).take(event)
        self.whole.take(event)

    def _of(self, wave: int) -> Pace:
        return self.newest if wave else self.first

    def read(self, event: MetricsRead, alone: Pace | None = None) -> None:
        """The server's counters of speculation; a fall of them is a restart. `alone`: what is played alone just now."""
        if event.drafts is None or event.draft_tokens is None or event.accepted_tokens is None:
            return
        now = (event.drafts, event.draft_tokens, event.accepted_tokens)
        before, self._drafted = self._drafted, now
        if before is None or now[0] < before[0]:
            return
        for pace in (self._of(self.wave), self.whole) if alone is None else (alone,):
            pace.drafts += now[0] - before[0]
            pace.draft_tokens += now[1] - before[1]
            pace.accepted_tokens += now[2] - before[2]

    def inflations(self) -> tuple[Inflation, ...]:
        """The newest wave beside the first; nothing while there is only one."""
        return (inflation(self.newest, self.first),) if self.wave else ()
