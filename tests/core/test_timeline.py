"""A timeline keeps what was measured, in bounded memory, and invents nothing: a gap is None, never 0."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paneltools import log
from test_panels_content import LEAK, ended, request, session, started

from infermaxx_tui.core import events as e
from infermaxx_tui.core import timeline as timeline_module
from infermaxx_tui.core.events import AnyEvent, Record, Unknown
from infermaxx_tui.core.lanes import MAX_LANES, Lanes
from infermaxx_tui.core.logtime import LogClock
from infermaxx_tui.core.marks import FAILURES
from infermaxx_tui.core.series import SERIES
from infermaxx_tui.core.timeline import MAX_BUCKETS, Timeline, TimelineView

SECOND = 1_000_000


def beat(*streams: tuple[int, int, int], window_ms: float = 1000.0) -> e.Beat:
    """A beat of (session, tokens, depth)."""
    sessions, tokens, depths = zip(*streams, strict=True) if streams else ((), (), ())
    return e.Beat(window_ms=window_ms, sessions=sessions, tokens=tokens, depths=depths)


def records(*timed: tuple[float, AnyEvent]) -> list[Record]:
    return [Record(0, seq, int(at * 1000), int(at * SECOND), event) for seq, (at, event) in enumerate(timed)]


def fed(*timed: tuple[float, AnyEvent]) -> Timeline:
    line = Timeline()
    for record in records(*timed):
        line.add(record)
    return line


def whole(line: Timeline, buckets: int = 5000) -> TimelineView:
    return line.snapshot(0, max(line.end_us - 1, 0), buckets)


def test_tokens_per_second_and_depth_of_each_stream_and_of_all() -> None:
    line = fed((0, started()), (1, beat((0, 40, 100), (1, 10, 50))), (2, beat((0, 20, 120))))
    view = whole(line)
    assert view.bucket_us == SECOND
    assert view.tokens_per_s == (50.0, 20.0)
    assert view.sessions[0].tokens_per_s == (40.0, 20.0)
    assert view.sessions[1].tokens_per_s == (10.0, None)
    assert view.sessions[1].depth_tokens == (50.0, None)
    assert view.rate_hi == 50.0
    assert view.total_hi == 50.0


def test_what_was_not_measured_is_none() -> None:
    view = whole(fed((0, started()), (5, e.Noted(text="nothing else"))))
    assert set(view.tokens_per_s) == {None}
    assert all(set(view.series[series.name]) == {None} for series in SERIES)
    assert view.sessions == {}


def test_a_beat_too_short_for_a_rate_gives_none_and_its_depth() -> None:
    view = whole(fed((0, started()), (0.2, beat((0, 9, 77), window_ms=200.0))))
    assert view.tokens_per_s == (None,)
    assert view.sessions[0].depth_tokens == (77.0,)


def test_a_counter_that_falls_was_reset_and_gives_no_step() -> None:
    def read(at: float, preemptions: float | None, hits: float, queries: float) -> tuple[float, AnyEvent]:
        return at, e.MetricsRead(preemptions=preemptions, prefix_hits=hits, prefix_queries=queries)

    line = fed(
        (0, started()),
        read(0.5, 3, 0, 0),
        read(1.5, 5, 90, 100),
        read(2.5, 0, 0, 0),
        read(3.5, 1, 10, 40),
        read(4.5, None, 10, 40),
    )
    view = whole(line)
    assert view.series["preemptions"] == (None, 2.0, None, 1.0, None)
    assert view.series["prefix_hit_rate"] == (None, 0.9, None, 0.25, None)


def test_gauges_are_means_and_lags_are_maxima() -> None:
    def lag(at: float, ms: float | None) -> tuple[float, AnyEvent]:
        event = e.InstrumentRead(
            window_ms=500,
            loop_lag_p50_ms=None,
            loop_lag_p99_ms=ms,
            loop_lag_max_ms=None,
            cpu_share=None,
            rss_mib=None,
            events_parsed=0,
        )
        return at, event

    metrics = [(0.2, e.MetricsRead(running=2.0)), (0.6, e.MetricsRead(running=4.0)), (0.8, e.MetricsRead(error="gone"))]
    view = whole(fed((0, started()), *metrics, lag(0.3, 1.0), lag(0.7, 9.0), lag(0.9, None)))
    assert view.series["running"] == (3.0,)
    assert view.series["loop_lag_p99_ms"] == (9.0,)
    assert view.hi["kv_usage"] == 1.0
    assert view.hi["running"] == 5.0


def steps(seconds: int) -> list[tuple[float, AnyEvent]]:
    """A second by second log of two streams."""
    timed: list[tuple[float, AnyEvent]] = [(0, started()), (0, session(0)), (0, session(1))]
    for at in range(1, seconds + 1):
        timed.append((at, beat((0, at % 7, at), (1, 3, 2 * at))))
        timed.append((at, e.MetricsRead(running=float(at % 3), preemptions=float(at // 10))))
        if at % 50 == 0:
            timed.append((at, e.GapNoted(req=1, session=0, gap_ms=2000.0, at_token=1)))
    return timed


def test_memory_is_bounded_and_nothing_is_lost_by_doubling() -> None:
    seconds = 3 * MAX_BUCKETS + 5
    line = fed(*steps(seconds))
    view = whole(line)
    assert view.bucket_us == 4 * SECOND
    assert view.buckets <= MAX_BUCKETS
    tokens = sum(rate * 4 for rate in view.tokens_per_s[:-1] if rate is not None)
    assert tokens == pytest.approx(sum(at % 7 + 3 for at in range(1, 4 * (view.buckets - 1) + 1)))
    assert sum(rise for rise in view.series["preemptions"] if rise is not None) == seconds // 10
    assert sum(mark.count for mark in view.marks if mark.kind == "gap") == seconds // 50
    assert view.sessions[1].depth_tokens[0] == 8.0


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 300), st.sets(st.integers(0, 700), max_size=6), st.integers(1, 90))
def test_looking_changes_nothing_and_doubling_is_as_if_it_had_been_wide_all_along(
    seconds: int, looks: set[int], buckets: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timeline_module, "MAX_BUCKETS", 16)
        seen, unseen = Timeline(), Timeline()
        for number, record in enumerate(records(*steps(seconds))):
            seen.add(record)
            unseen.add(record)
            if number in looks:
                seen.snapshot(0, seen.end_us, 10)
        assert whole(seen) == whole(unseen)
        assert seen.bucket_us == unseen.bucket_us
        wide = unseen.bucket_us // SECOND
        fine = whole(fed(*steps(0)))
        assert fine.bucket_us == SECOND
        patch.setattr(timeline_module, "FIRST_BUCKET_US", wide * SECOND)
        at_once = fed(*steps(seconds))
        assert whole(at_once).tokens_per_s == whole(unseen).tokens_per_s
        assert whole(at_once).series == whole(unseen).series
        view = seen.snapshot(0, seen.end_us, buckets)
        assert view.buckets <= buckets
        assert view.from_us == 0
        assert view.to_us > seen.end_us


@settings(deadline=None)
@given(st.integers(0, 90), st.integers(1, 90), st.integers(1, 40))
def test_a_view_covers_what_was_asked_for_and_columns_do_not_shimmer(start: int, span: int, buckets: int) -> None:
    line = fed(*steps(200))
    view = line.snapshot(start * SECOND, (start + span) * SECOND, buckets)
    assert view.buckets <= buckets
    assert view.from_us <= start * SECOND
    assert view.to_us > (start + span) * SECOND
    assert view.from_us % view.bucket_us == 0
    assert len(view.tokens_per_s) == view.buckets
    assert all(len(series) == view.buckets for series in view.series.values())
    again = line.snapshot(view.from_us, view.to_us - 1, view.buckets)
    assert again == view


def test_moments_and_columns() -> None:
    view = fed(*steps(100)).snapshot(20 * SECOND, 40 * SECOND, 20)
    assert view.column(view.from_us) == 0
    assert view.column(view.from_us - 1) is None
    assert view.column(view.to_us - 1) == view.buckets - 1
    assert view.column(view.to_us) is None


def test_conversations_that_follow_one_another_share_a_lane() -> None:
    line = fed(
        (0, started()),
        (0, session(0)),
        (0, session(1)),
        (1, beat((0, 10, 10), (1, 5, 10))),
        (1, e.SessionEnded(session=0, reason="finished", depth_tokens=10, turns=1)),
        (1, session(2, wave=1)),
        (2, beat((1, 5, 20), (2, 7, 5))),
    )
    lanes = whole(line).lanes
    assert [lane.series.tokens_per_s for lane in lanes] == [(10.0, 7.0), (5.0, 5.0)]
    assert [lane.session_at(0) for lane in lanes] == [0, 1]
    assert [lane.session_at(2 * SECOND) for lane in lanes] == [2, 1]
    assert [lane.session_at(-1) for lane in lanes] == [None, None]


def test_lanes_are_bounded_and_a_new_segment_frees_them() -> None:
    lanes = Lanes()
    for number in range(MAX_LANES + 5):
        lanes.take(number, 0)
    assert len(lanes.all()) == MAX_LANES
    lanes.restart()
    lanes.take(3, 9)
    assert lanes.all()[0][-1] == (9, 3)


def test_misses_and_leaks_of_the_fold_become_marks_once() -> None:
    kinds = [mark.kind for mark in whole(LEAK.timeline).marks for _ in range(mark.count)]
    assert kinds.count("leak") == len(LEAK.state.leaks)
    assert kinds.count("began") == 1
    assert kinds.count("ended") == 1


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (ended(1, 0, outcome="truncated", error="reset"), "failed"),
        (ended(1, 0, degenerate="one token again and again"), "degenerate"),
        (ended(1, 0, finish_reason="repetition"), "degenerate"),
        (e.ServerLost(how="refused", session=None, req=None, detail="nobody"), "lost"),
        (e.EvidenceLost(detail="disk full"), "evidence_lost"),
        (e.GapNoted(req=1, session=0, gap_ms=1500.0, at_token=3), "gap"),
        (e.StopAsked(by="sigterm"), "stop"),
        (e.RunEnded(reason="finished", events=3), "ended"),
        (ended(1, 0), None),
        (ended(1, 0, outcome="cancelled"), None),
        (request(1, 0), None),
    ],
)
def test_what_is_marked(event: AnyEvent, kind: str | None) -> None:
    marks = [mark for mark in whole(fed((0, started()), (1, event), (2, beat()))).marks if mark.kind != "began"]
    assert [mark.kind for mark in marks] == ([] if kind is None else [kind])
    assert all((mark.kind in FAILURES) is (kind not in ("gap", "stop", "ended")) for mark in marks)


@pytest.mark.parametrize(
    "event",
    [
        beat((0, 10**30, 10**30), (1, -5, -5)),
        beat((0, 1, 1), window_ms=math.nan),
        beat((0, 1, 1), window_ms=-1.0),
        beat((0, 1, 1), window_ms=math.inf),
        beat(),
        e.Beat(window_ms=1000.0, sessions=(1, 2, 3), tokens=(1,), depths=()),
        e.MetricsRead(running=math.inf, kv_usage=math.nan, preemptions=-1e300, prefix_hits=1e300, prefix_queries=1e300),
        e.GapNoted(req=1, session=-(10**20), gap_ms=-1.0, at_token=0),
        e.SessionStarted(session=10**20, wave=-1, transcripts=(), planned_recalls=-1),
    ],
)
def test_a_log_may_say_anything(event: AnyEvent) -> None:
    line = fed((0, started()), (1, event), (2, event), (3, beat((0, 5, 50))))
    view = whole(line)
    assert view.tokens_per_s[-1] == 5.0
    numbers = [value for series in view.series.values() for value in series if value is not None]
    assert all(math.isfinite(value) for value in numbers)


def test_a_clock_that_jumps_ahead_a_thousand_years_takes_no_more_room() -> None:
    line = fed((0, started()), (1, beat((0, 5, 50))), (3e10, beat((0, 5, 60))), (3, beat((0, 5, 70))))
    assert whole(line).buckets <= MAX_BUCKETS
    line.add(Unknown("invalid", "damaged"))
    assert line.end_us == int(3e10 * SECOND)


def test_log_time_stands_still_between_segments() -> None:
    clock = LogClock()
    first, resumed = started(), started(segment=1)
    times = [
        clock.at(record)
        for record in records((5, first), (8, e.Noted(text="")), (100, resumed), (103, e.Noted(text="")))
    ]
    assert times == [0, 3 * SECOND, 3 * SECOND, 6 * SECOND]
    again = LogClock(3 * SECOND, 100 * SECOND, 1)
    assert again.at(records((103, e.Noted(text="")))[0]) == 6 * SECOND
    assert again.at(records((90, e.Noted(text="")))[0]) == 6 * SECOND


def test_a_timeline_from_the_middle_agrees_with_the_whole() -> None:
    timed = records(*steps(300))
    line, part = Timeline(), None
    for record in timed:
        line.add(record)
        if record.mono_us == 120 * SECOND and part is None:
            part = Timeline(LogClock(record.mono_us, record.mono_us, 0), 120 * SECOND)
        elif part is not None and record.mono_us > 120 * SECOND:
            part.add(record)
    assert part is not None
    zoomed = part.snapshot(150 * SECOND, 200 * SECOND, 60, line)
    known = line.snapshot(150 * SECOND, 200 * SECOND, 60)
    assert zoomed == known


def test_the_recorded_log_adds_up() -> None:
    line = Timeline()
    tokens = 0
    for record in log("healthy"):
        line.add(record)
        if isinstance(record, Record) and isinstance(record.event, e.Beat):
            tokens += sum(record.event.tokens)
    view = whole(line)
    covered = [session.tokens_per_s for session in view.sessions.values()]
    assert covered
    assert tokens > 0
    assert sum(rate for rate in view.tokens_per_s if rate is not None) <= tokens
