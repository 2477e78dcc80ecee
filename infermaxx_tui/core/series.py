"""The series of a timeline: which event brings each of them, and how its readings become one value a bucket."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.events import Event, GpuRead, InstrumentRead, MetricsRead
from infermaxx_tui.core.fold_sessions import RATE_WINDOW_MS
from infermaxx_tui.core.glyphs import nice_ceiling
from infermaxx_tui.core.kept import Floats

How = Literal["mean", "max", "rise", "ratio"]
"""How several readings become one: their mean; the largest; the rise of a counter; the rise of one counter as a share
of another's. A counter that falls was reset, and that step is left out."""
LARGEST = 1e15
"""Readings beyond this are not readings."""


def held(value: float) -> float:
    """The value as far as a series holds it: a log may say anything."""
    return float(min(max(value, 0), int(LARGEST)))


def worst(field: str, of: Callable[..., float], scale: float = 1.0) -> Callable[[GpuRead], float | None]:
    """A reading of the server's cards, the worst of them; of all cards, if none is known to be the server's."""

    def read(event: GpuRead) -> float | None:
        cards = [one for one in event.gpus if one.gpu in event.server] if event.server else event.gpus
        values = [value * scale for one in cards if (value := getattr(one, field)) is not None]
        return of(values) if values else None

    return read


class Series(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    unit: str
    source: type[Event]
    how: How
    read: Callable[..., float | None]
    of: Callable[..., float | None] | None = None
    """The other counter of a ratio."""
    hi: float | None = None
    """Upper end of the axis where it is known; else it comes from the log."""


SERIES: Final[tuple[Series, ...]] = (
    Series("running", "", MetricsRead, "mean", lambda event: event.running),
    Series("waiting", "", MetricsRead, "mean", lambda event: event.waiting),
    Series("kv_usage", "%", MetricsRead, "mean", lambda event: event.kv_usage, hi=1.0),
    Series("preemptions", "", MetricsRead, "rise", lambda event: event.preemptions),
    Series(
        "prefix_hit_rate",
        "%",
        MetricsRead,
        "ratio",
        lambda event: event.prefix_hits,
        of=lambda event: event.prefix_queries,
        hi=1.0,
    ),
    Series("gpu_power_w", "W", GpuRead, "mean", worst("power_w", max)),
    Series("sm_clock_mhz", "MHz", GpuRead, "mean", worst("sm_mhz", min)),
    Series("mem_clock_mhz", "MHz", GpuRead, "mean", worst("mem_mhz", min)),
    Series("edge_temp_c", "C", GpuRead, "max", worst("edge_c", max)),
    Series("hotspot_temp_c", "C", GpuRead, "max", worst("hotspot_c", max)),
    Series("vram_temp_c", "C", GpuRead, "max", worst("vram_c", max)),
    Series("throttle_s", "s", GpuRead, "rise", worst("thermal_ms", max, 0.001)),
    Series("vram_used_gib", "GiB", GpuRead, "mean", worst("vram_used_mib", max, 1 / 1024)),
    Series("loop_lag_p99_ms", "ms", InstrumentRead, "max", lambda event: event.loop_lag_p99_ms),
)
"""A sensor becomes a series by a line here; panels find it by its name."""
_BY_NAME: Final = {series.name: series for series in SERIES}


def _numbers() -> Floats:
    return array("d")


@dataclass(slots=True)
class Readings:
    """One series over dense buckets from 0. Two numbers a bucket: sums and counts, or the counters of a ratio."""

    name: str
    _a: Floats = field(default_factory=_numbers)
    _b: Floats = field(default_factory=_numbers)
    _before: tuple[float, float] | None = None
    _peaks: dict[int, tuple[int, float]] = field(default_factory=dict)
    """By step: how many whole stretches of so many buckets were looked at, and the highest value among them."""

    @property
    def series(self) -> Series:
        """Its line in the table."""
        return _BY_NAME[self.name]

    def add(self, bucket: int, event: Event) -> None:
        """Takes in what an event says; None says nothing."""
        value = self.series.read(event)
        if value is None or not -LARGEST < value < LARGEST:
            return
        match self.series.how:
            case "mean" | "max":
                self._put(bucket, value, 1.0)
            case "rise" | "ratio":
                self._risen(bucket, value, event)

    def _risen(self, bucket: int, value: float, event: Event) -> None:
        other = self.series.of(event) if self.series.of is not None else 0.0
        if other is None or not -LARGEST < other < LARGEST:
            return
        before, self._before = self._before, (value, other)
        if before is None or value < before[0] or other < before[1]:
            return
        risen = value - before[0]
        self._put(bucket, risen, 1.0 if self.series.of is None else other - before[1])

    def _put(self, bucket: int, value: float, count: float) -> None:
        a, b = self._a, self._b
        while len(a) <= bucket:
            a.append(0.0)
            b.append(0.0)
        a[bucket] = max(a[bucket], value) if self.series.how == "max" and b[bucket] else a[bucket] + value
        b[bucket] += count

    def halve(self) -> None:
        """Two buckets become one."""
        a, b = self._a, self._b
        self._peaks.clear()
        if len(a) % 2:
            a.append(0.0)
            b.append(0.0)
        self._a = array("d", (self._together(a[i : i + 2], b[i : i + 2]) for i in range(0, len(a), 2)))
        self._b = array("d", (b[i] + b[i + 1] for i in range(0, len(b), 2)))

    def _together(self, a: array[float], b: array[float]) -> float:
        if self.series.how != "max":
            return sum(a)
        return max((value for value, count in zip(a, b, strict=True) if count), default=0.0)

    def values(self, first: int, step: int, count: int) -> tuple[float | None, ...]:
        """`count` values of `step` buckets each, from bucket `first` on; None where nothing was measured."""
        return tuple(self._value(at, at + step) for at in range(first, first + step * count, step))

    def _value(self, first: int, after: int) -> float | None:
        a, b = self._a[first:after], self._b[first:after]
        count = sum(b)
        if not count:
            return None
        match self.series.how:
            case "mean" | "ratio":
                return sum(a) / count
            case "max" | "rise":
                return self._together(a, b)

    def hi(self, step: int) -> float:
        """A fixed upper end of the axis for values of `step` buckets each: what the series says, or the log."""
        if self.series.hi is not None:
            return self.series.hi
        seen, peak = self._peaks.get(step, (0, 0.0))
        whole = len(self._a) // step
        fresh = self.values(seen * step, step, whole - seen)
        peak = max(peak, *(value for value in fresh if value is not None), 0.0)
        self._peaks[step] = whole, peak
        return nice_ceiling(max(peak, self._value(whole * step, (whole + 1) * step) or 0.0))


class Cut(msgspec.Struct, frozen=True):
    """What a track holds in the columns of a view that it touches."""

    before: int
    """Columns before the first of them."""
    tokens: tuple[float, ...]
    covered_ms: tuple[float, ...]
    depth: tuple[float, ...]
    """NaN where there is none."""


@dataclass(slots=True)
class Track:
    """Tokens and depth of one stream, or of all of them, over the buckets of its own life."""

    first: int
    _tokens: Floats = field(default_factory=_numbers)
    _covered_ms: Floats = field(default_factory=_numbers)
    _depth: Floats = field(default_factory=_numbers)
    _peak: float = 0.0
    _peaked: int = 0
    _highest: float | None = None

    def add(self, bucket: int, tokens: float, covered_ms: float, depth: float) -> None:
        """Tokens that came in so many ms, and the depth at their end."""
        last = len(self._tokens) - 1
        place = bucket - self.first
        if place > last:
            for _ in range(place - last):
                self._tokens.append(0.0)
                self._covered_ms.append(0.0)
                self._depth.append(math.nan)
        else:
            place = max(last, 0)
        self._tokens[place] += tokens
        self._covered_ms[place] += covered_ms
        self._depth[place] = depth
        self._highest = None

    def halve(self) -> None:
        """Two buckets become one."""
        pairs = [slice(max(i, 0), i + 2) for i in range(-(self.first % 2), len(self._tokens), 2)]
        self.first //= 2
        self._tokens = array("d", (sum(self._tokens[pair]) for pair in pairs))
        self._covered_ms = array("d", (sum(self._covered_ms[pair]) for pair in pairs))
        self._depth = array("d", (_last(self._depth[pair]) for pair in pairs))
        self._peak, self._peaked, self._highest = 0.0, 0, None

    @property
    def peak(self) -> float:
        """The highest rate of any bucket."""
        if self._highest is None:
            self._highest = self._looked()
        return self._highest

    def _looked(self) -> float:
        """Buckets before the newest one are looked at once."""
        last = len(self._tokens) - 1
        rates = map(rate, self._tokens[self._peaked :], self._covered_ms[self._peaked :])
        fresh = [value or 0.0 for value in rates]
        self._peak, self._peaked = max(self._peak, *fresh[:-1], 0.0), max(last, 0)
        return max(self._peak, fresh[-1]) if fresh else self._peak

    def touches(self, first: int, after: int) -> bool:
        """Whether its life has a bucket from the one up to the other."""
        return self.first < after and self.first + len(self._tokens) > first

    def cut(self, first: int, step: int, count: int) -> Cut | None:
        """The part in `count` columns of `step` buckets each, from bucket `first` on; None if it lies outside."""
        before = max((self.first - first) // step, 0)
        after = min(-(-(self.first + len(self._tokens) - first) // step), count)
        if after <= before:
            return None
        begin = first - self.first
        columns = [slice(max(begin + at * step, 0), begin + (at + 1) * step) for at in range(before, after)]
        return Cut(
            before,
            tuple(sum(self._tokens[column]) for column in columns),
            tuple(sum(self._covered_ms[column]) for column in columns),
            tuple(_last(self._depth[column]) for column in columns),
        )


def rate(tokens: float, covered_ms: float) -> float | None:
    """Tokens per second; None where too little time was covered by beats."""
    return tokens * 1000.0 / covered_ms if covered_ms >= RATE_WINDOW_MS else None


def along(cuts: Iterable[Cut], count: int) -> tuple[tuple[float | None, ...], tuple[float | None, ...]]:
    """Tokens per second and depth in `count` columns of tracks that followed one another; None where none was."""
    some = list(cuts)
    first = min((cut.before for cut in some), default=0)
    room = max((cut.before + len(cut.tokens) for cut in some), default=0) - first
    tokens, covered_ms, depth = [0.0] * room, [0.0] * room, [math.nan] * room
    for cut in some:
        columns = zip(cut.tokens, cut.covered_ms, cut.depth, strict=True)
        for at, (came, covered, deep) in enumerate(columns, cut.before - first):
            tokens[at] += came
            covered_ms[at] += covered
            depth[at] = deep if deep == deep else depth[at]
    before, after = (None,) * first, (None,) * (count - first - room)
    depths = (None if deep != deep else deep for deep in depth)
    return (*before, *map(rate, tokens, covered_ms), *after), (*before, *depths, *after)


def _last(values: array[float]) -> float:
    """The last one that is a number; NaN if there is none."""
    return next((value for value in reversed(values) if value == value), math.nan)
