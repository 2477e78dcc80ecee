"""Times that are a proxy's are withheld, those of a client that was late are its own, and nothing else is held back."""

from __future__ import annotations

import re

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import changed, history, state_of
from infermaxx_tui.core.judges import timing
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.recall import judge as judge_recall
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.lumps import Arrivals
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import judge_run

LIMITS = Limits(max_ttft_p99_ms=100.0)
ONE_BY_ONE = Arrivals(events=60, moments=60)
CLUMPS = Arrivals(events=60, moments=4, lumped=60, waits=3, torn=3, wait_ms=160.0, lump_bytes=4096)
BATCHES = Arrivals(events=60, moments=8, lumped=60, waits=7, wait_ms=160.0, lump_bytes=1952)
AT_ONCE = Arrivals(events=12, moments=1, lumped=12)


def came(
    arrivals: Arrivals | None, every: int = 1, other: Arrivals | None = ONE_BY_ONE, lag_ms: float | None = 0.5
) -> RunState:
    """A healthy run of which every so manieth reply came like this and the others otherwise."""
    count = 0

    def with_arrivals(event: e.RequestEnded) -> e.AnyEvent:
        nonlocal count
        count += 1
        return msgspec.structs.replace(event, arrivals=arrivals if count % every == 0 else other)

    events = changed(history(), e.RequestEnded, with_arrivals)
    lagging = changed(events, e.InstrumentRead, lambda x: msgspec.structs.replace(x, loop_lag_p99_ms=lag_ms))
    return state_of(lagging)


def timed(state: RunState, limits: Limits = LIMITS) -> Check:
    return timing.judge(state, limits)


@pytest.mark.parametrize("arrivals", [ONE_BY_ONE, Arrivals(events=8, moments=7, lumped=2, waits=1, wait_ms=12.0)])
def test_events_that_come_one_by_one_are_timed(arrivals: Arrivals) -> None:
    got = timed(came(arrivals))
    assert got.outcome == "pass"
    assert "not seen" not in (got.advice or "")


def test_clumps_withhold_the_times_with_their_size_and_leave_content_alone() -> None:
    state = came(CLUMPS)
    got = timed(state)
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)
    assert re.search(r"came in clumps of 4 KiB, 1[56]\d ms apart", got.advice or "")
    assert "something between server and client buffers" in (got.advice or "")
    assert judge_recall(state, LIMITS).outcome == "pass"


def test_a_time_that_is_too_long_is_not_laid_on_the_server() -> None:
    assert timed(came(CLUMPS), Limits(max_ttft_p99_ms=1.0)).outcome == "not_evaluable"
    assert timed(came(ONE_BY_ONE), Limits(max_ttft_p99_ms=1.0)).outcome == "fail"


def test_whole_events_that_are_held_back_withhold_the_times_too() -> None:
    got = timed(came(BATCHES))
    assert got.outcome == "not_evaluable"
    assert "something holds whole events back" in (got.advice or "")


def test_a_client_as_late_as_the_clumps_are_apart_is_not_a_proxy() -> None:
    """Which may make clumps of whole events itself, but ends none inside an event."""
    late = timed(came(BATCHES, lag_ms=90.0))
    assert "the client lagged" in (late.advice or "")
    assert "holds" not in (late.advice or "")
    assert "buffers" in (timed(came(CLUMPS, lag_ms=90.0)).advice or "")


def test_a_client_of_which_nobody_knows_how_late_it_was_accuses_nobody() -> None:
    unknown = timed(came(BATCHES, lag_ms=None))
    assert "lag was not measured" in (unknown.advice or "")
    assert "holds" not in (unknown.advice or "")


def test_a_gap_inside_a_clump_is_nothing_to_hold_a_lag_against() -> None:
    assert "lagged" not in (timed(came(CLUMPS, lag_ms=9.0)).advice or "")


@pytest.mark.parametrize(("every", "outcome"), [(5, "not_evaluable"), (20, "pass")])
def test_a_part_of_the_replies_is_enough_if_events_were_cut(every: int, outcome: str) -> None:
    assert timed(came(CLUMPS, every)).outcome == outcome


@pytest.mark.parametrize(("every", "outcome"), [(1, "not_evaluable"), (3, "not_evaluable"), (5, "pass")])
def test_whole_events_take_more_of_the_replies(every: int, outcome: str) -> None:
    assert timed(came(BATCHES, every)).outcome == outcome


def test_single_silences_in_some_short_replies_are_no_ones_buffer() -> None:
    """As a moment without the processor makes them, on either side."""
    once = Arrivals(events=10, moments=2, lumped=10, waits=1, wait_ms=160.0)
    assert timed(came(once, 3)).outcome == "pass"
    assert timed(came(once)).outcome == "not_evaluable"


def test_a_clump_or_two_are_too_few_to_tell() -> None:
    got = timed(came(AT_ONCE, other=None))
    assert got.outcome == "not_evaluable"
    assert "came in a clump or two, too few to tell" in (got.advice or "")


@pytest.mark.parametrize("arrivals", [None, Arrivals(events=7, moments=1, lumped=7)])
def test_where_nothing_shows_it_that_is_said_with_the_figure(arrivals: Arrivals | None) -> None:
    """An older program's log, and replies of a few tokens each."""
    for limits, outcome in ((LIMITS, "pass"), (Limits(max_ttft_p99_ms=1.0), "fail")):
        got = timed(came(arrivals, other=None), limits)
        assert got.outcome == outcome
        assert "not seen: whether a proxy holds the stream back" in (got.advice or "")


@pytest.mark.parametrize("wait_ms", [-1.0, float("inf"), float("nan"), None])
def test_a_time_that_is_none_breaks_no_fold(wait_ms: float | None) -> None:
    strange = msgspec.structs.replace(CLUMPS, wait_ms=wait_ms, lump_bytes=2**62, first_bytes=-1)
    assert timed(came(strange)).outcome == "not_evaluable"


def test_the_verdict_holds_what_was_seen() -> None:
    seen = judge_run(came(CLUMPS)).instrument
    assert seen.streams_clumped == seen.streams_seen_coming > 0
    assert seen.clump_bytes == 4096
    assert seen.clump_wait_ms == pytest.approx(160, rel=0.05)
    clear = judge_run(came(ONE_BY_ONE)).instrument
    assert (clear.streams_clumped, clear.clump_bytes, clear.clump_wait_ms) == (0, None, None)
