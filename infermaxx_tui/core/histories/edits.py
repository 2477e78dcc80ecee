"""Changes to the lines of a log, of a made-up run or of a recorded one: what a broken server or instrument would write.

An edit picks its events by what they are, never by their place in one certain log, so that it fits every healthy one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.canary import make_tags

Line = e.Record | e.Unknown
Lines = tuple[Line, ...]
Edit = Callable[[Lines], Lines]
Kind = TypeVar("Kind", bound=e.AnyEvent)
Change = Callable[["Reply"], dict[str, object]]
"""A reply -> the fields that become different."""

OLD_TAG = make_tags(99, "an earlier run", 1)[0]
"""A tag that no run of this program issues now."""


class Known(msgspec.Struct, frozen=True):
    """What a log says of tags and questions."""

    own: dict[int, tuple[str, ...]]
    """Of each session."""
    decoys: tuple[str, ...]
    asked: dict[int, e.TagAsked]
    """By request."""

    def foreign(self, session: int) -> str:
        """A tag of another session; its own where there is no other."""
        return next((tags[0] for other, tags in self.own.items() if other != session), self.own[session][0])


class Reply(msgspec.Struct, frozen=True):
    """A reply that is to be changed, with what its log says of the question."""

    ended: e.RequestEnded
    known: Known

    @property
    def tag(self) -> str:
        """The tag that was asked for; empty if none was."""
        asked = self.known.asked.get(self.ended.req)
        return asked.tag if asked is not None else ""


def known(lines: Lines) -> Known:
    """Tags and questions of a log."""
    own: dict[int, list[str]] = {}
    decoys, asked = [], {}
    for event in events(lines):
        match event:
            case e.TagIssued(kind="own", session=int(session), tag=tag):
                own.setdefault(session, []).append(tag)
            case e.TagIssued(kind="decoy", tag=tag):
                decoys.append(tag)
            case e.TagAsked():
                asked[event.req] = event
            case _:
                pass
    return Known({session: tuple(tags) for session, tags in own.items()}, tuple(decoys), asked)


def events(lines: Iterable[Line]) -> list[e.AnyEvent]:
    """The events of the lines that can be read."""
    return [line.event for line in lines if isinstance(line, e.Record)]


def renumbered(lines: Iterable[Line]) -> Lines:
    """The lines numbered without a gap, as a writer does it."""
    return tuple(
        msgspec.structs.replace(line, seq=seq) if isinstance(line, e.Record) and line.seq != seq else line
        for seq, line in enumerate(lines)
    )


def each(kind: type[Kind], change: Callable[[Kind], e.AnyEvent | None]) -> Edit:
    """Every event of a kind as `change` makes it; None takes it out."""

    def edit(lines: Lines) -> Lines:
        out: list[Line] = []
        for line in lines:
            if isinstance(line, e.Record) and isinstance(line.event, kind):
                made = change(line.event)
                if made is None:
                    continue
                line = line if made is line.event else msgspec.structs.replace(line, event=made)
            out.append(line)
        return renumbered(out)

    return edit


def nth(kind: type[Kind], number: int, change: Callable[[Kind], e.AnyEvent | None]) -> Edit:
    """The event of a kind with this number, from the end if negative, as `change` makes it; None takes it out."""

    def edit(lines: Lines) -> Lines:
        one = [event for event in events(lines) if isinstance(event, kind)][number]
        return each(kind, lambda event: change(event) if event is one else event)(lines)

    return edit


def with_fields(kind: type[Kind], number: int, **fields: object) -> Edit:
    """One event with other values in some fields."""
    return nth(kind, number, lambda event: msgspec.structs.replace(event, **fields))


def without(kind: type[Kind], number: int | None = None) -> Edit:
    """The log without one event of a kind, or without all of them."""
    return each(kind, lambda event: None) if number is None else nth(kind, number, lambda event: None)


def reply(kind: e.RequestKind, number: int | None, change: Change) -> Edit:
    """One whole reply of a kind changed in the fields that `change` names; all of them if the number is None."""

    def edit(lines: Lines) -> Lines:
        facts = known(lines)
        ended = [x for x in events(lines) if isinstance(x, e.RequestEnded) and x.kind == kind and x.outcome == "ok"]
        chosen = {x.req for x in (ended if number is None else [ended[number]])}
        return each(
            e.RequestEnded,
            lambda x: msgspec.structs.replace(x, **change(Reply(x, facts))) if x.req in chosen else x,
        )(lines)

    return edit


def said(text: str) -> dict[str, object]:
    """Fields of a reply that says this and nothing else."""
    return {"content": text, "content_chars": len(text), "reasoning": None, "reasoning_chars": 0}


def inserted(*new: e.AnyEvent, before: type[e.AnyEvent] = e.RunEnded) -> Edit:
    """Events put in before the first of a kind, at its time."""

    def edit(lines: Lines) -> Lines:
        for place, line in enumerate(lines):
            if isinstance(line, e.Record) and isinstance(line.event, before):
                made = [msgspec.structs.replace(line, event=event) for event in new]
                return renumbered((*lines[:place], *made, *lines[place:]))
        return lines

    return edit


def limits(**fields: object) -> Edit:
    """The first line demands something else."""
    return nth(
        e.RunStarted, 0, lambda run: msgspec.structs.replace(run, limits=msgspec.structs.replace(run.limits, **fields))
    )


def regime(**fields: object) -> Edit:
    """The run ran on something else."""
    return nth(e.RegimeNoted, 0, lambda one: e.RegimeNoted(regime=msgspec.structs.replace(one.regime, **fields)))


def both(*edits: Edit) -> Edit:
    """One edit after another."""

    def edit(lines: Lines) -> Lines:
        for one in edits:
            lines = one(lines)
        return lines

    return edit


def differences(before: Lines, after: Lines) -> int:
    """By how many events two logs differ: changed, put in or taken out, where one stretch holds all of it."""
    a, b = (tuple(line.event if isinstance(line, e.Record) else line for line in lines) for lines in (before, after))
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    return max(len(a), len(b)) - start - end
