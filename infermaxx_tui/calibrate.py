"""How far off times are that are measured here: the runner's own streams against a server whose moments are known.

The embedded server beats in a process of its own on this host and says when it sent each event. What the runner makes
of it goes the way of every run, from the connection to the log, so that the difference is the error of a run's times.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import anyio
import httpx

from infermaxx_tui.calibrated import load_per_core, made_here
from infermaxx_tui.core.calibration import Calibration, Client, ErrorBars, error_bars
from infermaxx_tui.core.events import RequestEnded
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.launch import own_program
from infermaxx_tui.listening import Listening
from infermaxx_tui.log import Appender
from infermaxx_tui.runner.client import make_client
from infermaxx_tui.runner.clock import Clock, SystemClock
from infermaxx_tui.runner.context import Prepared, RunContext, Stopper
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.http.transport import Transport
from infermaxx_tui.runner.instrument import InstrumentWatch
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.recorder import Recorder, Sink
from infermaxx_tui.runner.sampling import Beats
from infermaxx_tui.runner.stream import Streams

LOADS: Final = ((1, 50.0), (8, 50.0), (64, 50.0), (8, 200.0), (64, 200.0))
"""Streams at once, and events of each in a second."""
LOAD_S: Final = 0.5
"""How long a load is measured once all of its streams run."""
_STARTS_HZ: Final = 100.0
"""Streams that are begun in a second before that."""
_REQUESTS_HZ: Final = 40.0
"""New requests in a second while it is measured, whatever the number of streams."""
_LEAST_REPLY_S: Final = 0.1
_WARM: Final = (1, 100.0)
_WARM_S: Final = 0.1
"""What is played first and forgotten: what is imported late would count as an error."""
_START_S: Final = 0.8
_PATIENCE_S: Final = 10.0
_OVERTIME_S: Final = 2.0
_MODEL: Final = "metronome-"
"""As infermaxx_tui.sim.metronome, which the runner's side does not import."""
_NONCE: Final = "ca11b8a7"


class CalibrationError(Exception):
    """Nothing could be measured; one line says why."""


def seconds(loads: Sequence[tuple[int, float]] = LOADS, load_s: float = LOAD_S) -> float:
    """About how long it takes."""
    return _START_S + _WARM_S + sum(streams / _STARTS_HZ + load_s for streams, _ in loads)


def calibrate(loads: Sequence[tuple[int, float]] = LOADS, load_s: float = LOAD_S) -> Calibration:
    """The error bars of this host at these loads. Raises CalibrationError."""
    began_s, load = time.monotonic(), load_per_core()
    with _metronome() as (url, folder):
        bars = anyio.run(_measure_all, url, folder, tuple(loads), load_s)
    return made_here(bars, time.monotonic() - began_s, load)


@contextlib.contextmanager
def _metronome() -> Iterator[tuple[str, Path]]:
    """The server's URL and a folder for what is written meanwhile. Raises CalibrationError if it does not start."""
    with tempfile.TemporaryDirectory(prefix="infermaxx-") as name:
        folder = Path(name)
        port_file = folder / "port"
        command = own_program("infermaxx_tui.sim.metronome", "--port-file", str(port_file))
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise CalibrationError(f"the embedded server cannot be started: {error.strerror}") from None
        try:
            yield f"http://127.0.0.1:{_port(port_file, process)}", folder
        finally:
            process.terminate()
            process.wait()


def _port(port_file: Path, process: subprocess.Popen[bytes]) -> int:
    until_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until_s:
        if port_file.exists():
            return int(port_file.read_text("ascii"))
        if process.poll() is not None:
            raise CalibrationError(f"the embedded server ended with {process.returncode} before it served")
        time.sleep(0.01)
    raise CalibrationError(f"the embedded server did not serve within {_PATIENCE_S:g} s")


async def _measure_all(
    url: str, folder: Path, loads: tuple[tuple[int, float], ...], load_s: float
) -> tuple[ErrorBars, ...]:
    listening = Listening(Transport(), SystemClock().mono_us)
    until_s = time.monotonic() + seconds(loads, load_s)
    bars: list[ErrorBars] = []
    async with make_client(url, None, listening) as client:
        for number, (streams, rate_hz) in enumerate((_WARM, *loads)):
            if time.monotonic() > until_s:
                why = "not tried: the loads before it took longer than all should"
                bars.append(ErrorBars(streams=streams, rate_hz=rate_hz, reason=why))
                continue
            with contextlib.closing(Appender(folder / f"events-{number}.jsonl")) as sink:
                wanted_s = load_s if number else _WARM_S
                bars.append(await measure(client, listening, streams, rate_hz, wanted_s, sink, SystemClock()))
    return tuple(bars[1:])


async def measure(
    client: httpx.AsyncClient,
    listening: Listening,
    streams: int,
    rate_hz: float,
    load_s: float,
    sink: Sink,
    clock: Clock,
) -> ErrorBars:
    """The error bars of one load: `streams` streams are begun one after another, and then measured for `load_s`.

    Each sends one short prompt after another. They do so at the pace of agents, whose replies take seconds: what is
    measured is how many streams run, and not how many requests begin at once.
    """
    run = RunContext(_prepared(rate_hz), client, Recorder(sink, clock, lambda: None), Stopper())
    listening.heard.clear()
    load = _Load(run, streams, rate_hz)
    with anyio.move_on_after(load.ramp_s + load_s + _OVERTIME_S) as patience:
        async with anyio.create_task_group() as background:
            background.start_soon(Beats(run).run)
            background.start_soon(load.play)
            await anyio.sleep(load.ramp_s)
            watch, from_us = InstrumentWatch(run), clock.mono_us()
            background.start_soon(watch.run)
            await anyio.sleep(load_s)
            watch.flush()
            run.cut()
            await load.over.wait()
            background.cancel_scope.cancel()
    missing = "the loop was held up beyond all patience" if patience.cancelled_caught else load.failure()
    return _bars(run, listening, load, from_us if not patience.cancelled_caught else 0, missing)


def _bars(run: RunContext, listening: Listening, load: _Load, from_us: int, missing: str | None) -> ErrorBars:
    ended = [] if missing else [one for one in load.ended if one.status is not None]
    samples = [listening.sample(f"imx-{_NONCE}-{one.req}", one.ttft_ms, from_us) for one in ended]
    seen = run.recorder.fold.snapshot().instrument
    reads, coalesced = listening.reads(from_us)
    client = Client(
        loop_lag_p99_ms=seen.loop_lag_p99_ms,
        loop_lag_max_ms=seen.loop_lag_max_ms,
        reads=reads,
        reads_coalesced=coalesced,
    )
    return error_bars(load.streams, load.rate_hz, samples, client, missing)


class _Load:
    """Streams that go on until they are cut."""

    def __init__(self, run: RunContext, streams: int, rate_hz: float) -> None:
        self.streams = streams
        self.rate_hz = rate_hz
        self.ramp_s = streams / _STARTS_HZ
        self.ended: list[RequestEnded] = []
        self.over = anyio.Event()
        self._run = run
        self._sender = Streams(run)
        self._reply_s = max(_LEAST_REPLY_S, streams / _REQUESTS_HZ)

    async def play(self) -> None:
        """Returns when all are cut."""
        async with anyio.create_task_group() as group:
            for number in range(self.streams):
                group.start_soon(self._one, number)
        self.over.set()

    async def _one(self, number: int) -> None:
        """The first reply of each has another length, so that the next ones begin one by one."""
        await anyio.sleep(number / _STARTS_HZ)
        turn, share = 0, (number + 1) / self.streams
        while not self._run.closing:
            tokens = max(2, round(self.rate_hz * (self.ramp_s * (1 - share) + self._reply_s * (1 if turn else share))))
            order = Order(prompt=Prompt(ids=(1, 2, 3)), session=number, turn=turn, kind="turn", max_tokens=tokens)
            self.ended.append((await self._sender.send(order)).ended)
            turn += 1

    def failure(self) -> str | None:
        """Why the replies say nothing."""
        failed = [one for one in self.ended if one.outcome not in ("ok", "cancelled")]
        if not failed:
            return None
        return f"{len(failed)} of {len(self.ended)} replies failed: {failed[0].outcome} {failed[0].error}"


def _prepared(rate_hz: float) -> Prepared:
    """A run of nothing but streams."""
    return Prepared(
        scenario=Scenario(name="calibration"),
        scenario_text="",
        plan=Plan(conversations=(), decoys=(), at_once=0),
        transcripts=(),
        tokenised=(),
        renderer=None,
        regime=Regime(),
        seed=0,
        nonce=_NONCE,
        model=f"{_MODEL}{rate_hz:g}",
    )
