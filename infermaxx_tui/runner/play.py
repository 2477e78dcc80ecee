"""A whole run: its first line, its waves of conversations, the questions asked again, its last line."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from collections.abc import Awaitable, Callable

import anyio
import httpx

import infermaxx_tui
from infermaxx_tui.core import events as ev
from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question, tag_repeat, tag_statement
from infermaxx_tui.runner.context import Prepared, RunContext, Stopper
from infermaxx_tui.runner.conversation import Conversation
from infermaxx_tui.runner.lines import ChatLine, Line, TokenLine
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.reask import ask_misses_again
from infermaxx_tui.runner.reconcile import reconcile
from infermaxx_tui.runner.recorder import Recorder, Sink
from infermaxx_tui.runner.clock import Clock
from infermaxx_tui.runner.sampling import InstrumentWatch, beats, flush_beat, healthy, scrape, watch_metrics, watch_stalls
from infermaxx_tui.runner.stream import Streams

_GRACE_S = {"sigint": 3.0, "sigterm": 3.0, "sighup": 3.0, "evidence_lost": 0.0, "duration": 60.0}
"""Seconds that open requests may still take after a wish to stop; SIGTERM must be over within 10 s."""
_RETURN_TRIES = 3
_RETURN_WAIT_S = 0.5


async def play(
    prepared: Prepared,
    run_id: str,
    client: httpx.AsyncClient,
    sink: Sink,
    clock: Clock,
    stopper: Stopper,
    spare: Callable[[], Sink | None] = lambda: None,
) -> RunState:
    """The state of the run when its last line is written. `stopper` may be asked to stop at any time.

    `spare` gives a place for the last lines when `sink` takes no more.
    """

    def lost() -> None:
        stopper.ask("evidence_lost")

    recorder = Recorder(sink, clock, lost, spare)
    run = RunContext(prepared, client, recorder, stopper)
    streams = Streams(run)
    _open_log(run, run_id)
    async with anyio.create_task_group() as background:
        baseline = await scrape(run)
        recorder.emit(baseline)
        instrument = InstrumentWatch(run)
        for task in (beats, watch_stalls, watch_metrics, _end_after_duration, _cancel_after_grace):
            background.start_soon(task, run)
        background.start_soon(instrument.run)
        await _earlier_conversations(run, streams)
        for wave in prepared.plan.waves:
            if stopper.by is None and await _server_is_there(run):
                await _play_wave(run, streams, wave)
        await ask_misses_again(run, streams)
        await reconcile(run, streams, baseline)
        background.cancel_scope.cancel()
    instrument.flush()
    flush_beat(run, recorder.clock.mono_us())
    _close_log(run)
    return recorder.fold.snapshot()


def _open_log(run: RunContext, run_id: str) -> None:
    prepared, emit = run.prepared, run.recorder.emit
    scenario, planned = prepared.scenario, prepared.plan
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
            sessions=len(planned.conversations),
            at_once=planned.at_once,
            planned_recalls=planned.planned_recalls,
        )
    )
    emit(ev.RegimeNoted(regime=prepared.regime))
    for conversation in planned.conversations:
        for issued in _issued(conversation):
            emit(issued)
            run.registry.add_issued(issued)
    for decoy in planned.decoys:
        event = ev.TagIssued(kind="decoy", session=None, label="", tag=decoy)
        emit(event)
        run.registry.add_issued(event)
    for name, tags in prepared.stale:
        known = ev.TagsKnown(run=name, tags=tags)
        emit(known)
        run.registry.add_known(known)


def _issued(conversation: ConversationPlan) -> list[ev.TagIssued]:
    session = conversation.session
    own = [ev.TagIssued(kind="own", session=session, label=t.label, tag=t.tag) for t in conversation.tags]
    for ask in conversation.asks:
        for question in ask.questions:
            if question.kind == "tail":
                own.append(ev.TagIssued(kind="tail", session=session, label=question.label, tag=question.tag))
            elif question.kind == "absent":
                own.append(ev.TagIssued(kind="absent", session=session, label=question.label, tag=""))
    return own


def _close_log(run: RunContext) -> None:
    recorder = run.recorder
    match run.stopper.by:
        case None:
            recorder.emit(ev.RunEnded(reason="finished", events=recorder.written + 1))
        case "duration" | "server_lost" | "evidence_lost" | "internal" as by:
            recorder.emit(ev.RunEnded(reason=by, events=recorder.written + 1))
        case by:
            recorder.emit(ev.RunEnded(reason="stopped", events=recorder.written + 1, detail=by))


async def _play_wave(run: RunContext, streams: Streams, wave: tuple[ConversationPlan, ...]) -> None:
    meeting = Meeting(len(wave))
    async with anyio.create_task_group() as group:
        for plan in wave:
            conversation = Conversation(run, streams, plan, _line(run), meeting)
            group.start_soon(_start_later, conversation.run, plan.place * run.scenario.sessions.ramp_s)


async def _start_later(start: Callable[[], Awaitable[None]], delay_s: float) -> None:
    if delay_s:
        await anyio.sleep(delay_s)
    await start()


def _line(run: RunContext) -> Line:
    scenario, renderer = run.scenario, run.prepared.renderer
    if scenario.sessions.prompt == "tokens":
        if renderer is None:
            raise ValueError("token-id replay without a tokenizer")
        return TokenLine(renderer, close_thinking=scenario.canaries.thinking == "off")
    return ChatLine(renderer, live=scenario.sessions.replies == "live")


async def _earlier_conversations(run: RunContext, streams: Streams) -> None:
    """Sends an earlier run's tags to a server that this run started, so that an old cache has something to give."""
    for label, tag in run.prepared.earlier:
        line = _line(run)
        line.begin((Message("user", tag_statement(label, tag)),), "")
        line.close_with(Message("assistant", tag_repeat(label, tag)))
        await streams.send(
            line.branch(recall_question(label)),
            session=-1,
            turn=0,
            kind="warmup",
            max_tokens=run.scenario.canaries.max_tokens,
            salt=None,
            asked=None,
            keep_text=False,
        )


async def _server_is_there(run: RunContext) -> bool:
    """False, and the run is asked to stop, when a server that had answered is gone for good."""
    if not run.tokens_seen:
        return True
    for _ in range(_RETURN_TRIES):
        if await healthy(run.client):
            return True
        await anyio.sleep(_RETURN_WAIT_S)
    run.stop("server_lost")
    return False


async def _end_after_duration(run: RunContext) -> None:
    duration_s = run.scenario.duration_s
    if duration_s is not None:
        await anyio.sleep(duration_s)
        run.stop("duration")


async def _cancel_after_grace(run: RunContext) -> None:
    """Cuts what is still open some seconds after a wish to stop."""
    await run.stopper.event.wait()
    await anyio.sleep(_GRACE_S.get(run.stopper.by or "", 3.0))
    run.closing = True
    for stream in list(run.board.streams.values()):
        stream.scope.cancel()
