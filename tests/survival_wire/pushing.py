"""One request through the runner's own path, from the bytes that a connection reads to the events that a log gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import anyio
import httpx
import msgspec
from runnertools import URL, bench, order

from infermaxx_tui.core.events import AnyEvent, RequestEnded
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.http.connection import READ_BYTES, Connection
from infermaxx_tui.runner.http.transport import PUSH, PushBody
from infermaxx_tui.runner.sampling import watch_stalls
from infermaxx_tui.virtual import VirtualClock, run_virtual


class Memory(httpx.AsyncBaseTransport):
    """A connection whose reads are given; then it ends, by an error or in order."""

    def __init__(self, reads: Sequence[bytes], clock: VirtualClock, error: OSError | None = None) -> None:
        self._reads = reads
        self._clock = clock
        self._error = error
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("completions"):
            return httpx.Response(200, request=request)
        connection = Connection("POST", bytearray(READ_BYTES), self._clock.mono_us)
        feeding = asyncio.create_task(self._feed(connection))
        self._tasks.add(feeding)
        head = await connection.answered()
        body = PushBody(connection, None)
        return httpx.Response(head.status, headers=list(head.fields), stream=body, extensions={PUSH: body})

    async def _feed(self, connection: Connection) -> None:
        for read in self._reads:
            space = connection.get_buffer(-1)
            space[: len(read)] = read
            connection.buffer_updated(len(read))
            await asyncio.sleep(0)
        if self._error is not None:
            connection.connection_lost(self._error)
        else:
            connection.eof_received()


class Sent(msgspec.Struct, frozen=True):
    """What came of it."""

    ended: RequestEnded
    text: str
    ids: tuple[int, ...]
    events: tuple[AnyEvent, ...]


def push(reads: Sequence[bytes], error: OSError | None = None, chat: bool = False) -> Sent:
    """Sends one request whose answer comes in these reads."""
    return run_virtual(_push, reads, error, chat)


async def _push(reads: Sequence[bytes], error: OSError | None, chat: bool) -> Sent:
    clock = VirtualClock()
    wanted = ("sessions.prompt=chat",) if chat else ()
    async with make_client(URL, None, Memory(reads, clock, error)) as client, anyio.create_task_group() as group:
        made = bench(client, clock, wanted)
        group.start_soon(watch_stalls, made.run)
        exchange = await made.streams.send(order(keep_text=True))
        group.cancel_scope.cancel()
    return Sent(exchange.ended, exchange.text, exchange.ids or (), made.events)
