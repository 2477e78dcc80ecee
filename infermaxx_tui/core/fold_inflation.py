"""The pace of the first wave of conversations and of the newest one: the control of a speed that grows too good.

Both waves play the same kinds of conversations to the same depth beside as many others.
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
    _drafted: tuple[float, float, float] | None = None
    """The server's counters in the last reading: drafts, drafted tokens, accepted tokens."""

    def ended(self, event: RequestEnded, wave: int) -> None:
        """A main-line turn; one without counts or times says nothing."""
        tokens = (event.completion_tokens or 0) - (event.first_chunk_tokens or 0)
        if event.outcome != "ok" or tokens <= 0 or not event.decode_ms or event.prompt_tokens is None:
            return
        if wave > self.wave:
            self.wave, self.newest = wave, Pace()
        if wave in (0, self.wave):
            self._of(wave).add(event.prompt_tokens, tokens, event.decode_ms, event.distinct_trigrams)

    def _of(self, wave: int) -> Pace:
        return self.newest if wave else self.first

    def read(self, event: MetricsRead) -> None:
        """The server's counters of speculation; a fall of them is a restart."""
        if event.drafts is None or event.draft_tokens is None or event.accepted_tokens is None:
            return
        now = (event.drafts, event.draft_tokens, event.accepted_tokens)
        before, self._drafted = self._drafted, now
        if before is None or now[0] < before[0]:
            return
        pace = self._of(self.wave)
        pace.drafts += now[0] - before[0]
        pace.draft_tokens += now[1] - before[1]
        pace.accepted_tokens += now[2] - before[2]

    def inflation(self) -> Inflation | None:
        """The newest wave beside the first; None while there is only one."""
        return inflation(self.newest, self.first) if self.wave else None
