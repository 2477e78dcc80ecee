"""Loops beside the load: the beat, the watchdog, and the server's counters."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import httpx
import msgspec

from infermaxx_tui.core.events import MetricsRead, Noted, ServerLost
from infermaxx_tui.core.readings import parse_metrics, refusal
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.runner.client import TRANSPORT_ERRORS
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.vital import ask

BEAT_S = 1.0
_WATCH_S = 0.1
_METRICS_S = 1.0
_SCRAPE_TIMEOUT_S = 5.0
_SILENT_LIMITS = 3
"""Stall limits without a word after which a server is lost for good."""


class Beats:
    """Writes what came in each window, a line a second, and at the end what came since the last one."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._since_us = run.recorder.clock.mono_us()

    async def run(self) -> None:
        """One beat a second; a second without a stream writes none."""
        while True:
            await anyio.sleep(BEAT_S)
            self.flush()

    def flush(self) -> None:
        """Writes the beat since the last one, with its true window, which at the end of a run may be short."""
        now_us = self._run.recorder.clock.mono_us()
        beat = self._run.board.beat((now_us - self._since_us) / 1000)
        if beat.sessions:
            self._run.recorder.emit(beat)
        self._since_us = now_us


async def watch_stalls(run: RunContext) -> None:
    """Cancels streams that give no token for the stall limit, and logs whether the server's host still answers.

    The host is asked once for all of them; a stream that spoke meanwhile goes on. A server that says nothing at all for
    some limits, though it is asked anew, is lost: the run ends, and does not wait for the limit with all that is left.
    """
    limit_s, clock = run.scenario.limits.stall_s, run.recorder.clock
    silence = _Silence()
    while run.recorder.lost is None:
        await anyio.sleep(_WATCH_S)
        if not run.board.stalled(clock.mono_us(), limit_s * 1e6):
            continue
        found = await ask(run)
        now_us = clock.mono_us()
        if silence.lasts(run.board.events_parsed, now_us, limit_s * 1e6):
            run.stopper.ask("server_lost")
        for stream in run.board.stalled(now_us, limit_s * 1e6):
            stream.stalled = True
            stream.scope.cancel()
            run.recorder.emit(
                ServerLost(
                    how="stalled",
                    session=stream.session,
                    req=stream.req,
                    detail=f"no token for {(now_us - stream.last_token_us) / 1e6:.1f} s (limits.stall_s={limit_s:g});"
                    f" {found.how}",
                    reachable=found.reachable,
                )
            )


class _Silence:
    """How long streams have stalled without anything from the server in between."""

    def __init__(self) -> None:
        self._heard = -1
        self._stalls = 0
        self._since_us = 0.0

    def lasts(self, events: int, now_us: int, limit_us: float) -> bool:
        """Whether this stall is one too many; `events` that came so far."""
        if events != self._heard:
            self._heard, self._stalls, self._since_us = events, 0, now_us - limit_us
        self._stalls += 1
        return self._stalls >= _SILENT_LIMITS and now_us - self._since_us >= _SILENT_LIMITS * limit_us


async def watch_process(run: RunContext, alive: Callable[[], bool]) -> None:
    """Logs the death of a server process that is ours."""
    while True:
        await anyio.sleep(_METRICS_S)
        if not alive():
            detail = "the server's process has ended"
            run.recorder.emit(ServerLost(how="pid_dead", session=None, req=None, detail=detail, reachable=False))
            return


async def scrape(run: RunContext) -> MetricsRead:
    """The server's counters now; nothing is asked any more once the log is lost."""
    if run.recorder.lost is not None:
        return MetricsRead(error="not read: the log is lost, and nothing is sent after that")
    clock = run.recorder.clock
    started_us = clock.mono_us()
    try:
        page = await _page(run.client)
    except TRANSPORT_ERRORS as error:
        return MetricsRead(error=one_line(f"{type(error).__name__}: {error}")[:200])
    if isinstance(page, str):
        return MetricsRead(error=page)
    came_us = clock.mono_us()
    reading = parse_metrics(page, (came_us - started_us) / 1000)
    return msgspec.structs.replace(reading, parse_ms=(clock.mono_us() - came_us) / 1000)


async def _page(client: httpx.AsyncClient) -> bytes | str:
    """The page of metrics, or why it was not read; never more of it than a page may have."""
    async with client.stream("GET", "/metrics", timeout=_SCRAPE_TIMEOUT_S) as answer:
        if answer.status_code != 200:
            return f"/metrics answers {answer.status_code}"
        parts, size, kind = [], 0, answer.headers.get("content-type")
        async for part in answer.aiter_bytes():
            parts.append(part)
            size += len(part)
            if (reason := refusal(kind, parts[0], size)) is not None:
                return reason
    return b"".join(parts)


async def watch_metrics(run: RunContext) -> None:
    """The server's counters once a second; a new process start is a restart.

    After requests were cut it is looked at, reading by reading, whether the server lets go of them.
    """
    start_s: float | None = None
    while run.recorder.lost is None:
        reading = await scrape(run)
        run.recorder.emit(reading)
        look_after_cut(run)
        if start_s is not None and reading.process_start_s is not None and reading.process_start_s != start_s:
            detail = f"process start moved from {start_s:.3f} to {reading.process_start_s:.3f}"
            run.recorder.emit(ServerLost(how="restarted", session=None, req=None, detail=detail, reachable=True))
        start_s = reading.process_start_s if reading.process_start_s is not None else start_s
        await anyio.sleep(_METRICS_S)


def look_after_cut(run: RunContext, last_chance: bool = False) -> None:
    """Logs whether the server stopped working on requests that were cut, as soon as that can be said."""
    settled = run.recorder.fold.server.unsettled(run.recorder.clock.mono_us(), last_chance)
    if settled is None:
        return
    run.recorder.emit(settled)
    if settled.fell is False:
        text = (
            f"{settled.waited_ms / 1000:.0f} s after {settled.cut} requests were cut the server still runs"
            f" {settled.running:g}, and {settled.ours_open} of ours are wanted: it goes on with what nobody reads"
        )
        run.recorder.emit(Noted(text=text))


def hits(before: MetricsRead, after: MetricsRead) -> int | None:
    """Prompt tokens that came from the cache in between, by a server that counted any at all."""
    if before.prefix_hits is None or after.prefix_hits is None or not queries(before, after):
        return None
    return round(after.prefix_hits - before.prefix_hits)


def queries(before: MetricsRead, after: MetricsRead) -> int | None:
    """Prompt tokens that were looked for in the cache in between; None if the server does not count them."""
    if before.prefix_queries is None or after.prefix_queries is None:
        return None
    return max(round(after.prefix_queries - before.prefix_queries), 0)
