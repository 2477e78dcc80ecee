"""What a count of failures is worth, and how long a run must be to be worth more.

Replies of one conversation hang together: they share a cache, a slot and a history. Counting each as a witness of its
own makes an interval too narrow, so the interval here is for as many independent replies as they come to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from infermaxx_tui.core.stats import beta_quantile, bound95, needed_for

_TAIL: Final = 0.025
LEAST_CLUSTERS: Final = 4
"""With fewer conversations, how much their replies hang together cannot be told."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A rate of failures with its two-sided 95 % interval."""

    rate: float
    low: float
    high: float
    design_effect: float | None
    """By how much fewer the replies are worth than independent ones; None where that cannot be told, and then whole
    conversations are the units of the interval."""
    units: float
    """Independent observations that the interval is for."""


def exact95(failures: float, n: float) -> tuple[float, float] | None:
    """Two-sided 95 % interval of a rate (Clopper and Pearson 1934); None if n is 0. Counts may be fractions.

    Raises ValueError for counts that cannot be.
    """
    if not 0 <= failures <= n:
        raise ValueError(f"{failures} failures in {n} observations cannot be")
    if n == 0:
        return None
    low = 0.0 if failures == 0 else beta_quantile(_TAIL, failures, n - failures + 1)
    high = 1.0 if failures == n else beta_quantile(1 - _TAIL, failures + 1, n - failures)
    return low, high


def design_effect(clusters: Iterable[tuple[int, int]]) -> float | None:
    """How much larger a rate's variance is than that of independent replies, at least 1; None if it cannot be told.

    Clusters are (failures, n). The variance between clusters over the binomial one (Rao and Scott 1992).
    """
    counted = [(x, n) for x, n in clusters if n > 0]
    total, failures = sum(n for _, n in counted), sum(x for x, _ in counted)
    k = len(counted)
    if k < LEAST_CLUSTERS or failures in (0, total):
        return None
    rate = failures / total
    between = k / (k - 1) * math.fsum((x - n * rate) ** 2 for x, n in counted) / total**2
    return max(between / (rate * (1 - rate) / total), 1.0)


def clustered95(clusters: Iterable[tuple[int, int]]) -> Interval | None:
    """The interval of a rate over clusters (failures, n), exact for the effective number of replies.

    Korn and Graubard (1998). Where the design effect cannot be told, a cluster counts once, failed if any of it did.
    None if there is nothing.
    """
    counted = [(x, n) for x, n in clusters if n > 0]
    total, failures = sum(n for _, n in counted), sum(x for x, _ in counted)
    if not total:
        return None
    effect = design_effect(counted)
    rate = failures / total
    if effect is None:
        units, failed = float(len(counted)), float(sum(x > 0 for x, _ in counted))
    else:
        units = total / effect
        failed = rate * units
    found = exact95(failed, units)
    if found is None:
        return None
    return Interval(rate=rate, low=min(found[0], rate), high=max(found[1], rate), design_effect=effect, units=units)


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a run must ask so that a clean one excludes a rate."""

    recalls: int
    """Complete recall replies without a miss."""
    spare: int
    """Recalls to plan, since some may be left out."""
    rounds: int


def need(exclude: float, recalls_per_round: int, max_excluded: float) -> Need:
    """Recalls and rounds for a bound of `exclude`. Raises ValueError for a rate that is none, or rounds without any."""
    if recalls_per_round < 1:
        raise ValueError("a round asks no recalls")
    recalls = needed_for(exclude)
    spare = math.ceil(recalls / max(1 - max_excluded, 0.1))
    return Need(recalls=recalls, spare=spare, rounds=math.ceil(spare / recalls_per_round))


def hours_for(recalls: int, seen: int, elapsed_ms: float) -> float | None:
    """Hours that so many more recalls take at the pace of those seen; None if none was seen yet."""
    return recalls * elapsed_ms / seen / 3.6e6 if seen > 0 and elapsed_ms > 0 else None


def worth(misses: int, complete: int, missing_sessions: int, sessions: int) -> str:
    """`lost < 4.9%, by session < 53% (95 %)`: above which rates nothing is left with 95 % confidence by now."""
    by_recall, by_session = bound95(misses, complete), bound95(missing_sessions, sessions)
    if by_recall is None or by_session is None:
        return "no bound yet"
    return f"lost < {by_recall:.1%}, by session < {by_session:.0%} (95 %)"


def to_go(misses: int, complete: int, wanted: int, elapsed_ms: float) -> str | None:
    """`239 more exclude 1.0%, about 40 min`: how far it is to the recalls that the limits want; None if none is."""
    missing = wanted - complete
    if missing <= 0 or misses:
        return None
    reached = bound95(0, wanted)
    hours = hours_for(missing, complete, elapsed_ms)
    pace = "" if hours is None else f", about {hours_text(hours)}"
    return f"{missing} more exclude {reached or 1.0:.1%}{pace}"


def hours_text(hours: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if hours < 1 / 30:
        return f"{hours * 3600:.0f} s"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.3g} h"
