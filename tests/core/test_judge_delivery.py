"""Delivery: what arrived, not what was claimed. A 200 with nothing in it is a failure; a shed request is not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Reply, Shape, changed, fluent, history, honest, state_of
from infermaxx_tui.core.judges import delivery
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.stats import bound95

FAILED: dict[str, Reply] = {
    "protocol": Reply(content="Ses", outcome="protocol", finish_reason=None, error='{"error": "engine died"}'),
    "truncated": Reply(content="Ses", outcome="truncated", finish_reason=None, error="connection reset"),
    "nothing delivered": Reply(finish_reason="stop", completion_tokens=1),
    "only reasoning": Reply(reasoning="Let me think.", finish_reason="stop"),
    "HTTP 500": Reply(outcome="rejected", status=500, finish_reason=None, completion_tokens=None, speaks=False),
}
NOT_DELIVERY: dict[str, Reply] = {
    "shed": Reply(outcome="shed", status=429, finish_reason=None, completion_tokens=None, speaks=False),
    "too_long": Reply(outcome="too_long", status=400, finish_reason=None, completion_tokens=None, speaks=False),
    "rejected": Reply(outcome="rejected", status=404, finish_reason=None, completion_tokens=None, speaks=False),
    "cancelled": Reply(content="Ses", outcome="cancelled", finish_reason=None),
    "stalled": Reply(outcome="stalled", finish_reason=None, completion_tokens=None, speaks=False),
    "timeout": Reply(outcome="timeout", finish_reason=None, completion_tokens=None, speaks=False),
    "refused_connection": Reply(outcome="refused_connection", status=None, finish_reason=None, speaks=False),
}


def sick(reply: Reply, n: int) -> Callable[[int, int], Reply]:
    """A server whose first `n` turns of session 0 end like this; there are 48 turns and 32 questions."""
    return lambda session, turn: reply if session == 0 and turn <= n else fluent(session, turn)


def check(events: list[e.AnyEvent], limits: Limits = Limits()) -> Check:  # noqa: B008
    return delivery.judge(state_of(events), limits)


def test_healthy_passes() -> None:
    got = check(history())
    assert (got.outcome, got.n_evaluated, got.n_planned, got.excluded) == ("pass", 80, 80, {})
    assert got.bound95 == bound95(0, 80)


@pytest.mark.parametrize("what", FAILED)
def test_each_failure_fails_at_five_in_a_hundred(what: str) -> None:
    got = check(history(Shape(), honest, sick(FAILED[what], 4)))
    assert (got.outcome, got.n_evaluated) == ("fail", 80)
    assert [one.what for one in got.evidence] == [what] * 4
    assert "limits.max_delivery_share=0.05" in (got.advice or "")


def test_a_witness_says_what_came_or_else_what_the_transport_said() -> None:
    cut = Reply(content="Ses", outcome="truncated", finish_reason=None, error="connection reset")
    mute = Reply(outcome="truncated", finish_reason=None, error="connection reset")
    assert {one.said for one in check(history(Shape(), honest, sick(cut, 4))).evidence} == {"Ses"}
    assert {one.said for one in check(history(Shape(), honest, sick(mute, 4))).evidence} == {"connection reset"}


@pytest.mark.parametrize("what", FAILED)
def test_below_five_in_a_hundred_it_is_told_and_passes(what: str) -> None:
    got = check(history(Shape(), honest, sick(FAILED[what], 3)))
    assert got.outcome == "pass"
    assert len(got.evidence) == 3
    assert got.bound95 == bound95(3, 80)


def test_the_limit_decides() -> None:
    one = history(Shape(), honest, sick(FAILED["truncated"], 1))
    assert check(one, Limits(max_delivery_share=1 / 80)).outcome == "fail"
    assert check(one, Limits(max_delivery_share=0.02)).outcome == "pass"
    assert check(history(), Limits(max_delivery_share=0.0)).outcome == "pass"


def test_questions_are_deliveries_too() -> None:
    silent = history(Shape(), lambda ask: Reply(reasoning="Hm.") if ask.kind == "recall" else honest(ask))
    assert check(silent).outcome == "fail"


@pytest.mark.parametrize("what", NOT_DELIVERY)
def test_load_our_own_faults_and_absence_are_not_delivery(what: str) -> None:
    got = check(history(Shape(), honest, sick(NOT_DELIVERY[what], 12)))
    assert (got.outcome, got.n_evaluated, got.excluded) == ("pass", 68, {what: 12})


@pytest.mark.parametrize("finish_reason", ["length", None])
def test_a_cap_that_leaves_nothing_is_not_delivery(finish_reason: str | None) -> None:
    capped = Reply(reasoning="Hm", finish_reason=finish_reason, completion_tokens=399)
    assert check(history(Shape(), honest, sick(capped, 12))).outcome == "pass"


def test_a_capped_tool_call_says_tool_calls_and_is_still_capped() -> None:
    capped = Reply(reasoning="Hm", finish_reason="tool_calls", completion_tokens=399)
    assert check(history(Shape(), honest, sick(capped, 12))).outcome == "pass"
    dropped = Reply(reasoning="Hm", finish_reason="tool_calls", completion_tokens=30)
    assert check(history(Shape(), honest, sick(dropped, 12))).outcome == "fail"


def test_a_tool_call_is_a_delivery() -> None:
    call = Reply(tool_args='{"path": "a.py"}', finish_reason="tool_calls")
    assert check(history(Shape(), honest, sick(call, 12))).outcome == "pass"


def test_white_space_alone_is_nothing() -> None:
    def blank(event: e.RequestEnded) -> e.AnyEvent:
        return msgspec.structs.replace(event, content=" \n", content_chars=2) if event.kind == "recall" else event

    assert check(changed(history(), e.RequestEnded, blank)).outcome == "fail"


def test_tokens_that_we_could_not_read_are_not_the_server_s_failure() -> None:
    blind = Reply(finish_reason="stop", completion_tokens=40, anomalies=("unparsed_delta",))
    got = check(history(Shape(), honest, sick(blind, 12)))
    assert (got.outcome, got.excluded) == ("pass", {"unparsed": 12})


def test_nothing_that_could_be_judged_is_no_verdict() -> None:
    shed = NOT_DELIVERY["shed"]
    got = check(history(Shape(reask=False), lambda ask: shed, lambda session, turn: shed))
    assert (got.outcome, got.n_evaluated, got.bound95) == ("not_evaluable", 0, None)
    assert "80 shed" in (got.advice or "")


def broken_at(events: list[e.AnyEvent], n: int) -> tuple[list[e.AnyEvent], int]:
    """The history in which the last `n` turns broke off, and the place after the first of them."""
    ends = [i for i, x in enumerate(events) if isinstance(x, e.RequestEnded) and x.kind == "turn"][-n:]
    made = list(events)
    for i in ends:
        event = made[i]
        assert isinstance(event, e.RequestEnded)
        made[i] = msgspec.structs.replace(event, outcome="truncated", finish_reason=None)
    return made, ends[0] + 1


LOST = e.ServerLost(how="refused", session=0, req=None, detail="connection refused")


def test_streams_that_broke_because_the_server_went_away_are_not_delivery() -> None:
    """One cause, one line: they are availability's."""
    events, after = broken_at(history(), 4)
    assert check(events).outcome == "fail"
    got = check([*events[:after], LOST, *events[after:]])
    assert (got.outcome, got.excluded) == ("pass", {"lost_with_server": 4})
    assert (got.n_evaluated, got.evidence) == (76, ())


@pytest.mark.parametrize("outcome", ["truncated", "protocol", "rejected"])
def test_what_a_dead_engine_breaks_is_not_delivery_and_its_conversations_are_known(outcome: e.Outcome) -> None:
    """An engine that dies behind its server breaks streams and answers 500, before it is found out and after."""
    events, after = broken_at(history(), 4)
    status = 500 if outcome == "rejected" else 200
    for i, event in enumerate(events):
        if isinstance(event, e.RequestEnded) and event.outcome == "truncated":
            events[i] = msgspec.structs.replace(event, outcome=outcome, status=status)
    assert check(events).outcome == "fail"
    dead = msgspec.structs.replace(LOST, how="unhealthy", reachable=True)
    whole = [*events[:after], dead, *events[after:]]
    got = check(whole)
    assert (got.outcome, got.excluded, got.n_evaluated) == ("pass", {"lost_with_server": 4}, 76)
    broken = {x.session for x in events if isinstance(x, e.RequestEnded) and x.outcome == outcome}
    assert {one.session for one in state_of(whole).sessions if one.cut_off} == broken
    assert not any(one.cut_off for one in state_of(events).sessions)
    unknown = msgspec.structs.replace(dead, reachable=None)
    assert check([*events[:after], unknown, *events[after:]]).outcome == "fail"


def test_streams_that_broke_long_before_the_server_went_away_are_delivery() -> None:
    events, _ = broken_at(history(), 4)
    wait = [e.Noted(text="waiting")] * 600
    assert check([*events[:-1], *wait, LOST, events[-1]]).outcome == "fail"


@pytest.mark.parametrize("how", ["timeout", "stalled"])
def test_a_time_out_says_nothing_about_streams_that_broke(how: str) -> None:
    events, after = broken_at(history(), 4)
    slow = msgspec.convert({**msgspec.to_builtins(LOST), "how": how}, e.ServerLost)
    assert check([*events[:after], slow, *events[after:]]).outcome == "fail"


def test_once_the_server_speaks_again_broken_streams_are_delivery_again() -> None:
    sane = history()
    first_turn = next(i for i, x in enumerate(sane) if isinstance(x, e.RequestEnded))
    events, _ = broken_at([*sane[:first_turn], LOST, *sane[first_turn:]], 4)
    assert check(events).outcome == "fail"
