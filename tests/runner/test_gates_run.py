"""Gates around a whole run: one that fails before it ends it there, and what is seen afterwards is logged."""

from __future__ import annotations

import httpx
import msgspec
from runnertools import Played, Setting, play_small

from infermaxx_tui.core.events import GateChecked, Noted, RequestStarted, RunEnded
from infermaxx_tui.runner.context import Prepared


def outcomes(played: Played) -> dict[tuple[str, str], str]:
    return {(gate.name, gate.when): gate.outcome for gate in played.of(GateChecked)}


def slots(count: int) -> Setting:
    def changed(prepared: Prepared) -> Prepared:
        regime = msgspec.structs.replace(prepared.regime, max_num_seqs=count)
        return msgspec.structs.replace(prepared, regime=regime)

    return Setting(sabotage=changed)


def test_a_gate_that_fails_before_the_run_ends_it_before_anything_is_sent() -> None:
    played = play_small(slots(1))
    assert outcomes(played)["slots", "before"] == "fail"
    assert played.of(RequestStarted) == ()
    assert [event.reason for event in played.of(RunEnded)] == ["gate"]
    assert played.verdict.verdict == "INCONCLUSIVE"
    check = next(check for check in played.verdict.checks if check.name == "gates")
    assert "--max-num-seqs" in (check.advice or "")
    assert any("gate slots:" in event.text for event in played.of(Noted))


def test_enough_slots_are_no_obstacle() -> None:
    played = play_small(slots(8))
    assert outcomes(played)["slots", "before"] == "pass"
    assert played.verdict.verdict == "PASS"
    assert played.outcome("gates") == "pass"


def test_a_prefix_cache_is_tried_before_and_seen_after() -> None:
    played = play_small(Setting(overrides=("gates.prefix_cache=true",)))
    assert outcomes(played)["prefix_cache", "before"] == "pass"
    assert played.outcome("gates") == "pass"
    assert played.state.server.foreign is None
    assert played.outcome("instrument") == "pass"


class NoHits(httpx.AsyncBaseTransport):
    """A server whose cache never hits."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        if request.url.path != "/metrics":
            return answer
        lines = (await answer.aread()).split(b"\n")
        page = b"\n".join(line for line in lines if b"prefix_cache_hits_total{" not in line)
        page += b'\nvllm:prefix_cache_hits_total{engine="0"} 0.0\n'
        return httpx.Response(200, content=page, headers={"content-type": "text/plain"}, request=request)


def test_a_dead_prefix_cache_that_must_work_ends_the_run() -> None:
    played = play_small(Setting(overrides=("gates.prefix_cache=true",), wrap=NoHits))
    assert outcomes(played)["prefix_cache", "before"] == "fail"
    assert played.of(RequestStarted) == ()
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_a_dead_prefix_cache_that_nobody_asked_for_is_noted() -> None:
    played = play_small(Setting(wrap=NoHits))
    assert outcomes(played)["prefix_cache", "after"] == "fail"
    assert played.verdict.verdict == "PASS"


def test_a_card_that_is_asked_for_and_not_there_makes_the_run_inconclusive() -> None:
    played = play_small(Setting(overrides=("gates.power_limit_w=275",)))
    assert outcomes(played)["power_limit", "before"] == "unknown"
    assert played.verdict.verdict == "INCONCLUSIVE"
    assert played.outcome("recall") == "pass"


def test_thinking_that_must_be_off_and_is_not() -> None:
    played = play_small(Setting(overrides=('gates.thinking="off"',), faults=("reason-only",)))
    assert outcomes(played)["thinking_off", "after"] == "fail"
    assert played.outcome("gates") == "not_evaluable"
