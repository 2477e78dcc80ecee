"""Trends at equal load: against published and made-up cases, and how often they find what is not there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.drift import LEAST_SAMPLES, Blind, Series, Trend, more_hours, trend
from infermaxx_tui.core.drift_fit import Block, Slope, merged, sample, sen

SEN_1968 = [(1.0, 9.0), (2.0, 15.0), (3.0, 19.0), (4.0, 20.0), (10.0, 45.0), (12.0, 55.0), (18.0, 78.0)]
"""The worked example of Sen (1968), Estimates of the regression coefficient based on Kendall's tau, JASA 63: a slope of
4 with the interval (26/7, 35/8)."""

Sample = tuple[float, tuple[float, ...], float]
"""Hours, covariates, value."""


def series(samples: Sequence[Sample], blocks: int = 48, names: tuple[str, ...] = ("depth",), name: str = "x") -> Series:
    """The samples as a fold keeps them."""
    first, last = samples[0][0], samples[-1][0]
    kept: dict[int, Block] = {}
    for hours, covariates, value in samples:
        place = int((hours - first) / (last - first) * blocks) if last > first else 0
        block = sample(1.0, hours - first, covariates, value)
        kept[place] = merged(kept[place], block) if place in kept else block
    return Series(name, names, len(samples), last - first, (tuple(kept[place] for place in sorted(kept)),))


def soak(
    slope: float, noise: float, seed: int, hours: float = 2.0, rounds: int = 20, n: int = 800, rho: float = 0.0
) -> list[Sample]:
    """Decode times of conversations that grow deep and begin again: 22.7 ms + 0.55 ms per 1,000 tokens, as measured
    on a real card, with a drift of `slope` ms per hour and noise that resembles its neighbour by `rho`."""
    dice, shake = random.Random(seed), 0.0
    out: list[Sample] = []
    for i in range(n):
        t = hours * i / n
        depth = 36 * (rounds * i / n % 1)
        shake = rho * shake + math.sqrt(1 - rho * rho) * dice.gauss(0, noise)
        out.append((t, (depth,), 22.7 + 0.55 * depth + slope * t + shake))
    return out


def found(samples: Sequence[Sample]) -> Trend:
    got = trend(series(samples))
    assert isinstance(got, Trend), got
    return got


def test_sens_own_example() -> None:
    slope = sen([SEN_1968])
    assert slope is not None
    assert (slope.middle, slope.low, slope.high) == pytest.approx((4.0, 26 / 7, 35 / 8))


def test_a_line_has_its_slope_and_no_doubt() -> None:
    assert sen([[(float(t), 3.0 - 0.5 * t) for t in range(12)]]) == Slope(-0.5, -0.5, -0.5)


def test_pairs_are_not_drawn_across_stretches() -> None:
    """A step at a restart is no trend."""
    flat, higher = [(float(t), 1.0) for t in range(6)], [(float(t), 9.0) for t in range(6)]
    assert sen([flat, higher]) == Slope(0.0, 0.0, 0.0)
    together = sen([flat + [(t + 6, y) for t, y in higher]])
    assert together is not None
    assert together.middle > 0.5


def test_two_points_bound_nothing() -> None:
    assert sen([[(0.0, 1.0), (1.0, 2.0)]]) == Slope(1.0, -math.inf, math.inf)
    assert sen([[(0.0, 1.0), (0.0, 2.0)]]) is None
    assert sen([]) is None


points = st.lists(
    st.tuples(st.integers(0, 40), st.integers(-100, 100)), min_size=8, max_size=14, unique_by=lambda point: point[0]
)


@given(points, st.integers(-5, 5), st.integers(-9, 9), st.randoms())
def test_sens_slope_moves_with_the_data(raw: list[tuple[int, int]], tilt: int, lift: int, dice: random.Random) -> None:
    some = [(float(t), float(y)) for t, y in raw]
    plain, tilted = sen([some]), sen([[(t, y + tilt * t + lift) for t, y in dice.sample(some, len(some))]])
    assert plain is not None
    assert tilted is not None
    for one, other in zip((plain.middle, plain.low, plain.high), (tilted.middle, tilted.low, tilted.high), strict=True):
        assert other == pytest.approx(one + tilt, abs=1e-9)
    assert plain.low <= plain.middle <= plain.high


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0, 5), st.floats(0, 9), st.floats(0, 99)), min_size=2))
def test_blocks_add_up_in_any_order(raw: list[tuple[float, float, float, float]]) -> None:
    blocks = [sample(w, t, (x,), y) for w, t, x, y in raw]
    forth, back = blocks[0], blocks[-1]
    for block in blocks[1:]:
        forth = merged(forth, block)
    for block in blocks[-2::-1]:
        back = merged(block, back)
    assert forth == pytest.approx(back, rel=1e-9, abs=1e-9)
    assert forth[0] == pytest.approx(sum(w for w, *_ in raw))


@pytest.mark.parametrize("slope", [0.0, 0.6, -1.1, 5.0])
def test_depth_is_taken_out_whatever_the_drift(slope: float) -> None:
    got = found(soak(slope, 0.0, 1))
    assert got.slope.middle == pytest.approx(slope, abs=1e-6)
    assert dict(got.effects) == pytest.approx({"depth": 0.55})
    assert got.slope.low - 1e-6 <= slope <= got.slope.high + 1e-6


def test_the_first_and_last_part_of_the_same_run_would_have_lied() -> None:
    """With nothing changed, the depths at both ends differ; the fit sees through that."""
    samples = soak(0.0, 0.3, 7, rounds=3, n=200)
    ends = [value for _, _, value in samples[:10]], [value for _, _, value in samples[-10:]]
    assert sum(ends[1]) / sum(ends[0]) > 1.5
    got = found(samples)
    assert abs(got.slope.middle) / got.level < 0.01


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_no_drift_is_rarely_taken_for_one(rho: float) -> None:
    """The interval of 95 % holds the truth in most of 120 runs, with neighbours that resemble each other too."""
    held = 0
    for seed in range(120):
        got = found(soak(0.4, 1.0, seed, rho=rho))
        held += got.slope.low <= 0.4 <= got.slope.high
    assert held >= 0.88 * 120


def test_real_drift_is_found() -> None:
    above = 0
    for seed in range(40):
        got = found(soak(0.05 * 22.7, 1.0, seed))
        above += got.slope.low > 0
    assert above == 40


def test_one_wild_block_does_not_turn_a_trend() -> None:
    samples = [(t, x, y + (200 if 0.9 < t < 1.0 else 0)) for t, x, y in soak(0.0, 0.5, 3)]
    assert abs(found(samples).slope.middle) < 1.0


def test_depth_that_grows_with_time_alone_is_confounded() -> None:
    got = trend(series(soak(0.0, 0.5, 3, rounds=1)))
    assert isinstance(got, Blind)
    assert got.why == "confounded"
    assert "rounds" in got.said
    assert got.more_hours is None


def test_a_covariate_that_never_varies_is_left_out() -> None:
    samples = [(t, (x[0], 3.0), y) for t, x, y in soak(1.0, 0.2, 5)]
    got = trend(series(samples, names=("depth", "streams")))
    assert isinstance(got, Trend)
    assert [name for name, _ in got.effects] == ["depth"]
    assert got.slope.low < 1.0 < got.slope.high


def test_load_is_taken_out_beside_depth() -> None:
    dice = random.Random(4)
    samples = [
        (t, (x[0], float(streams)), y + 1.7 * streams)
        for t, x, y in soak(0.8, 0.2, 6)
        for streams in (dice.choice((0, 1, 3)),)
    ]
    got = trend(series(samples, names=("depth", "streams")))
    assert isinstance(got, Trend)
    assert dict(got.effects) == {"depth": pytest.approx(0.55, abs=0.01), "streams": pytest.approx(1.7, abs=0.05)}
    assert got.slope.low < 0.8 < got.slope.high


def test_a_stock_needs_no_covariates() -> None:
    got = trend(series([(i / 10, (), 64_000.0 + 3 * i) for i in range(60)], names=()))
    assert isinstance(got, Trend)
    assert (got.slope.middle, got.slope.low, got.slope.high) == pytest.approx((30.0, 30.0, 30.0))


TOO_LITTLE: dict[str, tuple[Callable[[], Series], str]] = {
    "nothing": (lambda: Series("x", ("depth",), 0, 0.0, ()), "few_samples"),
    "few": (lambda: series(soak(0.0, 0.1, 1, n=LEAST_SAMPLES - 1)), "few_samples"),
    "at one moment": (lambda: Series("x", (), 99, 0.0, ((sample(99.0, 0.0, (), 1.0),),)), "few_samples"),
    "short": (lambda: series(soak(0.0, 0.1, 1, hours=0.1)), "short"),
    "in two blocks": (lambda: series([(t, (), 1.0) for t in (0.0, 2.0) for _ in range(20)], names=()), "few_samples"),
}


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_too_little_is_no_trend(name: str) -> None:
    make, why = TOO_LITTLE[name]
    got = trend(make(), 0.25)
    assert isinstance(got, Blind)
    assert got.why == why
    if why == "short":
        assert got.more_hours == pytest.approx(0.15, abs=0.01)


def test_the_hours_that_are_missing_follow_from_the_interval() -> None:
    assert more_hours(Slope(0.0, -8.0, 8.0), 1.0, 1.0) == pytest.approx(3.0)
    assert more_hours(Slope(3.0, -5.0, 11.0), 1.0, 2.0) == pytest.approx(3.0)
    assert more_hours(Slope(1.0, 0.0, 2.0), 1.0, 1.0) is None
    assert more_hours(Slope(0.0, -0.5, 0.5), 1.0, 1.0) == 0.0


@given(st.floats(0.01, 50), st.floats(0.1, 100), st.floats(0.01, 10))
def test_a_longer_run_of_the_named_hours_would_do(half: float, hours: float, margin: float) -> None:
    more = more_hours(Slope(0.0, -half, half), hours, margin)
    assert more is not None
    assert half * (hours / (hours + more)) ** 1.5 <= margin * (1 + 1e-9)
