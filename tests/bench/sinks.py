"""What a bench stream is made of, and what is done with its bytes: the least possible, or what the runner does."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec
import orjson

from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser

PATH = "/v1/completions"
BODY = b'{"stream":true}'
REQUEST = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (PATH.encode(), len(BODY)) + BODY


class Load(msgspec.Struct, frozen=True):
    """What one measurement streams."""

    port: int
    streams: int
    events: int

    @property
    def url(self) -> str:
        """Where to post."""
        return f"http://127.0.0.1:{self.port}{PATH}"


class Gate:
    """Begins the measurement when all streams have their headers; counts the reads and events of all."""

    def __init__(self, streams: int) -> None:
        self.missing = streams
        self.begin_s: float | None = None
        self.reads = 0
        self.events = 0

    def opened(self) -> None:
        """A stream has its headers."""
        self.missing -= 1
        if self.missing == 0:
            self.begin_s = time.process_time()


class Bare:
    """The least a client can do with a body: split it, parse the JSON, count."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Takes a read."""
        self.gate.reads += 1
        *whole, self.rest = (self.rest + data).split(b"\n\n")
        for event in whole:
            if event != b"data: [DONE]":
                orjson.loads(event[6:])
                self.gate.events += 1


class Ours:
    """What the runner does with a body before it logs: stamp, parse, count, gap."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.parser = SseParser()
        self.reply = Reply()
        self.gap_us = 0

    def feed(self, data: bytes) -> None:
        """Takes a read."""
        at_us = time.monotonic_ns() // 1000
        self.gate.reads += 1
        take = self.reply.take
        for payload in self.parser.feed(data):
            gap_us, tokens = take(payload, at_us)
            self.gap_us += gap_us or 0
            self.gate.events += tokens


Sink = Callable[[Gate], Bare | Ours]
Row = Callable[[Load, Gate, Sink], Awaitable[None]]
