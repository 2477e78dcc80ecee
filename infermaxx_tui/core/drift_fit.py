"""The arithmetic of a trend: sums that can be merged, a fit on covariates, and a robust slope with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from operator import add
from typing import Final

import msgspec

from infermaxx_tui.core.stats import quantile

LEAST_FREE: Final = 0.05
"""Share of time's variance that depth and load must leave over: below, they cannot be told from time."""
_DROPPED: Final = 1e-6
"""A covariate of which the others leave less than this share has no coefficient of its own."""
_Z95: Final = 1.959963984540054

Block = tuple[float, ...]
"""Weighted sums over the samples of one block of time: the upper triangle of z z', row by row, for
z = (1, hours, covariates…, value). Two blocks are merged by adding them."""


class Slope(msgspec.Struct, frozen=True):
    """A change per unit of time with its 95 % interval."""

    middle: float
    low: float
    high: float


def sample(weight: float, hours: float, covariates: Sequence[float], value: float) -> Block:
    """The block of one sample."""
    w_hours, w_value = weight * hours, weight * value
    if not covariates:
        return weight, w_hours, w_value, w_hours * hours, w_hours * value, w_value * value
    if len(covariates) != 2:
        z = (1.0, hours, *covariates, value)
        return tuple(weight * a * b for i, a in enumerate(z) for b in z[i:])
    c, d = covariates
    w_c, w_d = weight * c, weight * d
    first = weight, w_hours, w_c, w_d, w_value, w_hours * hours, w_hours * c, w_hours * d, w_hours * value
    return *first, w_c * c, w_c * d, w_c * value, w_d * d, w_d * value, w_value * value


def merged(a: Block, b: Block) -> Block:
    """Two blocks as one."""
    return tuple(map(add, a, b))


def sen(stretches: Sequence[Sequence[tuple[float, float]]]) -> Slope | None:
    """Theil's and Sen's slope through points (time, value), within stretches only; None without two times.

    The median of the slopes of all pairs, with Sen's interval (Sen 1968) from the variance of Kendall's score, summed
    over the stretches as Hirsch, Slack and Smith (1982) sum it over seasons. Points need not be in order.
    """
    slopes, variance = [], 0.0
    for points in stretches:
        slopes += [(y2 - y1) / (t2 - t1) for (t1, y1), (t2, y2) in combinations(points, 2) if t1 != t2]
        n = len(points)
        variance += n * (n - 1) * (2 * n + 5) / 18
    middle = quantile(slopes, 0.5)
    if middle is None:
        return None
    slopes.sort()
    reach = _Z95 * math.sqrt(variance)
    first = math.floor((len(slopes) - reach) / 2)
    if first < 0:
        return Slope(middle, -math.inf, math.inf)
    return Slope(middle, slopes[first], slopes[-1 - first])


def mean(block: Block, of: int) -> float:
    """The mean of the `of`-th of (1, hours, covariates…, value)."""
    return block[of] / block[0]


Matrix = list[list[float]]


class Fit:
    """value = level of its stretch + effects x covariates + slope x hours, by least squares over all samples."""

    def __init__(self, stretches: Sequence[Sequence[Block]], covariates: int) -> None:
        self._covariates = range(1, covariates + 1)
        self._y = covariates + 1
        self._stretches = stretches
        centres = [_centre(blocks, covariates + 2) for blocks in stretches]
        self._centred = [
            [_about(block, centre) for block in blocks] for blocks, centre in zip(stretches, centres, strict=True)
        ]
        size = covariates + 2
        flat = [block for blocks in self._centred for block in blocks]
        whole: Matrix = [[math.fsum(block[i][j] for block in flat) for j in range(size)] for i in range(size)]
        weight = math.fsum(block[0] for blocks in stretches for block in blocks)
        self.level = math.fsum(block[self._y + 1] for blocks in stretches for block in blocks) / weight
        self._swept = self._sweep(whole)
        self.effects = tuple(whole[j][self._y] if j in self._swept else None for j in self._covariates)
        """None for a covariate that did not vary, or not by itself."""
        self._inverse = whole

    def _sweep(self, a: Matrix) -> list[int]:
        """Takes out the covariates, then time, where there is something left of them; sets `free`."""
        before = [a[j][j] for j in range(len(a))]
        swept = []
        for j in self._covariates:
            if a[j][j] > _DROPPED * before[j] and before[j] > 0:
                _sweep_out(a, j)
                swept.append(j)
        self.free = a[0][0] / before[0] if before[0] > 0 else 0.0
        if self.free >= LEAST_FREE:
            _sweep_out(a, 0)
            swept.append(0)
        return swept

    def residuals(self) -> list[list[tuple[float, float]]]:
        """For each stretch its blocks' mean hours and mean value at equal covariates."""
        return [[(mean(block, 1), self._at_equal(block)) for block in blocks] for blocks in self._stretches]

    def _at_equal(self, block: Block) -> float:
        effects = zip(self._covariates, self.effects, strict=True)
        return mean(block, self._y + 1) - sum(b * mean(block, j + 1) for j, b in effects if b is not None)

    def doubt(self) -> float:
        """Half the width that the covariates' uncertain effects add to the slope, at 95 %.

        The effects' covariance is the sandwich with a block of time as the unit (Liang and Zeger 1986).
        """
        known = [j for j in self._swept if j != 0]
        if not known:
            return 0.0
        beta = {j: self._inverse[j][self._y] for j in self._swept}
        blocks = [block for some in self._centred for block in some]
        scores = [
            {i: block[i][self._y] - sum(b * block[i][j] for j, b in beta.items()) for i in self._swept}
            for block in blocks
        ]
        moved = self._moved(known)
        lever = {i: sum(moved[j] * self._inverse[j][i] for j in known) for i in self._swept}
        small = len(blocks) / max(len(blocks) - len(self._swept) - len(self._stretches), 1)
        return _Z95 * math.sqrt(small * math.fsum(sum(lever[i] * s[i] for i in self._swept) ** 2 for s in scores))

    def _moved(self, known: list[int]) -> dict[int, float]:
        """How fast each covariate itself moved with time, per hour."""
        found = {}
        for j in known:
            points = [[(mean(block, 1), mean(block, j + 1)) for block in blocks] for blocks in self._stretches]
            slope = sen(points)
            found[j] = 0.0 if slope is None else slope.middle
        return found


def _centre(blocks: Sequence[Block], size: int) -> list[float]:
    weight = math.fsum(block[0] for block in blocks)
    return [math.fsum(block[1 + i] for block in blocks) / weight for i in range(size)]


def _about(block: Block, centre: list[float]) -> Matrix:
    """Sums of products of (hours, covariates…, value) about a centre, over one block."""
    size = len(centre)
    z = list(block[: size + 1])
    out: Matrix = [[0.0] * size for _ in range(size)]
    place = size + 1
    for i in range(size):
        for j in range(i, size):
            value = block[place] - centre[i] * z[j + 1] - centre[j] * z[i + 1] + z[0] * centre[i] * centre[j]
            out[i][j] = out[j][i] = value
            place += 1
    return out


def _sweep_out(a: Matrix, k: int) -> None:
    """Beaton's sweep of row k (Goodnight 1979): swept rows hold the inverse and the coefficients."""
    pivot = a[k][k]
    row = [value / pivot for value in a[k]]
    for i, other in enumerate(a):
        if i != k:
            factor = other[k]
            a[i] = [value - factor * row[j] for j, value in enumerate(other)]
            a[i][k] = -factor / pivot
    a[k] = row
    a[k][k] = 1 / pivot
