"""The few statistics a verdict needs: exact bounds, quantiles, and a histogram that fits into a log line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_ALPHA: Final = 0.05
_Z95: Final = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
_BASE_MS: Final = 0.01
_LOG_WIDTH: Final = math.log(1.05)


def bound95(failures: int, n: int) -> float | None:
    """Exact one-sided 95 % upper bound of a failure rate after `failures` in `n`; None if n is 0.

    Clopper and Pearson 1934: the rate at which so few failures would have a chance of 5 %, that is the 95 % quantile of
    Beta(failures + 1, n - failures). With no failure it is 1 - 0.05 ** (1 / n). Raises ValueError for counts
    that cannot be.
    """
    _check_counts(failures, n)
    if n == 0:
        return None
    if failures == 0:
        return -math.expm1(math.log(_ALPHA) / n)
    if failures == n:
        return 1.0
    return beta_quantile(1 - _ALPHA, failures + 1, n - failures)


def beta_quantile(q: float, a: float, b: float) -> float:
    """The `q` quantile of Beta(a, b) for positive a and b, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while (middle := (low + high) / 2) not in (low, high):
        if _beta_cdf(middle, a, b) < q:
            low = middle
        else:
            high = middle
    return high


def student(q: float, freedom: float) -> float:
    """The `q` quantile, from 0.5 up, of Student's t: t^2 / (t^2 + f) has the law Beta(1/2, f/2) (Student 1908)."""
    if not 0.5 <= q < 1 or freedom <= 0:
        raise ValueError(f"no quantile {q} with {freedom} degrees of freedom")
    share = beta_quantile(2 * q - 1, 0.5, freedom / 2)
    return math.sqrt(freedom * share / (1 - share)) if share < 1 else math.inf


def _check_counts(failures: float, n: int) -> None:
    if not 0 <= failures <= n:
        raise ValueError(f"{failures} failures in {n} observations cannot be")


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _continued_fraction(x, a, b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """DLMF 8.17.22 by the modified Lentz method; below the mean it needs some sqrt(a + b) terms."""
    tiny = 1e-300
    numerator, denominator = 1.0, 0.0
    value = 1.0
    for m in range(10 + 20 * math.isqrt(int(a + b) + 1)):
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        before = value
        for term in (odd, even):
            denominator = 1 / ((1 + term * denominator) or tiny)
            numerator = (1 + term / numerator) or tiny
            value *= numerator * denominator
        if abs(value - before) <= 1e-15 * abs(value):
            break
    return 1 / value


def needed_for(exclude: float) -> int:
    """Clean observations whose `bound95` is at most `exclude` (0.01 needs 299). Raises ValueError outside (0, 1)."""
    if not 0 < exclude < 1:
        raise ValueError(f"a rate to exclude lies between 0 and 1, not {exclude}")
    return math.ceil(math.log(_ALPHA) / math.log1p(-exclude))


def wilson(failures: float, n: int) -> tuple[float, float] | None:
    """Two-sided 95 % score interval of a rate (Wilson 1927); None if n is 0. Raises ValueError as `bound95`.

    `failures` may be broken where an observation is the mean of several that hang together.
    """
    _check_counts(failures, n)
    if n == 0:
        return None
    rate, z2 = failures / n, _Z95 * _Z95
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return (0.0 if failures == 0 else centre - half, 1.0 if failures == n else centre + half)


def _check_q(q: float) -> None:
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")


def quantile(values: Iterable[float], q: float) -> float | None:
    """The `q` quantile, interpolated between order statistics (type 7 of Hyndman and Fan 1996); None if empty."""
    _check_q(q)
    ordered = sorted(values)
    if not ordered:
        return None
    below = math.floor(place := q * (len(ordered) - 1))
    share = place - below
    if share == 0:
        return ordered[below]
    left, right = ordered[below], ordered[below + 1]
    # rounding may carry the mean of two neighbours past either of them
    return min(max(left * (1 - share) + right * share, left), right)


def counted_quantile(counts: Mapping[int, int], q: float) -> float | None:
    """As `quantile`, of whole numbers that each were seen so many times; None if there are none."""
    _check_q(q)
    n = sum(counts.values())
    if not n:
        return None
    below = math.floor(place := q * (n - 1))
    found = list[int]()
    passed = 0
    for value in sorted(counts):
        passed += counts[value]
        while len(found) < 2 and passed > below + len(found):
            found.append(value)
    left, right = found[0], found[-1]
    share = place - below
    return float(left) if share == 0 else left * (1 - share) + right * share


@dataclass(slots=True)
class LogHistogram:
    """Counts of durations in buckets 5 % wide, as events.Beat.gap_buckets holds them.

    Bucket 0 ends at 0.01 ms; bucket k goes from 0.01 * 1.05 ** (k - 1) ms up to and with 0.01 * 1.05 ** k ms.
    """

    counts: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def bucket(ms: float) -> int:
        """Index of the bucket of a duration in ms. Raises ValueError if it is negative or not finite."""
        if not 0 <= ms < math.inf:
            raise ValueError(f"{ms} ms is not a duration")
        return 0 if ms <= _BASE_MS else math.ceil(math.log(ms / _BASE_MS) / _LOG_WIDTH)

    def add(self, ms: float, count: int = 1) -> None:
        """Counts a duration in ms. Raises ValueError as `bucket`."""
        index, counts = self.bucket(ms), self.counts
        counts[index] = counts.get(index, 0) + count

    def merge(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Adds (bucket, count) pairs."""
        counts = self.counts
        known = counts.get
        for index, count in pairs:
            counts[index] = known(index, 0) + count

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(bucket, count) pairs by ascending bucket, for events.Beat.gap_buckets."""
        return tuple(sorted(self.counts.items()))

    @property
    def total(self) -> int:
        """How many durations were counted."""
        return sum(self.counts.values())

    def quantile(self, q: float) -> float | None:
        """The `q` quantile in ms: the geometric middle of the bucket of that rank, within 2.5 % of a counted duration.

        None if nothing was counted. Durations up to 0.01 ms come out as about 0.01 ms.
        """
        _check_q(q)
        rank = max(1, math.ceil(q * self.total))
        for index, count in self.pairs():
            rank -= count
            if rank <= 0:
                return _BASE_MS * math.exp((index - 0.5) * _LOG_WIDTH)
        return None
