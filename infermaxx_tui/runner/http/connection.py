"""One request on one connection, handled in the reader's own callback: no coroutine wakes up for a read.

A read is stamped as the kernel hands it over. What comes before somebody takes it is held, up to a limit above which
the connection is not read any more, so that a server cannot fill the memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import httpx

from infermaxx_tui.runner.http.body import Decoder, FramingError, decoder_of
from infermaxx_tui.runner.http.head import Head, HeadError, HeadParser

READ_BYTES: Final = 1 << 18
"""Most that one read takes: a long prompt's first event is larger than what a small buffer takes at once."""
HELD_BYTES: Final = 1 << 20
"""Body bytes that are held until somebody takes them."""

Sink = Callable[[bytes, int], bool]
"""Takes a piece of a body and the moment of its arrival in µs; False: no more of it is wanted."""


class ServerDisconnectedError(ConnectionError):
    """The server closed the connection before its answer was whole."""


class NotHttpError(httpx.RemoteProtocolError):
    """Whatever answered does not speak HTTP/1.x."""


class Connection(asyncio.BufferedProtocol):
    """Reads one response; `buffer` may be shared among connections whose reads are handled at once."""

    def __init__(self, method: str, buffer: bytearray, mono_us: Callable[[], int]) -> None:
        self.head: Head | None = None
        self.can_write = True
        self.on_sent: Callable[[int], None] | None = None
        """Called once, with the moment in µs at which the first bytes went out."""
        self._view = memoryview(buffer)
        self._mono_us = mono_us
        self._parser = HeadParser(method)
        self._decoder: Decoder | None = None
        self._sink: Sink | None = None
        self._held: deque[tuple[bytes, int]] = deque()
        self._held_bytes = 0
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes: a view, since TLS fills it by slices, and a slice of the bytes would be a copy."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """The hot path: a read came."""
        at_us = self._mono_us()
        data = bytes(self._view[:nbytes])
        decoder = self._decoder
        if decoder is None:
            self._take_head(data, at_us)
            return
        fault: Exception | None = None
        try:
            piece = decoder.feed(data)
        except FramingError as error:
            piece, fault = error.before, _because(httpx.RemoteProtocolError, error)
        try:
            if piece:
                sink = self._sink
                if sink is None:
                    self._hold(piece, at_us)
                elif not sink(piece, at_us):
                    self._end(None)
        except Exception as raised:  # the border of a callback: whatever it was is raised in the task that waits
            self._end(raised)
        if fault is not None or decoder.over:
            self._end(fault)

    def eof_received(self) -> None:
        """The server says no more."""
        if self._decoder is not None and self._decoder.at_eof():
            self._end(None)
            return
        where = "inside its answer" if self._decoder is not None or self._parser.started else "without an answer"
        self._end(_because(httpx.RemoteProtocolError, ServerDisconnectedError(f"the server disconnected {where}")))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if isinstance(exc, OSError):
            self._end(_because(httpx.ReadError, exc))
        elif exc is not None:
            self._end(exc)
        else:
            self.eof_received()

    def pause_writing(self) -> None:
        """The server reads slower than we write."""
        self.can_write = False

    def resume_writing(self) -> None:
        """The server reads on."""
        self.can_write = True
        self._wake()

    def write(self, data: bytes) -> None:
        """Sends, without waiting."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)
            told, self.on_sent = self.on_sent, None
            if told is not None:
                told(self._mono_us())

    def close(self) -> None:
        """Ends the connection at once, whatever it holds."""
        self._sink = None
        self._end(None)

    async def writable(self) -> None:
        """Returns when more may be written, or when there is an answer. Raises what broke it before there was one."""
        while not (self.can_write or self.head is not None or self._ended):
            await self._wait()
        if self.head is None:
            self._raise()

    async def answered(self) -> Head:
        """The head. Raises httpx.TransportError."""
        while self.head is None:
            self._raise()
            await self._wait()
        return self.head

    async def piece(self) -> bytes:
        """The next bytes of the body; none at its end. Raises httpx.TransportError."""
        while not self._held:
            if self._ended:
                self._raise()
                return b""
            await self._wait()
        return self._pop()[0]

    async def push_to(self, sink: Sink) -> None:
        """Gives the rest of the body to `sink` as it comes, until its end or until no more is wanted.

        Raises httpx.TransportError, and whatever `sink` raises.
        """
        while self._held:
            if not sink(*self._pop()):
                return
        self._sink = sink
        try:
            while not self._ended:
                await self._wait()
        finally:
            self._sink = None
        self._raise()

    def _take_head(self, data: bytes, at_us: int) -> None:
        if self._ended:
            return
        try:
            found = self._parser.feed(data)
        except HeadError as error:
            self._end(_because(NotHttpError, error))
            return
        if found is None:
            return
        self.head, rest = found
        decoder = self._decoder = decoder_of(self.head)
        fault: Exception | None = None
        try:
            piece = decoder.feed(rest) if rest else b""
        except FramingError as error:
            piece, fault = error.before, _because(httpx.RemoteProtocolError, error)
        if piece:
            self._hold(piece, at_us)  # nobody can have asked for it yet
        if fault is not None or decoder.over:
            self._end(fault)
        self._wake()

    def _hold(self, piece: bytes, at_us: int) -> None:
        if self._ended:
            return
        self._held.append((piece, at_us))
        self._held_bytes += len(piece)
        if self._held_bytes > HELD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _pop(self) -> tuple[bytes, int]:
        piece, at_us = self._held.popleft()
        self._held_bytes -= len(piece)
        if self._paused and self._held_bytes <= HELD_BYTES // 2 and not self._ended and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece, at_us

    def _end(self, error: Exception | None) -> None:
        """Nothing more is read; what comes first decides what ended it."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        self._sink = None
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


def _because(kind: type[httpx.TransportError], cause: Exception) -> httpx.TransportError:
    error = kind(str(cause))
    error.__cause__ = cause
    return error
