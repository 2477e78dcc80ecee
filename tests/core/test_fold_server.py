"""The server's counters beside ours: growth over restarts, other users, drafts, and what goes on after a cut."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core.events import CancelSettled, MetricsRead, Outcome, RequestEnded
from infermaxx_tui.core.fold_server import IN_A_ROW, RECENT_US, SETTLE_US, ServerSide

S = 1_000_000


def ended(outcome: Outcome = "ok") -> RequestEnded:
    return RequestEnded(req=1, session=0, turn=1, kind="turn", outcome=outcome)


def read(at_s: float, side: ServerSide, **fields: float) -> None:
    finished = fields.pop("finished", None)
    by_reason = () if finished is None else (("stop", finished),)
    reading = msgspec.structs.replace(MetricsRead(finished=by_reason), **fields)
    side.read(reading, round(at_s * S))


def played(requests: int) -> ServerSide:
    """So many requests of ours, one after the other, a second each, after a first reading."""
    side = ServerSide()
    read(0, side, running=0.0, finished=100.0)
    for number in range(requests):
        side.sent(round((number + 0.1) * S), 1)
        side.ended(ended(), round((number + 0.9) * S), 0)
    return side


def test_what_we_sent_is_nobody_else_s() -> None:
    side = played(5)
    read(6, side, running=0.0, finished=105.0)
    assert side.seen().foreign is None
    assert side.seen().finished == {"stop": 5}


def test_requests_that_we_did_not_send_are_somebody_else_s() -> None:
    side = played(5)
    read(6, side, running=0.0, finished=108.0)
    assert side.seen().foreign_requests == 3
    assert side.seen().foreign == "it finished 3 more than we sent"


def test_without_readings_nobody_can_say() -> None:
    side = ServerSide()
    side.sent(0, 1)
    side.read(MetricsRead(error="refused"), S)
    seen = side.seen()
    assert (seen.readings, seen.foreign, seen.running_peak, seen.preemptions) == (0, None, None, None)


def test_a_server_that_does_not_count_requests_gives_no_false_alarm() -> None:
    side = played(5)
    read(6, side, generation_tokens=1e6)
    assert side.seen().foreign is None


def test_counts_that_a_page_had_not_named_before_are_no_growth() -> None:
    side = ServerSide()
    read(0, side, running=0.0)
    read(1, side, running=0.0, finished=5000.0)
    assert (side.seen().foreign, side.seen().finished) == (None, {"stop": 0})
    read(2, side, running=0.0, finished=5002.0)
    assert side.seen().foreign_requests == 2


def test_more_running_than_ours_counts_when_it_lasts() -> None:
    side = ServerSide()
    side.sent(0, 1)
    for second in range(1, IN_A_ROW):
        read(second, side, running=3.0)
        assert side.seen().foreign_running == 0
    read(IN_A_ROW, side, running=3.0)
    assert side.seen().foreign_running == 2
    assert side.seen().foreign == "2 ran beside ours"


def test_a_request_that_just_ended_here_may_still_run_there() -> None:
    side = ServerSide()
    side.sent(0, 1)
    side.sent(0, 2)
    side.ended(ended("cancelled"), S, 1)
    side.ended(ended("cancelled"), S, 0)
    for second in range(2, 12):
        read(second, side, running=2.0)
    assert side.seen().foreign_running == 0
    late_s = RECENT_US / S + 2
    for second in range(IN_A_ROW):
        read(late_s + second, side, running=2.0)
    assert side.seen().foreign_running == 2


def test_growth_goes_on_over_a_restart() -> None:
    side = played(0)
    read(1, side, generation_tokens=50.0, process_start_s=1.0)
    read(2, side, generation_tokens=80.0, process_start_s=1.0)
    read(3, side, generation_tokens=5.0, process_start_s=2.0)
    read(4, side, generation_tokens=6.0, process_start_s=2.0)
    assert (side.seen().generation_tokens, side.seen().restarts) == (86, 1)


def test_a_counter_that_falls_is_a_restart_where_no_start_is_said() -> None:
    side = ServerSide()
    read(1, side, generation_tokens=50.0, finished=9.0)
    read(2, side, generation_tokens=3.0, finished=1.0)
    assert (side.seen().restarts, side.seen().finished, side.seen().foreign_requests) == (1, {"stop": 1}, 1)


def test_a_request_that_was_open_at_a_restart_is_not_somebody_else_s() -> None:
    side = ServerSide()
    read(0, side, process_start_s=1.0, finished=0.0)
    side.sent(S, 1)
    read(2, side, process_start_s=1.0, finished=0.0)
    read(3, side, process_start_s=2.0, finished=1.0)
    assert side.seen().foreign is None


def drafted(*readings: tuple[float, ...]) -> ServerSide:
    """Readings a second apart: drafts, drafted, accepted and generated tokens."""
    side = ServerSide()
    names = ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens")
    for second, values in enumerate(readings):
        read(second, side, **dict(zip(names, values, strict=True)))
    return side


def test_acceptance_says_how_much_it_covers() -> None:
    seen = drafted((5, 15, 15, 100), (105, 315, 165, 1100)).seen()
    assert (seen.acceptance, seen.mean_length, seen.draft_coverage) == (0.5, 2.5, 0.25)
    assert seen.acceptance_reason is None


def test_acceptance_is_weighted_by_what_was_drafted_and_not_by_seconds() -> None:
    busy, idle = (100, 300, 60, 400), (1, 3, 3, 4)
    readings: list[tuple[float, ...]] = [(0.0, 0.0, 0.0, 0.0)]
    for window in (busy, *(idle,) * 20):
        readings.append(tuple(a + b for a, b in zip(readings[-1], window, strict=True)))
    seen = drafted(*readings).seen()
    assert seen.acceptance == (60 + 60) / (300 + 60)
    assert seen.draft_coverage == (120 + 120) / 480
    assert sum([60 / 300, *(1.0,) * 20]) / 21 > 0.95, "the average of the seconds, which is another figure"


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        ([], "the server's counters were not read"),
        ([(0, 0, 0, 5), (0, 0, 0, 500)], "nothing was drafted"),
        ([(5, 15, 15, 100), (5, 15, 15, 900)], "nothing was drafted"),
        ([(0, 0, 0, 0), (1, 3, 3, 4)], "1 drafts are too few: 50 are needed"),
        ([(0, 0, 0, 0), (49, 147, 100, 150)], "49 drafts are too few: 50 are needed"),
        ([(0, 0, 0, 0), (50, 150, 70, 2401)], "drafts gave 5 % of the generated tokens: too little to speak for"),
        ([(0, 0, 0, 0), (50, 150, 70, 6000)], "drafts gave 2 % of the generated tokens: too little to speak for"),
        ([(0, 0, 0, 0), (50, 150, 70, 0)], "how much of the output was drafted is not counted"),
    ],
)
def test_what_cannot_speak_has_no_acceptance_but_a_reason(readings: list[tuple[float, ...]], reason: str) -> None:
    seen = drafted(*readings).seen()
    assert seen.acceptance is None
    assert (seen.acceptance_reason or "").startswith(reason)


def test_just_enough_drafts_of_just_enough_output_have_an_acceptance() -> None:
    seen = drafted((0, 0, 0, 0), (50, 150, 70, 2400)).seen()
    assert (seen.acceptance, seen.draft_coverage) == (70 / 150, 0.05)


def test_a_server_that_counts_no_drafts_is_not_one_that_accepts_none() -> None:
    side = ServerSide()
    read(0, side, generation_tokens=10.0)
    read(1, side, generation_tokens=900.0)
    assert side.seen().acceptance is None
    assert side.seen().acceptance_reason == "the server counts no drafts"
    refused = drafted((0, 0, 0, 0), (100, 300, 0, 200)).seen()
    assert (refused.acceptance, refused.mean_length, refused.draft_coverage) == (0.0, 1.0, 0.5)


def test_what_is_accepted_at_each_place_grows_over_restarts() -> None:
    side = ServerSide()
    at = [(9.0, 5.0, 1.0), (19.0, 11.0, 2.0), (4.0, 3.0, 2.0), (5.0, 3.0, 2.0)]
    for second, (counts, start) in enumerate(zip(at, (1.0, 1.0, 2.0, 2.0), strict=True)):
        side.read(MetricsRead(accepted_at=counts, process_start_s=start), second * S)
    assert side.seen().accepted_at == (15, 9, 3)
    side.segment_began()
    side.read(MetricsRead(accepted_at=(50.0, 40.0, 30.0)), 0)
    side.read(MetricsRead(accepted_at=(51.0, 40.0, 30.0, 0.0)), S)
    assert side.seen().accepted_at == (16, 9, 3, 0)


def cut() -> ServerSide:
    side = ServerSide()
    side.sent(0, 1)
    side.sent(0, 2)
    side.ended(ended("stalled"), S, 1)
    return side


def test_a_cut_after_which_the_server_lets_go() -> None:
    side = cut()
    read(2, side, running=2.0)
    assert side.unsettled(2 * S) is None
    read(3, side, running=1.0)
    settled = side.unsettled(3 * S)
    assert settled == CancelSettled(cut=1, ours_open=1, running=1.0, waited_ms=2000.0, fell=True)
    side.settled(settled)
    assert side.unsettled(4 * S) is None
    assert (side.seen().cut, side.seen().cut_stuck) == (1, 0)


def test_a_cut_after_which_the_server_goes_on() -> None:
    side = cut()
    read(SETTLE_US / S + 1, side, running=2.0)
    settled = side.unsettled(SETTLE_US + S)
    assert settled is not None
    assert settled.fell is False
    side.settled(settled)
    assert side.seen().cut_stuck == 1


@pytest.mark.parametrize("running", [None, 2.0])
def test_a_cut_of_which_nobody_can_say(running: float | None) -> None:
    """Without a count, and with one that is older than the cut."""
    side = ServerSide()
    side.sent(0, 1)
    side.read(MetricsRead(running=running, waiting=0.0), round(0.5 * S))
    side.ended(ended("stalled"), S, 0)
    if running is None:
        side.read(MetricsRead(waiting=0.0), 2 * S)
    settled = side.unsettled(SETTLE_US + S)
    assert settled is not None
    assert settled.fell is None
    side.settled(settled)
    assert (side.seen().cut_unknown, side.seen().cut_stuck) == (1, 0)


def test_at_the_last_chance_a_server_that_still_needs_time_is_not_called_stuck() -> None:
    side = cut()
    read(3, side, running=2.0)
    assert side.unsettled(3 * S) is None
    settled = side.unsettled(3 * S, last_chance=True)
    assert settled is not None
    assert (settled.fell, settled.running) == (None, 2.0)


def test_nothing_cut_nothing_said() -> None:
    side = played(3)
    read(9, side, running=5.0)
    assert side.unsettled(99 * S) is None
