"""The runner's own loop as a bench drives it: client, streams, beats, watchdog, instrument, and a log file.

Only the conversation is missing: each stream sends one fixed prompt after another, so that a reply costs what it costs
in a run and planning costs nothing.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import anyio
import msgspec

from infermaxx_tui.core.events import AnyEvent, FirstToken, Record
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.log import Appender
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import SystemClock
from infermaxx_tui.runner.context import Prepared, RunContext, Stopper
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.http.transport import Transport
from infermaxx_tui.runner.instrument import InstrumentWatch
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.recorder import Recorder
from infermaxx_tui.runner.sampling import Beats, watch_stalls
from infermaxx_tui.runner.stream import Streams


class Took(msgspec.Struct, frozen=True):
    """What a drive cost."""

    events: int
    cpu_s: float
    """From the first token to the end of the last reply."""
    reads: int


class FileSink:
    """A log file; it marks the CPU time of the first token."""

    def __init__(self, path: Path) -> None:
        self.begin_s: float | None = None
        self._file = Appender(path)

    @property
    def written(self) -> int:
        """Lines so far."""
        return self._file.written

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """Writes one line."""
        if self.begin_s is None and isinstance(event, FirstToken):
            self.begin_s = time.process_time()
        return self._file.append(event, wall_ms, mono_us)

    def close(self) -> None:
        """Ends the file."""
        self._file.close()


class CountingClock(SystemClock):
    """The machine's clocks; it counts the reads, each of which is stamped once."""

    def __init__(self) -> None:
        self.stamps = 0

    def mono_us(self) -> int:
        """Monotonic time in µs."""
        self.stamps += 1
        return time.monotonic_ns() // 1000


def _prepared() -> Prepared:
    return Prepared(
        scenario=Scenario(name="bench"),
        scenario_text="",
        plan=Plan(conversations=(), decoys=(), at_once=0),
        transcripts=(),
        tokenised=(),
        renderer=None,
        regime=Regime(),
        seed=0,
        nonce="00",
        model="some-model",
    )


async def drive(port: int, streams: int, replies_each: int = 1) -> Took:
    """Runs `streams` streams at once, each of them `replies_each` replies long."""
    with tempfile.TemporaryDirectory() as folder:
        sink = FileSink(Path(folder) / "events.jsonl")
        reads = CountingClock()
        transport = Transport(mono_us=reads.mono_us)
        async with make_client(f"http://127.0.0.1:{port}", None, transport) as client:
            run = RunContext(_prepared(), client, Recorder(sink, SystemClock(), lambda: None), Stopper())
            await _send_all(run, streams, replies_each)
        end_s = time.process_time()
        sink.close()
    if sink.begin_s is None:
        raise SystemExit("no token came")
    return Took(run.board.events_parsed, end_s - sink.begin_s, reads.stamps)


async def _send_all(run: RunContext, streams: int, replies_each: int) -> None:
    sender = Streams(run)

    async def one(session: int) -> None:
        for turn in range(replies_each):
            exchange = await sender.send(
                Order(prompt=Prompt(ids=(1, 2, 3)), session=session, turn=turn, kind="turn", max_tokens=100_000)
            )
            if exchange.ended.outcome != "ok":
                raise SystemExit(f"a reply ended as {exchange.ended.outcome}: {exchange.ended.error}")

    async with anyio.create_task_group() as background:
        background.start_soon(Beats(run).run)
        background.start_soon(InstrumentWatch(run).run)
        background.start_soon(watch_stalls, run)
        async with anyio.create_task_group() as senders:
            for session in range(streams):
                senders.start_soon(one, session)
        background.cancel_scope.cancel()


def drive_in_new_loop(port: int, streams: int, replies_each: int = 1) -> Took:
    """`drive`, for a script that has no event loop."""
    return asyncio.run(drive(port, streams, replies_each))
