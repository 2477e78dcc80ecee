"""Whether something moves while a run goes on, and how sure that is: trends at equal load, with an interval.

Comparing a run's beginning with its end is wrong where depth grows on the way: with nothing changed at all that said
-9 % in simulation, and a fit at equal depth said 0.1 % (gpu-and-verdicts §2.8). So what is measured is first freed of
what depth and load do to it, and then looked at against time, robustly, on the means of blocks of time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.drift_fit import LEAST_FREE, Block, Fit, Slope, mean, merged, sen
from infermaxx_tui.core.stats import quantile

SUPER_BLOCKS: Final = 12
"""Blocks of time that a trend is looked for on: few, since neighbours among many resemble each other, and a test on
raw readings then finds trends where there are none (76 % of the time at a correlation of 0.95; §2.8)."""
LEAST_BLOCKS: Final = 8
"""With fewer, the interval below does not reach 95 %."""
LEAST_SAMPLES: Final = 24
"""Of what has covariates; half of that without."""
_THIN: Final = 0.1
"""A block with less than this share of the median weight is left out."""

Refusal = Literal["few_samples", "short", "confounded"]


class Series(msgspec.Struct, frozen=True):
    """A quantity over the time of a run, free of what must not be counted."""

    name: str
    covariates: tuple[str, ...]
    n: int
    hours: float
    """From the first to the newest sample of each stretch, all stretches together."""
    stretches: tuple[tuple[Block, ...], ...]
    """Blocks in order of time. A stretch ends where the server starts anew: no trend is drawn across that."""
    excluded: dict[str, int] = {}
    """Samples left out, by reason."""
    at: tuple[int, int] | None = None
    """Where in the log the newest sample stands."""


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """How a quantity moved, per hour, at equal covariates."""

    name: str
    n: int
    blocks: int
    hours: float
    level: float
    """Its mean over the run."""
    slope: Slope
    """In its own unit."""
    effects: tuple[tuple[str, float], ...]
    """What one unit of each covariate does to it; a covariate that did not vary is not there."""


class Blind(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no trend."""

    name: str
    why: Refusal
    said: str
    more_hours: float | None = None
    """How much longer the run must be at the least; None where time alone does not help."""


def least_samples(series: Series) -> int:
    """Samples below which nothing is said."""
    return LEAST_SAMPLES if series.covariates else LEAST_SAMPLES // 2


def trend(series: Series, least_hours: float = 0.0) -> Trend | Blind:
    """How the quantity moved. The interval counts what is uncertain in the covariates' effects too."""
    least = least_samples(series)
    if series.n < least or series.hours <= 0:
        more = None if series.hours <= 0 else series.hours * max(least / series.n - 1, 0.0)
        return Blind(
            name=series.name, why="few_samples", said=f"{series.n} of {least} samples counted", more_hours=more
        )
    if series.hours < least_hours:
        said = f"{_time(series.hours)} were covered, limits.min_drift_hours={least_hours:g}"
        return Blind(name=series.name, why="short", said=said, more_hours=least_hours - series.hours)
    stretches = [blocks for one in series.stretches if len(blocks := _super_blocks(one, series.hours)) > 1]
    n_blocks = sum(map(len, stretches))
    if n_blocks < LEAST_BLOCKS:
        said = f"{n_blocks} blocks of time hold enough samples, and {LEAST_BLOCKS} are needed"
        return Blind(name=series.name, why="few_samples", said=said, more_hours=series.hours)
    fit = Fit(stretches, len(series.covariates))
    if fit.free < LEAST_FREE:
        said = f"{' and '.join(series.covariates)} grew with time and cannot be told from it: replay more rounds"
        return Blind(name=series.name, why="confounded", said=said)
    found = sen(fit.residuals())
    if found is None or math.isinf(found.low):
        said = f"{n_blocks} blocks of time in {len(stretches)} stretches are too few"
        return Blind(name=series.name, why="few_samples", said=said, more_hours=series.hours)
    wider = fit.doubt()
    return Trend(
        name=series.name,
        n=series.n,
        blocks=n_blocks,
        hours=series.hours,
        level=fit.level,
        slope=Slope(found.middle, found.low - wider, found.high + wider),
        effects=tuple((name, b) for name, b in zip(series.covariates, fit.effects, strict=True) if b is not None),
    )


def more_hours(slope: Slope, hours: float, margin: float) -> float | None:
    """How much longer a run must be for an answer; None if the slope is the margin itself.

    An interval of a slope shrinks with time to the power of 3/2: by the square root of the samples, and by the lever.
    """
    half = (slope.high - slope.low) / 2
    room = abs(margin - abs(slope.middle))
    if room <= 0 or not math.isfinite(half):
        return None
    return max(hours * (math.pow(half / room, 2 / 3) - 1), 0.0)


def _super_blocks(blocks: Sequence[Block], hours: float) -> list[Block]:
    """The blocks of a stretch joined to lengths of a share of the whole time, without thin ones."""
    if not blocks:
        return []
    width, start = hours / SUPER_BLOCKS, mean(blocks[0], 1)
    joined: dict[int, Block] = {}
    for block in blocks:
        place = int((mean(block, 1) - start) / width)
        joined[place] = merged(joined[place], block) if place in joined else block
    usual = quantile([block[0] for block in joined.values()], 0.5) or 0.0
    return [block for _, block in sorted(joined.items()) if block[0] >= _THIN * usual]


def _time(hours: float) -> str:
    return f"{hours * 3600:.3g} s" if hours < 1 / 30 else f"{hours * 60:.3g} min" if hours < 2 else f"{hours:.3g} h"


class DriftSeen(msgspec.Struct, frozen=True):
    """Everything that may have drifted, by name: `decode`, `ttft`, `kv floor`, `client rss`, `vram 0` and so on."""

    series: tuple[Series, ...] = ()
    warm: bool = False
    """Whether a clean conversation has ended since the server's newest start."""
    preemptions: int | None = None
    """Over the whole run; None: the server does not say."""
