"""Drift in three directions: steady soaks pass, those that move fail, and what was not seen well is left open."""

from __future__ import annotations

import msgspec
import pytest
from drifttools import Soak, records, state_of

from infermaxx_tui.core.drift import Trend, trend
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_drift import Drift
from infermaxx_tui.core.judges import drift, timing
from infermaxx_tui.core.judges.check import AnswerOutcome, Check
from infermaxx_tui.core.limits import Limits

DEMANDS = Limits(
    max_drift_share_per_hour=0.01,
    max_ttft_drift_share_per_hour=0.05,
    max_vram_mib_per_hour=8.0,
    max_client_rss_mib_per_hour=2.0,
    max_kv_floor_per_hour=0.001,
)


def judged(soak: Soak, **demands: float) -> Check:
    limits = msgspec.structs.replace(Limits(), **demands) if demands else DEMANDS
    return drift.judge(state_of(soak), limits)


def test_a_steady_soak_passes_every_demand() -> None:
    check = judged(Soak(hours=4.0))
    assert check.outcome == "pass", check.advice
    assert check.required
    assert check.n_evaluated > 700
    assert check.excluded["warm_up"] > 0
    assert not check.evidence


SICK: dict[str, tuple[Soak, dict[str, float], str]] = {
    "slow-drift": (Soak(pace=lambda h: 1 + 0.05 * h), {"max_drift_share_per_hour": 0.01}, "decode time per token"),
    "ttft": (Soak(ttft=lambda h: 1 + 0.3 * h), {"max_ttft_drift_share_per_hour": 0.05}, "time to first token"),
    "vram-creep": (Soak(vram_mib=lambda h: 7e4 + 40 * h), {"max_vram_mib_per_hour": 8.0}, "VRAM (vram 0)"),
    "board": (
        Soak(vram_mib=lambda h: 7e4 + 40 * h, processes=False),
        {"max_vram_mib_per_hour": 8.0},
        "VRAM (board vram 0)",
    ),
    "client": (Soak(rss_mib=lambda h: 90 + 9 * h), {"max_client_rss_mib_per_hour": 2.0}, "this program's memory"),
    "kv floor": (Soak(kv_floor=lambda h: 0.01 * h), {"max_kv_floor_per_hour": 0.001}, "KV held when idle"),
}


@pytest.mark.parametrize("fault", SICK)
def test_what_moves_beyond_its_margin_fails_with_a_witness(fault: str) -> None:
    soak, demands, words = SICK[fault]
    check = judged(soak, **demands)
    assert check.outcome == "fail", check.advice
    assert check.advice is not None
    assert words in check.advice
    assert next(iter(demands)) in check.advice
    seqs = {record.seq for record in records(soak)}
    assert check.evidence[0].event[1] in seqs
    healthy = judged(msgspec.structs.replace(soak, pace=Soak().pace, ttft=Soak().ttft), **demands)
    assert (healthy.outcome == "pass") == (fault in ("slow-drift", "ttft"))


def test_the_figure_is_the_drift_that_was_put_in() -> None:
    series = next(one for one in state_of(Soak(pace=lambda h: 1 + 0.05 * h)).drift.series if one.name == "decode")
    found = trend(series)
    assert isinstance(found, Trend)
    assert found.slope.middle / found.level == pytest.approx(0.05 / (1 + 0.05 * 1.5), rel=0.1)
    assert dict(found.effects)["depth in 1,000 tokens"] == pytest.approx(0.55, rel=0.15)
    assert dict(found.effects)["other streams"] == pytest.approx(2.0, rel=0.35)


BLIND: dict[str, tuple[Soak, dict[str, float], str]] = {
    "too noisy": (Soak(hours=0.6, noise=0.3), {"max_drift_share_per_hour": 0.01}, "more hours"),
    "too short": (Soak(hours=0.3), {"max_drift_share_per_hour": 0.01}, "min_drift_hours=0.25"),
    "one round": (Soak(hours=2.0, turns=240), {"max_drift_share_per_hour": 0.01}, "replay more rounds"),
    "depth is time": (Soak(hours=1.9, turns=120), {"max_drift_share_per_hour": 0.01}, "cannot be told from"),
    "no card": (Soak(cards=False), {"max_vram_mib_per_hour": 8.0}, "never read"),
    "no cache figures": (Soak(cached=False), {"max_ttft_drift_share_per_hour": 0.05}, "cached_unknown"),
    "no metrics": (Soak(metrics=False), {"max_kv_floor_per_hour": 0.001}, "never read"),
    "nothing clean": (Soak(failing=lambda h: True), {"max_drift_share_per_hour": 0.01}, "no clean conversation"),
    "preemption-storm": (
        Soak(preemptions=lambda h: 1e4 * h, pace=lambda h: 1 + 0.2 * h),
        {"max_drift_share_per_hour": 0.01},
        "preempted",
    ),
    "throttle": (
        Soak(reasons=lambda h: 0x20 if h > 1 else 0, pace=lambda h: 1.5 if h > 1 else 1.0),
        {"max_drift_share_per_hour": 0.01},
        "throttled",
    ),
    "becoming faster": (Soak(pace=lambda h: 1 - 0.05 * h), {"max_drift_share_per_hour": 0.01}, "became faster"),
}


@pytest.mark.parametrize("reason", BLIND)
def test_what_was_not_seen_is_not_judged(reason: str) -> None:
    soak, demands, words = BLIND[reason]
    check = judged(soak, **demands)
    assert (check.outcome, check.required) == ("not_evaluable", True), check.advice
    assert check.advice is not None
    assert words in check.advice


def test_without_a_demand_nothing_is_judged_and_figures_are_shown() -> None:
    check = drift.judge(state_of(Soak(pace=lambda h: 1 + 0.05 * h)), Limits())
    assert (check.outcome, check.required) == ("not_evaluable", False)
    assert check.advice is not None
    assert check.advice.startswith("no drift limit was set; decode time per token +")


def test_a_little_preemption_is_left_out_and_the_rest_is_judged() -> None:
    check = judged(Soak(preemptions=lambda h: 3.0 if h > 1 else 0.0), max_drift_share_per_hour=0.01)
    assert check.outcome == "pass", check.advice
    assert 1 <= check.excluded["preempted"] <= 4


def test_a_slow_beginning_is_warm_up() -> None:
    check = judged(Soak(pace=lambda h: 3.0 if h < 0.1 else 1.0), max_drift_share_per_hour=0.01)
    assert check.outcome == "pass", check.advice


def test_a_failing_beginning_is_no_baseline() -> None:
    """The first conversations fail, so the warm-up lasts until one is clean."""
    slow = Soak(failing=lambda h: h < 0.5, pace=lambda h: 3.0 if h < 0.6 else 1.0)
    check = judged(slow, max_drift_share_per_hour=0.01)
    assert check.outcome == "pass", check.advice
    assert check.excluded["warm_up"] > 20


@pytest.mark.parametrize("how", ["restart", "power limit"])
def test_a_step_where_something_began_anew_is_no_drift(how: str) -> None:
    lost_at = (1.5,) if how == "restart" else ()
    soak = Soak(
        pace=lambda h: 1.25 if h > 1.49 else 1.0,
        lost_at=lost_at,
        limit_w=lambda h: 250.0 if h > 1.48 and how == "power limit" else 300.0,
        noise=0.005,
    )
    check = judged(soak, max_drift_share_per_hour=0.02)
    assert check.outcome == "pass", check.advice
    series = next(one for one in state_of(soak).drift.series if one.name == "decode")
    assert len(series.stretches) == 2


def test_memory_that_falls_is_no_failure() -> None:
    check = judged(Soak(vram_mib=lambda h: 7e4 - 500 * h), max_vram_mib_per_hour=8.0)
    assert check.outcome == "pass", check.advice


def test_a_client_that_cannot_time_voids_times_and_not_memory() -> None:
    slow = Limits(max_drift_share_per_hour=0.01, max_vram_mib_per_hour=8.0, max_loop_lag_ms=0.1)
    assert drift.judge(state_of(Soak()), slow).outcome == "not_evaluable"
    creeping = drift.judge(state_of(Soak(vram_mib=lambda h: 7e4 + 40 * h)), slow)
    assert creeping.outcome == "fail"


def test_a_lag_is_held_against_the_time_that_is_counted() -> None:
    """7 ms of lag spoil a gap of 24 ms, and not a reply of at least 16 tokens."""
    state = state_of(Soak())
    seen = msgspec.structs.replace(state.instrument, loop_lag_p99_ms=7.0, loop_lag_max_ms=9.0)
    lagging = msgspec.structs.replace(state, instrument=seen)
    assert timing.blind(lagging, Limits())
    assert drift.judge(lagging, Limits(max_drift_share_per_hour=0.01)).outcome == "pass"
    worse = msgspec.structs.replace(state, instrument=msgspec.structs.replace(seen, loop_lag_p99_ms=90.0))
    check = drift.judge(worse, Limits(max_drift_share_per_hour=0.01))
    assert check.outcome == "not_evaluable"
    assert check.advice is not None
    assert "of the time of 16 tokens" in check.advice


@pytest.mark.parametrize("cut", [0, 1, 17, 400, 1800])
def test_a_fold_that_was_put_away_goes_on_the_same(cut: int) -> None:
    lines = list(records(Soak(lost_at=(1.0,), preemptions=lambda h: 50.0 * round(h))))
    whole, first = Fold(), Fold()
    for record in lines:
        whole.add(record)
    for record in lines[:cut]:
        first.add(record)
    part = msgspec.msgpack.decode(msgspec.msgpack.encode(first.parts.drift), type=Drift)
    for record in lines[cut:]:
        part.take(record)
    assert part.seen() == whole.snapshot().drift


def test_a_soak_of_days_takes_no_more_room() -> None:
    fold = Fold()
    for record in records(Soak(hours=60.0)):
        fold.add(record)
    kept = fold.parts.drift
    assert all(len(one.blocks) <= 64 for some in kept.quantities.values() for one in some.stretches)
    assert len(msgspec.msgpack.encode(kept)) < 60_000


def test_outcomes_are_the_three() -> None:
    seen: set[AnswerOutcome] = {judged(soak, **demands).outcome for soak, demands, _ in (SICK | BLIND).values()}
    assert seen | {judged(Soak(hours=4.0)).outcome} == {"pass", "fail", "not_evaluable"}
