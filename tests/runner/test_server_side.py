"""The server's counters during a run: another user of it, pages that are none, and a server that never lets go."""

from __future__ import annotations

import anyio
import httpx
import msgspec
import pytest
from runnertools import URL, Played, Scripted, Setting, bench, order, play_small

from infermaxx_tui.core.events import AnyEvent, CancelSettled, MetricsRead, Noted
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.sampling import watch_metrics
from infermaxx_tui.virtual import VirtualClock, run_virtual


class Neighbour(httpx.AsyncBaseTransport):
    """Somebody else asks the same server for a token each time that its counters are read."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            body = msgspec.json.encode({"model": "infermaxx-sim", "prompt": [5, 6, 7], "max_tokens": 1})
            url, head = request.url.copy_with(path="/v1/completions"), {"content-type": "application/json"}
            theirs = httpx.Request("POST", url, content=body, headers=head)
            answer = await self._inner.handle_async_request(theirs)
            await answer.aread()
        return await self._inner.handle_async_request(request)


class OtherPage(httpx.AsyncBaseTransport):
    """A page of metrics that is not the server's own."""

    def __init__(self, inner: httpx.AsyncBaseTransport, page: bytes, kind: str) -> None:
        self._inner = inner
        self._page = page
        self._kind = kind

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/metrics":
            return await self._inner.handle_async_request(request)
        return httpx.Response(200, content=self._page, headers={"content-type": self._kind}, request=request)


def advice(played: Played, name: str) -> str:
    return next(check.advice or "" for check in played.verdict.checks if check.name == name)


def test_a_run_by_itself_is_not_tainted() -> None:
    played = play_small()
    seen = played.state.server
    assert seen.foreign is None
    assert played.outcome("instrument") == "pass"
    assert sum(seen.finished.values()) == len(played.ended)
    assert seen.generation_tokens == sum(e.completion_tokens or 0 for e in played.ended.values())
    assert seen.prefix_hits is not None
    assert seen.prefix_hits > 0


def test_another_user_of_the_server_taints_the_run() -> None:
    played = play_small(Setting(wrap=Neighbour))
    assert played.state.server.foreign_requests > 0
    assert played.outcome("instrument") == "not_evaluable"
    assert "others used the server" in advice(played, "instrument")
    assert played.outcome("timing") == "not_evaluable"
    assert played.outcome("recall") == "pass"


PAGES = {
    "HTML": (b"<!doctype html><title>502</title>", "text/html", "HTML"),
    "too large": (b"# HELP x\n" * 500_000, "text/plain", "larger than 4 MiB"),
    "nothing known": (b"go_goroutines 3\n", "text/plain", "no vllm or process metrics"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_is_none_is_refused_with_the_reason_and_the_run_goes_on(name: str) -> None:
    page, kind, words = PAGES[name]
    played = play_small(Setting(wrap=lambda inner: OtherPage(inner, page, kind)))
    readings = played.of(MetricsRead)
    assert all(words in (reading.error or "") for reading in readings)
    assert played.outcome("recall") == "pass"
    assert played.outcome("instrument") == "pass"
    assert (played.state.server.readings, played.state.server.foreign) == (0, None)
    assert words in ((played.state.counts and played.state.counts.reason) or "")


class NeverLetsGo(OtherPage):
    """Counts three requests as running whatever happens."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        super().__init__(inner, b"vllm:num_requests_running 3.0\n", "text/plain")


STALLS = ("limits.stall_s=5.0",)


def test_after_a_cut_the_server_lets_go_and_that_is_logged() -> None:
    played = play_small(Setting(faults=("hang",), overrides=STALLS))
    settled = played.of(CancelSettled)
    assert settled
    assert all(event.fell for event in settled)
    assert played.state.server.cut == sum(event.cut for event in settled)
    assert not any("goes on with what nobody reads" in event.text for event in played.of(Noted))


async def _after_a_cut(transport: httpx.AsyncBaseTransport) -> tuple[AnyEvent, ...]:
    """A request is cut, and the counters are read for half a minute."""
    async with make_client(URL, None, transport) as client, anyio.create_task_group() as group:
        made = bench(client, VirtualClock())
        group.start_soon(watch_metrics, made.run)
        group.start_soon(made.streams.send, order())
        await anyio.sleep(5)
        made.run.cut(for_good=False)
        await anyio.sleep(30)
        group.cancel_scope.cancel()
    return made.events


def test_a_server_that_goes_on_after_a_cut_is_noted() -> None:
    events = run_virtual(_after_a_cut, NeverLetsGo(Scripted(600.0)))
    settled = [event for event in events if isinstance(event, CancelSettled)]
    assert [(event.cut, event.fell, event.running) for event in settled] == [(1, False, 3.0)]
    assert any("goes on with what nobody reads" in event.text for event in events if isinstance(event, Noted))
