"""The socket front: the same bytes as the in-memory one, and breaks that a kernel reports as what they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from simtools import TAGS, asking, client_of, completion, make_app, working

from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.delivery import HTML_PAGE
from infermaxx_tui.sim.faults import FAULTS
from infermaxx_tui.sim.h1 import BadRequestError, RequestParser
from infermaxx_tui.sim.http import Request
from infermaxx_tui.sim.server import SimServer

LABELS = tuple(TAGS)
ASK = asking(LABELS[:2], LABELS[0])
FAST = {"decode_ms": 0.2, "prefill_overhead_ms": 0.0}
ENDLESS = frozenset({"hang"})


@asynccontextmanager
async def listening(app: App) -> AsyncIterator[httpx.AsyncClient]:
    async with SimServer(app) as server, httpx.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as client:
        yield client


async def body_of(client: httpx.AsyncClient, ids: list[int], path: str = "/v1/completions") -> tuple[str, bytes]:
    """How a request ends and what it brought."""
    got = b""
    try:
        async with client.stream("POST", path, json=completion(ids), headers={"x-request-id": "r"}) as answer:
            async for piece in answer.aiter_raw():
                got += piece
            return str(answer.status_code), got
    except httpx.TransportError as error:
        return type(error).__name__, got


async def several(client: httpx.AsyncClient) -> list[tuple[str, bytes]]:
    prompts = [working(LABELS[:2]), ASK, working(LABELS[:2], "And the next."), asking(LABELS[:2], LABELS[1])]
    return [await body_of(client, ids) for ids in prompts]


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in ENDLESS])
def test_both_fronts_give_the_same_bytes(fault: str) -> None:
    async def both() -> tuple[Any, Any]:
        async with listening(make_app(fault, **FAST)) as client:
            by_socket = await several(client)
        async with client_of(make_app(fault, **FAST)) as client:
            return by_socket, await several(client)

    by_socket, in_memory = asyncio.run(both())
    if fault in ("reset", "dies", "restarts"):  # a reset may take the last bytes with it
        assert [how for how, _ in by_socket] == [how for how, _ in in_memory]
        assert all(whole.startswith(part) for (_, part), (_, whole) in zip(by_socket, in_memory, strict=True))
    else:
        assert by_socket == in_memory


def test_heads_are_the_same_but_for_the_date() -> None:
    async def head(client: httpx.AsyncClient) -> list[list[tuple[bytes, bytes]]]:
        plain = await client.get("/v1/models")
        async with client.stream("POST", "/v1/completions", json=completion(ASK)) as stream:
            await stream.aread()
        return [plain.headers.raw, stream.headers.raw]

    async def both() -> None:
        async with listening(make_app()) as client:
            by_socket = await head(client)
        async with client_of(make_app()) as client:
            assert by_socket == await head(client)
        assert (b"transfer-encoding", b"chunked") in by_socket[1]
        assert (b"server", b"uvicorn") in by_socket[1]

    asyncio.run(both())


def test_a_connection_serves_one_request_after_another() -> None:
    async def twice() -> None:
        app = make_app(**FAST)
        async with SimServer(app) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            get = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
            writer.write(get + get + b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            data = await reader.read()
            writer.close()
        assert data.count(b'{"version":"0.32.0+infermaxxsim"}') == 2
        assert data.count(b"HTTP/1.1 200 OK\r\n") == 3

    asyncio.run(twice())


def test_bytes_that_are_no_request_end_the_connection() -> None:
    async def send() -> bytes:
        async with SimServer(make_app()) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"\x16\x03\x01 nonsense\r\n\r\n")
            data = await reader.read()
            writer.close()
            return data

    assert asyncio.run(send()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_client_that_goes_away_aborts_its_request() -> None:
    async def first_piece(client: httpx.AsyncClient) -> bytes:
        async with client.stream("POST", "/v1/completions", json=completion(ASK)) as answer:
            async for piece in answer.aiter_raw():
                return piece
        return b""

    async def leave() -> None:
        """With one place in the batch, the second request is served only if the first one's is free again."""
        app = make_app("hang", max_num_seqs=1)
        async with listening(app) as client:
            for _ in range(3):
                assert await first_piece(client)

    asyncio.run(asyncio.wait_for(leave(), 20))


def test_a_reset_is_a_reset() -> None:
    async def reset() -> None:
        app = make_app("reset")
        async with (
            SimServer(app) as server,
            httpx.AsyncClient(base_url=server.url, timeout=10, trust_env=False) as client,
        ):
            for n in range(3):
                how, _ = await body_of(client, working(LABELS[:1], f"file {n}"))
                if how != "200":
                    assert how == "ReadError"
                    return
        raise AssertionError("the second turn must be hit")

    asyncio.run(reset())


def test_a_dead_server_refuses_connections() -> None:
    async def die() -> None:
        app = make_app("dies", **FAST)
        async with listening(app) as client:
            idle = httpx.AsyncClient(base_url=client.base_url, timeout=10, trust_env=False)
            async with idle:
                assert (await idle.get("/health")).status_code == 200
                assert (await body_of(client, ASK))[0] == "ReadError"
                for _ in range(2):
                    with pytest.raises(httpx.ConnectError):
                        await idle.get("/health")

    asyncio.run(die())


def test_a_page_of_html_is_a_page_of_html() -> None:
    async def page() -> list[tuple[str, bytes]]:
        async with listening(make_app("html-200", **FAST)) as client:
            return await several(client)

    assert ("200", HTML_PAGE) in asyncio.run(page())


# The parser


REQUEST = b"POST /x?q=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n"


@pytest.mark.parametrize("wire", [REQUEST, CHUNKED])
def test_a_request_is_the_same_however_it_arrives(wire: bytes) -> None:
    for cut in range(len(wire)):
        parser = RequestParser()
        parser.feed(wire[:cut])
        assert parser.next() is None
        parser.feed(wire[cut:] + wire)
        first, second = parser.next(), parser.next()
        assert isinstance(first, Request)
        assert first == second
        assert (first.method, first.path, first.body) == ("POST", "/x", b"hello")
        assert parser.next() is None


@pytest.mark.parametrize(
    "wire",
    [
        b"GET / HTTP/2\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_no_request_is_refused(wire: bytes) -> None:
    parser = RequestParser()
    parser.feed(wire)
    with pytest.raises(BadRequestError):
        parser.next()


def test_expectations_are_met_once() -> None:
    parser = RequestParser()
    parser.feed(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert parser.next() is None
    assert [parser.take_expectation(), parser.take_expectation()] == [True, False]
    parser.feed(b"ab")
    assert parser.next() is not None
