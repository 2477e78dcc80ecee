"""The conversations of one wave beside one another, and the one that an earlier run is played by."""

from __future__ import annotations

from functools import partial

import anyio

from infermaxx_tui.core.plan import ConversationPlan, SubagentPlan
from infermaxx_tui.core.replaying import subagent_conversation
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question, tag_repeat, tag_statement
from infermaxx_tui.runner import dispatch
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.conversation import Conversation
from infermaxx_tui.runner.crew import Crew
from infermaxx_tui.runner.exchange import Order, Sender
from infermaxx_tui.runner.lines import ChatLine, Line, Prompt, TokenLine
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.trace_line import TraceLine
from infermaxx_tui.runner.turn_taking import Ring, Seat


async def play_wave(run: RunContext, streams: Streams, wave: tuple[ConversationPlan, ...]) -> None:
    """Returns when all conversations are over. A fault of this program in one of them ends the run, not the others.

    In the serial control they take turns, and a ramp means nothing.
    """
    meeting, ring = Meeting(len(wave)), Ring(len(wave))
    in_turns = run.prepared.plan.interleaved is not None

    began_us = run.recorder.clock.mono_us()

    async def one(plan: ConversationPlan) -> None:
        dispatch.begin(began_us)
        if in_turns:
            seat = Seat(run, streams, ring, plan.place, meeting)
            try:
                crew = Crew(plan, partial(_play_subagent, run, seat, plan), None)
                await Conversation(run, seat, plan, conversation_line(run), seat, crew).run()
            finally:
                seat.over()
            return
        delay_s = plan.place * run.scenario.sessions.ramp_s
        if delay_s and await run.stopped_within(delay_s):
            meeting.leave()
            return
        async with anyio.create_task_group() as beside:
            crew = Crew(plan, partial(_play_subagent, run, streams, plan), beside)
            # guarded inside the group too, which would wrap a fault of ours into one of its own
            await run.guard(Conversation(run, streams, plan, conversation_line(run), meeting, crew).run)

    async with anyio.create_task_group() as group:
        for plan in wave:
            group.start_soon(run.guard, lambda plan=plan: one(plan))


async def _play_subagent(
    run: RunContext, sender: Sender, under: ConversationPlan, subagent: SubagentPlan, crew: Crew
) -> None:
    """Plays a subagent from its own first prompt to its end."""
    dispatch.begin(run.recorder.clock.mono_us())
    plan = subagent_conversation(under, subagent)
    played = Conversation(run, sender, plan, conversation_line(run), Meeting(1), crew)
    await run.guard(played.run)


def conversation_line(run: RunContext) -> Line:
    """A line for a conversation of the plan; one of made text where its transcript is a trace without any."""
    renderer = run.prepared.renderer
    if run.prepared.traces and renderer is not None:
        live = run.scenario.sessions.replies == "live"
        return TraceLine(renderer, run.scenario.canaries.thinking == "off", live)
    return new_line(run)


def new_line(run: RunContext) -> Line:
    """A line without a turn. Renders nothing yet."""
    scenario, renderer = run.scenario, run.prepared.renderer
    close_thinking = scenario.canaries.thinking == "off"
    if scenario.sessions.prompt == "chat":
        return ChatLine(renderer, scenario.sessions.replies == "live", close_thinking)
    if renderer is None:
        raise ValueError("token-id replay without a tokenizer")
    return TokenLine(renderer, close_thinking)


async def play_earlier(run: RunContext, streams: Streams) -> None:
    """Sends an earlier run's tags to a server that this run started, so that an old cache has something to give."""
    for label, tag in run.prepared.earlier:
        if run.stopper.by is not None:
            return
        await streams.send(
            Order(
                prompt=await run.render(_told_and_asked, new_line(run), label, tag),
                session=-1,
                turn=0,
                kind="warmup",
                max_tokens=run.scenario.canaries.max_tokens,
            )
        )


def _told_and_asked(line: Line, label: str, tag: str) -> Prompt:
    line.begin((Message("user", tag_statement(label, tag)),), "")
    line.close_with(Message("assistant", tag_repeat(label, tag)))
    return line.branch(recall_question(label))
