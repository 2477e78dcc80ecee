"""A tap on what comes from a calibrating server: every read with its moment, handed on as it is.

The runner's own way through a reply stays what it is; beside it stand the bytes, out of which the server's stamps are
read when all is over.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from itertools import accumulate, pairwise
from typing import Final

import httpx
import msgspec

from infermaxx_tui.core.calibration import Sample
from infermaxx_tui.runner.http.connection import Sink
from infermaxx_tui.runner.http.transport import PUSH, PushBody

_RECEIVED: Final = "x-infermaxx-received-us"
"""As infermaxx_tui.sim.metronome, which the runner's side does not import."""
_STAMPS: Final = re.compile(rb'"created":(\d+),"due":(\d+)[^\n]*\n\n')


class _Event(msgspec.Struct, frozen=True):
    """When an event was sent, was due and came, in µs, and the number of the read that brought its end."""

    sent_us: int
    due_us: int
    came_us: int
    read: int


class Heard(msgspec.Struct):
    """What came of one reply, and when."""

    received_us: int
    pieces: list[tuple[bytes, int]] = msgspec.field(default_factory=list)

    def events(self) -> list[_Event]:
        """The events with stamps that came whole."""
        ends = list(accumulate(len(piece) for piece, _ in self.pieces))
        events = []
        for found in _STAMPS.finditer(b"".join(piece for piece, _ in self.pieces)):
            read = bisect_left(ends, found.end())
            events.append(_Event(int(found[1]), int(found[2]), self.pieces[read][1], read))
        return events


class Listening(httpx.AsyncBaseTransport):
    """Hands everything on as it comes, and remembers what came when."""

    def __init__(self, inner: httpx.AsyncBaseTransport, mono_us: Callable[[], int]) -> None:
        self.heard: dict[str, Heard] = {}
        self._inner = inner
        self._mono_us = mono_us

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response, with a tap on its body."""
        response = await self._inner.handle_async_request(request)
        received = response.headers.get(_RECEIVED)
        if received is None:
            return response
        heard = self.heard[request.headers["x-request-id"]] = Heard(int(received))
        pushing = response.extensions.get(PUSH)
        if isinstance(pushing, PushBody):
            body = _Pushing(pushing, heard.pieces)
            return httpx.Response(200, headers=response.headers, stream=body, extensions={PUSH: body})
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise TypeError("an async transport gave a response that is not async")
        return httpx.Response(200, headers=response.headers, stream=_Read(response.stream, heard.pieces, self._mono_us))

    async def aclose(self) -> None:
        """Closes the transport behind it."""
        await self._inner.aclose()

    def sample(self, name: str, ttft_ms: float | None, from_us: int) -> Sample:
        """One reply as both ends saw it, from a moment on; its TTFT counts only if it began after that.

        `name` is its x-request-id.
        """
        heard = self.heard[name]
        events = [event for event in heard.events() if event.sent_us >= from_us]
        return Sample(
            ttft_ms=ttft_ms if heard.received_us >= from_us else None,
            received_us=heard.received_us,
            sent_us=tuple(event.sent_us for event in events),
            due_us=tuple(event.due_us for event in events),
            came_us=tuple(event.came_us for event in events),
        )

    def reads(self, from_us: int) -> tuple[int, int]:
        """Reads since a moment that brought the end of a stamped event, and those that brought more than one."""
        reads = coalesced = 0
        for heard in self.heard.values():
            numbers = [event.read for event in heard.events() if event.sent_us >= from_us]
            reads += len(set(numbers))
            coalesced += len({b for a, b in pairwise(numbers) if a == b})
        return reads, coalesced


class _Pushing(PushBody):
    """A body that is pushed, with a tap."""

    def __init__(self, inner: PushBody, pieces: list[tuple[bytes, int]]) -> None:
        self._inner = inner
        self._keep = pieces.append

    async def push_to(self, sink: Sink) -> None:
        keep = self._keep

        def taken(piece: bytes, at_us: int) -> bool:
            keep((piece, at_us))
            return sink(piece, at_us)

        await self._inner.push_to(taken)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Read(httpx.AsyncByteStream):
    """A body that is read, with a tap."""

    def __init__(
        self, inner: httpx.AsyncByteStream, pieces: list[tuple[bytes, int]], mono_us: Callable[[], int]
    ) -> None:
        self._inner = inner
        self._keep = pieces.append
        self._mono_us = mono_us

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._keep((piece, self._mono_us()))
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
