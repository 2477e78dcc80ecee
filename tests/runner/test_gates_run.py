"""Gates around a whole run: one that fails before it ends it there, and what is seen afterwards is logged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httpx
import msgspec
import pytest
from runnertools import Played, Setting, delta, play_small, thinking_vocabulary

from infermaxx_tui.core.events import GateChecked, GpuProbed, GpuRead, Noted, RequestStarted, RunEnded
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.runner.context import Prepared
from infermaxx_tui.virtual import VirtualClock


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


def test_thinking_that_must_be_off_is_tried_before_the_run() -> None:
    played = play_small(Setting(overrides=('gates.thinking="off"',)))
    assert outcomes(played)["thinking_off", "before"] == "pass"
    assert outcomes(played)["thinking_off", "after"] == "pass"
    assert played.outcome("gates") == "pass"
    assert played.state.server.foreign is None
    assert played.outcome("instrument") == "pass"


class Thinker(httpx.AsyncBaseTransport):
    """A server that reasons when it is tried in chat mode."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/chat/completions" and request.headers.get("x-request-id", "").endswith("-probe"):
            reply = delta(reasoning_content="Let me see.") + delta("length", content="") + b"data: [DONE]\n\n"
            return httpx.Response(200, content=reply, headers={"content-type": "text/event-stream"}, request=request)
        return await self._inner.handle_async_request(request)


OFF = ('gates.thinking="off"',)
THINKERS = {
    "tokens": Setting(overrides=OFF, vocabulary=thinking_vocabulary()),
    "chat": Setting(overrides=(*OFF, "sessions.prompt=chat"), wrap=Thinker),
}


@pytest.mark.parametrize("mode", THINKERS)
def test_a_model_that_thinks_ends_the_run_before_anything_of_it_is_sent(mode: str) -> None:
    played = play_small(THINKERS[mode])
    assert outcomes(played)["thinking_off", "before"] == "fail"
    assert played.of(RequestStarted) == ()
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_a_server_that_does_not_answer_a_probe_is_not_accused() -> None:
    played = play_small(Setting(overrides=('gates.thinking="off"', "gates.prefix_cache=true"), wrap=Deaf))
    assert outcomes(played)["thinking_off", "before"] == "unknown"
    assert outcomes(played)["prefix_cache", "before"] == "unknown"
    assert outcomes(played)["thinking_off", "after"] == "pass"
    assert played.outcome("gates") == "pass"


class Deaf(httpx.AsyncBaseTransport):
    """A server that refuses what is tried before the run."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.headers.get("x-request-id", "").endswith("-probe"):
            return httpx.Response(503, request=request)
        return await self._inner.handle_async_request(request)


OURS = GpuProcess(10, 9000.0, "vllm", server=True)
CARD = GpuCard(gpu=0, name="made up", server=True, processes=(OURS,), metrics={"busy_percent": "ok", "power_w": "ok"})


class Cards:
    """Sensors that are read twenty times a second; what the card does is told by the round."""

    def __init__(self, clock: VirtualClock, at: Callable[[int], GpuReading]) -> None:
        self._clock, self._at = clock, at
        self._next = 0

    def begin(self) -> None:
        """Readings are due from now on."""

    def take(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """The round that is due."""
        now = int(self._clock.mono_us() / 5e4)
        if now < self._next:
            return ()
        first = self._next == 0
        self._next = now + 1
        read = GpuRead(gpus=(self._at(now),), server=(0,), window_ms=0.0 if first else 50.0, fast_ms=0.1)
        return (GpuProbed(probe=GpuProbe(source="made up", cards=(CARD,))), read) if first else (read,)

    def finish(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """Nothing is left."""
        return ()


def used(at: Callable[[int], GpuReading]) -> Setting:
    return Setting(overrides=("gates.gpu_used=true",), cards=lambda clock: Cards(clock, at))


REST = GpuReading(gpu=0, busy_percent=0, power_w=119.0, processes=(OURS,))
BARELY = GpuReading(gpu=0, busy_percent=3, power_w=121.0, processes=(OURS,))


def test_a_card_is_seen_at_work_before_the_run_and_in_it() -> None:
    played = play_small(used(lambda number: BARELY if number else REST))
    early, late = (gate for gate in played.of(GateChecked) if gate.name == "gpu_used")
    assert (early.when, early.outcome) == ("before", "pass")
    assert "its card worked while it generated" in early.said
    assert (late.when, late.outcome) == ("after", "pass")
    assert played.outcome("gates") == "pass"
    assert played.state.server.foreign is None


def test_a_card_that_only_holds_memory_ends_the_run_before_anything_of_it_is_sent() -> None:
    played = play_small(used(lambda _: REST))
    (gate,) = (gate for gate in played.of(GateChecked) if gate.name == "gpu_used")
    assert (gate.when, gate.outcome) == ("before", "fail")
    assert "no more than at rest" in gate.said
    assert played.of(RequestStarted) == ()
    assert [event.reason for event in played.of(RunEnded)] == ["gate"]


def test_what_is_tried_stands_in_no_count_of_the_run() -> None:
    settings = ("gates.gpu_used=true", "gates.prefix_cache=true", *OFF)
    played = play_small(Setting(overrides=settings, cards=lambda clock: Cards(clock, lambda n: BARELY if n else REST)))
    tried = [call for call in played.asks_for_tokens if call.server_id.endswith("-probe")]
    assert len(tried) >= 4
    counts = played.state.counts
    assert counts is not None
    assert counts.reason is None
    assert (counts.generation_client, counts.prompt_client) == (counts.generation_server, counts.prompt_server)
    assert {start.kind for start in played.of(RequestStarted)} >= {"turn", "recall"}
    assert "warmup" not in played.state.server.replied
    assert played.verdict.verdict == "PASS"


def test_a_card_that_was_hardly_read_meanwhile_is_not_accused() -> None:
    """Its sensors say something twice, and then no more."""

    class Slow(Cards):
        def take(self) -> Sequence[GpuProbed | GpuRead | Noted]:
            return super().take() if self._next < 2 else ()

    played = play_small(
        Setting(overrides=("gates.gpu_used=true",), cards=lambda clock: Slow(clock, lambda _: REST)),
    )
    early = next(gate for gate in played.of(GateChecked) if gate.name == "gpu_used")
    assert (early.when, early.outcome) == ("before", "pass")
    assert "whether it computes is not known" in early.said
