"""The embedded server on a socket of this machine: one asyncio protocol a connection, writes as the faults cut them."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import struct
from contextlib import aclosing
from types import TracebackType
from typing import Self

from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.h1 import LAST_CHUNK, BadRequestError, RequestParser, chunk_bytes, head_bytes
from infermaxx_tui.sim.http import Cut, Gone, Request, Response

KEEP_ALIVE_S = 5.0
"""uvicorn's own: an idle connection is closed after it."""


class _Connection(asyncio.Protocol):
    """One client connection; requests on it are served one after another, and its end aborts the one being served."""

    def __init__(self, app: App, connections: set[_Connection]) -> None:
        self._app = app
        self._connections = connections
        self._parser = RequestParser()
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("the embedded server speaks TCP only")
        self._transport = transport
        self._connections.add(self)
        self._wait_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._writable.set()
        self._cancel_idle()
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._cancel_idle()
        self._parser.feed(data)
        if self._task is None:
            self._serve_next()

    def _serve_next(self) -> None:
        try:
            request = self._parser.next()
        except BadRequestError as error:
            body = str(error).encode()
            close = (("content-type", "text/plain"), ("content-length", str(len(body))), ("connection", "close"))
            self._transport.write(head_bytes(400, close) + body)
            self._transport.close()
            return
        if self._parser.take_expectation():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request is None:
            self._wait_idle()
            return
        self._task = asyncio.get_running_loop().create_task(self._serve(request))
        self._task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self.reset()
            raise error
        if not self._transport.is_closing():
            self._serve_next()

    async def _serve(self, request: Request) -> None:
        try:
            await self._send(request, await self._app.handle(request))
        except Gone:
            self.reset()
        except Cut as cut:
            if cut.how == "reset":
                self.reset()
            else:
                self._transport.close()

    async def _send(self, request: Request, response: Response) -> None:
        date = ("date", email.utils.formatdate(self._app.engine.wall(), usegmt=True))
        headers = (date, ("server", "uvicorn"), *response.headers)
        last = request.headers.get("connection", "").lower() == "close" or request.headers[":version"] == "HTTP/1.0"
        closing = (("connection", "close"),) if last else ()
        if response.stream is None:
            sized = (("content-length", str(len(response.body))), *closing)
            self._transport.write(head_bytes(response.status, headers + sized) + response.body)
        else:
            chunked = (("vary", "Origin"), ("transfer-encoding", "chunked"), *closing)
            self._transport.write(head_bytes(response.status, headers + chunked))
            async with aclosing(response.stream) as writes:
                async for write in writes:
                    self._transport.write(chunk_bytes(write))
                    if not self._writable.is_set():
                        await self._writable.wait()
            self._transport.write(LAST_CHUNK)
        if last:
            self._transport.close()

    def reset(self) -> None:
        """Ends the connection with a TCP reset, so that the client cannot take it for an end in order."""
        raw = self._transport.get_extra_info("socket")
        if raw is not None and not self._transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _wait_idle(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(KEEP_ALIVE_S, self._transport.close)

    def _cancel_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


class SimServer:
    """An App behind a loopback port; as an async context manager it listens inside the block."""

    def __init__(self, app: App, port: int = 0, host: str = "127.0.0.1") -> None:
        self.app = app
        self._host = host
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    @property
    def url(self) -> str:
        """Root of the server, without /v1."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listens. Raises OSError if the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self.app, self._connections), self._host, self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]
        self.app.engine.on_death.append(self._die)

    async def close(self) -> None:
        """Stops listening and ends what is in flight, connections that were just accepted too."""
        self._stop_listening()
        await asyncio.sleep(0)
        while self._connections:
            for connection in tuple(self._connections):
                connection.reset()
            await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _die(self) -> None:
        """Nobody listens any more, and every connection is reset, as when a process is killed."""
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.reset()
