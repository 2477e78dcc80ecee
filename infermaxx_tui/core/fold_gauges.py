"""How well the client could see, and what the server's own counters said, over the whole of a log."""

from __future__ import annotations

from dataclasses import dataclass, field

from infermaxx_tui.core.events import Beat, CountsReconciled, InstrumentRead, MetricsRead, RequestEnded
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.state import Counts, Distribution, Metrics
from infermaxx_tui.core.stats import LogHistogram

MIN_TIMED_TOKENS = 16
"""Shorter replies do not say whether a stream came token by token."""
CLUMP_SHARE = 0.5
"""A reply that brings this share of its tokens in its first chunk was not streamed."""
CLUMP_MS_PER_TOKEN = 0.05
"""Faster than any server decodes one stream (20,000 tokens/s): the tokens had been waiting somewhere."""


def _larger(a: float | None, b: float | None) -> float | None:
    return a if b is None or (a is not None and a >= b) else b


def distribution(histogram: LogHistogram) -> Distribution:
    """Median and 99th percentile of what was counted."""
    return Distribution(histogram.total, histogram.quantile(0.5), histogram.quantile(0.99))


@dataclass(slots=True)
class Gauges:
    """Readings of the client and the server, and times of the streams; of constant size."""

    readings: int = 0
    lag_p50_ms: float | None = None
    lag_p99_ms: float | None = None
    lag_max_ms: float | None = None
    cpu_share_max: float | None = None
    rss_first_mib: float | None = None
    rss_last_mib: float | None = None
    rss_max_mib: float | None = None
    events_parsed: int = 0
    wall_step_ms: float = 0.0
    ttft: LogHistogram = field(default_factory=LogHistogram)
    gaps: LogHistogram = field(default_factory=LogHistogram)
    streams_timed: int = 0
    streams_buffered: int = 0
    metrics_errors: int = 0
    running_peak: float | None = None
    _metrics_first: MetricsRead | None = None
    _metrics_last: MetricsRead | None = None
    counts: Counts | None = None

    def instrument(self, event: InstrumentRead) -> None:
        """One reading of the client by itself."""
        self.readings += 1
        self.lag_p50_ms = _larger(self.lag_p50_ms, event.loop_lag_p50_ms)
        self.lag_p99_ms = _larger(self.lag_p99_ms, event.loop_lag_p99_ms)
        self.lag_max_ms = _larger(self.lag_max_ms, event.loop_lag_max_ms)
        self.cpu_share_max = _larger(self.cpu_share_max, event.cpu_share)
        if event.rss_mib is not None:
            if self.rss_first_mib is None:
                self.rss_first_mib = event.rss_mib
            self.rss_last_mib = event.rss_mib
            self.rss_max_mib = _larger(self.rss_max_mib, event.rss_mib)
        self.events_parsed += event.events_parsed
        if abs(event.wall_step_ms) > abs(self.wall_step_ms):
            self.wall_step_ms = event.wall_step_ms

    def segment_began(self) -> None:
        """Another process reads now, maybe from another server: counters are compared within a segment only."""
        self._metrics_first = self._metrics_last = self.counts = None

    def metrics(self, event: MetricsRead) -> None:
        """One reading of the server's counters; a reading that failed is counted and changes nothing."""
        if event.error is not None:
            self.metrics_errors += 1
            return
        if self._metrics_first is None:
            self._metrics_first = event
        self._metrics_last = event
        if event.running is not None and (self.running_peak is None or event.running > self.running_peak):
            self.running_peak = event.running

    def beat(self, event: Beat) -> None:
        """Gaps between tokens of one window."""
        if event.gap_buckets:
            self.gaps.merge(event.gap_buckets)

    def ended(self, event: RequestEnded) -> None:
        """Time to first token of a main-line turn, and whether a reply that is long enough came token by token."""
        ttft_ms = event.ttft_ms
        if event.kind == "turn" and ttft_ms is not None and ttft_ms >= 0.0:
            self.ttft.add(ttft_ms)
        tokens = event.completion_tokens
        if tokens is None or tokens < MIN_TIMED_TOKENS or event.outcome != "ok" or event.decode_ms is None:
            return
        self.streams_timed += 1
        first = event.first_chunk_tokens or 0
        if first >= CLUMP_SHARE * tokens or event.decode_ms < CLUMP_MS_PER_TOKEN * (tokens - first):
            self.streams_buffered += 1

    def reconciled(self, at: Ref, event: CountsReconciled) -> None:
        """Our token counts beside the server's; the newest comparison stands."""
        self.counts = Counts(
            at=at,
            generation_client=event.generation_client,
            generation_server=event.generation_server,
            prompt_client=event.prompt_client,
            prompt_server=event.prompt_server,
            reason=event.reason,
        )

    @property
    def metrics_first(self) -> Metrics | None:
        """The first reading that succeeded."""
        return _reading(self._metrics_first)

    @property
    def metrics_last(self) -> Metrics | None:
        """The newest reading that succeeded."""
        return _reading(self._metrics_last)


def _reading(event: MetricsRead | None) -> Metrics | None:
    if event is None:
        return None
    return Metrics(
        running=event.running,
        waiting=event.waiting,
        kv_usage=event.kv_usage,
        preemptions=event.preemptions,
        prefix_queries=event.prefix_queries,
        prefix_hits=event.prefix_hits,
        prompt_tokens=event.prompt_tokens,
        generation_tokens=event.generation_tokens,
        process_start_s=event.process_start_s,
    )
