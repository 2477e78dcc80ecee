"""The streams that are open right now: what the beat, the watchdog and the status line look at."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Final

import anyio

from infermaxx_tui.core.events import Beat
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.runner.dispatch import Sends

_LONGEST_MS: Final = 86_400_000.0
_EDGES_US: Final = [10.0 * 1.05**k for k in range(LogHistogram.bucket(_LONGEST_MS) + 1)]
"""Upper ends of the buckets of core.stats.LogHistogram: finding one among them costs a tenth of a logarithm."""


class LiveStream:
    """One request between its first and its last byte."""

    __slots__ = ("depth_tokens", "kind", "last_token_us", "req", "scope", "session", "stalled", "started_us", "tokens")

    def __init__(self, req: int, session: int, kind: str, depth_tokens: int, now_us: int) -> None:
        self.req = req
        self.session = session
        self.kind = kind
        self.depth_tokens = depth_tokens
        """Prompt tokens and tokens received so far."""
        self.tokens = 0
        """Tokens since the last beat."""
        self.started_us = now_us
        self.last_token_us = now_us
        self.scope = anyio.CancelScope()
        self.stalled = False


class Board:
    """All open streams, and what they delivered since the last beat."""

    def __init__(self) -> None:
        self.streams: dict[int, LiveStream] = {}
        self.events_parsed = 0
        self.sends = Sends()
        """What went out since the instrument's last reading."""
        self.single_gaps_us: list[int] = []
        """Silences before chunks of one token, to be counted with the next beat or end: all at once costs less."""
        self._gaps = [0] * (len(_EDGES_US) + 1)
        self._odd_reads = self._odd_events = self._coalesced = 0
        self._ended: Counter[tuple[int, int]] = Counter()

    def counted(self) -> tuple[int, int, int]:
        """Events and reads so far, and how many of the reads held more than one event."""
        return self.events_parsed, self.events_parsed - self._odd_events + self._odd_reads, self._coalesced

    def odd_read(self, events: int) -> None:
        """A read held none or more than one event; those with one, which are the most, are not worth a call."""
        self._odd_reads += 1
        self._odd_events += events
        self._coalesced += events > 1

    def open(self, stream: LiveStream) -> None:
        """A request was sent."""
        self.streams[stream.req] = stream

    def close(self, stream: LiveStream) -> None:
        """A request is over; its tokens stay for the next beat."""
        self.streams.pop(stream.req, None)
        self._count_single_gaps()
        if stream.tokens:
            self._ended[stream.session, stream.depth_tokens] += stream.tokens

    def gap(self, gap_us: int, tokens: int) -> None:
        """Counts the silence before a chunk once a token, spread evenly over the chunk's tokens."""
        self._gaps[bisect_left(_EDGES_US, gap_us / tokens)] += tokens

    def beat(self, window_ms: float) -> Beat:
        """What came since the last beat, a column entry for each session that had a stream."""
        tokens: Counter[int] = Counter()
        depths: dict[int, int] = {}
        for (session, depth), count in self._ended.items():
            tokens[session] += count
            depths[session] = max(depths.get(session, 0), depth)
        for stream in self.streams.values():
            tokens[stream.session] += stream.tokens
            depths[stream.session] = max(depths.get(stream.session, 0), stream.depth_tokens)
            stream.tokens = 0
        self._count_single_gaps()
        sessions = tuple(sorted(depths))
        gaps = tuple((bucket, count) for bucket, count in enumerate(self._gaps) if count)
        if gaps:
            self._gaps = [0] * len(self._gaps)
        self._ended.clear()
        return Beat(
            window_ms=window_ms,
            sessions=sessions,
            tokens=tuple(tokens[session] for session in sessions),
            depths=tuple(depths[session] for session in sessions),
            gap_buckets=gaps,
        )

    def _count_single_gaps(self) -> None:
        gaps_us = sorted(self.single_gaps_us)
        self.single_gaps_us.clear()
        at = 0
        while at < len(gaps_us):
            bucket = bisect_left(_EDGES_US, gaps_us[at])
            end = bisect_right(gaps_us, _EDGES_US[bucket], at) if bucket < len(_EDGES_US) else len(gaps_us)
            self._gaps[bucket] += end - at
            at = end

    def stalled(self, now_us: int, stall_us: float) -> list[LiveStream]:
        """Streams that have given no token for longer than the stall limit."""
        return [s for s in self.streams.values() if not s.stalled and now_us - s.last_token_us > stall_us]
