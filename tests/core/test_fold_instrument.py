"""What the client says of itself over a log, and the times that a jump of a clock takes out of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events_read import Spent
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_instrument import SelfReadings, Sight
from infermaxx_tui.core.histories import history, records
from infermaxx_tui.core.kept import Blocks, put_away, taken
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.core.stories import Feed

SECOND = 1_000_000


def reading(**fields: object) -> e.InstrumentRead:
    base = e.InstrumentRead(
        window_ms=5000.0,
        loop_lag_p50_ms=0.1,
        loop_lag_p99_ms=0.2,
        loop_lag_max_ms=0.3,
        cpu_share=0.1,
        rss_mib=80.0,
        events_parsed=10,
    )
    return msgspec.structs.replace(base, **fields)


def pairs(*ms: float) -> tuple[tuple[int, int], ...]:
    histogram = LogHistogram()
    for one in ms:
        histogram.add(one)
    return histogram.pairs()


class Log:
    """Lines of a log at the times that are given."""

    def __init__(self) -> None:
        self.records: list[e.Record] = []

    def at(self, seconds: float, *events: e.AnyEvent) -> Log:
        for event in events:
            self.records.append(e.Record(0, len(self.records), 0, round(seconds * SECOND), event))
        return self

    def state(self) -> RunState:
        fold = Fold()
        for record in self.records:
            fold.add(record)
        return fold.snapshot()


def started(req: int) -> e.RequestStarted:
    return e.RequestStarted(req=req, session=req, turn=1, kind="turn", prompt_tokens=9, max_tokens=99)


def first(req: int) -> e.FirstToken:
    return e.FirstToken(req=req, session=req, ttft_ms=100.0)


def ended(req: int, ttft_ms: float = 100.0) -> e.RequestEnded:
    return e.RequestEnded(
        req=req, session=req, turn=1, kind="turn", outcome="ok", finish_reason="stop", ttft_ms=ttft_ms
    )


def beat(gaps: int) -> e.Beat:
    return e.Beat(window_ms=1000.0, sessions=(1,), tokens=(gaps,), depths=(9,), gap_buckets=((150, gaps),))


SLEPT = e.ClockJumped(kind="suspend", by_ms=60_000.0, since_us=0)
SET = e.ClockJumped(kind="step", by_ms=-3000.0, since_us=0)


def test_windows_add_up() -> None:
    log = Log()
    for number, longest in enumerate((4.0, 900.0)):
        log.at(
            number,
            reading(
                dispatches=2,
                dispatch_max_ms=longest,
                dispatch_buckets=pairs(2.0, longest),
                dispatch_by=(Spent("turn", 1, 2.0, 2.0), Spent("wave", 1, longest, longest)),
                dispatch_parts=(Spent("render", 2, longest, longest), Spent("connect", 2, 1.0, 0.6)),
                connects_new=2,
                connect_max_ms=0.6,
                connect_buckets=pairs(0.4, 0.6),
                reads=50,
                reads_coalesced=5 * number,
                gc_pauses=3,
                gc_total_ms=4.0,
                gc_max_ms=3.0 + number,
                loop_cpu_share=0.2 + number / 10,
                suspend_ms=0.0,
            ),
        )
    sight = log.state().instrument.sight
    assert (sight.dispatch.n, sight.dispatch.max_ms) == (4, 900.0)
    assert sight.dispatch.p99_ms == pytest.approx(900.0, rel=0.03)
    assert (sight.dispatch_by, sight.dispatch_parts) == (
        {"turn": 2.0, "wave": 900.0},
        {"connect": 2.0, "render": 904.0},
    )
    assert (sight.connect.n, sight.connects_new, sight.connects_reused) == (4, 4, 0)
    assert (sight.reads, sight.coalesced_share) == (100, 0.05)
    assert (sight.gc_pauses, sight.gc_total_ms, sight.gc_max_ms) == (6, 8.0, 4.0)
    assert sight.loop_cpu_share_max == pytest.approx(0.3)
    assert sight.suspend_ms == 0.0


@given(st.lists(st.floats(0.02, 10_000.0), min_size=1, max_size=20))
def test_no_percentile_is_above_the_longest(delays_ms: list[float]) -> None:
    event = reading(dispatch_buckets=pairs(*delays_ms), dispatch_max_ms=max(delays_ms))
    waits = Log().at(0, event).state().instrument.sight.dispatch
    assert waits.p50_ms is not None
    assert waits.p99_ms is not None
    assert waits.p50_ms <= waits.p99_ms <= max(delays_ms)
    assert waits.p99_ms == pytest.approx(max(delays_ms), rel=0.03)


def test_a_log_of_before_says_nothing_and_not_nought() -> None:
    sight = Log().at(0, reading()).state().instrument.sight
    assert sight == Sight()
    for name in ("gc_pauses", "suspend_ms", "loop_cpu_share_max", "coalesced_share"):
        assert getattr(sight, name) is None
    assert (sight.dispatch.p99_ms, sight.connect.p50_ms, sight.calibration) == (None, None, None)


def test_a_short_window_says_nothing_of_the_share_of_a_core() -> None:
    sight = Log().at(0, reading(window_ms=80.0, loop_cpu_share=1.0)).state().instrument.sight
    assert sight.loop_cpu_share_max is None


def test_what_could_not_be_measured_has_its_reason() -> None:
    sight = Log().at(0, reading(missing=(("suspend_ms", "no such clock"),))).state().instrument.sight
    assert (sight.suspend_ms, sight.missing) == (None, {"suspend_ms": "no such clock"})


def test_a_first_token_after_a_jump_is_left_out_and_counted() -> None:
    log = Log().at(1, started(1), started(2)).at(2, first(1)).at(3, SLEPT)
    log.at(4, first(2), ended(1, 1000.0), ended(2, 2000.0)).at(5, started(3)).at(6, first(3), ended(3, 500.0))
    seen = log.state().instrument
    assert (seen.ttft_ms.n, seen.sight.ttft_excluded) == (2, 1)
    assert (seen.sight.suspends, seen.sight.steps) == (1, 0)


@pytest.mark.parametrize("jump", [SLEPT, SET])
def test_gaps_of_streams_that_a_jump_met_are_left_out_until_they_are_over(jump: e.ClockJumped) -> None:
    log = Log().at(1, started(1)).at(1.5, first(1)).at(2, beat(10)).at(2.5, jump).at(3, beat(20))
    log.at(4, beat(30)).at(4.5, ended(1)).at(5, beat(40)).at(6, started(2), first(2)).at(7, beat(50), ended(2))
    seen = log.state().instrument
    assert (seen.gap_ms.n, seen.sight.gaps_excluded) == (60, 90)


def test_a_jump_that_met_nobody_takes_its_own_second() -> None:
    log = Log().at(2, beat(10)).at(2.5, SET).at(3, beat(20)).at(4, beat(30))
    seen = log.state().instrument
    assert (seen.gap_ms.n, seen.sight.gaps_excluded, seen.sight.step_ms) == (40, 20, -3000.0)


def test_a_step_that_was_seen_is_told_apart_from_one_that_was_not() -> None:
    told = Log().at(1, SLEPT, SET).at(2, reading(wall_step_ms=57_000.2)).state().instrument
    assert told.sight.unseen_step_ms == pytest.approx(0.2)
    assert told.wall_step_ms == 57_000.2
    unseen = Log().at(1, SET).at(2, reading(wall_step_ms=-3000.0)).at(3, reading(wall_step_ms=-3000.0)).state()
    assert unseen.instrument.sight.unseen_step_ms == -3000.0


def test_a_new_segment_has_another_clock() -> None:
    begin = next(record.event for record in records(history()) if isinstance(record.event, e.RunStarted))
    log = Log().at(90, begin, started(1), SLEPT).at(0, msgspec.structs.replace(begin, segment=1))
    log.at(1, started(1)).at(2, first(1), beat(10), ended(1))
    seen = log.state().instrument
    assert (seen.ttft_ms.n, seen.gap_ms.n, seen.sight.ttft_excluded) == (1, 10, 0)


EVENTS: tuple[e.AnyEvent, ...] = (
    started(1),
    started(2),
    first(1),
    first(2),
    ended(1),
    ended(2),
    SLEPT,
    SET,
    beat(3),
    reading(wall_step_ms=700.0, reads=3, gc_pauses=1, gc_total_ms=1.0, gc_max_ms=1.0, missing=(("a", "b"),)),
    e.Calibrated(calibration=None, reason="nobody did"),
)


@given(st.lists(st.sampled_from(EVENTS), max_size=40), st.integers(0, 40))
def test_a_fold_that_is_put_away_anywhere_goes_on(events: list[e.AnyEvent], cut: int) -> None:
    log = Log()
    for number, event in enumerate(events):
        log.at(number / 2, event)
    fold, blocks = Fold(), Blocks()
    for record in log.records[:cut]:
        fold.add(record)
    data, _ = put_away(fold.parts.itself, blocks)
    again = taken(data, SelfReadings, blocks)
    assert again == fold.parts.itself
    fold.parts.itself = again
    other = Fold(fold.parts)
    for record in log.records[cut:]:
        other.add(record)
    whole = Fold()
    for record in log.records:
        whole.add(record)
    assert other.snapshot().instrument == whole.snapshot().instrument
    sight = whole.snapshot().instrument.sight
    ttfts = sum(isinstance(event, e.RequestEnded) for event in events)
    assert whole.snapshot().instrument.ttft_ms.n + sight.ttft_excluded == ttfts
    gaps = 3 * sum(isinstance(event, e.Beat) for event in events)
    assert whole.snapshot().instrument.gap_ms.n + sight.gaps_excluded == gaps


def test_people_are_told_of_a_jump() -> None:
    feed = Feed()
    for record in Log().at(1, SLEPT, SET).records:
        feed.add(0, record, None, None)
    assert [(entry.kind, entry.text) for entry in feed.entries()] == [
        ("clock", "the machine slept for 60.0 s; no time that spans it counts"),
        ("clock", "the wall clock was set by -3.0 s; no time that spans it counts"),
    ]
