"""What the client said of itself over a whole log, and which times a jump of the clocks took the worth of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core.calibration import Calibration
from infermaxx_tui.core.events import Beat, Calibrated, ClockJumped, InstrumentRead, Record, RequestEnded
from infermaxx_tui.core.fold_lumps import Travel, Travels
from infermaxx_tui.core.stats import LogHistogram

LEAST_WINDOW_MS = 1000.0
"""A shorter window, as the last one may be, says nothing of the share of a core that the loop takes."""

_BUCKET: Final = 1.05
"""How much wider a bucket's end is than its beginning (core.stats.LogHistogram)."""


class Waits(msgspec.Struct, frozen=True):
    """Waits of one sort over the run; None where n is 0."""

    n: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """How well the client could see, beside what core.state.Instrument says."""

    dispatch: Waits = Waits()
    """From when the schedule wanted a request until its bytes went out."""
    dispatch_by: dict[str, float] = {}
    """The longest of them in ms, by why the moment came."""
    dispatch_parts: dict[str, float] = {}
    """All of them in ms, by what the time went to."""
    connect: Waits = Waits()
    connects_new: int = 0
    connects_reused: int = 0
    reads: int = 0
    reads_coalesced: int = 0
    gc_pauses: int | None = None
    gc_total_ms: float | None = None
    gc_max_ms: float | None = None
    loop_cpu_share_max: float | None = None
    steps: int = 0
    """Times that the wall clock was set."""
    step_ms: float = 0.0
    """The largest, by size."""
    suspends: int = 0
    suspend_ms: float | None = None
    """How long the machine slept in all; None where nobody could tell."""
    unseen_step_ms: float = 0.0
    """The largest step of the wall clock, by size, that stands in a reading and not as a jump in the log."""
    ttft_excluded: int = 0
    """First tokens that a jump of a clock came before."""
    gaps_excluded: int = 0
    """Gaps between tokens while a request was open that such a jump had met."""
    missing: dict[str, str] = {}
    calibration: Calibration | None = None
    calibration_age_s: float | None = None
    calibration_reason: str | None = "the log does not say"
    travel: Travel = Travel()
    """Whether replies came event by event, or in lumps."""

    @property
    def coalesced_share(self) -> float | None:
        """Share of reads that held more than one event."""
        return self.reads_coalesced / self.reads if self.reads else None


@dataclass(slots=True)
class SelfReadings:
    """The readings summed up; of constant size but for the requests that are open when a clock jumps."""

    dispatch: LogHistogram = field(default_factory=LogHistogram)
    dispatch_max_ms: float | None = None
    by: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    connect: LogHistogram = field(default_factory=LogHistogram)
    connect_max_ms: float | None = None
    connects_new: int = 0
    connects_reused: int = 0
    reads: int = 0
    reads_coalesced: int = 0
    gc_pauses: int | None = None
    gc_total_ms: float | None = None
    gc_max_ms: float | None = None
    loop_cpu_share_max: float | None = None
    steps: int = 0
    step_ms: float = 0.0
    suspends: int = 0
    suspend_ms: float | None = None
    unseen_step_ms: float = 0.0
    ttft_excluded: int = 0
    gaps_excluded: int = 0
    missing: dict[str, str] = field(default_factory=dict)
    calibrated: Calibrated | None = None
    travels: Travels = field(default_factory=Travels)
    _told_ms: float = 0.0
    """Of the wall clock's change since the last reading, what jumps in the log account for."""
    _spanning: set[int] = field(default_factory=set)
    """Requests that were open when a clock jumped, and still are."""
    _without_first: set[int] = field(default_factory=set)
    """Those of them whose first token had not come by then."""
    _spoilt_us: int | None = None
    """Until when the gaps of a beat may be those of such requests; None: no clock has jumped."""

    def read(self, event: InstrumentRead) -> None:
        """One reading."""
        self.dispatch.merge(event.dispatch_buckets)
        self.dispatch_max_ms = _larger(self.dispatch_max_ms, event.dispatch_max_ms)
        for one in event.dispatch_by:
            self.by[one.name] = max(self.by.get(one.name, 0.0), one.max_ms)
        for one in event.dispatch_parts:
            self.parts[one.name] = self.parts.get(one.name, 0.0) + one.total_ms
        self.connect.merge(event.connect_buckets)
        self.connect_max_ms = _larger(self.connect_max_ms, event.connect_max_ms)
        self.connects_new += event.connects_new
        self.connects_reused += event.connects_reused
        self.reads += event.reads
        self.reads_coalesced += event.reads_coalesced
        self._read_self(event)
        unseen_ms = event.wall_step_ms - self._told_ms
        self._told_ms = 0.0
        if abs(unseen_ms) > abs(self.unseen_step_ms):
            self.unseen_step_ms = unseen_ms

    def _read_self(self, event: InstrumentRead) -> None:
        if event.gc_pauses is not None:
            self.gc_pauses = (self.gc_pauses or 0) + event.gc_pauses
            self.gc_total_ms = (self.gc_total_ms or 0.0) + (event.gc_total_ms or 0.0)
            self.gc_max_ms = _larger(self.gc_max_ms, event.gc_max_ms)
        if event.window_ms >= LEAST_WINDOW_MS:
            self.loop_cpu_share_max = _larger(self.loop_cpu_share_max, event.loop_cpu_share)
        if event.suspend_ms is not None:
            self.suspend_ms = (self.suspend_ms or 0.0) + event.suspend_ms
        self.missing.update(event.missing)

    def jumped(self, record: Record, event: ClockJumped, open_: Iterable[tuple[int, bool]]) -> None:
        """A clock jumped while these requests were open; of each its number, and whether its first token had come."""
        if event.kind == "step":
            self.steps += 1
            if abs(event.by_ms) > abs(self.step_ms):
                self.step_ms = event.by_ms
        else:
            self.suspends += 1
        self._told_ms += event.by_ms
        for req, spoke in open_:
            self._spanning.add(req)
            if not spoke:
                self._without_first.add(req)
        self._spoilt_us = record.mono_us

    def timed(self, event: RequestEnded) -> bool:
        """Whether the times of a request that is over count: not if a jump came before its first token."""
        if event.req not in self._without_first:
            return True
        self.ttft_excluded += event.kind == "turn" and event.ttft_ms is not None
        return False

    def ended(self, record: Record, event: RequestEnded) -> None:
        """A request is over; what it brought since the last beat stands in the next one."""
        req = event.req
        self.travels.ended(event)
        if req in self._spanning:
            self._spanning.discard(req)
            self._without_first.discard(req)
            self._spoilt_us = record.mono_us

    def gaps_count(self, record: Record, event: Beat) -> bool:
        """Whether the gaps of a beat are those of requests that no jump met."""
        spoilt_us = self._spoilt_us
        if spoilt_us is None or not (self._spanning or record.mono_us - event.window_ms * 1000 < spoilt_us):
            return True
        self.gaps_excluded += sum(n for _, n in event.gap_buckets)
        return False

    def segment_began(self) -> None:
        """Nothing of the last segment is open, and its monotonic clock is another one's."""
        self._spanning.clear()
        self._without_first.clear()
        self._spoilt_us = None
        self._told_ms = 0.0

    def cited(self, event: Calibrated) -> None:
        """What is known of the host's own errors; the newest stands."""
        self.calibrated = event

    def sight(self) -> Sight:
        """All of it so far."""
        cited = self.calibrated
        return Sight(
            dispatch=_waits(self.dispatch, self.dispatch_max_ms),
            dispatch_by=dict(sorted(self.by.items())),
            dispatch_parts=dict(sorted(self.parts.items())),
            connect=_waits(self.connect, self.connect_max_ms),
            connects_new=self.connects_new,
            connects_reused=self.connects_reused,
            reads=self.reads,
            reads_coalesced=self.reads_coalesced,
            gc_pauses=self.gc_pauses,
            gc_total_ms=self.gc_total_ms,
            gc_max_ms=self.gc_max_ms,
            loop_cpu_share_max=self.loop_cpu_share_max,
            steps=self.steps,
            step_ms=self.step_ms,
            suspends=self.suspends,
            suspend_ms=self.suspend_ms,
            unseen_step_ms=self.unseen_step_ms,
            ttft_excluded=self.ttft_excluded,
            gaps_excluded=self.gaps_excluded,
            missing=dict(sorted(self.missing.items())),
            calibration=cited.calibration if cited is not None else None,
            calibration_age_s=cited.age_s if cited is not None else None,
            calibration_reason=cited.reason if cited is not None else "the log does not say",
            travel=self.travels.travel(),
        )


def _larger(a: float | None, b: float | None) -> float | None:
    return a if b is None or (a is not None and a >= b) else b


def _waits(histogram: LogHistogram, longest_ms: float | None) -> Waits:
    """A bucket's middle may lie above the longest wait that is in it, and by no more than the bucket is wide."""
    p50_ms, p99_ms = (
        longest_ms if ms is not None and longest_ms is not None and longest_ms < ms <= _BUCKET * longest_ms else ms
        for ms in (histogram.quantile(0.5), histogram.quantile(0.99))
    )
    return Waits(histogram.total, p50_ms, p99_ms, longest_ms)
