"""httpx's API over connections of our own: a connection for each request, no proxies, nothing from the environment."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx

from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.http.connection import READ_BYTES, Connection, Sink
from infermaxx_tui.runner.http.dial import Resolver, connected
from infermaxx_tui.runner.http.head import Head

PUSH: Final = "push"
"""Name of the response extension that holds its `PushBody`."""
ON_SENT: Final = "infermaxx_on_sent"
"""Name of a request extension, a function: told when the first bytes go out, with the µs that waiting for a connection
took, that moment in µs, and whether the connection had been there before."""
_BREAKS = re.compile(rb"[\r\n\x00]")
_MONO_US: Final = SystemClock().mono_us


class PushBody(httpx.AsyncByteStream):
    """A body that can be iterated, as httpx wants it, or pushed to a function as it comes, which costs a third."""

    def __init__(self, connection: Connection, read_s: float | None) -> None:
        self._connection = connection
        self._read_s = read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._read_s):
                    piece = await self._connection.piece()
            except TimeoutError as error:
                raise httpx.ReadTimeout(f"nothing came for {self._read_s} s") from error
            if not piece:
                return
            yield piece

    async def push_to(self, sink: Sink) -> None:
        """Gives the body to `sink`, see Connection.push_to; for a body without a time limit for each read."""
        await self._connection.push_to(sink)

    async def aclose(self) -> None:
        """Closes the connection."""
        self._connection.close()


class Transport(httpx.AsyncBaseTransport):
    """Sends each request on a connection of its own and hands out the answer as soon as its head is there.

    What goes wrong is an httpx.TransportError whose cause is what the system said. `tls`: None checks certificates
    against the system's trust store. `mono_us` stamps each read.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, mono_us: Callable[[], int] = _MONO_US) -> None:
        self._tls = tls
        self._resolver = Resolver()
        self._shared = bytearray(READ_BYTES)
        self._mono_us = mono_us

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response, its body still on the wire."""
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        head_sent = _head_of(request)
        asked_us = self._mono_us()
        connection = await self._dial(request, limits.get("connect"))
        told = request.extensions.get(ON_SENT)
        if told is not None:
            connect_us = self._mono_us() - asked_us
            connection.on_sent = lambda at_us: told(connect_us, at_us, False)
        with contextlib.ExitStack() as undo:
            undo.callback(connection.close)
            head = await _exchange(connection, request, head_sent, limits)
            undo.pop_all()
        body = PushBody(connection, limits.get("read"))
        return httpx.Response(head.status, headers=list(head.fields), stream=body, extensions={PUSH: body})

    async def _dial(self, request: httpx.Request, connect_s: float | None) -> Connection:
        """A connection that stands. Raises httpx.ConnectError or httpx.ConnectTimeout."""
        url = request.url
        host, secure = url.raw_host.decode("ascii"), url.scheme == "https"
        if url.scheme not in ("http", "https") or not host:
            raise httpx.UnsupportedProtocol(f"{url} is no URL of HTTP")
        try:
            async with asyncio.timeout(connect_s):
                addresses = await self._resolver.addresses(host, url.port or (443 if secure else 80))
                plain = await connected(addresses)
                return await self._attach(request.method, plain, host if secure else None)
        except TimeoutError as error:
            if error.errno is not None:  # the system's own patience
                raise httpx.ConnectError(str(error)) from error
            raise httpx.ConnectTimeout(f"no connection within {connect_s:g} s") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error

    async def _attach(self, method: str, plain: socket.socket, secure_host: str | None) -> Connection:
        """A protocol on the socket, behind TLS if it has a name to check."""
        tls, buffer = None, self._shared
        if secure_host is not None:
            # TLS hands over its reads in its own time, so that nothing can be shared
            tls, buffer = self._context(), bytearray(READ_BYTES)
        with contextlib.ExitStack() as undo:
            undo.enter_context(plain)
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(method, buffer, self._mono_us), sock=plain, ssl=tls, server_hostname=secure_host
            )
            undo.pop_all()
        return connection

    def _context(self) -> ssl.SSLContext:
        """Made when it is needed: reading the trust store takes longer than asking a server near by."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


async def _exchange(
    connection: Connection, request: httpx.Request, head_sent: bytes, limits: dict[str, float | None]
) -> Head:
    """Sends the request and waits for the head of its answer, which may come before all is sent."""
    try:
        async with asyncio.timeout(limits.get("write")):
            await _send(connection, request, head_sent)
    except TimeoutError as error:
        raise httpx.WriteTimeout("the server does not read the request") from error
    try:
        async with asyncio.timeout(limits.get("read")):
            return await connection.answered()
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"no answer within {limits['read']:g} s") from error


async def _send(connection: Connection, request: httpx.Request, head_sent: bytes) -> None:
    """Writes the request, no faster than the server reads it.

    A refusal that comes meanwhile ends the writing. Behind any other early answer the rest is written without waiting.
    """
    if not isinstance(request.stream, httpx.AsyncByteStream):
        raise TypeError("a request of an async client has a body that is not async")
    chunked = "chunked" in request.headers.get("transfer-encoding", "").lower()
    waiting = head_sent
    async for piece in request.stream:
        if connection.head is not None and connection.head.status >= 300:
            return
        waiting += b"%x\r\n%b\r\n" % (len(piece), piece) if chunked and piece else piece
        connection.write(waiting)
        waiting = b""
        await connection.writable()
    if chunked:
        waiting += b"0\r\n\r\n"
    if waiting:
        connection.write(waiting)


def _head_of(request: httpx.Request) -> bytes:
    """The head of the request. Raises httpx.LocalProtocolError where a value would end its line early."""
    fields = request.headers.raw
    if any(_BREAKS.search(part) for field in fields for part in field):
        raise httpx.LocalProtocolError("a header holds a line break")
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    return b"\r\n".join(lines + [b"%b: %b" % field for field in fields]) + b"\r\n\r\n"
