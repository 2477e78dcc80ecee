"""How memory grows over a million streamed events: the parser and replies alone, then the whole runner over sockets.

The second half of each run is what counts: a client that keeps something per event shows it there.

    python -m tests.bench.bench_rss [--events 1000000]
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable

import psutil

from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.wire import parse
from tests.bench.bench_stream import blaster
from tests.bench.blaster import sse_event, usage_event

TOKENS_A_REPLY = 500
STREAMS = 64


def rss_mib() -> float:
    """Resident memory of this process."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 2**20


def parse_replies(replies: int) -> int:
    """Reads that many replies, event by event; returns the events."""
    body = [sse_event(n, n == TOKENS_A_REPLY - 1) for n in range(TOKENS_A_REPLY)]
    body += [usage_event(TOKENS_A_REPLY), b"data: [DONE]\n\n"]
    events = 0
    for _ in range(replies):
        parser, reply = SseParser(), Reply()
        for at_us, chunk in enumerate(body):
            for payload in parser.feed(chunk):
                reply.add(parse(payload), at_us)
                events += 1
        reply.finish(parser, len(body))
        if reply.completion_tokens != TOKENS_A_REPLY or reply.outcome().outcome != "ok":
            raise SystemExit("a reply was read wrong")
    return events


def run_replies(port: int, replies: int) -> int:
    """The same many replies through the whole runner, 64 at once; returns the events."""
    from tests.bench.whole_runner import drive_in_new_loop  # late: the other row does without a runner

    return drive_in_new_loop(port, STREAMS, max(1, replies // STREAMS)).events


def show(name: str, replies: int, work: Callable[[int], int]) -> None:
    """A warm-up, then two halves with the memory after each."""
    work(max(STREAMS, replies // 20))
    before = rss_mib()
    events = work(replies // 2)
    middle = rss_mib()
    events += work(replies // 2)
    after = rss_mib()
    print(f"{name:24}{events:12,}{before:12.1f}{middle - before:12.2f}{after - middle:12.2f}{after - before:10.2f}")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--without-runner", action="store_true")
    options = parser.parse_args()
    replies = options.events // TOKENS_A_REPLY
    print(f"{'':24}{'events':>12}{'MiB before':>12}{'1st half':>12}{'2nd half':>12}{'growth':>10}")
    show("parser and replies", replies, parse_replies)
    if options.without_runner:
        return
    with blaster(STREAMS, TOKENS_A_REPLY, 0.0) as load:
        show("the whole runner", replies, lambda count: run_replies(load.port, count))


if __name__ == "__main__":
    main()
