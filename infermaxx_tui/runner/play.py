"""A whole run: its first line, its waves of conversations, the questions asked again, its last line."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import anyio
import httpx
from anyio.abc import TaskGroup

import infermaxx_tui
from infermaxx_tui.core import events as ev
from infermaxx_tui.core.predictions import sha256_of
from infermaxx_tui.core.segments import TokenizerError
from infermaxx_tui.core.standing import Standing
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.runner.abilities import try_abilities
from infermaxx_tui.runner.clock import Clock
from infermaxx_tui.runner.context import Prepared, RunContext, Stopper, StopReason
from infermaxx_tui.runner.controls import play_after_load, play_before, play_last
from infermaxx_tui.runner.gates import check_after, check_before
from infermaxx_tui.runner.gpu_watch import GpuFeed, last_readings, watch_gpus
from infermaxx_tui.runner.instrument import InstrumentWatch
from infermaxx_tui.runner.issuing import issue
from infermaxx_tui.runner.measuring import measure_all
from infermaxx_tui.runner.quality import ask_alone, ask_wrong_again
from infermaxx_tui.runner.reask import ask_misses_again
from infermaxx_tui.runner.reconcile import reconcile
from infermaxx_tui.runner.recorder import Recorder, Sink
from infermaxx_tui.runner.sampling import (
    Beats,
    scrape,
    watch_metrics,
    watch_process,
    watch_stalls,
)
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.vital import look_first, settle_doubts, still_there, watch_doubts
from infermaxx_tui.runner.wave import play_earlier, play_wave

_GRACE_S: Final[dict[StopReason, float]] = {
    "duration": 60.0,
    "server_lost": 3.0,
    "gate": 0.0,
    "sigint": 3.0,
    "sigterm": 3.0,
    "sighup": 3.0,
    "evidence_lost": 0.0,
    "internal": 3.0,
}
"""Seconds that open requests may still take after a wish to stop; SIGTERM must be over within 10 s."""
_WATCH_S: Final = 0.1


async def play(
    prepared: Prepared,
    run_id: str,
    client: httpx.AsyncClient,
    sink: Sink,
    clock: Clock,
    stopper: Stopper,
    spare: Callable[[], Sink | None] = lambda: None,
    server_alive: Callable[[], bool] | None = None,
    gpus: GpuFeed | None = None,
    standing: Callable[[], Standing] = lambda: Standing(None),
) -> RunState:
    """The state of the run when its last line is written. `stopper` may be asked to stop at any time.

    `spare` gives a place for the last lines when `sink` takes no more; `server_alive` says whether a server process
    that is ours still lives; `gpus` are sensors whose readings are logged; `standing` looks for the server's processes.
    A fault of this program is raised, but after the last line, which says `internal`.
    """

    def lost() -> None:
        run.lose_evidence()

    recorder = Recorder(sink, clock, lost, spare)
    run = RunContext(prepared, client, recorder, stopper, standing)
    _open_log(run, run_id)
    if prepared.continued is not None and prepared.continued.used_up(prepared.scenario.duration_s):
        stopper.ask("duration")
    instrument, beats = InstrumentWatch(run), Beats(run)
    watches: list[Callable[[], Awaitable[None]]] = [beats.run, instrument.run]
    watches += [partial(watch, run) for watch in (watch_stalls, watch_doubts, _end_after_duration, _obey_stops)]
    if server_alive is not None:
        watches.append(partial(watch_process, run, server_alive))
    if gpus is not None:
        watches.append(partial(watch_gpus, run, gpus))
    async with anyio.create_task_group() as background:
        for watch in watches:
            background.start_soon(run.guard, watch)
        await run.guard(partial(_play_all, run, background, gpus is not None))
        background.cancel_scope.cancel()
    try:
        instrument.flush()
        beats.flush()
        await last_readings(run, gpus)
    finally:
        _close_log(run)
    if run.faults:
        raise run.faults[0]
    return recorder.fold.snapshot()


async def _play_all(run: RunContext, background: TaskGroup, sensors: bool) -> None:
    """From the first reading of the server's counters to the last one."""
    try:
        streams = await run.render(Streams, run)
    except TokenizerError as error:
        run.recorder.emit(ev.Noted(text=f"nothing can be rendered: {error}"))
        run.stopper.ask("server_lost")
        return
    await check_before(run, streams, sensors)
    if run.stopper.by is None and run.prepared.continued is None:
        await try_abilities(run)
    baseline = await scrape(run)
    run.recorder.emit(baseline)
    background.start_soon(run.guard, partial(look_first, run))
    background.start_soon(run.guard, partial(watch_metrics, run))
    if run.stopper.by is None:
        await play_earlier(run, streams)
    going_on = run.prepared.continued
    if run.stopper.by is None and going_on is None:
        await measure_all(run, streams)
    if run.stopper.by is None and not (going_on and going_on.baseline_asked):
        await ask_alone(run, streams, "before")
    if run.stopper.by is None:
        await play_before(run, streams)
    for wave in run.prepared.plan.waves:
        if wave and run.stopper.by is None and await still_there(run):
            await play_wave(run, streams, wave)
    if run.stopper.by is None:
        await still_there(run)  # a server that the last wave lost ends the run as one that an earlier wave lost
    await play_after_load(run, streams)
    await ask_misses_again(run, streams)
    await ask_alone(run, streams, "after")
    await ask_wrong_again(run, streams)
    await play_last(run, streams)
    await settle_doubts(run)
    await reconcile(run, streams, baseline)
    if run.stopper.by != "gate":
        check_after(run)


def _open_log(run: RunContext, run_id: str) -> None:
    prepared, emit = run.prepared, run.recorder.emit
    scenario, planned, going_on = prepared.scenario, prepared.plan, prepared.continued
    emit(
        ev.RunStarted(
            schema=ev.SCHEMA,
            program=f"infermaxx {infermaxx_tui.__version__}",
            run=run_id,
            scenario=scenario.name,
            scenario_text=prepared.scenario_text,
            scenario_sha256=hashlib.sha256(prepared.scenario_text.encode()).hexdigest(),
            seed=prepared.seed,
            nonce=prepared.nonce,
            host=ev.Host(socket.gethostname(), platform.platform(), platform.python_version(), os.cpu_count() or 1),
            limits=scenario.limits,
            sessions=len(planned.conversations) if going_on is None else going_on.sessions,
            at_once=planned.at_once,
            planned_recalls=planned.planned_recalls if going_on is None else going_on.planned_recalls,
            segment=0 if going_on is None else going_on.segment,
            predictions=scenario.predictions,
            predictions_sha256=sha256_of(scenario.predictions),
            quality_tasks=scenario.quality.tasks,
            quality_when=run.quality.when,
            wave_size=planned.wave_size,
            controls=scenario.controls,
            probes=scenario.probes,
            abilities=scenario.abilities,
        )
    )
    if going_on is not None:
        emit(going_on.event)
        going_on.tell(run.registry)
    emit(ev.RegimeNoted(regime=prepared.regime))
    if prepared.startup is not None:
        emit(prepared.startup)
    if prepared.calibrated is not None:
        emit(prepared.calibrated)
    for conversation in planned.conversations:
        issue(run, conversation)
    for decoy in planned.decoys:
        event = ev.TagIssued(kind="decoy", session=None, label="", tag=decoy)
        emit(event)
        run.registry.add_issued(event)
    for name, tags in prepared.stale:
        known = ev.TagsKnown(run=name, tags=tags)
        emit(known)
        run.registry.add_known(known)
    for remark in prepared.remarks:
        emit(ev.Noted(text=remark))


def _close_log(run: RunContext) -> None:
    emit, events = run.recorder.emit, run.recorder.written + 1
    match run.stopper.by:
        case None:
            emit(ev.RunEnded(reason="finished", events=events))
        case "internal":
            what = run.faults[0] if run.faults else None
            emit(ev.RunEnded(reason="internal", events=events, detail=one_line(f"{type(what).__name__}: {what}")))
        case "duration" | "server_lost" | "evidence_lost" | "gate" as by:
            emit(ev.RunEnded(reason=by, events=events))
        case by:
            emit(ev.RunEnded(reason="stopped", events=events, detail=by))


async def _end_after_duration(run: RunContext) -> None:
    duration_s = run.scenario.duration_s
    going_on = run.prepared.continued
    if duration_s is not None:
        await anyio.sleep(duration_s - (going_on.elapsed_s if going_on is not None else 0.0))
        run.stopper.ask("duration")


async def _obey_stops(run: RunContext) -> None:
    """Logs each wish to stop and cuts, some seconds after it, what is still open.

    After the duration that happens once, since misses are still asked again then.
    """
    obeyed: StopReason | None = None
    cut_at_s = math.inf
    await run.stopper.event.wait()
    while True:
        by = run.stopper.by
        if by is not None and by != obeyed:
            obeyed, cut_at_s = by, anyio.current_time() + _GRACE_S[by]
            run.recorder.emit(ev.StopAsked(by=by))
        if anyio.current_time() >= cut_at_s:
            cut_at_s = math.inf
            run.cut(for_good=run.stopper.hard)
        await anyio.sleep(_WATCH_S)
