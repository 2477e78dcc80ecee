"""What a probe measured: values with their unit, depth and streams, or the reason why there are none.

Every repetition is kept, so that whoever looks later sees the spread and not only a middle.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from infermaxx_tui.core.stats import quantile

Better = Literal["more", "less", "neither"]
"""Which way is good: more (tokens a second), less (seconds), or neither (a size that is only noted)."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """What a value that is a share was reckoned from."""

    part: float
    whole: float
    covered: float | None = None
    """Of `of`, how much the value speaks for; None where that is everything."""
    of: float | None = None


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of one run."""

    name: str
    """E.g. `decode.tokens_per_s`."""
    unit: str
    values: tuple[float, ...] = ()
    """One of each repetition that counts, in the order in which they were taken."""
    depth_tokens: int | None = None
    """Tokens that stood before the first generated one: a speed is quoted with it or not at all."""
    streams: int | None = None
    """Requests that were wanted at once."""
    better: Better = "neither"
    is_speed: bool = False
    """Withheld where the quality gate failed."""
    planned: int = 1
    """Repetitions that were wanted."""
    reason: str | None = None
    """Why the first of the missing repetitions is missing; None if none is."""
    note: str | None = None
    """What must be said beside it, e.g. that lengths were forced."""
    counts: tuple[Counts, ...] = ()
    """Of each value, where it is a share: shares of several starts are never averaged, their counts are added."""
    probe: int | None = None
    """Which of the scenario's `[[probes]]` took it: what one probe took was taken turn by turn, and what another took
    at another time of the run. None where no probe did, or where nobody knows which."""

    @property
    def key(self) -> tuple[str, int | None, int | None]:
        """What makes two measures of different runs the same one."""
        return (self.name, self.depth_tokens, self.streams)

    @property
    def median(self) -> float | None:
        """Of the values, where they are shares of counts the share of the sums; None without any."""
        if self.counts and self.values:
            return sum(one.part for one in self.counts) / sum(one.whole for one in self.counts)
        return quantile(self.values, 0.5)

    @property
    def coverage(self) -> float | None:
        """How much of everything the values speak for, from 0 to 1; None where that is no question."""
        known = [(one.covered, one.of) for one in self.counts if one.covered is not None and one.of]
        whole = sum(of for _, of in known)
        return min(sum(covered for covered, _ in known) / whole, 1.0) if whole else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """Least and greatest; None without any."""
        return (min(self.values), max(self.values)) if self.values else None


def measure_text(one: Measure) -> str:
    """In one line: the median, its spread, how many, at which depth and beside how many, and what it speaks for."""
    label = label_text(one)
    spread = one.spread
    if one.median is None or spread is None:
        return f"{label}: n/a ({one.reason or 'not measured'})"
    n = len(one.values)
    said = f"{label}: {number_text(one.median)} {one.unit}"
    said += f" ({number_text(spread[0])} to {number_text(spread[1])}, n {n})" if n > 1 else " (n 1)"
    extras = [text for text in (counts_text(one), one.note) if text]
    if one.reason:
        extras.append(f"{max(one.planned - n, 1)} left out: {one.reason}")
    return "; ".join((said, *extras))


def label_text(one: Measure) -> str:
    """`decode.tokens_per_s at 4096 tokens 8 at once`."""
    where = [] if one.depth_tokens is None else [f"at {one.depth_tokens} tokens"]
    where += [] if one.streams in (None, 1) else [f"{one.streams} at once"]
    return " ".join((one.name, *where))


def counts_text(one: Measure) -> str:
    """`613 of 1,655, from 63 % of the output tokens`; empty where the values are no quotients of counts."""
    if not one.counts:
        return ""
    joined = "of" if one.unit == "share" else "in"
    part, whole = (sum(getattr(count, name) for count in one.counts) for name in ("part", "whole"))
    return ", ".join(filter(None, (f"{number_text(part)} {joined} {number_text(whole)}", coverage_text(one))))


def coverage_text(one: Measure) -> str:
    """`from 63 % of the output tokens`; empty where that is no question."""
    return "" if one.coverage is None else f"from {100 * one.coverage:.3g} % of the output tokens"


def number_text(value: float) -> str:
    """Four digits, and whole numbers as they are."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"


def find(measures: Iterable[Measure], key: tuple[str, int | None, int | None]) -> Measure | None:
    """The measure of that key; None if there is none."""
    return next((one for one in measures if one.key == key), None)
