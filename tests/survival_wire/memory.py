"""How much memory a run takes as it goes on: each part in a process of its own, which says so after parts of its work.

    python tests/survival_wire/memory.py runner|fold|screen --events 5000000   (`server` is what `runner` starts)

`runner`: streamed events through sockets, parser, replies, beats and log file. `fold`: lines of a log through what
`attach --headless` follows with. `screen`: the same lines through what the TUI follows with, a picture now and then.
The lines of `fold` and `screen` are appended while they are read, as a run does.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import gc
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import msgspec
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infermaxx_tui.core import events as ev
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.verdict import judge_run
from infermaxx_tui.follow import LogReader
from infermaxx_tui.index import RunLog
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.context import RunContext, Stopper
from infermaxx_tui.runner.http.transport import Transport
from infermaxx_tui.runner.recorder import Recorder
from tests.bench.blaster import HEAD, framed, sse_event, usage_event
from tests.bench.whole_runner import FileSink, _prepared, _send_all

SHARES = (0.1, 0.5, 1.0)
STREAMS = 32
TOKENS_A_REPLY = 500
LINES_A_TURN = 3
_MOST_BLOCK_LINES = 50_000
_WRITE_BYTES = 4096
"""Some sixteen events a read: what counts here is their number, and fewer reads make them come sooner."""


class Mark(msgspec.Struct, frozen=True):
    """What a process takes after so many events."""

    events: int
    rss_mib: float


def mark(events: int) -> Mark:
    """This process now, without what its allocator has only not given back yet."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return Mark(events, round(psutil.Process().memory_info().rss / 2**20, 2))


async def serve() -> None:
    """Answers every request with the same reply, until it is killed."""
    body = b"".join(framed(sse_event(n, n == TOKENS_A_REPLY - 1)) for n in range(TOKENS_A_REPLY))
    body += framed(usage_event(TOKENS_A_REPLY)) + framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD)
            for at in range(0, len(body), _WRITE_BYTES):
                writer.write(body[at : at + _WRITE_BYTES])
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """The port of that server, in a process of its own."""
    with subprocess.Popen([sys.executable, __file__, "server"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


async def stream(port: int, events: int) -> list[Mark]:
    """Receives so many events, in STREAMS streams at once."""
    replies_each = -(-events // (STREAMS * (TOKENS_A_REPLY + 2)))
    marks: list[Mark] = []
    with tempfile.TemporaryDirectory() as folder:
        sink = FileSink(Path(folder) / "events.jsonl")
        async with make_client(f"http://127.0.0.1:{port}", None, Transport()) as client:
            run = RunContext(_prepared(), client, Recorder(sink, SystemClock(), lambda: None), Stopper())
            async with anyio.create_task_group() as group:
                group.start_soon(_watch, run, replies_each * STREAMS * (TOKENS_A_REPLY + 2), marks)
                await _send_all(run, STREAMS, replies_each)
                group.cancel_scope.cancel()
            marks.append(mark(run.board.events_parsed))
        sink.close()
    return marks


async def _watch(run: RunContext, total: int, marks: list[Mark]) -> None:
    for share in SHARES[:-1]:
        while run.board.events_parsed < total * share:  # noqa: ASYNC110 -- it tells nobody
            await asyncio.sleep(0.01)
        marks.append(mark(run.board.events_parsed))


def lines(count: int) -> Iterator[ev.AnyEvent]:
    """What the log of a soak of STREAMS conversations without end holds: turns, and each second's readings."""
    yield ev.RunStarted(
        schema=ev.SCHEMA,
        program="infermaxx",
        run="soak",
        scenario="soak",
        scenario_text='name = "soak"\n',
        scenario_sha256="0" * 64,
        seed=1,
        nonce="00",
        host=ev.Host(name="bench", system="Linux", python="3.11", cpus=2),
        limits=Limits(),
        sessions=STREAMS,
        at_once=STREAMS,
        planned_recalls=1,
    )
    yield ev.RegimeNoted(regime=Regime(model="m"))
    for session in range(STREAMS):
        yield ev.SessionStarted(session=session, wave=0, transcripts=("t",), planned_recalls=0)
    made, req = STREAMS + 2, 0
    while made < count:
        second = made // (3 + LINES_A_TURN * STREAMS // 8)
        everyone = tuple(range(STREAMS))
        yield ev.Beat(
            window_ms=1000.0,
            sessions=everyone,
            tokens=(40,) * STREAMS,
            depths=(30_000 + second % 1000,) * STREAMS,
            gap_buckets=tuple((160 + second % 9 + n, 50) for n in range(8)),
        )
        yield ev.MetricsRead(running=float(STREAMS), waiting=0.0, kv_usage=0.5, generation_tokens=1280.0 * second)
        yield ev.InstrumentRead(
            window_ms=1000.0,
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=1.0,
            loop_lag_max_ms=2.0,
            cpu_share=0.2,
            rss_mib=90.0,
            events_parsed=1280,
        )
        made += 3
        for _ in range(STREAMS // 8):
            req += 1
            session = req % STREAMS
            yield ev.RequestStarted(
                req=req, session=session, turn=req // STREAMS, kind="turn", prompt_tokens=30_000, max_tokens=400
            )
            yield ev.FirstToken(req=req, session=session, ttft_ms=100.0 + req % 50)
            yield ev.RequestEnded(
                req=req,
                session=session,
                turn=req // STREAMS,
                kind="turn",
                outcome="ok",
                status=200,
                finish_reason="stop",
                max_tokens=400,
                prompt_tokens=30_000,
                completion_tokens=300,
                ids_received=300,
                ttft_ms=100.0 + req % 50,
                decode_ms=7900.0,
                total_ms=8000.0,
                text_sha256=f"{req:064x}",
            )
            made += LINES_A_TURN


def grow(path: Path, count: int) -> Iterator[int]:
    """Appends the log to `path`, a block at a time; how many lines it has."""
    seq, block, block_lines = 0, bytearray(), max(1, min(_MOST_BLOCK_LINES, count // 20))
    with path.open("ab") as file:
        for event in lines(count):
            block += ev.encode(ev.Record(0, seq, 1_780_000_000_000 + 60 * seq, 60_000 * seq, event))
            seq += 1
            if seq % block_lines == 0:
                file.write(block)
                file.flush()
                block.clear()
                yield seq
        file.write(block)
    if block:
        yield seq


def follow(count: int, folder: Path, screen: bool) -> list[Mark]:
    """Reads a log of so many lines while it grows."""
    marks: list[Mark] = []
    reader: LogReader | None = None
    log: RunLog | None = None
    shares = iter(SHARES)
    due = next(shares)
    for seq in grow(folder / "events.jsonl", count):
        if screen:
            if log is None:
                log = RunLog(folder)
                log.open()
            for _ in log.follow():
                pass
            judge_run(log.latest().state)
            log.timeline.snapshot(0, log.timeline.end_us, 120)
        else:
            reader = reader or LogReader(RunFolder(folder))
            reader.read()
            judge_run(reader.fold.snapshot())
        if seq >= due * count and len(marks) < len(SHARES):
            marks.append(mark(seq))
            due = next(shares, 2.0)
    return marks


def main() -> None:
    """Prints the marks as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("runner", "fold", "screen", "server"))
    parser.add_argument("--events", type=int, default=5_000_000)
    asked = parser.parse_args()
    if asked.part == "server":
        asyncio.run(serve())
    if asked.part == "runner":
        with serving() as port:
            marks = asyncio.run(stream(port, asked.events))
    else:
        with tempfile.TemporaryDirectory() as folder:
            marks = follow(asked.events, Path(folder), asked.part == "screen")
    sys.stdout.buffer.write(msgspec.json.encode(marks) + b"\n")


if __name__ == "__main__":
    main()
