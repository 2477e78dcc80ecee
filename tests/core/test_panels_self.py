"""What the client says of itself stands where people look: in the summary, in the verdict, with reasons for gaps."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.calibration import Calibration, ErrorBars
from infermaxx_tui.core.glyphs import ASCII
from infermaxx_tui.core.histories import changed, history, state_of
from infermaxx_tui.core.lumps import Arrivals
from infermaxx_tui.core.panels import rows_summary, rows_verdict
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import judge_run

MADE = Calibration(
    version="0.9",
    python="3",
    host="h",
    platform="p",
    at_ms=0,
    took_s=4.0,
    bars=(
        ErrorBars(
            streams=8,
            rate_hz=50.0,
            n_ttft=9,
            ttft_p50_ms=0.3,
            ttft_p99_ms=1.1,
            ttft_max_ms=1.4,
            n_gaps=99,
            gap_p50_ms=0.1,
            gap_p99_ms=0.4,
            gap_max_ms=0.5,
            loop_lag_p99_ms=0.2,
            coalesced_share=0.01,
        ),
        ErrorBars(streams=64, rate_hz=50.0, reason="could not calibrate: the loop stood still for 1200 ms"),
    ),
)


def watched(*more: e.AnyEvent) -> RunState:
    def seen(event: e.InstrumentRead) -> e.AnyEvent:
        return msgspec.structs.replace(
            event,
            dispatches=4,
            dispatch_buckets=((120, 4),),
            dispatch_max_ms=3.5,
            reads=200,
            reads_coalesced=24,
            missing=(("suspend_ms", "no such clock here"),),
        )

    events = changed(history(), e.InstrumentRead, seen)
    return state_of([*events[:1], *more, *events[1:]])


def summary(state: RunState) -> str:
    return "\n".join(row.text for row in rows_summary(state, None, 200, ASCII))


def verdict(state: RunState, width: int = 160) -> str:
    return "\n".join(row.text for row in rows_verdict(judge_run(state), width, ASCII))


def test_the_summary_says_what_was_measured_and_nothing_else() -> None:
    text = summary(watched())
    assert "sent late p99 3.4 ms" in text or "sent late p99 3.5 ms" in text
    assert "reads in clumps 12%" in text
    assert "clock jumps" not in text
    plain = summary(state_of(history()))
    assert "lag p99 0.5 ms" in plain
    assert "sent late" not in plain
    assert "clumps" not in plain


CLUMPS = Arrivals(events=60, moments=4, lumped=60, waits=3, torn=3, wait_ms=160.0, lump_bytes=4096)


@pytest.mark.parametrize(
    ("arrivals", "held"), [(CLUMPS, True), (Arrivals(events=60, moments=60), False), (None, False)]
)
def test_a_stream_that_is_held_back_is_on_the_summary(arrivals: Arrivals | None, held: bool) -> None:
    events = changed(history(), e.RequestEnded, lambda x: msgspec.structs.replace(x, arrivals=arrivals))
    assert ("stream held back on its way" in summary(state_of(events))) is held


def test_a_jump_of_a_clock_is_on_the_summary() -> None:
    assert "clock jumps 1" in summary(watched(e.ClockJumped(kind="suspend", by_ms=2000.0, since_us=0)))


def test_the_verdict_shows_the_error_bars_and_why_others_are_missing() -> None:
    text = verdict(watched(e.Calibrated(calibration=MADE, age_s=3600.0)))
    assert "2 loads, by infermaxx 0.9" in text
    assert "8 streams x 50/s: a TTFT measured here is +0.3 to +1.1 ms (p99) off" in text
    assert "64 streams x 50/s: could not calibrate: the loop stood still for 1200 ms" in text
    assert "n/a: no such clock here" in text


def test_a_calibration_of_a_busy_host_says_so() -> None:
    for load, said in ((None, False), (0.9, False), (7.5, True)):
        made = msgspec.structs.replace(MADE, load_per_core=load)
        text = verdict(watched(e.Calibrated(calibration=made, age_s=3600.0)))
        assert ("on a busy host (load 7.5 a core)" in text) == said


def test_without_a_calibration_the_verdict_says_why() -> None:
    text = verdict(watched(e.Calibrated(calibration=None, reason="nobody has calibrated this host")))
    assert "n/a: nobody has calibrated this host" in text


def test_no_line_is_wider_than_asked() -> None:
    for width in (40, 80):
        rows = rows_verdict(judge_run(watched(e.Calibrated(calibration=MADE, age_s=3600.0))), width, ASCII)
        assert all(len(row.text) <= width for row in rows)
