"""Asks the quality tasks with nothing beside: before the conversations, after them, and those that went wrong again."""

from __future__ import annotations

from functools import partial
from typing import Literal

from infermaxx_tui.core.quality.task import Task
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.insisting import insisted
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.wave import new_line

_BETWEEN_SESSION = -1
"""No conversation of the run."""
_OPENING = ("I have a short question with one right answer.", "Go ahead.")
"""Both set phases ask in a side branch of this, as those under load ask in a side branch of their conversation."""


async def ask_alone(run: RunContext, streams: Streams, phase: Literal["before", "after"]) -> None:
    """The whole set, one after another; only the end of the duration does not keep a run from it."""
    if phase not in run.quality.when:
        return
    for task in run.quality.tasks:
        if run.stopper.hard:
            return
        prompt = await run.render(_branch, new_line(run), task)
        announced = run.quality.announcing(task, phase, prompt.known_tokens, _BETWEEN_SESSION)
        order = Order(
            prompt=prompt,
            session=_BETWEEN_SESSION,
            turn=0,
            kind="quality",
            max_tokens=run.quality.max_tokens,
            keep_text=True,
            announced=announced,
        )
        if not await insisted(run, partial(streams.send, order)):
            return


def _branch(line: Line, task: Task) -> Prompt:
    line.begin((Message("user", _OPENING[0]),), "")
    line.close_with(Message("assistant", _OPENING[1]))
    return line.branch(task.question)


async def ask_wrong_again(run: RunContext, streams: Streams) -> None:
    """Each task that was answered wrongly under load: the same ids, nothing beside, salted."""
    for wrong in run.quality.wrong:
        if run.stopper.hard:
            return
        kept = wrong.kept
        order = Order(
            prompt=kept.prompt,
            session=kept.session,
            turn=kept.turn,
            kind="quality",
            max_tokens=run.quality.max_tokens,
            salt=f"{run.prepared.nonce}-quality-{wrong.wave}-{wrong.task.task}",
            keep_text=True,
            announced=run.quality.announcing(wrong.task, "alone", wrong.depth_tokens, kept.session, wrong.wave),
        )
        if not await insisted(run, partial(streams.send, order)):
            return
