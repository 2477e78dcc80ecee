"""A server that goes away takes streams with it: availability says so, and delivery, recall and isolation do not.

The other way round a server that only breaks streams stays delivery's, and silence that may be the network's nobody's.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import httpx
import pytest
from runnertools import Played, Setting, play_small
from test_stops import assert_judgeable

from infermaxx_tui.core.events import RequestEnded, RunEnded, ServerLost, SessionEnded
from infermaxx_tui.core.standing import Standing
from infermaxx_tui.sim.delivery import ERROR_EVENT

BLAMELESS = ("recall", "isolation", "delivery", "degeneration")
HERE, TUNNEL, ELSEWHERE = Standing(True, 2), Standing(True, why="ssh listens there"), Standing(False)


class Engine(httpx.AsyncBaseTransport):
    """A server whose engine dies in its so-manyth reply: that one breaks, and none comes after it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, at: int, health: int | None) -> None:
        self._inner = inner
        self._left = at
        self._health = health
        """Status that /health has from then on; None if nobody listens any more."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asks = request.url.path.endswith("completions")
        self._left -= asks
        if self._left > 0:
            return await self._inner.handle_async_request(request)
        if asks and self._left == 0:
            return httpx.Response(200, content=b"data: " + ERROR_EVENT + b"\n\ndata: [DONE]\n\n", request=request)
        if request.url.path == "/metrics":
            return await self._inner.handle_async_request(request)
        if self._health is None:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        return httpx.Response(500 if asks else self._health, content=ERROR_EVENT, request=request)


def engine(at: int, health: int | None) -> Callable[[httpx.AsyncBaseTransport], httpx.AsyncBaseTransport]:
    return lambda inner: Engine(inner, at, health)


def replies() -> int:
    """How many requests for tokens a healthy run sends."""
    return len(play_small().asks_for_tokens)


def blamed(played: Played) -> set[str]:
    return {check.name for check in played.verdict.checks if check.outcome == "fail"}


@pytest.mark.parametrize("health", [500, 503, None])
@pytest.mark.parametrize("at", [8, 14, 0])
def test_an_engine_that_dies_is_availability_s_alone(health: int | None, at: int) -> None:
    """In the middle, and (0) in the very last reply, after which no request is sent that could be refused."""
    played = play_small(Setting(wrap=engine(at or replies(), health)))
    assert_judgeable(played)
    assert blamed(played) == {"availability"}
    lost = played.of(ServerLost)
    assert lost
    assert {event.how for event in lost} <= {"refused", "unhealthy"}
    assert any(event.req is not None and played.ended[event.req].outcome != "ok" for event in lost)
    assert played.verdict.verdict == "FAIL"
    (check,) = (one for one in played.verdict.checks if one.name == "availability")
    assert check.evidence


def test_a_conversation_whose_last_questions_broke_so_is_known_to_be_cut_off() -> None:
    played = play_small(Setting(wrap=engine(replies(), 503)))
    ended = {event.session: event.reason for event in played.of(SessionEnded)}
    broken = {event.session for event in played.of(RequestEnded) if event.outcome == "protocol"}
    assert {one.session for one in played.state.sessions if one.cut_off} == broken
    assert broken
    assert set(ended.values()) == {"finished"}
    assert played.of(RunEnded)[0].reason == "server_lost", "so it can be taken up again"


@pytest.mark.parametrize("fault", ["error-done", "eof", "reset"])
def test_a_server_that_is_well_and_breaks_streams_stays_delivery_s(fault: str) -> None:
    played = play_small(Setting(faults=(fault,), healthy_turns=1))
    assert not played.of(ServerLost)
    assert blamed(played) == {"delivery"}
    assert not any(one.cut_off for one in played.state.sessions)


class Frozen(httpx.AsyncBaseTransport):
    """Takes every connection from a moment on, and says nothing any more, as a process does that was stopped."""

    def __init__(self, inner: httpx.AsyncBaseTransport, after: int) -> None:
        self._inner = inner
        self._left = after

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._left -= request.url.path.endswith("completions")
        if self._left >= 0:
            return await self._inner.handle_async_request(request)
        limit_s = request.extensions["timeout"].get("read")
        await anyio.sleep(1e9 if limit_s is None else limit_s)
        raise httpx.ReadTimeout("", request=request)


FROZEN = {HERE: "fail", Standing(True, 3, 3): "fail", ELSEWHERE: "fail", TUNNEL: "not_evaluable"}


@pytest.mark.parametrize("standing", FROZEN)
@pytest.mark.parametrize("after", [6, 9])
def test_a_server_that_takes_connections_and_says_nothing(standing: Standing, after: int) -> None:
    frozen = Setting(wrap=lambda inner: Frozen(inner, after), standing=standing, overrides=("limits.stall_s=3.0",))
    played = play_small(frozen)
    assert_judgeable(played)
    assert played.outcome("availability") == FROZEN[standing]
    assert not blamed(played).intersection(BLAMELESS)
    stalled = [event for event in played.of(ServerLost) if event.how == "stalled"]
    assert stalled
    assert all("/health does not answer within 5 s" in event.detail for event in stalled)
    assert played.of(RunEnded)[0].reason == "server_lost" or len(played.state.sessions) == 2


class Between(httpx.AsyncBaseTransport):
    """Well in all that it is asked to say, but /health gives no good answer after the first so many."""

    def __init__(self, inner: httpx.AsyncBaseTransport, status: int, good: int = 1) -> None:
        self._inner = inner
        self._status = status
        self._good = good

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            self._good -= 1
            return httpx.Response(200 if self._good >= 0 else self._status, request=request)
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize(("status", "outcome"), [(503, "fail"), (504, "not_evaluable"), (404, "pass")])
def test_a_server_that_is_unwell_between_two_waves_is_named_in_the_log(status: int, outcome: str) -> None:
    played = play_small(
        Setting(wrap=lambda inner: Between(inner, status), overrides=("sessions.count=2", "sessions.at_once=1"))
    )
    assert_judgeable(played)
    assert played.outcome("availability") == outcome
    lost = played.of(ServerLost)
    assert [event.how for event in lost] == ([] if outcome == "pass" else ["unhealthy"])
    assert played.of(RunEnded)[0].reason == ("finished" if outcome == "pass" else "server_lost")
    if lost:
        assert lost[0].session is None
        assert f"/health answers {status}" in lost[0].detail


class Mute(httpx.AsyncBaseTransport):
    """Answers about itself, and says no token any more for so many requests, as one does whose engine hangs."""

    def __init__(self, inner: httpx.AsyncBaseTransport, after: int, requests: int) -> None:
        self._inner = inner
        self._left = after
        self._mute = requests

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._left -= request.url.path.endswith("completions")
        if not request.url.path.endswith("completions") or self._left >= 0 or self._left < -self._mute:
            return await self._inner.handle_async_request(request)
        await anyio.sleep_forever()
        raise AssertionError


_ALONE = ("sessions.count=8", "sessions.at_once=1", "limits.stall_s=3.0")


@pytest.mark.parametrize(("requests", "conversations", "reason"), [(99, 3, "server_lost"), (2, 8, "finished")])
def test_a_server_that_never_speaks_again_does_not_cost_a_limit_for_all_that_is_left(
    requests: int, conversations: int, reason: str
) -> None:
    played = play_small(Setting(wrap=lambda inner: Mute(inner, 1, requests), overrides=_ALONE))
    assert_judgeable(played)
    assert len(played.of(SessionEnded)) == conversations
    assert played.of(RunEnded)[0].reason == reason
    assert blamed(played) == {"availability"}
    assert len([event for event in played.of(ServerLost) if event.how == "stalled"]) == min(requests, 3)


def test_streams_that_stall_one_after_another_are_one_silence() -> None:
    ramped = Setting(
        wrap=lambda inner: Mute(inner, 4, 4),
        overrides=("sessions.count=4", "sessions.at_once=4", "sessions.ramp_s=0.4", "limits.stall_s=3.0"),
    )
    played = play_small(ramped)
    assert len([event for event in played.of(ServerLost) if event.how == "stalled"]) >= 3
    assert played.of(RunEnded)[0].reason == "finished"


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("faults", [(), ("eof",)])
def test_where_health_never_was_well_it_speaks_against_nobody(status: int, faults: tuple[str, ...]) -> None:
    """A gateway may have no such page, and say so with any status."""
    played = play_small(
        Setting(wrap=lambda inner: Between(inner, status, good=0), faults=faults, overrides=("sessions.at_once=1",))
    )
    assert_judgeable(played)
    assert not played.of(ServerLost)
    assert played.of(RunEnded)[0].reason == "finished"
    assert blamed(played) == ({"delivery"} if faults else set())
    assert played.outcome("availability") == "pass"
