"""Speed that is too good: three things must come together, each alone accuses nobody, and what is not known neither."""

from __future__ import annotations

import msgspec
import pytest
from controltools import paced_turn
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import history, state_of
from infermaxx_tui.core.inflation import Inflation, Pace, depth_band, distinct_trigrams, inflation
from infermaxx_tui.core.judges import JUDGES
from infermaxx_tui.core.limits import Limits


def pace(ms: float = 10.0, distinct: float | None = 0.95, accepted: float = 0.6, depth: int = 8000) -> Pace:
    made = Pace(drafts=100.0, draft_tokens=300.0, accepted_tokens=300.0 * accepted)
    for _ in range(10):
        made.add(depth, 100, 100 * ms, distinct)
    return made


def test_fast_accepted_and_monotonous_is_suspicious() -> None:
    seen = inflation(pace(ms=5.0, distinct=0.4, accepted=0.99), pace())
    assert seen.suspicious
    assert seen.faster == pytest.approx(2.0)
    assert seen.diversity == pytest.approx(0.4 / 0.95)
    assert "2.00 times" in str(seen.said)


HONEST: dict[str, tuple[Pace, Pace]] = {
    "the same": (pace(), pace()),
    "faster alone": (pace(ms=5.0), pace()),
    "accepted alone": (pace(accepted=0.99), pace()),
    "monotonous alone": (pace(distinct=0.4), pace()),
    "fast and accepted": (pace(ms=5.0, accepted=0.99), pace()),
    "fast and monotonous": (pace(ms=5.0, distinct=0.4), pace()),
    "accepted and monotonous": (pace(distinct=0.4, accepted=0.99), pace()),
    "another depth": (pace(ms=5.0, distinct=0.4, accepted=0.99, depth=500), pace()),
    "no speculation": (msgspec.structs.replace(pace(5.0, 0.4), drafts=0.0, draft_tokens=0.0), pace()),
    "no ids": (pace(5.0, None, 0.99), pace()),
    "nothing before": (pace(5.0, 0.4, 0.99), Pace()),
    "nothing now": (Pace(), pace()),
}


@pytest.mark.parametrize("name", HONEST)
def test_these_are_not(name: str) -> None:
    seen = inflation(*HONEST[name])
    assert not seen.suspicious
    assert seen.said is None


def test_depths_are_compared_with_their_like_alone() -> None:
    """Twice as many shallow tokens raise the whole rate, and no rate at a depth."""
    control, now = Pace(), Pace()
    for depth, ms in ((1000, 5.0), (30_000, 20.0)):
        control.add(depth, 1000, 1000 * ms, None)
        now.add(depth, 9000 if depth == 1000 else 1000, (9000 if depth == 1000 else 1000) * ms, None)
    assert inflation(now, control).faster == pytest.approx(1.0)


@given(st.integers(1, 10**6))
def test_bands_ascend_with_depth_by_half_octaves(depth: int) -> None:
    assert depth_band(depth) <= depth_band(depth + 1)
    assert depth_band(2 * depth) == depth_band(depth) + 2


@given(st.lists(st.integers(0, 5), max_size=80))
def test_distinct_trigrams_are_a_share(ids: list[int]) -> None:
    share = distinct_trigrams(ids)
    assert (share is None) is (len(ids) < 16)
    assert share is None or 0 < share <= 1


def test_known_shares() -> None:
    assert distinct_trigrams(list(range(50))) == 1.0
    assert distinct_trigrams([7] * 102) == 0.01
    assert distinct_trigrams([1, 2] * 52) == pytest.approx(2 / 102, abs=1e-4)


def waves(fast: bool) -> list[e.AnyEvent]:
    """Two waves of the same turns, the second babbling with all drafts accepted."""
    events: list[e.AnyEvent] = [*history()[:2]]
    drafts = 0.0
    for wave in (0, 1):
        sick = fast and wave == 1
        events.append(e.SessionStarted(session=wave, wave=wave, transcripts=("a",), planned_recalls=0))
        for turn in range(12):
            drafts += 20
            accepted = 60.0 if sick else 40.0
            events.append(
                e.MetricsRead(drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=(drafts - 20) * 2 + accepted)
            )
            events.append(paced_turn(100 * wave + turn, wave, turn, sick))
    return events


def test_a_fold_compares_the_newest_wave_with_the_first() -> None:
    good, one = state_of(waves(fast=False)).inflation, state_of(waves(fast=False)[:20]).inflation
    assert one is None
    assert good is not None
    assert good.faster == pytest.approx(1.0)
    assert good.diversity == pytest.approx(1.0)
    bad = state_of(waves(fast=True)).inflation
    assert bad is not None
    assert bad.faster == pytest.approx(2.5)


def test_the_judge_of_degeneration_notes_it_and_fails_nobody() -> None:
    state = state_of(history())
    found = Inflation(faster=1.9, acceptance=0.99, diversity=0.5)
    check = JUDGES["degeneration"](msgspec.structs.replace(state, inflation=found), Limits())
    assert check.outcome == "pass"
    assert "suspiciously fast: 1.90 times" in str(check.advice)
    clean = JUDGES["degeneration"](state, Limits())
    assert "suspicious" not in str(clean.advice)
