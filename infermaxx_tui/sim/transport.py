"""The embedded server without sockets: an httpx transport that gives the client the same bytes at the same moments."""

from __future__ import annotations

import asyncio
import email.utils
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TypeVar

import httpx

from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.http import Cut, Gone, Request

T = TypeVar("T")


class SimTransport(httpx.AsyncBaseTransport):
    """Serves requests from an App in this process. Closing a response aborts its request, as a closed socket does."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response. Raises ConnectError if the server is dead, RemoteProtocolError or ReadError if it dies."""
        body = await request.aread()
        headers = {name.lower(): value for name, value in request.headers.items()}
        timeout = request.extensions.get("timeout", {}).get("read")
        try:
            response = await _within(
                timeout, self.app.handle(Request(request.method, request.url.path, headers, body)), request
            )
        except Gone:
            raise httpx.ConnectError("All connection attempts failed", request=request) from None
        except Cut as cut:
            raise _as_httpx(cut, request, "Server disconnected without sending a response.") from None
        date = ("date", email.utils.formatdate(self.app.engine.wall(), usegmt=True))
        sent = [date, ("server", "uvicorn"), *response.headers]
        if response.stream is None:
            sent.append(("content-length", str(len(response.body))))
            whole = httpx.ByteStream(response.body)
            return httpx.Response(response.status, headers=sent, stream=whole, request=request)
        sent += [("vary", "Origin"), ("transfer-encoding", "chunked")]
        stream = _Stream(response.stream, request, timeout)
        return httpx.Response(response.status, headers=sent, stream=stream, request=request)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, writes: AsyncGenerator[bytes, None], request: httpx.Request, timeout: float | None) -> None:
        self._writes = writes
        self._request = request
        self._timeout = timeout

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self._writes) as writes:
            try:
                if self._timeout is None:
                    async for write in writes:
                        yield write
                    return
                while True:
                    yield await _within(self._timeout, anext(writes), self._request)
            except StopAsyncIteration:
                return
            except Cut as cut:
                what = "peer closed connection without sending complete message body (incomplete chunked read)"
                raise _as_httpx(cut, self._request, what) from None

    async def aclose(self) -> None:
        await self._writes.aclose()


async def _within(seconds: float | None, answer: Awaitable[T], request: httpx.Request) -> T:
    """The answer, or httpx.ReadTimeout."""
    if seconds is None:
        return await answer
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        raise httpx.ReadTimeout("", request=request) from None


def _as_httpx(cut: Cut, request: httpx.Request, eof: str) -> httpx.TransportError:
    if cut.how == "reset":
        return httpx.ReadError("[Errno 104] Connection reset by peer", request=request)
    return httpx.RemoteProtocolError(eof, request=request)
