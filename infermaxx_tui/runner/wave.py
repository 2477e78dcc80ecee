"""The conversations of one wave beside one another, and the one that an earlier run is played by."""

from __future__ import annotations

import anyio

from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question, tag_repeat, tag_statement
from infermaxx_tui.runner import dispatch
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.conversation import Conversation
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.lines import ChatLine, Line, Prompt, TokenLine
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.stream import Streams


async def play_wave(run: RunContext, streams: Streams, wave: tuple[ConversationPlan, ...]) -> None:
    """Returns when all conversations are over. A fault of this program in one of them ends the run, not the others."""
    meeting = Meeting(len(wave))

    began_us = run.recorder.clock.mono_us()

    async def one(plan: ConversationPlan) -> None:
        dispatch.begin(began_us)
        delay_s = plan.place * run.scenario.sessions.ramp_s
        if delay_s and await run.stopped_within(delay_s):
            meeting.leave()
            return
        await Conversation(run, streams, plan, new_line(run), meeting).run()

    async with anyio.create_task_group() as group:
        for plan in wave:
            group.start_soon(run.guard, lambda plan=plan: one(plan))


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
