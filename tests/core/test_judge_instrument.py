"""Instrument and timing: what this program could not see, and times that a slow client makes worthless."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import Unknown
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories import Reply, Shape, changed, fluent, history, honest, records, state_of
from infermaxx_tui.core.judges import instrument, timing
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.stats import LogHistogram

LIMITS = Limits()
DEMANDING = Limits(max_ttft_p99_ms=100.0, max_gap_p99_ms=100.0)


def check(events: list[e.AnyEvent]) -> Check:
    return instrument.judge(state_of(events), LIMITS)


def test_healthy_passes() -> None:
    got = check(history())
    assert (got.outcome, got.required, got.advice) == ("pass", True, None)


def counts(ours: int | None, theirs: int | None, reason: str | None = None) -> e.CountsReconciled:
    return e.CountsReconciled(
        generation_client=ours, generation_server=theirs, prompt_client=9, prompt_server=9, reason=reason
    )


FAULTS: dict[str, tuple[Callable[[list[e.AnyEvent]], list[e.AnyEvent]], str]] = {
    "evidence lost": (lambda x: [*x[:-1], e.EvidenceLost(detail="no space left"), x[-1]], "no space left"),
    "no last line": (lambda x: x[:-1], "no last line"),
    "no first line": (lambda x: x[1:], "no first line"),
    "no regime": (lambda x: changed(x, e.RegimeNoted, lambda _: None), "what the run ran on"),
    "internal error": (lambda x: [*x[:-1], e.RunEnded(reason="internal", events=9)], "fault of this program"),
    "somebody else": (lambda x: [*x[:-1], counts(100, 140), x[-1]], "somebody else used it"),
    "others' requests": (
        lambda x: [*x[:-1], *(e.MetricsRead(finished=(("stop", 1e6 * n),)) for n in (1, 2)), x[-1]],
        "others used the server, for it finished",
    ),
    "counted twice": (lambda x: [*x[:-1], counts(140, 100), x[-1]], "counts wrongly"),
    "no label": (lambda x: changed(x, e.TagAsked, lambda ask: None if ask.req == 30 else ask), "without a label"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_blind_spot_is_named(name: str) -> None:
    spoil, words = FAULTS[name]
    got = check(spoil(history()))
    assert got.outcome == "not_evaluable"
    assert words in (got.advice or "")


def test_tokens_that_no_field_showed_are_a_dialect_that_we_do_not_read() -> None:
    blind = Reply(finish_reason="stop", completion_tokens=40, anomalies=("unparsed_delta",))
    events = history(
        Shape(), honest, lambda session, turn: blind if (session, turn) == (1, 3) else fluent(session, turn)
    )
    got = check(events)
    assert got.outcome == "not_evaluable"
    assert "1 reply had tokens in usage" in (got.advice or "")
    assert (got.evidence[0].session, got.evidence[0].turn) == (1, 3)


def test_harmless_oddities_of_the_wire_are_noted_and_pass() -> None:
    odd = Reply(content="fine", anomalies=("no_done", "bad_utf8"))
    state = state_of(history(Shape(), honest, lambda session, turn: odd))
    assert instrument.judge(state, LIMITS).outcome == "pass"
    assert state.instrument.anomalies == {"bad_utf8": 48, "no_done": 48}


def test_a_decoy_is_this_program_s_own_leak() -> None:
    decoy = next(x.tag for x in history() if isinstance(x, e.TagIssued) and x.kind == "decoy")
    got = check(history(Shape(), lambda ask: Reply(content=decoy) if ask.kind == "tail" else honest(ask)))
    assert got.outcome == "not_evaluable"
    assert "decoy" in (got.advice or "")


@pytest.mark.parametrize(
    "replaced",
    [counts(100, 100), counts(100, None), counts(None, 100), counts(100, 140, reason="requests were still running")],
)
def test_counts_that_agree_or_cannot_be_compared_pass(replaced: e.CountsReconciled) -> None:
    assert check(changed(history(), e.CountsReconciled, lambda _: replaced)).outcome == "pass"


@pytest.mark.parametrize("outcome", ["cancelled", "truncated", "protocol", "stalled", "timeout"])
def test_counts_need_not_agree_where_a_stream_was_cut_off(outcome: e.Outcome) -> None:
    bad = Reply(content="fi", outcome=outcome, finish_reason=None)
    events = history(Shape(), honest, lambda session, turn: bad if (session, turn) == (1, 3) else fluent(session, turn))
    assert check([*events[:-1], counts(100, 140), events[-1]]).outcome == "pass"


def folded(lines: list[e.Record | Unknown]) -> Check:
    fold = Fold()
    for line in lines:
        fold.add(line)
    return instrument.judge(fold.snapshot(), LIMITS)


def test_an_event_of_a_newer_program_is_counted_and_not_fatal() -> None:
    lines = list(records(history()))
    got = folded([*lines[:50], Unknown("unknown_event", "e: sensor"), *lines[50:]])
    assert got.outcome == "not_evaluable"
    assert got.advice == "1 event of a newer program: judge with that version"


def test_a_damaged_line_is_a_blind_spot_and_a_torn_tail_is_not() -> None:
    lines: list[e.Record | Unknown] = list(records(history()))
    torn = Unknown("invalid", "unexpected end")
    assert folded([*lines, torn]).outcome == "pass"
    got = folded([*lines[:50], torn, *lines[51:]])
    assert (got.outcome, got.advice) == ("not_evaluable", "1 damaged line in the log")
    assert "2 damaged lines" in (folded([*lines[:50], torn, torn, *lines[52:]]).advice or "")


def test_a_torn_tail_of_a_run_that_died_says_that_it_died() -> None:
    lines: list[e.Record | Unknown] = list(records(history()))
    got = folded([*lines[:200], Unknown("invalid", "unexpected end")])
    assert got.advice == "the log has no last line: the runner died, or the run is still going"


def test_lines_that_are_missing_are_counted_by_their_numbers() -> None:
    lines = list(records(history()))
    assert folded([*lines[:50], *lines[53:]]).advice == "3 lines missing from the log"


def test_parts_have_numbers_of_their_own() -> None:
    lines = list(records(history()))
    cut = 200
    second = [msgspec.structs.replace(line, part=1, seq=line.seq - cut) for line in lines[cut:]]
    assert folded([*lines[:cut], *second]).outcome == "pass"
    mixed = sorted([*lines[:cut], *second], key=lambda line: (line.seq, line.part))
    assert "missing" not in (folded(list(mixed)).advice or "")


# Timing


def timed(events: list[e.AnyEvent], limits: Limits = DEMANDING) -> Check:
    return timing.judge(state_of(events), limits)


def slow(event: e.RequestEnded) -> e.AnyEvent:
    return msgspec.structs.replace(event, ttft_ms=900.0)


def test_timing_passes_and_tells_its_figures() -> None:
    got = timed(history())
    assert (got.outcome, got.required, got.n_evaluated) == ("pass", True, 48)
    assert "TTFT p50" in (got.advice or "")
    assert timed(history(), LIMITS).required is False


def test_timing_fails_only_where_it_was_demanded() -> None:
    late = changed(history(), e.RequestEnded, slow)
    got = timed(late)
    assert got.outcome == "fail"
    assert "limits.max_ttft_p99_ms=100" in (got.advice or "")
    assert timed(late, LIMITS).outcome == "pass"
    assert timed(late, Limits(max_gap_p99_ms=100.0)).outcome == "pass"


def test_gaps_are_judged_by_the_beats() -> None:
    wide = ((LogHistogram.bucket(500.0), 40),)
    gappy = changed(history(), e.Beat, lambda beat: msgspec.structs.replace(beat, gap_buckets=wide))
    got = timed(gappy)
    assert got.outcome == "fail"
    assert "limits.max_gap_p99_ms=100" in (got.advice or "")


def lag(p99_ms: float | None, max_ms: float | None = None, step_ms: float = 0.0) -> list[e.AnyEvent]:
    """A history with slow turns whose client lagged once."""
    once = iter([True])

    def lagging(event: e.InstrumentRead) -> e.AnyEvent:
        if p99_ms is None:
            return msgspec.structs.replace(event, loop_lag_p50_ms=None, loop_lag_p99_ms=None, loop_lag_max_ms=None)
        if next(once, False):
            return msgspec.structs.replace(
                event, loop_lag_p99_ms=p99_ms, loop_lag_max_ms=max_ms or p99_ms, wall_step_ms=step_ms
            )
        return event

    return changed(changed(history(), e.RequestEnded, slow), e.InstrumentRead, lagging)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (lag(5.0), "limits.max_loop_lag_share=0.2"),
        (lag(0.5, 1500.0), "limits.max_loop_lag_ms=1000"),
        (lag(0.5, step_ms=-3600_000.0), "wall clock stepped"),
        (lag(None), "was not measured"),
    ],
)
def test_a_client_that_lagged_voids_timing_and_never_content(events: list[e.AnyEvent], words: str) -> None:
    got = timed(events)
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)
    assert words in (got.advice or "")
    assert check(events).outcome == "pass"


def test_the_limits_of_lag_decide() -> None:
    loose = Limits(max_ttft_p99_ms=100.0, max_loop_lag_share=0.5)
    assert timed(lag(5.0), loose).outcome == "fail"
    assert timed(lag(0.5, 1500.0), Limits(max_ttft_p99_ms=100.0, max_loop_lag_ms=2000.0)).outcome == "fail"


@pytest.mark.parametrize("clump", [{"first_chunk_tokens": 20}, {"first_chunk_tokens": 10}, {"decode_ms": 0.4}])
def test_streams_that_were_buffered_have_no_times_of_their_own(clump: dict[str, float]) -> None:
    def buffered(event: e.RequestEnded) -> e.AnyEvent:
        return msgspec.convert({**msgspec.to_builtins(event), **clump}, e.RequestEnded)

    got = timed(changed(history(), e.RequestEnded, buffered))
    assert got.outcome == "not_evaluable"
    assert "one clump" in (got.advice or "")


def test_a_slow_prefill_is_not_a_buffered_stream() -> None:
    """Decoding a hundredth of the whole time is what deep prompts do."""
    deep = changed(history(), e.RequestEnded, lambda x: msgspec.structs.replace(x, ttft_ms=39_600.0, total_ms=40_000.0))
    assert timed(deep, Limits(max_ttft_p99_ms=60_000.0)).outcome == "pass"


def test_no_times_at_all_are_no_pass() -> None:
    silent = changed(history(), e.RequestEnded, lambda x: msgspec.structs.replace(x, ttft_ms=None))
    assert timed(silent).outcome == "not_evaluable"
    gapless = changed(history(), e.Beat, lambda x: msgspec.structs.replace(x, gap_buckets=()))
    assert timed(gapless).outcome == "not_evaluable"
    assert timed(gapless, Limits(max_ttft_p99_ms=100.0)).outcome == "pass"
