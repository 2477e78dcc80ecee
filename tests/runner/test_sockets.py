"""Real sockets on this machine: what each way of breaking a connection is called, and whole runs over them."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from peers import CHUNKED, HEAD, Peer, Talk, talking
from runnertools import (
    DONE,
    NONCE,
    SCENARIO,
    Delegate,
    MemorySink,
    bench,
    counted,
    decoded,
    order,
    said,
    scenario_of,
    transcript,
)

from infermaxx_tui.core.events import Record, RequestEnded, RequestStarted, RunEnded, SessionEnded
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.prepare import prepare
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.context import Stopper
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.play import play
from infermaxx_tui.server_renderer import ServerRenderer
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.server import SimServer
from infermaxx_tui.vocabulary import shipped
from infermaxx_tui.wish import Loaded, Wish

WHOLE = (said("a", 1), said("", 9, finish="stop"), counted(3, 2), DONE)


async def sent_to(url: str, **changes: Any) -> RequestEnded:
    """How a single request to `url` ends."""
    async with make_client(url, None, connect_s=0.4) as client:
        return (await bench(client, SystemClock()).streams.send(order(**changes))).ended


def ended_by(talk: Talk, **changes: Any) -> RequestEnded:
    """How a single request to such a server ends."""

    async def main() -> RequestEnded:
        async with talking(talk) as url:
            return await sent_to(url, **changes)

    return anyio.run(main)


async def sound(peer: Peer) -> None:
    """Answers every request as it should be answered."""
    while True:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(*WHOLE)


def test_a_sound_answer() -> None:
    ended = ended_by(sound)
    assert (ended.outcome, ended.completion_tokens, ended.anomalies) == ("ok", 2, ())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ended = anyio.run(sent_to, f"http://{host}:{free.getsockname()[1]}")
    assert (ended.outcome, ended.status) == ("refused_connection", None)


def test_a_reset_before_the_head() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("truncated", None)
    assert "before an answer came" in (ended.error or "")
    assert "reset by peer" in (ended.error or "")


def test_an_end_before_the_head() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("truncated", None)
    assert "before an answer came" in (ended.error or "")


def test_an_end_inside_the_head() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD[:25])

    assert ended_by(talk).outcome == "truncated"


@pytest.mark.parametrize(
    "garbage", [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"HTTP/9 x\r\n\r\n"]
)
def test_something_else_than_http(garbage: bytes) -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(garbage)

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("protocol", None)
    assert "not HTTP" in (ended.error or "")


def test_an_end_in_the_middle_of_a_body_that_only_the_end_delimits() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"connection: close\r\n\r\n", said("a", 1))

    ended = ended_by(talk)
    assert (ended.outcome, ended.status, ended.ids_received) == ("truncated", 200, 1)


def test_a_whole_body_that_only_the_end_delimits() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"connection: close\r\n\r\n", *WHOLE)

    assert ended_by(talk).outcome == "ok"


@pytest.mark.parametrize("piece", [b"", b"1f\r\ndata: {", b"5"])
def test_a_chunked_body_that_is_cut(piece: bytes) -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(said("a", 1), last=False)
        await peer.send(piece)

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("truncated", 200)


def test_a_chunk_without_a_size() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(said("a", 1), last=False)
        await peer.send(b"zz\r\n")

    assert ended_by(talk).outcome in ("protocol", "truncated")  # as the bytes happen to arrive


def test_a_reset_in_the_middle_of_the_stream() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(said("a", 1), last=False)
        peer.reset()

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("truncated", 200)


def test_a_body_cut_short_of_its_length() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(HEAD + b"content-length: 5000\r\n\r\n", said("a", 1))

    assert ended_by(talk).outcome == "truncated"


def test_nobody_answers_the_connection() -> None:
    """A full backlog drops what knocks, so that connecting neither succeeds nor is refused."""

    async def main() -> RequestEnded:
        with socket.socket() as deaf, socket.socket() as first, socket.socket() as second:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            for knocking in (first, second):
                knocking.setblocking(False)
                knocking.connect_ex(deaf.getsockname())
            return await sent_to(f"http://127.0.0.1:{deaf.getsockname()[1]}")

    ended = anyio.run(main)
    assert (ended.outcome, ended.status) == ("timeout", None)


def test_tls_to_a_port_that_speaks_none() -> None:
    async def talk(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await peer.forever()

    async def main() -> RequestEnded:
        async with talking(talk) as url:
            return await sent_to(url.replace("http:", "https:"))

    ended = anyio.run(main)
    assert (ended.outcome, ended.status) == ("truncated", None)
    assert "ssl" in (ended.error or "").lower()


def test_a_connection_left_open_after_done() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(*WHOLE, last=False)
        await peer.forever()

    ended = ended_by(talk)
    assert ended.outcome == "ok"
    assert "open_after_done" in ended.anomalies


def test_a_server_that_refuses_and_reads_no_further_does_not_hold_us() -> None:
    """Giving the connection back must not wait for a body that nobody reads."""

    async def talk(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await peer.deaf()

    ids = tuple(range(2_000_000))
    ended = ended_by(talk, ids=ids)
    assert (ended.outcome, ended.status) == ("too_long", 413)


def test_a_redirect_is_not_followed() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")

    ended = ended_by(talk)
    assert (ended.outcome, ended.status) == ("rejected", 307)


def test_a_body_that_is_compressed_though_nobody_asked_is_no_event_stream() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        packed = gzip.compress(b"".join(WHOLE))
        await peer.send(HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed), packed)

    assert ended_by(talk).outcome in ("protocol", "truncated")


# Keep-alive


def test_no_request_meets_a_connection_that_the_server_is_closing() -> None:
    """A server that offers keep-alive and hangs up at once cannot be mistaken for one that hung up on a request."""
    peers: list[int] = []

    async def talk(peer: Peer) -> None:
        peers.append(peer.number)
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(*WHOLE)

    async def main() -> list[RequestEnded]:
        async with talking(talk) as url, make_client(url, None) as client:
            made = bench(client, SystemClock())
            return [(await made.streams.send(order())).ended for _ in range(6)]

    assert [ended.outcome for ended in anyio.run(main)] == ["ok"] * 6
    assert peers == [1, 2, 3, 4, 5, 6]


def test_a_server_that_hangs_up_before_it_answers_is_asked_once() -> None:
    requests: list[int] = []

    async def talk(peer: Peer) -> None:
        await peer.request()
        requests.append(peer.number)

    ended = ended_by(talk)
    assert ended.outcome == "truncated"
    assert "before an answer came" in (ended.error or "")
    assert requests == [1]


# Whole runs


def over_sockets(*faults: str, overrides: tuple[str, ...] = ()) -> tuple[Verdict, tuple[Record, ...]]:
    """The small scenario against the embedded server on a port."""

    async def main() -> MemorySink:
        loaded = Loaded(scenario_of(overrides), SCENARIO, "small.toml", tuple(transcript(n) for n in range(4)))
        sink = MemorySink()
        async with SimServer(App(Engine(SimConfig(faults=faults)))) as server:
            wish = Wish(scenario="small", nonce=NONCE)
            prepared, _ = await prepare(loaded, wish, server.url, None, renderer=shipped())
            async with make_client(server.url, None) as client:
                await play(prepared, "run", client, sink, SystemClock(), Stopper())
        for _ in range(10):
            await asyncio.sleep(0)  # a connection that was being accepted as the server died is closed by then
        return sink

    sink = anyio.run(main)
    return verdict_of(sink), tuple(decoded(line) for line in sink.lines)


def verdict_of(sink: MemorySink) -> Verdict:
    """What a log earns."""
    fold = Fold()
    for line in sink.lines:
        fold.add(decoded(line))
    return judge_run(fold.snapshot())


@pytest.mark.parametrize(
    ("fault", "wanted", "failing"),
    [
        ("clean", "PASS", []),
        ("split", "PASS", []),
        ("crlf", "PASS", []),
        ("reset", "FAIL", ["delivery"]),
        ("eof", "FAIL", ["delivery"]),
        ("hang", "FAIL", ["availability"]),
        ("dies", "FAIL", ["availability"]),
    ],
)
def test_a_fault_earns_its_verdict_over_sockets(fault: str, wanted: str, failing: list[str]) -> None:
    verdict, records = over_sockets(fault, overrides=("limits.stall_s=1.0",))
    assert verdict.verdict == wanted
    assert [check.name for check in verdict.checks if check.outcome == "fail"] == failing
    last = records[-1].event
    assert isinstance(last, RunEnded)
    assert last.events == len(records)


def test_counts_agree_exactly_over_sockets() -> None:
    verdict, _ = over_sockets("clean", overrides=("sessions.prompt=chat",))
    seen = verdict.instrument
    assert seen.counts_reason is None
    assert (seen.generation_client, seen.prompt_client) == (seen.generation_server, seen.prompt_server)
    assert seen.generation_client


def test_a_probe_says_how_late_the_client_was_while_it_waited_and_nothing_else_does() -> None:
    _, records = over_sockets(overrides=('probes=[{kind="decode", n=1, max_tokens=16}]', "sessions.rounds=1"))
    ended = [record.event for record in records if isinstance(record.event, RequestEnded)]
    probes = [one for one in ended if one.kind == "probe"]
    assert len(probes) == 2
    for one in probes:
        assert one.lag_first_ms is not None
        assert one.lag_max_ms is not None
        assert 0 <= one.lag_first_ms <= one.lag_max_ms
    assert {one.lag_max_ms for one in ended if one.kind != "probe"} == {None}


def test_a_prompt_of_many_ids_travels_whole() -> None:
    sizes: list[int] = []

    async def talk(peer: Peer) -> None:
        sizes.append(len(await peer.request()))
        await peer.send(CHUNKED)
        await peer.chunks(*WHOLE)

    ids = tuple(range(100_000))
    assert ended_by(talk, prompt=Prompt(ids=ids)).outcome == "ok"
    assert sizes[0] > 500_000


# Rendering beside the loop


@contextmanager
def served(*faults: str) -> Iterator[str]:
    """The URL of the embedded server in a thread of its own, which a client may block for."""
    ready, over = threading.Event(), threading.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with SimServer(App(Engine(SimConfig(faults=faults)))) as server:
            urls.append(server.url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        ready.wait()
        yield urls[0]
    finally:
        over.set()
        thread.join()


class Blocked(Delegate):
    """A renderer that does not come back with a conversation's first prompt, as one whose server hangs."""

    def __init__(self) -> None:
        self.blocks = threading.Event()
        self.release = threading.Event()

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        if self.blocks.is_set() and messages[0].content.startswith("You keep repository"):
            self.release.wait()
        return super().render(messages, tools, add_generation_prompt)


def test_a_run_by_the_servers_own_tokenizer() -> None:
    async def main(url: str) -> MemorySink:
        overrides = ("transcripts.tokenizer=server", "canaries.plant=inline")
        loaded = Loaded(scenario_of(overrides), SCENARIO, "small.toml", tuple(transcript(n) for n in range(4)))
        sink = MemorySink()
        prepared, _ = await prepare(loaded, Wish(scenario="small", nonce=NONCE), url, None)
        assert isinstance(prepared.renderer, ServerRenderer)
        async with make_client(url, None) as client:
            await play(prepared, "run", client, sink, SystemClock(), Stopper())
        prepared.renderer._client.close()
        return sink

    with served() as url:
        verdict = verdict_of(anyio.run(main, url))
    assert verdict.verdict == "PASS"
    # a reply that came in one clump says how busy this machine was, and nothing of the wire
    assert set(verdict.instrument.anomalies) <= {"buffered"}


def test_a_tokenizer_that_hangs_holds_up_neither_the_streams_nor_a_stop() -> None:
    renderer = Blocked()

    async def main(url: str) -> MemorySink:
        loaded = Loaded(scenario_of(), SCENARIO, "small.toml", tuple(transcript(n) for n in range(4)))
        sink, stopper = MemorySink(), Stopper()
        prepared, _ = await prepare(loaded, Wish(scenario="small", nonce=NONCE), url, None, renderer=renderer)
        renderer.blocks.set()
        async with make_client(url, None) as client, anyio.create_task_group() as group:
            group.start_soon(play, prepared, "run", client, sink, SystemClock(), stopper)
            await anyio.sleep(0.2)
            stopper.ask("evidence_lost")  # the one wish that cuts at once
        renderer.release.set()
        return sink

    with served() as url:
        sink = anyio.run(main, url)
    events = [decoded(line).event for line in sink.lines]
    assert [event.reason for event in events if isinstance(event, SessionEnded)] == ["stopped", "stopped"]
    assert isinstance(events[-1], RunEnded)
    assert not [event for event in events if isinstance(event, RequestStarted)]
