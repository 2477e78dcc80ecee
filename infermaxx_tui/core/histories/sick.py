"""What broken servers, networks and instruments write into a log, as edits of a healthy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.event import Hit
from infermaxx_tui.core.gpu import GpuReading
from infermaxx_tui.core.histories.edits import (
    OLD_TAG,
    Change,
    Edit,
    Kind,
    Lines,
    Reply,
    both,
    each,
    events,
    inserted,
    known,
    limits,
    renumbered,
    reply,
    said,
)

_replace = msgspec.structs.replace
_THERMAL: Final = 0x40
"""NVML's bit for a hardware slowdown by heat."""
_SLEPT: Final = e.ClockJumped(kind="suspend", by_ms=60_000.0, since_us=0)

# Replies


def says(text: str) -> Change:
    """The reply says this and nothing else."""
    return lambda it: said(text)


def fields(**values: object) -> Change:
    """The reply with these values."""
    return lambda it: values


def nothing(it: Reply) -> dict[str, object]:
    """The stream ends as it should and has brought nothing."""
    ended = {"finish_reason": "stop", "completion_tokens": 1}
    return {**said(""), "content": None, "tool_args": None, "tool_chars": 0, **ended}


def right(it: Reply) -> dict[str, object]:
    """The tag that was asked for."""
    return said(f"The lot tag is {it.tag}.")


def foreign(it: Reply) -> dict[str, object]:
    """Another session's tag."""
    return said(f"It is {it.known.foreign(it.ended.session)}.")


def foreign_damaged(it: Reply) -> dict[str, object]:
    """Another session's tag with its last symbol changed: no proof of anything any more."""
    return said(f"It is {_other_symbol(it.known.foreign(it.ended.session))}.")


def damaged(it: Reply) -> dict[str, object]:
    """The tag with one symbol changed."""
    return said(f"The lot tag is {_other_symbol(it.tag)}.")


def _other_symbol(tag: str) -> str:
    return tag[:-1] + ("A" if tag[-1:] != "A" else "C")


def other_own(it: Reply) -> dict[str, object]:
    """The tag of another label of the same session."""
    own = it.known.own[it.ended.session]
    return said(f"It is {next((tag for tag in own if tag != it.tag), it.tag)}.")


def in_reasoning(it: Reply) -> dict[str, object]:
    """The right tag, but only in the reasoning."""
    text = f"It is {it.tag}."
    return {"content": None, "content_chars": 0, "reasoning": text, "reasoning_chars": len(text)}


def decoy(it: Reply) -> dict[str, object]:
    """A tag that was never sent anywhere."""
    return said(f"It is {it.known.decoys[0]}.")


def echoed(it: Reply) -> dict[str, object]:
    """The prompt's own text."""
    asked = it.known.asked[it.ended.req]
    planted = f"For the record: the lot tag for the {asked.label} is {asked.tag}. Please repeat it."
    return said(f"{planted} What is the lot tag for the {asked.label}?")


def hit(channel: str) -> Change:
    """Another session's tag was seen in this channel while the reply was received; its text was not kept."""

    def change(it: Reply) -> dict[str, object]:
        tag = it.known.foreign(it.ended.session)
        owner = next(session for session, tags in it.known.own.items() if tag in tags)
        return {"hits": (msgspec.convert({"tag": tag, "kind": "foreign", "owner": owner, "channel": channel}, Hit),)}

    return change


def stale(lines: Lines) -> Lines:
    """An earlier run's tag comes back."""
    told = inserted(e.TagsKnown(run="earlier", tags=(OLD_TAG,)), before=e.SessionStarted)
    return both(told, reply("recall", 5, says(f"It is {OLD_TAG}.")))(lines)


def answers_swapped(lines: Lines) -> Lines:
    """Two sessions get each other's replies."""
    asked = known(lines).asked
    ended = [x for x in events(lines) if isinstance(x, e.RequestEnded) and x.kind == "recall"]
    one = ended[0]
    two = next(x for x in ended if x.session != one.session)
    text = {one.req: asked[two.req].tag, two.req: asked[one.req].tag}
    return each(e.RequestEnded, lambda x: _replace(x, **said(f"It is {text[x.req]}.")) if x.req in text else x)(lines)


def tags_swapped(lines: Lines) -> Lines:
    """Two sessions were given each other's tags, as far as the log knows."""

    def swap(issued: e.TagIssued) -> e.TagIssued:
        other = {0: 1, 1: 0}.get(-1 if issued.session is None else issued.session)
        return issued if issued.kind != "own" or other is None else _replace(issued, session=other)

    return each(e.TagIssued, swap)(lines)


# Requests


def without_requests(chosen: Callable[[Lines], set[int]]) -> Edit:
    """As if these requests had never been sent."""

    def edit(lines: Lines) -> Lines:
        gone = chosen(lines)
        return renumbered(line for line in lines if _request(line) not in gone)

    return edit


def _request(line: e.Record | e.Unknown) -> int | None:
    """The request that a line tells of."""
    match line:
        case e.Record(event=e.RequestStarted(req=req) | e.TagAsked(req=req) | e.QualityAsked(req=req)):
            return req
        case e.Record(event=e.FirstToken(req=req) | e.RequestEnded(req=req) | e.GapNoted(req=req)):
            return req
        case _:
            return None


def nothing_asked(lines: Lines) -> Lines:
    """No question was planned or put, and nobody demands any."""
    none_planned = both(
        each(e.SessionStarted, lambda x: _replace(x, planned_recalls=0)),
        each(e.RunStarted, lambda x: _replace(x, planned_recalls=0)),
        limits(min_recalls=0),
    )
    return none_planned(without_requests(lambda log: set(known(log).asked))(lines))


def of_phase(phase: str) -> Callable[[Lines], set[int]]:
    """Requests of the quality tasks of a phase."""
    return lambda lines: {x.req for x in events(lines) if isinstance(x, e.QualityAsked) and x.phase == phase}


def tasks(phase: str, every: int, **values: object) -> Edit:
    """Every second, third and so on of the answers to the tasks of a phase with these values."""

    def edit(lines: Lines) -> Lines:
        chosen = sorted(of_phase(phase)(lines))[::every]
        return each(e.RequestEnded, lambda x: _replace(x, **values) if x.req in chosen else x)(lines)

    return edit


# The log itself


def half(lines: Lines) -> Lines:
    """The log breaks off in the middle."""
    return lines[: len(lines) // 2]


def line_lost(lines: Lines) -> Lines:
    """One line is gone, and the numbers show it."""
    middle = len(lines) // 2
    return lines[:middle] + lines[middle + 1 :]


def line_damaged(lines: Lines) -> Lines:
    """One line cannot be parsed."""
    middle = len(lines) // 2
    return (*lines[:middle], e.Unknown("invalid", "not JSON"), *lines[middle + 1 :])


def line_of_tomorrow(lines: Lines) -> Lines:
    """One line more, with an event that this version does not know."""
    return (*lines[:-1], e.Unknown("unknown_event", "a newer one"), *lines[-1:])


def wall_clock_off(lines: Lines) -> Lines:
    """The wall clock of the whole run is an hour ahead."""
    return tuple(
        _replace(line, wall_ms=line.wall_ms + 3_600_000) if isinstance(line, e.Record) else line for line in lines
    )


def counted(counts: e.CountsReconciled) -> Edit:
    """The counts of tokens at the end of the run are these."""
    return both(each(e.CountsReconciled, lambda x: None), inserted(counts))


# What moves


def slower(lines: Lines) -> Lines:
    """Each token takes longer the later it comes: by a fifth of its first time each second."""
    return _moved(lines, e.RequestEnded, lambda x, s: _replace(x, decode_ms=(x.decode_ms or 0.0) * (1 + s / 5)))


def growing(lines: Lines) -> Lines:
    """This program takes 1 MiB more each second."""
    return _moved(lines, e.InstrumentRead, lambda x, s: _replace(x, rss_mib=80.0 + s))


def wavering(lines: Lines) -> Lines:
    """This program's memory goes up and down by much more than may be."""
    return _moved(lines, e.InstrumentRead, lambda x, s: _replace(x, rss_mib=80.0 + 50.0 * (round(s * 7) % 5)))


def preempted(lines: Lines) -> Lines:
    """Requests lose their KV between any two readings."""
    return _moved(lines, e.MetricsRead, lambda x, s: _replace(x, preemptions=s * 100))


def held_back(lines: Lines) -> Lines:
    """The server's card says each second that it slows itself down by heat."""
    hot = e.GpuRead(gpus=(GpuReading(gpu=0, reasons=_THERMAL),), server=(0,), window_ms=2000.0)
    out: list[e.Record | e.Unknown] = []
    for line in lines:
        out.append(line)
        if isinstance(line, e.Record) and isinstance(line.event, e.MetricsRead):
            out.append(_replace(line, event=hot))
    return renumbered(out)


def sleeping(most: int) -> Edit:
    """The machine sleeps a minute before each of so many first tokens, and the next reading's wall clock shows it."""

    def edit(lines: Lines) -> Lines:
        out: list[e.Record | e.Unknown] = []
        slept = told = 0
        for line in lines:
            event = line.event if isinstance(line, e.Record) else None
            if isinstance(line, e.Record) and isinstance(event, e.FirstToken) and slept < most:
                slept += 1
                out.append(_replace(line, event=_SLEPT))
            if isinstance(line, e.Record) and isinstance(event, e.InstrumentRead):
                line = _replace(line, event=_replace(event, wall_step_ms=(slept - told) * _SLEPT.by_ms))
                told = slept
            out.append(line)
        return renumbered(out)

    return edit


def alone(lines: Lines) -> Lines:
    """No stream ever says that it began to decode."""
    return each(e.FirstToken, lambda x: None)(lines)


def _moved(lines: Lines, kind: type[Kind], change: Callable[[Kind, float], Kind]) -> Lines:
    """Every event of a kind as `change` makes it of the event and its time in seconds."""
    out: list[e.Record | e.Unknown] = []
    for line in lines:
        if isinstance(line, e.Record) and isinstance(line.event, kind):
            line = _replace(line, event=change(line.event, line.mono_us / 1e6))
        out.append(line)
    return tuple(out)
