"""Availability: certain evidence fails, a time-out alone stays open, and before the first token nothing counts."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Reply, Shape, changed, fluent, history, honest, state_of
from infermaxx_tui.core.judges import availability
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits

How = Literal["refused", "pid_dead", "restarted", "stalled", "timeout", "unhealthy"]


def check(events: list[e.AnyEvent]) -> Check:
    return availability.judge(state_of(events), Limits())


def lost(how: How, reachable: bool | None = None) -> e.ServerLost:
    return e.ServerLost(how=how, session=1, req=7, detail="as it was seen", reachable=reachable)


def near_the_end(event: e.AnyEvent) -> list[e.AnyEvent]:
    events = history()
    return [*events[:-3], event, *events[-3:]]


def test_healthy_passes() -> None:
    got = check(history())
    assert (got.outcome, got.n_evaluated, got.evidence) == ("pass", 80, ())


@pytest.mark.parametrize("how", ["refused", "pid_dead", "restarted"])
@pytest.mark.parametrize("reachable", [None, True, False])
def test_certain_evidence_fails(how: How, reachable: bool | None) -> None:
    got = check(near_the_end(lost(how, reachable)))
    assert got.outcome == "fail"
    (witness,) = got.evidence
    assert (witness.session, witness.said) == (1, "as it was seen")


@pytest.mark.parametrize("how", ["stalled", "unhealthy"])
def test_a_server_that_is_sick_on_a_reachable_host_fails(how: How) -> None:
    assert check(near_the_end(lost(how, True))).outcome == "fail"


@pytest.mark.parametrize(
    ("how", "reachable"),
    [
        ("stalled", False),
        ("stalled", None),
        ("timeout", True),
        ("timeout", None),
        ("unhealthy", False),
        ("unhealthy", None),
    ],
)
def test_silence_that_may_be_the_network_s_stays_open(how: How, reachable: bool | None) -> None:
    got = check(near_the_end(lost(how, reachable)))
    assert got.outcome == "not_evaluable"
    assert got.evidence[0].said == "as it was seen"


def test_certain_evidence_is_not_hidden_by_any_number_of_time_outs() -> None:
    events = history()
    slow = [lost("timeout")] * 500
    assert check([*events[:-3], *slow, lost("pid_dead"), *slow, *events[-3:]]).outcome == "fail"


@pytest.mark.parametrize("how", ["refused", "pid_dead", "restarted", "stalled", "timeout", "unhealthy"])
def test_before_the_first_token_it_is_no_failure_of_availability(how: How) -> None:
    events = history()
    assert check([*events[:2], lost(how, True), *events[2:]]).outcome == "pass"


def test_without_any_first_token_there_is_no_verdict() -> None:
    events = changed(history(), e.FirstToken, lambda event: None)
    assert check(events).outcome == "not_evaluable"
    assert check([*events[:-1], lost("refused"), events[-1]]).outcome == "not_evaluable"


OUTCOMES: list[tuple[e.Outcome, str]] = [
    ("stalled", "not_evaluable"),
    ("timeout", "not_evaluable"),
    ("refused_connection", "fail"),
    ("shed", "pass"),
    ("too_long", "pass"),
    ("truncated", "pass"),
]


@pytest.mark.parametrize(("outcome", "expected"), OUTCOMES)
def test_requests_alone_say_what_they_can(outcome: e.Outcome, expected: str) -> None:
    bad = Reply(outcome=outcome, finish_reason=None, completion_tokens=None, speaks=False)
    events = history(Shape(), honest, lambda session, turn: bad if (session, turn) == (2, 9) else fluent(session, turn))
    got = check(events)
    assert got.outcome == expected
    assert len(got.evidence) == (0 if expected == "pass" else 1)


def test_a_stall_that_was_looked_into_fails_with_the_request() -> None:
    bad = Reply(outcome="stalled", finish_reason=None, completion_tokens=None)
    events = history(Shape(), honest, lambda session, turn: bad if (session, turn) == (2, 9) else fluent(session, turn))
    ended = next(x for x in events if isinstance(x, e.RequestEnded) and x.outcome == "stalled")
    place = events.index(ended)
    seen = e.ServerLost(how="stalled", session=2, req=ended.req, detail="/health answers", reachable=True)
    assert check([*events[:place], seen, *events[place:]]).outcome == "fail"


def test_one_refused_request_is_one_witness_and_a_probe_is_of_no_session() -> None:
    bad = Reply(outcome="refused_connection", finish_reason=None, completion_tokens=None, speaks=False)
    events = history(Shape(), honest, lambda session, turn: bad if (session, turn) == (2, 9) else fluent(session, turn))
    ended = next(x for x in events if isinstance(x, e.RequestEnded) and x.outcome == "refused_connection")
    place = events.index(ended) + 1
    seen = e.ServerLost(how="refused", session=-1, req=ended.req, detail="connection refused", reachable=False)
    (witness,) = check([*events[:place], seen, *events[place:]]).evidence
    assert (witness.session, witness.said) == (None, "connection refused")
    other = msgspec.structs.replace(seen, req=ended.req + 100_000)
    assert len(check([*events[:place], other, *events[place:]]).evidence) == 2


def test_a_failure_outlives_a_run_that_broke_off() -> None:
    events = history()
    cut = len(events) // 2
    assert check([*events[:cut], lost("pid_dead")]).outcome == "fail"


def test_a_resumed_run_keeps_what_was_seen_before() -> None:
    events = near_the_end(lost("pid_dead"))
    first = events[0]
    assert isinstance(first, e.RunStarted)
    assert check([*events, msgspec.structs.replace(first, segment=1), *history()[1:]]).outcome == "fail"
