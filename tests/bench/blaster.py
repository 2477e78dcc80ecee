"""A server that only streams, for measuring clients: events as vLLM sends them, one write an event.

All streams of a group get their next event at the same tick, as an engine step gives each running request a token.
A group begins once as many requests as it has streams have come. Run as a script it prints its port and serves.
"""

from __future__ import annotations

import argparse
import asyncio

HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_TEXT = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which "
    "you were all her she there would their we him been has when who will no more if out so up said what its about"
)
WORDS = [word.encode() for word in _TEXT.split()]
"""What a reply says, in no order: one that says always the same keeps the runner's look for babble busy."""
SETTLE_S = 0.1
"""Between the last stream's headers and the first event, so that a client can begin to measure."""


def sse_event(n: int, last: bool) -> bytes:
    """One event of about 240 bytes, as `/v1/completions` sends it with `return_token_ids`."""
    finish = b'"length"' if last else b"null"
    word = WORDS[(n * 2654435761 >> 7) % len(WORDS)]
    return (
        b'data: {"id":"cmpl-99702556aac798f8","object":"text_completion","created":1796051867,"model":"some-model",'
        b'"choices":[{"index":0,"text":" %s","logprobs":null,"finish_reason":%s,"stop_reason":null,'
        b'"prompt_token_ids":null,"token_ids":[%d]}]}\n\n' % (word, finish, 1000 + n)
    )


def usage_event(n: int) -> bytes:
    """The event behind the last token."""
    return (
        b'data: {"id":"cmpl-99702556aac798f8","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":%d}}\n\n' % n
    )


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class Blaster:
    """Groups of equal streams: each of `events` events at `rate_hz` events a second, 0 for as fast as it goes."""

    def __init__(self, streams: int, events: int, rate_hz: float) -> None:
        self.streams = streams
        self.rate_hz = rate_hz
        self.events = [framed(sse_event(n, n == events - 1)) for n in range(events)]
        self.end = framed(usage_event(events)) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self.waiting: list[tuple[asyncio.StreamWriter, asyncio.Event]] = []
        self.groups: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection; it may carry several requests."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n") if b":" in line)
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                writer.write(HEAD)
                over = asyncio.Event()
                self.waiting.append((writer, over))
                if len(self.waiting) == self.streams:
                    group, self.waiting = self.waiting, []
                    task = asyncio.create_task(self.blast(group))
                    self.groups.add(task)
                    task.add_done_callback(self.groups.discard)
                await over.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    async def blast(self, group: list[tuple[asyncio.StreamWriter, asyncio.Event]]) -> None:
        """Streams to one group."""
        await asyncio.sleep(SETTLE_S)
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for n, data in enumerate(self.events):
            for writer, _ in group:
                writer.write(data)
            if self.rate_hz:
                await asyncio.sleep(max(0.0, begin + (n + 1) / self.rate_hz - loop.time()))
            else:
                await asyncio.gather(*(writer.drain() for writer, _ in group))
        for writer, over in group:
            writer.write(self.end)
            over.set()


async def main() -> None:
    """Serves until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--rate-hz", type=float, default=100.0)
    options = parser.parse_args()
    blaster = Blaster(options.streams, options.events, options.rate_hz)
    server = await asyncio.start_server(blaster.serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
