"""A server on a real socket that does as a test says, down to the bytes."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

Talk = Callable[["Peer"], Awaitable[None]]


class Peer:
    """One connection of a server that does as a test says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self._reader = reader
        self._writer = writer
        self.number = number

    async def request(self) -> bytes:
        """The next request's body. Raises IncompleteReadError when there is none."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
        return await self._reader.readexactly(size)

    async def line(self) -> bytes:
        """The next line."""
        return await self._reader.readline()

    async def exactly(self, size: int) -> bytes:
        """The next bytes."""
        return await self._reader.readexactly(size)

    async def send(self, *pieces: bytes) -> None:
        """Writes, as they are."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()

    async def chunks(self, *pieces: bytes, last: bool = True) -> None:
        """Writes the chunks of a body."""
        await self.send(*(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces))
        if last:
            await self.send(b"0\r\n\r\n")

    def reset(self) -> None:
        """Ends the connection with a TCP reset."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def forever(self) -> None:
        """Stays as it is until the client goes."""
        await self._reader.read()

    async def deaf(self) -> None:
        """Reads nothing more, and stays until the test is over."""
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
        await asyncio.Event().wait()


@asynccontextmanager
async def talking(talk: Talk, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server whose connections do as `talk` says and then end."""
    peers = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal peers
        peers += 1
        try:
            await talk(Peer(reader, writer, peers))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, 0, limit=1 << 22, ssl=tls)
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"{'http' if tls is None else 'https'}://{shown}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
