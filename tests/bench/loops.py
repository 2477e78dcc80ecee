"""The ways to receive streams that `bench_stream` compares: each gets the same events and hands the bytes to a sink."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
from collections.abc import AsyncIterator

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from infermaxx_tui.runner.http.transport import PUSH, PushBody, Transport
from tests.bench.sinks import BODY, REQUEST, Bare, Gate, Load, Ours, Row, Sink


class Body:
    """HTTP by hand: the bytes of a chunked body out of the bytes of a connection, all chunks of a read together."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.rest = b""
        self.in_body = False
        self.over = False

    def take(self, data: bytes) -> bytes:
        """The body bytes that a read completes."""
        data = self.rest + data if self.rest else data
        if not self.in_body:
            _, border, data = data.partition(b"\r\n\r\n")
            if not border:
                raise SystemExit("the head came in pieces")
            self.in_body = True
            self.gate.opened()
        pieces: list[bytes] = []
        at = 0
        while (line_end := data.find(b"\r\n", at)) > 0:
            size = int(data[at:line_end], 16)
            end = line_end + 2 + size
            if size == 0:
                self.over = True
                break
            if end + 2 > len(data):
                break
            pieces.append(data[line_end + 2 : end])
            at = end + 2
        self.rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class CallbackProtocol(asyncio.Protocol):
    """Handles a read in the reader's own callback: no coroutine wakes up for it."""

    def __init__(self, gate: Gate, sink: Sink, over: asyncio.Future[None]) -> None:
        self.body = Body(gate)
        self.feed = sink(gate).feed
        self.over = over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Takes a read."""
        if piece := self.body.take(data):
            self.feed(piece)
        if self.body.over:
            self.transport.close()
            self.over.set_result(None)


class BufferedCallbackProtocol(asyncio.BufferedProtocol):
    """The same, but all connections read into one buffer."""

    buffer = bytearray(1 << 18)
    view = memoryview(buffer)

    def __init__(self, gate: Gate, sink: Sink, over: asyncio.Future[None]) -> None:
        self.inner = CallbackProtocol(gate, sink, over)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        self.inner.connection_made(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        """The one buffer."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Takes a read."""
        self.inner.data_received(bytes(self.view[:nbytes]))


class IteratedProtocol(asyncio.Protocol):
    """Hands its reads to a coroutine, as a transport under httpx's API would."""

    def __init__(self, gate: Gate) -> None:
        self.body = Body(gate)
        self.pieces: list[bytes] = []
        self.waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        """Takes a read."""
        if piece := self.body.take(data):
            self.pieces.append(piece)
        if self.waiter is not None and (piece or self.body.over):
            self.waiter.set_result(None)
            self.waiter = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.pieces or not self.body.over:
            if self.pieces:
                data = b"".join(self.pieces)
                self.pieces.clear()
                yield data
            else:
                self.waiter = asyncio.get_running_loop().create_future()
                await self.waiter
        self.transport.close()


def callback(protocol: type[CallbackProtocol | BufferedCallbackProtocol]) -> Row:
    """A protocol of asyncio, handled in its callback."""

    async def row(load: Load, gate: Gate, sink: Sink) -> None:
        loop = asyncio.get_running_loop()

        async def one() -> None:
            over: asyncio.Future[None] = loop.create_future()
            await loop.create_connection(lambda: protocol(gate, sink, over), "127.0.0.1", load.port)
            await over

        await asyncio.gather(*(one() for _ in range(load.streams)))

    return row


async def by_iteration(load: Load, gate: Gate, sink: Sink) -> None:
    """asyncio.Protocol, handled in a coroutine."""
    loop = asyncio.get_running_loop()

    async def one() -> None:
        _, protocol = await loop.create_connection(lambda: IteratedProtocol(gate), "127.0.0.1", load.port)
        feed = sink(gate).feed
        async for data in protocol:
            feed(data)

    await asyncio.gather(*(one() for _ in range(load.streams)))


async def bare_httptools(load: Load, gate: Gate, sink: Sink) -> None:
    """asyncio streams and the httptools parser."""
    httptools = importlib.import_module("httptools")

    class Handler:
        """Callbacks of the parser."""

        def __init__(self) -> None:
            self.sink = sink(gate)
            self.complete = False

        def on_headers_complete(self) -> None:
            gate.opened()

        def on_body(self, body: bytes) -> None:
            self.sink.feed(body)

        def on_message_complete(self) -> None:
            self.complete = True

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        writer.write(REQUEST)
        handler = Handler()
        parser = httptools.HttpResponseParser(handler)
        while not handler.complete:
            parser.feed_data(await reader.read(65536))
        writer.close()

    await asyncio.gather(*(one() for _ in range(load.streams)))


@contextlib.asynccontextmanager
async def aiohttp_session() -> AsyncIterator[aiohttp.ClientSession]:
    """The session that a replay client needs: no limit, no cookies, short keep-alive, bodies as they come."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=4.0)
    async with aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    ) as session:
        yield session


async def plain_aiohttp(load: Load, gate: Gate, sink: Sink) -> None:
    """aiohttp, `content.iter_any()`."""

    async def one(session: aiohttp.ClientSession) -> None:
        async with session.post(load.url, data=BODY) as response:
            gate.opened()
            feed = sink(gate).feed
            async for data in response.content.iter_any():
                feed(data)

    async with aiohttp_session() as session:
        await asyncio.gather(*(one(session) for _ in range(load.streams)))


async def our_transport(load: Load, gate: Gate, sink: Sink) -> None:
    """httpx's API on our own transport, which pushes."""

    async def one(client: httpx.AsyncClient) -> None:
        async with client.stream("POST", load.url, content=BODY) as response:
            gate.opened()
            feed = sink(gate).feed

            def take(piece: bytes, at_us: int) -> bool:
                feed(piece)
                return True

            body = response.extensions[PUSH]
            assert isinstance(body, PushBody)
            await body.push_to(take)

    async with httpx.AsyncClient(transport=Transport(), timeout=None, trust_env=False) as client:
        await asyncio.gather(*(one(client) for _ in range(load.streams)))


async def over_httpx(client: httpx.AsyncClient, load: Load, gate: Gate, sink: Sink, raw: bool) -> None:
    """Streams through httpx's API: `aiter_raw()`, or the response's stream itself."""

    async def one() -> None:
        async with client.stream("POST", load.url, content=BODY) as response:
            gate.opened()
            feed = sink(gate).feed
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async for data in response.aiter_raw() if raw else response.stream:
                feed(data)

    await asyncio.gather(*(one() for _ in range(load.streams)))


async def plain_httpx(load: Load, gate: Gate, sink: Sink) -> None:
    """httpx on its own transport."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=4.0)
    async with httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:
        await over_httpx(client, load, gate, sink, raw=True)


def httpx_aiohttp(raw: bool) -> Row:
    """httpx's API on aiohttp's transport."""

    async def row(load: Load, gate: Gate, sink: Sink) -> None:
        async with aiohttp_session() as session:
            transport = AiohttpTransport(client=session)
            async with httpx.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
                await over_httpx(client, load, gate, sink, raw)

    return row


def rows() -> dict[str, tuple[Row, Sink, bool]]:
    """Every row by name: how it receives, what it does with the bytes, whether it is a bare loop to compare with."""
    table: dict[str, tuple[Row, Sink, bool]] = {
        "asyncio callback + orjson": (callback(CallbackProtocol), Bare, True),
        "asyncio buffered callback + orjson": (callback(BufferedCallbackProtocol), Bare, True),
        "asyncio streams + httptools + orjson": (bare_httptools, Bare, True),
        "aiohttp + orjson": (plain_aiohttp, Bare, True),
        "httpx + orjson": (plain_httpx, Bare, True),
        "httpx on aiohttp, aiter_raw + orjson": (httpx_aiohttp(raw=True), Bare, True),
        "httpx on aiohttp, stream + orjson": (httpx_aiohttp(raw=False), Bare, True),
        "our path on httpx on aiohttp, stream": (httpx_aiohttp(raw=False), Ours, False),
        "our path on asyncio, iterated": (by_iteration, Ours, False),
        "our path on asyncio, callback": (callback(CallbackProtocol), Ours, False),
        "our path on asyncio, buffered callback": (callback(BufferedCallbackProtocol), Ours, False),
        "our transport, pushed + orjson": (our_transport, Bare, False),
        "our path on our transport, pushed": (our_transport, Ours, False),
    }
    if importlib.util.find_spec("httptools") is None:
        print("httptools is not installed: its row is left out (pip install httptools)")
        del table["asyncio streams + httptools + orjson"]
    return table
