"""A proxy on real sockets between a run and a server, which meddles with the answers to requests for tokens.

It lets the first few replies of a run through unharmed, so that a run has begun when it starts. Each way to meddle is
a coroutine that is given the reply's events, as bytes, and the client's side of the connection.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from infermaxx_tui.runner.http.body import Decoder, decoder_of
from infermaxx_tui.runner.http.head import Head, HeadParser

HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
PAGE: Final = b"<html>\n<head><title>502 Bad Gateway</title></head>\n<body>nginx</body>\n</html>\n"
_READ: Final = 1 << 16


class Reply:
    """One reply on its way: its events as they come from the server, and the client that waits for them."""

    def __init__(self, proxy: Meddler, events: AsyncIterator[bytes], writer: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.events = events
        self._writer = writer
        self._begun = False

    async def all(self) -> list[bytes]:
        """Every event, once the server is through."""
        return [event async for event in self.events]

    async def head(self, *fields: bytes) -> None:
        """The head of an answer in chunks."""
        self._begun = True
        await self.raw(HEAD + b"".join(field + b"\r\n" for field in fields) + b"\r\n")

    async def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def send(self, data: bytes) -> None:
        """A chunk, behind a head if there was none."""
        if not self._begun:
            await self.head()
        if data:
            await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """The last chunk."""
        await self.raw(b"0\r\n\r\n")

    def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Way = Callable[[Reply], Awaitable[None]]


async def through(reply: Reply) -> None:
    """Does no harm."""
    async for event in reply.events:
        await reply.send(event)
    await reply.end()


async def buffered(reply: Reply) -> None:
    """Everything at once, when it is complete."""
    await reply.send(b"".join(await reply.all()))
    await reply.end()


def clumps(size: int) -> Way:
    """In clumps of so many bytes, wherever they cut an event."""

    async def way(reply: Reply) -> None:
        held = b""
        async for event in reply.events:
            held += event
            while len(held) >= size:
                await reply.send(held[:size])
                held = held[size:]
        await reply.send(held)
        await reply.end()

    return way


def at_intervals(seconds: float) -> Way:
    """Whole events, all that came meanwhile each time."""

    async def way(reply: Reply) -> None:
        held, due_s = b"", 0.0
        async for event in reply.events:
            now_s = asyncio.get_running_loop().time()
            due_s = due_s or now_s + seconds
            held += event
            if now_s >= due_s:
                await reply.send(held)
                held, due_s = b"", 0.0
        await reply.send(held)
        await reply.end()

    return way


async def comments(reply: Reply) -> None:
    """With comments, keep-alives and fields between the events, and other line ends."""
    async for event in reply.events:
        await reply.send(b": keep-alive\r\n\r\nid: 7\r\nretry: 10\r\n" + event.replace(b"\n", b"\r\n") + b":\n\n")
    await reply.end()


def torn(where: str) -> Way:
    """Ends in order in the middle of the reply: inside a line, inside a character, or between two events."""

    async def way(reply: Reply) -> None:
        events = await reply.all()
        half = max(1, len(events) // 2)
        await reply.send(b"".join(events[:half]))
        if where == "line":
            await reply.send(events[half][: len(events[half]) // 2])
        if where == "character":
            await reply.send(b'data: {"id":"x","choices":[{"index":0,"text":"\xf0\x9f')
        await reply.end()

    return way


async def unfinished(reply: Reply) -> None:
    """Everything but `[DONE]`, and then no last chunk."""
    await reply.send(b"".join([event for event in await reply.all() if b"[DONE]" not in event]))


async def page(reply: Reply) -> None:
    """An error page in the place of the second half."""
    events = await reply.all()
    await reply.send(b"".join(events[: len(events) // 2]) + b"data: " + PAGE + b"\n")
    await reply.end()


async def between(reply: Reply) -> None:
    """An error page and a second JSON between the events, and all of the reply."""
    async for event in reply.events:
        await reply.send(PAGE + b'{"error": {"message": "upstream timed out"}}\n' + event)
    await reply.end()


async def dropped(reply: Reply) -> None:
    """Without the events in the middle that bring text."""
    events = await reply.all()
    bearing = [place for place, event in enumerate(events) if b'"finish_reason":null' in event][2:-1]
    await reply.send(b"".join(event for place, event in enumerate(events) if place not in bearing))
    await reply.end()


async def doubled(reply: Reply) -> None:
    """The third event twice."""
    events = await reply.all()
    await reply.send(b"".join([*events[:3], *events[2:]]))
    await reply.end()


async def mixed(reply: Reply) -> None:
    """With some events of the reply that came before it, whosever that was."""
    events = await reply.all()
    other, reply.proxy.last = reply.proxy.last, events
    await reply.send(b"".join([*events[:2], *other[1:4], *events[2:]]))
    await reply.end()


async def packed(reply: Reply) -> None:
    """Compressed, though nobody asked for that."""
    await reply.head(b"content-encoding: gzip")
    await reply.send(gzip.compress(b"".join(await reply.all())))
    await reply.end()


async def bad_gateway(reply: Reply) -> None:
    """502, and a page."""
    await reply.raw(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: %d\r\n\r\n" % len(PAGE) + PAGE)


async def late_502(reply: Reply) -> None:
    """A second answer in the middle of the first one, between two chunks."""
    events = await reply.all()
    await reply.send(b"".join(events[: len(events) // 2]))
    await bad_gateway(reply)


async def stalled(reply: Reply) -> None:
    """Nothing more after the first half, and the connection stays."""
    events = await reply.all()
    await reply.send(b"".join(events[: len(events) // 2]))
    await asyncio.sleep(3600)


async def loris(reply: Reply) -> None:
    """A few bytes a second."""
    for byte in b"".join(await reply.all()):
        await reply.send(bytes([byte]))
        await asyncio.sleep(0.1)


async def reset(reply: Reply) -> None:
    """A TCP reset in the middle."""
    events = await reply.all()
    await reply.send(b"".join(events[: len(events) // 2]))
    reply.reset()


class Meddler:
    """The proxy, in a thread with a loop of its own."""

    def __init__(self, upstream: str, way: Way, healthy: int = 6) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._way = way
        self._healthy = healthy
        self.last: list[bytes] = []
        self.meddled = 0
        """Replies that it laid hands on."""
        self.url = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Meddler:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1 << 24)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request; the connection is closed behind it, whatever the client would like."""
        upstream: asyncio.StreamWriter | None = None
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            size = next(
                (int(line.partition(b":")[2]) for line in request.lower().split(b"\r\n") if b"content-length:" in line),
                0,
            )
            body = await reader.readexactly(size)
            answer, upstream = await asyncio.open_connection(*self._upstream)
            upstream.write(request + body)
            if b"completions" in request.split(b"\r\n", 1)[0]:
                await self._reply(answer, writer)
            else:
                await self._pass_on(answer, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # one of the two is gone
        finally:
            writer.close()
            if upstream is not None:
                upstream.close()

    async def _pass_on(self, answer: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, decoder, first, raw = await _answered(answer)
        writer.write(raw)
        decoder.feed(first)
        while not decoder.over and (data := await answer.read(_READ)):
            decoder.feed(data)
            writer.write(data)
        await writer.drain()

    async def _reply(self, answer: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, decoder, first, raw = await _answered(answer)
        self._healthy -= 1
        reply = Reply(self, _events(answer, decoder, first), writer)
        if head.status != 200:
            writer.write(raw)
        elif self._healthy >= 0:
            await through(reply)
        else:
            self.meddled += 1
            await self._way(reply)
        await writer.drain()


async def _answered(answer: asyncio.StreamReader) -> tuple[Head, Decoder, bytes, bytes]:
    """The head of an answer, what reads its body, the bytes behind the head, and all bytes so far."""
    parser, raw = HeadParser("POST"), b""
    while True:
        data = await answer.read(_READ)
        if not data:
            raise ConnectionResetError("the server said nothing")
        raw += data
        if (found := parser.feed(data)) is not None:
            return found[0], decoder_of(found[0]), found[1], raw


async def _events(answer: asyncio.StreamReader, decoder: Decoder, first: bytes) -> AsyncIterator[bytes]:
    """The events of a body, as soon as they are whole."""
    held = decoder.feed(first) if first else b""
    while True:
        *whole, held = held.split(b"\n\n")
        for event in whole:
            yield event + b"\n\n"
        if decoder.over or not (data := await answer.read(_READ)):
            break
        held += decoder.feed(data)
    if held:
        yield held
