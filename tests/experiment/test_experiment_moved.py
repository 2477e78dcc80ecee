"""Whether a figure moved: it did, it surely did not, or nobody can say; and never more than the values hold."""

from __future__ import annotations

import math
import random
from statistics import median, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.experiment.moved import moved
from infermaxx_tui.core.stats import student

_POSITIVE = st.floats(min_value=0.01, max_value=1e6)


@pytest.mark.parametrize(
    ("freedom", "wanted"), [(1, 12.7062), (2, 4.30265), (5, 2.57058), (30, 2.04227), (1e6, 1.95997)]
)
def test_students_quantile_is_the_tables(freedom: float, wanted: float) -> None:
    assert student(0.975, freedom) == pytest.approx(wanted, rel=1e-5)


def test_students_quantile_refuses_what_is_none() -> None:
    for q, freedom in ((0.4, 3.0), (1.0, 3.0), (0.9, 0.0)):
        with pytest.raises(ValueError, match="no quantile"):
            student(q, freedom)


def test_two_starts_a_side_that_agree_show_a_change() -> None:
    found = moved([(100, 101), (101,)], [(120, 121), (121.5,)], 0.03)
    assert found.outcome == "up"
    assert found.boots == (2, 2)
    assert found.n == (3, 3)
    assert found.low is not None
    assert found.high is not None
    assert 1.15 < found.low < 1.2 < found.high < 1.25
    assert moved([(120,), (121,)], [(100,), (100.4,)], 0.03).outcome == "down"


def test_a_change_within_the_margin_is_no_movement_even_if_it_is_sure() -> None:
    assert moved([(100.0,), (100.0,)], [(101.0,), (101.0,)], 0.03).outcome == "no_movement"


def test_starts_that_disagree_resolve_nothing() -> None:
    found = moved([(100,), (140,)], [(120,), (150,)], 0.03)
    assert found.outcome == "unresolved"
    assert found.low is not None
    assert found.low < 1 < (found.high or 0)


def test_repetitions_of_one_start_stand_in_and_that_is_said() -> None:
    found = moved([(100, 101, 99)], [(120, 121, 119)], 0.03)
    assert found.outcome == "up"
    assert "another start" in (found.reason or "")


def test_a_wild_start_is_not_hidden_by_many_repetitions() -> None:
    steady = moved([(100.0,) * 50, (100.2,) * 50], [(103.9,) * 50, (130.0,) * 50], 0.03)
    assert steady.outcome == "unresolved"


@pytest.mark.parametrize(
    ("control", "arm", "outcome"),
    [
        ([], [(1.0,)], "missing"),
        ([(1.0,)], [()], "missing"),
        ([(1.0,)], [(2.0,)], "single"),
        ([(0.0, 0.0)], [(0.0, 0.0)], "no_movement"),
        ([(0.0, 0.0)], [(0.0, 1.0)], "unresolved"),
        ([(623200.0,), (623200.0,)], [(1243488.0,), (1243488.0,)], "up"),
    ],
)
def test_what_cannot_be_told_is_said(
    control: list[tuple[float, ...]], arm: list[tuple[float, ...]], outcome: str
) -> None:
    found = moved(control, arm, 0.03)
    assert found.outcome == outcome
    assert (found.low is None) == (outcome in ("missing", "single") or 0.0 in (control[0] or (0.0,)))


@given(st.lists(st.tuples(_POSITIVE, _POSITIVE), min_size=2, max_size=5), _POSITIVE)
def test_an_arm_never_moves_against_itself_and_the_unit_does_not_matter(
    boots: list[tuple[float, float]], unit: float
) -> None:
    found = moved(boots, boots, 0.03)
    assert found.outcome in ("no_movement", "unresolved")
    scaled = moved([tuple(v * unit for v in boot) for boot in boots], boots, 0.03)
    assert scaled.ratio == pytest.approx(1 / unit)
    if found.low is not None and scaled.low is not None and found.high is not None and scaled.high is not None:
        assert math.log(scaled.high / scaled.low) == pytest.approx(math.log(found.high / found.low), abs=1e-9)


@given(st.lists(st.tuples(_POSITIVE), min_size=2, max_size=4), st.lists(st.tuples(_POSITIVE), min_size=2, max_size=4))
def test_the_two_sides_mirror_one_another(left: list[tuple[float]], right: list[tuple[float]]) -> None:
    there, back = moved(left, right, 0.03), moved(right, left, 0.03)
    mirror = {"up": "down", "down": "up"}
    if (there.outcome == "no_movement") != (back.outcome == "no_movement"):
        return  # a margin of 3 % is 1 / 0.97 the other way
    assert back.outcome == mirror.get(there.outcome, there.outcome)


def test_starts_whose_middles_agree_by_chance_are_no_surer_than_their_repetitions() -> None:
    found = moved([(80, 100, 120), (81, 100, 119)], [(82, 101, 121), (84, 101, 118)], 0.03)
    assert found.outcome == "unresolved"


def test_five_starts_without_a_change_seldom_move_and_a_change_lies_within_the_interval() -> None:
    """The interval of a mean around a median held 95 % in name and 92 % in fact."""
    draw = random.Random(7)
    outcomes, held = [], 0
    for _ in range(1500):
        sides = [[(100 * math.exp(draw.gauss(0, 0.02)),) for _ in range(5)] for _ in range(2)]
        outcomes.append(moved(sides[0], sides[1], 0.0).outcome)
        found = moved(sides[0], [(1.1 * value,) for (value,) in sides[1]], 0.03)
        held += (found.low or 0) <= 1.1 <= (found.high or 0)
    assert sum(one in ("up", "down") for one in outcomes) <= 0.05 * len(outcomes)
    assert 0.95 * len(outcomes) <= held <= 0.98 * len(outcomes)


def test_the_interval_of_five_starts_is_as_wide_as_their_median_needs_it() -> None:
    """Logarithms -2, -1, 0, 1 and 2 hundredths on both sides: s² = 2.5e-4, 8 degrees of freedom, t = 2.306."""
    starts = [(math.exp(step / 100),) for step in (-2, -1, 0, 1, 2)]
    found = moved(starts, starts, 0.03)
    assert math.log(found.high or 0) == pytest.approx(2.306 * math.sqrt(2 * 1.434 * 2.5e-4 / 5), rel=1e-3)
    draw = random.Random(7)
    middles = [median(draw.gauss(0, 1) for _ in range(5)) for _ in range(20_000)]
    assert 5 * pvariance(middles) == pytest.approx(1.434, rel=0.03)
