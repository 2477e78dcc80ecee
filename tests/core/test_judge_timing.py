"""Timing in three directions by what the client says of itself; content is judged whatever that is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.calibration import Calibration, ErrorBars
from infermaxx_tui.core.events_read import Spent
from infermaxx_tui.core.histories import changed, history, state_of
from infermaxx_tui.core.judges import judge_all, timing
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.scenario_checks import limit_complaints
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.core.verdict import judge_run, verdict_bytes

WIDE = Limits(max_ttft_p99_ms=1000.0, max_gap_p99_ms=1000.0)
TIGHT = Limits(max_ttft_p99_ms=10.0, max_gap_p99_ms=1000.0)
Events = list[e.AnyEvent]


def sent_late(ms: float, n: int = 50) -> Callable[[Events], Events]:
    """Requests of each window went out so late, by rendering."""
    spent = (Spent("render", n, n * ms, ms), Spent("connect", n, 0.1, 0.1))
    buckets = ((LogHistogram.bucket(ms), n),)
    return lambda events: changed(
        events,
        e.InstrumentRead,
        lambda x: msgspec.structs.replace(x, dispatches=n, dispatch_buckets=buckets, dispatch_parts=spent),
    )


def busy(share: float) -> Callable[[Events], Events]:
    return lambda events: changed(events, e.InstrumentRead, lambda x: msgspec.structs.replace(x, loop_cpu_share=share))


def slept(events: Events) -> Events:
    """The machine sleeps before the first token of the last turn, and every request in flight there spans it."""
    turns = [n for n, event in enumerate(events) if isinstance(event, e.RequestStarted) and event.kind == "turn"]
    jump = e.ClockJumped(kind="suspend", by_ms=9e6, since_us=0)
    before, after = events[: turns[-1] + 1], events[turns[-1] + 1 :]
    number = next(n for n, event in enumerate(after) if isinstance(event, e.InstrumentRead))
    after[number : number + 1] = changed(
        after[number : number + 1], e.InstrumentRead, lambda x: msgspec.structs.replace(x, wall_step_ms=9e6)
    )
    return [*before, jump, *after]


def sleeps_all_the_time(events: Events) -> Events:
    jump = e.ClockJumped(kind="step", by_ms=600.0, since_us=0)
    out: Events = []
    for event in events:
        out += [jump, event] if isinstance(event, e.FirstToken) else [event]
    return out


def calibrated(ttft_ms: float, gap_ms: float) -> Callable[[Events], Events]:
    bar = ErrorBars(
        streams=64,
        rate_hz=200.0,
        n_ttft=9,
        ttft_p50_ms=ttft_ms / 2,
        ttft_p99_ms=ttft_ms,
        ttft_max_ms=ttft_ms,
        n_gaps=9,
        gap_p50_ms=gap_ms / 2,
        gap_p99_ms=gap_ms,
        gap_max_ms=gap_ms,
    )
    made = Calibration(version="1", python="3", host="h", platform="p", at_ms=0, took_s=4.0, bars=(bar,))
    return lambda events: [events[0], e.Calibrated(calibration=made, age_s=7200.0), *events[1:]]


def judged(edit: Callable[[Events], Events], limits: Limits) -> Check:
    return timing.judge(state_of(edit(history())), limits)


SEEING: dict[str, Callable[[Events], Events]] = {
    "as it is": lambda events: events,
    "sent in time": sent_late(900.0),
    "some room": busy(0.9),
    "slept once": slept,
    "small errors": calibrated(9.0, 3.0),
}
BLIND: dict[str, tuple[Callable[[Events], Events], str]] = {
    "sent late": (sent_late(1100.0), "limits.max_dispatch_delay_ms=1000"),
    "saturated": (busy(0.95), "its loop took 95% of a core"),
    "jumping": (sleeps_all_the_time, "the clock was set"),
    "an error above the limit of TTFT": (calibrated(1500.0, 3.0), "limits.max_ttft_p99_ms"),
    "an error above the limit of gaps": (calibrated(9.0, 1001.0), "limits.max_gap_p99_ms=1000 is smaller than"),
}


@pytest.mark.parametrize("name", SEEING)
def test_a_client_that_sees_passes_and_fails(name: str) -> None:
    assert judged(SEEING[name], WIDE).outcome == "pass"
    assert judged(SEEING[name], TIGHT).outcome == "fail"


@pytest.mark.parametrize("name", BLIND)
def test_a_blind_client_says_nothing_of_times_and_all_of_content(name: str) -> None:
    edit, words = BLIND[name]
    for limits in (WIDE, msgspec.structs.replace(WIDE, max_ttft_p99_ms=10.0)):
        got = judged(edit, limits)
        assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)
        assert words in (got.advice or "")
    others = {one.name: one.outcome for one in judge_all(state_of(edit(history())), WIDE)}
    healthy = {one.name: one.outcome for one in judge_all(state_of(history()), WIDE)}
    assert {**others, "timing": ""} == {**healthy, "timing": ""}


def test_the_limits_decide() -> None:
    assert judged(sent_late(1100.0), msgspec.structs.replace(WIDE, max_dispatch_delay_ms=2000.0)).outcome == "pass"
    assert judged(sent_late(300.0), msgspec.structs.replace(WIDE, max_dispatch_delay_ms=200.0)).outcome != "pass"
    assert judged(busy(0.95), msgspec.structs.replace(WIDE, max_loop_cpu_share=1.0)).outcome == "pass"


def test_what_a_jump_took_out_is_counted() -> None:
    got = judged(slept, WIDE)
    assert got.excluded["clock_jumped"] > 0
    assert got.n_planned == got.n_evaluated + got.excluded["clock_jumped"]


@pytest.mark.parametrize("key", ["max_dispatch_delay_ms", "max_loop_cpu_share"])
def test_a_limit_must_be_more_than_nothing(key: str) -> None:
    wrong = msgspec.structs.replace(Limits(), **{key: 0.0})
    assert [name for name, _ in limit_complaints(wrong, "limits.")] == [f"limits.{key}"]


def test_a_pass_says_with_what_error_it_was_measured() -> None:
    advice = judged(calibrated(9.0, 3.0), WIDE).advice or ""
    assert "this host's own error at 64 streams x 200/s: TTFT +4.5 to +9 ms, gap 3 ms (p99)" in advice


def test_connecting_is_never_counted_silently() -> None:
    def connected(event: e.InstrumentRead) -> e.AnyEvent:
        return msgspec.structs.replace(event, connects_new=5, connect_buckets=((95, 5),), connect_max_ms=1.1)

    state = state_of(changed(history(), e.InstrumentRead, connected))
    assert "connecting is part of TTFT" in (timing.judge(state, WIDE).advice or "")
    assert judge_run(state).instrument.connections_new > 0


def test_the_verdict_cites_the_calibration_with_its_age_or_says_why_there_is_none() -> None:
    cited = judge_run(state_of(calibrated(9.0, 3.0)(history()))).instrument
    assert cited.calibration is not None
    assert (cited.calibration.bars[0].ttft_p99_ms, cited.calibration_age_s, cited.calibration_reason) == (
        9.0,
        7200.0,
        None,
    )
    reason = "calibrated with another Python"
    refused = state_of([*history()[:1], e.Calibrated(calibration=None, reason=reason), *history()[1:]])
    none = judge_run(refused).instrument
    assert (none.calibration, none.calibration_age_s, none.calibration_reason) == (None, None, reason)
    assert b'"calibration_reason": "calibrated with another Python"' in verdict_bytes(judge_run(refused))
    assert judge_run(state_of(history())).instrument.calibration_reason == "the log does not say"
