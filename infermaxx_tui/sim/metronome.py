"""The embedded server as a metronome: events at moments of a schedule, each with the moment at which it was sent.

All streams beat together, as those of a batch do. The stamps are of CLOCK_MONOTONIC, which all processes of a host
share, and stand where a client that reads tokens looks past them; so a client on this host can tell how late it is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import msgspec

from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.engine import Engine
from infermaxx_tui.sim.http import SSE, Request, Response, bad_request
from infermaxx_tui.sim.server import SimServer

RECEIVED: Final = "x-infermaxx-received-us"
"""Header of the answer: when the request was there, in µs."""
MODEL: Final = "metronome-"
"""Before the beats a second, as the name of the model that is asked for."""
_MOST_HZ: Final = 10_000.0
_LOOK_S: Final = 0.2


class _Body(msgspec.Struct):
    model: str
    max_tokens: int


class Metronome(App):
    """Answers /v1/completions with `max_tokens` events, `model` of them a second; the rest is the embedded server."""

    def __init__(self, engine: Engine, now_us: Callable[[], int]) -> None:
        super().__init__(engine)
        self._now_us = now_us

    async def handle(self, request: Request) -> Response:
        """The response to a request."""
        received_us = self._now_us()
        if request.path != "/v1/completions":
            return await super().handle(request)
        try:
            body = msgspec.json.decode(request.body, type=_Body)
            rate_hz = float(body.model.removeprefix(MODEL))
        except (msgspec.DecodeError, ValueError):
            return bad_request("ask for the model metronome-RATE", "model").response
        if not 0 < rate_hz <= _MOST_HZ:
            return bad_request(f"{rate_hz:g} beats a second cannot be kept", "model").response
        head = (SSE, (RECEIVED, str(received_us)))
        return Response(200, head, stream=self._beats(1e6 / rate_hz, body.max_tokens))

    async def _beats(self, period_us: float, count: int) -> AsyncGenerator[bytes, None]:
        beat = int(self._now_us() / period_us)
        for number in range(count):
            due_us = round((beat + 1 + number) * period_us)
            await asyncio.sleep(max(0, due_us - self._now_us()) / 1e6)
            last = number == count - 1
            yield _event(self._now_us(), due_us, number, b'"stop"' if last else b"null")
        usage = b'{"prompt_tokens":3,"completion_tokens":%d,"total_tokens":%d}' % (count, count + 3)
        yield b'data: {"id":"cmpl-beat","object":"text_completion","created":0,"model":"metronome",'
        yield b'"choices":[],"usage":%b}\n\ndata: [DONE]\n\n' % usage


def _event(sent_us: int, due_us: int, number: int, finish: bytes) -> bytes:
    """As large as vLLM's own with one token of its ids, and in the order of its keys."""
    return (
        b'data: {"id":"cmpl-beat","object":"text_completion","created":%d,"due":%d,"model":"metronome","choices":[{'
        b'"index":0,"text":" w%d","logprobs":null,"finish_reason":%b,"stop_reason":null,"token_ids":[%d],'
        b'"prompt_logprobs":null,"prompt_token_ids":null}]}\n\n'
    ) % (sent_us, due_us, number, finish, 1000 + number)


def main(argv: list[str]) -> int:
    """Serves until the process that started it is gone, or ends it."""
    parser = argparse.ArgumentParser(prog="infermaxx metronome", description=__doc__)
    parser.add_argument("--port-file", type=Path, required=True, help="the port is written there")
    args = parser.parse_args(argv)
    asyncio.run(_serve(args.port_file, os.getppid()))
    return 0


async def _serve(port_file: Path, parent_pid: int) -> None:
    app = Metronome(Engine(), lambda: time.monotonic_ns() // 1000)
    async with SimServer(app) as server:
        part = port_file.with_name(f"{port_file.name}.part")
        part.write_text(f"{server.port}\n", "ascii")
        part.replace(port_file)
        while True:
            await asyncio.sleep(_LOOK_S)
            if os.getppid() != parent_pid:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
