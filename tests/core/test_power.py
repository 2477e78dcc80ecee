"""Exact and clustered intervals against published tables, and what a run must ask for a bound."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.power import (
    clustered95,
    design_effect,
    exact95,
    hours_for,
    hours_text,
    need,
    to_go,
    worth,
)
from infermaxx_tui.core.stats import beta_quantile, bound95, wilson

NEWCOMBE_1998 = [
    (81, 263, (0.2527, 0.3676), (0.2553, 0.3662)),
    (15, 148, (0.0578, 0.1617), (0.0624, 0.1605)),
    (0, 20, (0.0, 0.1684), (0.0, 0.1611)),
    (1, 29, (0.0009, 0.1776), (0.0061, 0.1718)),
]
"""Newcombe (1998), Two-sided confidence intervals for the single proportion, Statistics in Medicine 17, table I:
failures, n, the interval of Clopper and Pearson, the score interval of Wilson."""


@pytest.mark.parametrize(("failures", "n", "exact", "score"), NEWCOMBE_1998)
def test_the_published_intervals(failures: int, n: int, exact: tuple[float, float], score: tuple[float, float]) -> None:
    assert exact95(failures, n) == pytest.approx(exact, abs=6e-5)
    assert wilson(failures, n) == pytest.approx(score, abs=6e-5)


def test_conovers_table() -> None:
    """5 of 25 has the limits 0.068 and 0.407 (Conover 1999, table A4)."""
    assert exact95(5, 25) == pytest.approx((0.068, 0.407), abs=6e-4)


@pytest.mark.parametrize(("n", "bound"), [(10, 0.3085), (30, 0.1157), (100, 0.0362), (1000, 0.0037)])
def test_nothing_in_n_is_exact_too(n: int, bound: float) -> None:
    """1 - 0.025 ** (1 / n), of which Hanley and Lippman-Hand (1983) make three (here 3.7) over n."""
    assert exact95(0, n) == pytest.approx((0.0, bound), abs=6e-5)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_exact_interval_holds_the_rate_and_mirrors(case: tuple[int, int]) -> None:
    failures, n = case
    found, mirrored = exact95(failures, n), exact95(n - failures, n)
    assert found is not None
    assert mirrored is not None
    assert 0 <= found[0] <= failures / n <= found[1] <= 1
    assert found[0] == pytest.approx(1 - mirrored[1], abs=1e-9)
    if failures > 0:
        tail = math.fsum(math.comb(n, i) * found[0] ** i * (1 - found[0]) ** (n - i) for i in range(failures, n + 1))
        assert tail == pytest.approx(0.025, rel=1e-6)


@given(st.floats(0.001, 0.999), st.floats(0.5, 80), st.floats(0.5, 80))
def test_quantiles_of_beta_mirror(q: float, a: float, b: float) -> None:
    assert beta_quantile(q, a, b) == pytest.approx(1 - beta_quantile(1 - q, b, a), abs=1e-9)


def test_counts_that_cannot_be() -> None:
    for failures, n in ((-1, 3), (4, 3), (math.nan, 3)):
        with pytest.raises(ValueError, match="cannot be"):
            exact95(failures, n)
    assert exact95(0, 0) is None
    assert clustered95([]) is None
    assert clustered95([(0, 0)]) is None


def test_replies_that_fail_together_are_worth_one() -> None:
    """10 conversations of 6 replies that are all right or all wrong are 10 observations, not 60."""
    together = [(6, 6)] * 2 + [(0, 6)] * 8
    assert design_effect(together) == pytest.approx(6 * 10 / 9)
    found = clustered95(together)
    assert found is not None
    assert found.units == pytest.approx(9)
    assert found.rate == pytest.approx(0.2)
    alone = exact95(12, 60)
    assert alone is not None
    assert found.low < alone[0]
    assert found.high > alone[1]


def test_replies_that_fail_by_themselves_are_worth_what_they_are() -> None:
    apart = [(1, 5)] * 12
    found = clustered95(apart)
    assert found is not None
    assert found.design_effect == 1.0
    assert (found.low, found.high) == pytest.approx(exact95(12, 60))


@pytest.mark.parametrize("clusters", [[(0, 6)] * 10, [(6, 6)] * 10, [(1, 6), (0, 6), (2, 6)]])
def test_where_nobody_can_tell_a_conversation_counts_once(clusters: list[tuple[int, int]]) -> None:
    found = clustered95(clusters)
    assert found is not None
    assert found.design_effect is None
    assert found.units == len(clusters)
    assert found.low <= found.rate <= found.high


@given(st.lists(st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1))
def test_hanging_together_never_narrows(clusters: list[tuple[int, int]]) -> None:
    found = clustered95(clusters)
    assert found is not None
    assert 0 <= found.low <= found.rate <= found.high <= 1
    assert 0 < found.units <= sum(n for _, n in clusters)
    effect = design_effect(clusters)
    assert effect is None or effect >= 1


@pytest.mark.parametrize(
    ("exclude", "a_round", "left_out", "recalls", "rounds"),
    [(0.01, 12, 0.1, 299, 28), (0.05, 20, 0.0, 59, 3), (0.001, 40, 0.1, 2995, 84), (0.5, 100, 1.0, 5, 1)],
)
def test_what_a_bound_needs(exclude: float, a_round: int, left_out: float, recalls: int, rounds: int) -> None:
    found = need(exclude, a_round, left_out)
    assert (found.recalls, found.rounds) == (recalls, rounds)
    assert found.rounds * a_round >= found.spare >= found.recalls
    bound = bound95(0, found.recalls)
    assert bound is not None
    assert bound <= exclude


@pytest.mark.parametrize(("exclude", "a_round"), [(0.0, 5), (1.0, 5), (0.01, 0)])
def test_what_cannot_be_planned(exclude: float, a_round: int) -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1|asks no recalls"):
        need(exclude, a_round, 0.1)


def test_what_is_shown_while_a_run_goes_on() -> None:
    assert worth(0, 0, 0, 0) == "no bound yet"
    assert worth(0, 60, 0, 4) == "lost < 4.9%, by session < 53% (95 %)"
    assert to_go(0, 60, 299, 600_000.0) == "239 more exclude 1.0%, about 40 min"
    assert to_go(0, 0, 299, 600_000.0) == "299 more exclude 1.0%"
    assert to_go(0, 299, 299, 1.0) is None
    assert to_go(1, 60, 299, 1.0) is None


def test_hours() -> None:
    assert hours_for(100, 50, 3.6e6) == 2.0
    assert hours_for(100, 0, 3.6e6) is None
    assert [hours_text(h) for h in (0.01, 0.5, 3.456)] == ["36 s", "30 min", "3.46 h"]
