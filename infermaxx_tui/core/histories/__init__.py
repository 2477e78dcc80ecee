"""Logs of runs that never were, healthy by themselves and sick where the caller says: they prove that judges can fail.

A history is a list of events, so that one of them can be changed, taken out or put in; `records` numbers and times it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories.shape import ASK_AT, Ask, Reply, Shape
from infermaxx_tui.core.histories.writer import STEP_US, Writer, records, state_of

__all__ = [
    "ASK_AT",
    "STEP_US",
    "Ask",
    "Reply",
    "Shape",
    "changed",
    "fluent",
    "history",
    "honest",
    "records",
    "state_of",
]

DEFAULT = Shape()
Kind = TypeVar("Kind", bound=e.AnyEvent)


def honest(ask: Ask) -> Reply:
    """A server that remembers and answers what it was asked."""
    if ask.kind == "absent":
        return Reply(content=f"I was not told a lot tag for the {ask.label}.")
    return Reply(content=f"The lot tag for the {ask.label} is {ask.tag}.")


def fluent(session: int, turn: int) -> Reply:
    """A main-line reply like any other."""
    return Reply(content=f"Session {session} looks at file {turn} and goes on.")


def history(
    shape: Shape = DEFAULT,
    answer: Callable[[Ask], Reply] = honest,
    turn: Callable[[int, int], Reply] = fluent,
) -> list[e.AnyEvent]:
    """All events of a run of this shape whose server answers questions and turns as told."""
    writer = Writer(shape, answer, turn)
    writer.start()
    for first in range(0, shape.sessions, shape.at_once):
        writer.wave(range(first, min(first + shape.at_once, shape.sessions)))
    if shape.reask:
        writer.ask_again()
    writer.finish()
    return writer.events


def changed(
    events: Iterable[e.AnyEvent], kind: type[Kind], change: Callable[[Kind], e.AnyEvent | None]
) -> list[e.AnyEvent]:
    """The history with every event of this kind as `change` makes it; None takes it out."""
    made = (change(event) if isinstance(event, kind) else event for event in events)
    return [event for event in made if event is not None]
