"""Bounds against their definitions, quantiles and the histogram against plain sorting."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.stats import LogHistogram, bound95, needed_for, quantile, wilson

durations = st.floats(min_value=0.02, max_value=1e6, allow_nan=False)
counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k), term by term in exact integers."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


@pytest.mark.parametrize(
    ("n", "bound"), [(4, 0.527), (20, 0.139), (60, 0.0487), (150, 0.0198), (300, 0.00994), (1, 0.95), (6, 0.393)]
)
def test_the_bound_without_a_failure_is_the_rule_of_three(n: int, bound: float) -> None:
    found = bound95(0, n)
    assert found == pytest.approx(bound, rel=5e-3)
    assert found == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-12)


@given(counts)
def test_the_bound_is_the_rate_at_which_so_few_failures_have_a_chance_of_five_percent(case: tuple[int, int]) -> None:
    failures, n = case
    bound = bound95(failures, n)
    assert bound is not None
    assert failures / n <= bound <= 1
    if failures < n:
        assert binomial_cdf(failures, n, bound) == pytest.approx(0.05, rel=1e-6)
    else:
        assert bound == 1.0


@given(counts)
def test_more_failures_never_lower_the_bound(case: tuple[int, int]) -> None:
    failures, n = case
    bounds = [bound95(k, n) for k in (failures, min(n, failures + 1))]
    assert bounds[0] is not None
    assert bounds[1] is not None
    assert bounds[0] <= bounds[1]


def test_a_large_run_has_a_bound_too() -> None:
    bound = bound95(5_000, 100_000)
    assert bound is not None
    assert 0.0511 < bound < 0.0512


def test_nothing_seen_bounds_nothing() -> None:
    assert bound95(0, 0) is None
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("failures", "n"), [(-1, 3), (4, 3), (1, 0), (0, -1)])
def test_impossible_counts_are_refused(failures: int, n: int) -> None:
    with pytest.raises(ValueError, match="cannot be"):
        bound95(failures, n)
    with pytest.raises(ValueError, match="cannot be"):
        wilson(failures, n)


@pytest.mark.parametrize(
    ("exclude", "n"), [(0.05, 59), (0.02, 149), (0.01, 299), (0.005, 598), (0.001, 2995), (0.5, 5)]
)
def test_how_many_clean_recalls_exclude_a_rate(exclude: float, n: int) -> None:
    assert needed_for(exclude) == n


@given(st.floats(1e-5, 0.99))
def test_the_number_needed_is_the_least_that_suffices(exclude: float) -> None:
    n = needed_for(exclude)
    enough = bound95(0, n)
    assert enough is not None
    assert enough <= exclude * (1 + 1e-9)
    if n > 1:
        short = bound95(0, n - 1)
        assert short is not None
        assert short > exclude * (1 - 1e-9)


@pytest.mark.parametrize("exclude", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_rate_outside_zero_and_one_cannot_be_excluded(exclude: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        needed_for(exclude)


def test_wilson_agrees_with_a_worked_example() -> None:
    interval = wilson(3, 10)
    assert interval is not None
    assert interval == pytest.approx((0.10779, 0.60322), abs=1e-5)


@given(counts)
def test_wilson_holds_the_rate_and_stays_inside(case: tuple[int, int]) -> None:
    failures, n = case
    interval = wilson(failures, n)
    assert interval is not None
    assert 0 <= interval[0] <= failures / n <= interval[1] <= 1
    mirrored = wilson(n - failures, n)
    assert mirrored is not None
    assert interval[0] == pytest.approx(1 - mirrored[1], abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_quantiles_agree_with_the_standard_library(values: list[float]) -> None:
    theirs = statistics.quantiles(values, n=10, method="inclusive")
    for tenth, expected in enumerate(theirs, 1):
        assert quantile(values, tenth / 10) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60) | st.floats(-1e6, 1e6).map(lambda x: [x] * 5),
    st.floats(0, 1),
)
def test_a_quantile_lies_within_the_values(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert found is not None
    assert min(values) <= found <= max(values)
    assert quantile(values, 0.0) == min(values)
    assert quantile(values, 1.0) == max(values)


def test_a_quantile_of_nothing_is_none_and_takes_an_iterator() -> None:
    assert quantile([], 0.5) is None
    assert quantile(iter((3.0, 1.0, 2.0)), 0.5) == 2.0
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile([1.0], 1.5)


@given(durations)
def test_a_bucket_is_five_percent_wide(ms: float) -> None:
    index = LogHistogram.bucket(ms)
    assert 0.01 * 1.05 ** (index - 1) * (1 - 1e-9) <= ms <= 0.01 * 1.05**index * (1 + 1e-9)


@given(st.lists(durations, min_size=1, max_size=80), st.floats(0, 1))
def test_a_histogram_quantile_is_near_the_value_of_that_rank(values: list[float], q: float) -> None:
    histogram = LogHistogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert histogram.quantile(q) == pytest.approx(exact, rel=0.0251)


@given(st.lists(durations, max_size=40), st.lists(durations, max_size=40))
def test_merging_is_counting_together(left: list[float], right: list[float]) -> None:
    together, first, second = LogHistogram(), LogHistogram(), LogHistogram()
    for value in left:
        first.add(value)
    for value in right:
        second.add(value)
    for value in itertools.chain(left, right):
        together.add(value)
    first.merge(second.pairs())
    assert first == together
    assert first.total == len(left) + len(right)
    assert list(first.pairs()) == sorted(first.pairs())


def test_an_empty_histogram_has_no_quantile() -> None:
    assert LogHistogram().quantile(0.5) is None
    assert LogHistogram().pairs() == ()
    assert LogHistogram().total == 0


def test_no_gap_at_all_is_counted_in_the_first_bucket() -> None:
    histogram = LogHistogram()
    histogram.add(0.0, 3)
    assert histogram.pairs() == ((0, 3),)
    assert histogram.quantile(1.0) == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("ms", [-1.0, math.nan, math.inf])
def test_what_is_no_duration_is_refused(ms: float) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        LogHistogram.bucket(ms)
