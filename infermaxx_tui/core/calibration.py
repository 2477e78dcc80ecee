"""How far off a time measured on this host is: what came, beside when the server of the same host sent it.

Server and client of a calibration read one monotonic clock, so that the difference of their stamps is the error of the
instrument alone: the wake-up of the loop, the reads before this one, the log, and the way through the loopback socket.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from infermaxx_tui.core.stats import quantile

SCHEMA: Final = 1
FROZEN_MS: Final = 1000.0
"""A lag of the loop from which on a calibration says nothing; core.limits.max_loop_lag_ms voids a run's times there."""
LATE_SHARE: Final = 1.0
"""Share of the period by which the server may be behind its own schedule (median): more, and it does not keep it up."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One streamed reply, or the part of it that was measured, as both ends saw it.

    All times are µs of one monotonic clock.
    """

    ttft_ms: float | None
    """As the runner logged it; None for a reply that had begun before."""
    received_us: int
    """When the server had the request."""
    sent_us: tuple[int, ...]
    """When the server wrote each token's event."""
    came_us: tuple[int, ...]
    """When the client read it."""
    due_us: tuple[int, ...]
    """When the server's schedule wanted it sent."""


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What the client measured of itself meanwhile."""

    loop_lag_p99_ms: float | None
    loop_lag_max_ms: float | None
    reads: int
    reads_coalesced: int


class ErrorBars(msgspec.Struct, frozen=True, kw_only=True):
    """The errors at one load. Without a usable measurement the figures are None and `reason` says why."""

    streams: int
    rate_hz: float
    """Events of one stream in a second."""
    n_ttft: int = 0
    ttft_p50_ms: float | None = None
    """Measured time to first token minus the server's own: all of it is ours and the socket's."""
    ttft_p99_ms: float | None = None
    ttft_max_ms: float | None = None
    n_gaps: int = 0
    gap_p50_ms: float | None = None
    """Measured gap against the server's own, without its sign."""
    gap_p99_ms: float | None = None
    gap_max_ms: float | None = None
    read_p50_ms: float | None = None
    """From the server's write to our stamp."""
    read_p99_ms: float | None = None
    loop_lag_p99_ms: float | None = None
    loop_lag_max_ms: float | None = None
    coalesced_share: float | None = None
    """Share of reads that held more than one event."""
    reason: str | None = None

    @property
    def load(self) -> str:
        """`8 streams x 50/s`."""
        return f"{self.streams} stream{'' if self.streams == 1 else 's'} x {self.rate_hz:g}/s"


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """All loads that were tried."""

    schema: int = SCHEMA
    version: str
    """Of this program."""
    python: str
    host: str
    platform: str
    at_ms: int
    """Unix time of its end."""
    took_s: float
    bars: tuple[ErrorBars, ...]
    load_per_core: float | None = None
    """What else ran in the minute before: the load average by the number of cores. Above 1 the errors are those of a
    busy host."""

    def at_load(self, streams: int, rate_hz: float) -> ErrorBars | None:
        """The bars of the least load that was tried and is not below this one, else of the largest.

        None if there are none with figures.
        """
        usable = [bar for bar in self.bars if bar.reason is None]
        enough = [bar for bar in usable if bar.streams >= streams and bar.rate_hz >= rate_hz]
        if enough:
            return min(enough, key=lambda bar: (bar.streams, bar.rate_hz))
        return max(usable, key=lambda bar: (min(bar.streams / streams, 1.0), bar.rate_hz), default=None)


def error_bars(
    streams: int, rate_hz: float, samples: Sequence[Sample], client: Client, missing: str | None = None
) -> ErrorBars:
    """What the samples of one load come to; `missing`: why some did not come, which voids all."""
    why = missing or _unusable(samples, client, 1000 / rate_hz)
    if why is not None:
        return ErrorBars(streams=streams, rate_hz=rate_hz, reason=f"could not calibrate: {why}")
    ttft = [one.ttft_ms - (one.sent_us[0] - one.received_us) / 1000 for one in samples if one.ttft_ms is not None]
    gaps = [gap for one in samples for gap in _gap_errors_ms(one)]
    reads = [(came - sent) / 1000 for one in samples for came, sent in zip(one.came_us, one.sent_us, strict=True)]
    return ErrorBars(
        streams=streams,
        rate_hz=rate_hz,
        n_ttft=len(ttft),
        ttft_p50_ms=_shown(quantile(ttft, 0.5)),
        ttft_p99_ms=_shown(quantile(ttft, 0.99)),
        ttft_max_ms=_shown(max(ttft)),
        n_gaps=len(gaps),
        gap_p50_ms=_shown(quantile(gaps, 0.5)),
        gap_p99_ms=_shown(quantile(gaps, 0.99)),
        gap_max_ms=_shown(max(gaps, default=None)),
        read_p50_ms=_shown(quantile(reads, 0.5)),
        read_p99_ms=_shown(quantile(reads, 0.99)),
        loop_lag_p99_ms=_shown(client.loop_lag_p99_ms),
        loop_lag_max_ms=_shown(client.loop_lag_max_ms),
        coalesced_share=round(client.reads_coalesced / client.reads, 4) if client.reads else None,
    )


def error_text(bar: ErrorBars) -> str:
    """`8 streams x 50/s: a TTFT measured here is +0.3 to +1.1 ms (p99) off, …`, or why nobody knows."""
    if bar.reason is not None:
        return f"{bar.load}: {bar.reason}"
    clumps = "" if bar.coalesced_share is None else f", {bar.coalesced_share:.1%} of reads in clumps"
    return (
        f"{bar.load}: a TTFT measured here is +{short(bar.ttft_p50_ms)} to +{short(bar.ttft_p99_ms)} ms (p99) off, at"
        f" most {short(bar.ttft_max_ms)} (n {bar.n_ttft}); a gap {short(bar.gap_p50_ms)} to {short(bar.gap_p99_ms)} ms"
        f" (p99; n {bar.n_gaps}); loop lag p99 {short(bar.loop_lag_p99_ms)} ms{clumps}"
    )


def short(ms: float | None) -> str:
    """Two digits, and never a power of ten."""
    return "n/a" if ms is None else f"{ms:.2g}" if ms < 10 else f"{ms:.0f}"


def _shown(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 3)


def _gap_errors_ms(one: Sample) -> list[float]:
    """A gap is off by the difference of the delays at its two ends."""
    late = [came - sent for came, sent in zip(one.came_us, one.sent_us, strict=True)]
    return [abs(b - a) / 1000 for a, b in pairwise(late)]


def _unusable(samples: Sequence[Sample], client: Client, period_ms: float) -> str | None:
    if not any(one.ttft_ms is not None for one in samples):
        return "no reply began while it was measured"
    if any(len(one.came_us) != len(one.sent_us) or (one.ttft_ms is not None and not one.sent_us) for one in samples):
        return "a reply came with other events than were sent"
    if any(came < sent for one in samples for came, sent in zip(one.came_us, one.sent_us, strict=True)):
        return "an event came before it was sent: the two processes do not share a clock"
    worst = client.loop_lag_max_ms
    if worst is None:
        return "the loop's own lag was not measured"
    if worst > FROZEN_MS:
        return f"the loop stood still for {worst:.0f} ms"
    late = quantile(
        [(sent - due) / 1000 for one in samples for sent, due in zip(one.sent_us, one.due_us, strict=True)], 0.5
    )
    if late is not None and late > LATE_SHARE * period_ms:
        return f"the server cannot keep it up here: half of what it sends is {late:.1f} ms late, or more"
    return None
