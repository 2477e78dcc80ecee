"""Histories of quality tasks: a healthy run with tasks asked before, during and after it, and any answer to them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events_quality import QualityPhase
from infermaxx_tui.core.histories import Shape, history
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.quality.task import Task
from infermaxx_tui.core.quality.tasks import tasks

Answer = Callable[[str, int, Task], e.RequestEnded | str | None]
"""Phase, place of the task in the set and the task; a text is a whole reply, None: never asked."""

SET = tasks(11)


def honest(phase: str, place: int, task: Task) -> str:
    """The right answer to everything."""
    return f"Let me see.\nAnswer: {task.expected}"


def wrong(task: Task) -> str:
    """A whole reply with a wrong answer."""
    return f"Answer: not {task.expected}"


def ended(content: str | None = "Answer: 0", outcome: e.Outcome = "ok", **facts: object) -> e.RequestEnded:
    """How a request to a task ended; its number and session are set later."""
    plain = e.RequestEnded(
        req=0,
        session=-1,
        turn=0,
        kind="quality",
        outcome=outcome,
        finish_reason="stop" if outcome == "ok" else None,
        max_tokens=2048,
        prompt_tokens=100,
        completion_tokens=20,
        content=content,
        content_chars=len(content or ""),
    )
    return msgspec.structs.replace(plain, **facts)


def asked(phase: QualityPhase, wave: int, req: int, session: int, task: Task) -> list[e.AnyEvent]:
    """A task goes out and its first token comes."""
    return [
        e.RequestStarted(req=req, session=session, turn=0, kind="quality", prompt_tokens=100, max_tokens=2048),
        e.QualityAsked(
            req=req,
            session=session,
            phase=phase,
            wave=wave,
            task=task.task,
            question=task.question,
            form=task.form,
            expected=task.expected,
            tolerance=task.tolerance,
            units=task.units,
            depth_tokens=100,
        ),
        e.FirstToken(req=req, session=session, ttft_ms=5.0),
    ]


class _Numbers:
    def __init__(self) -> None:
        self.req = 100_000

    def next(self) -> int:
        self.req += 1
        return self.req


def phase_events(numbers: _Numbers, phase: QualityPhase, wave: int, answer: Answer, sessions: int) -> list[e.AnyEvent]:
    """All tasks of a phase, so many at once as there are sessions; one session: nothing beside."""
    out: list[e.AnyEvent] = []
    for first in range(0, len(SET), sessions):
        open_: list[e.RequestEnded] = []
        for place, task in enumerate(SET[first : first + sessions], first):
            said = answer(phase, place, task)
            if said is None:
                continue
            session = place % sessions if phase in ("during", "alone") else -1
            reply = ended(said) if isinstance(said, str) else said
            reply = msgspec.structs.replace(reply, req=numbers.next(), session=session)
            out += asked(phase, wave, reply.req, session, task)
            open_.append(reply)
        out += open_
    return out


def quality_run(
    answer: Answer = honest,
    *,
    when: tuple[QualityPhase, ...] = ("before", "during", "after"),
    limits: Limits | None = None,
    at_once: int = 3,
    waves: int = 1,
    alone: bool = False,
) -> list[e.AnyEvent]:
    """A healthy history in which quality tasks are asked too."""
    events, numbers = list(history(Shape())), _Numbers()
    first = events[0]
    assert isinstance(first, e.RunStarted)
    first = msgspec.structs.replace(
        first, quality_tasks=len(SET), quality_when=tuple(one for one in when if one != "alone")
    )
    if limits is not None:
        first = msgspec.structs.replace(first, limits=limits)
    last = next(n for n, event in enumerate(events) if isinstance(event, e.RunEnded))
    before = phase_events(numbers, "before", -1, answer, 1) if "before" in when else []
    after = phase_events(numbers, "after", -1, answer, 1) if "after" in when else []
    during: list[e.AnyEvent] = []
    for wave in range(waves if "during" in when else 0):
        during += phase_events(numbers, "during", wave, answer, at_once)
    again = phase_events(numbers, "alone", 0, answer, 1) if alone else []
    start = next(n for n, event in enumerate(events) if isinstance(event, e.SessionStarted))
    return [first, *events[1:start], *before, *events[start:last], *during, *after, *again, *events[last:]]
