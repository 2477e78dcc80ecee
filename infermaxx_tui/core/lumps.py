"""At which moments the events of a reply came: a proxy that fills a buffer before it passes it on makes every time its
own, and neither the text nor the number of tokens shows it.

A server writes an event when it has one, so that events come at the server's pace. Through a buffer they come many at
once, after a silence as long as all of them took, and the buffer's end cuts the last one. One event with many tokens
(speculation, a stream interval) is one event at one moment, and nothing to remark on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import sub
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    Moments = array[int]
else:
    Moments = array  # before Python 3.12 an array takes no parameter when the program runs

LEAST_EVENTS: Final = 8
"""A reply with fewer events does not say how they travel."""
LEAST_WAIT_US: Final = 10_000
"""Shorter silences are a network's and a busy client's own, and harm no time by more than that."""
_WAIT_PACES: Final = 1.5
"""A lump follows a silence of more than this many of the reply's mean gaps between events."""
_NEAR_PACES: Final = 0.25
"""Reads that follow one another faster than this share of the mean gap are one moment."""
_NEAR_LEAST_US: Final = 200
_NEAR_MOST_US: Final = 5_000
_LUMPED: Final = 0.75
"""Share of a reply's events that came in lumps from which on the reply was held back."""
_MOST_ODD: Final = 4096
"""Odd reads of one reply that are kept, so that a server cannot fill the memory with bytes sent one by one."""


class OddRead(NamedTuple):
    """A read that brought no whole event, or several."""

    at_us: int
    events: int
    size: int | None
    """Bytes of the body; None of one that brought one event, whose size nobody kept."""
    torn: bool
    """The last event in it goes on in the next read."""


class Reads:
    """The reads of one reply, fed on the hot path: one that brings one event leaves its moment alone."""

    __slots__ = ("odd", "plain_us")

    def __init__(self) -> None:
        self.plain_us: Moments = array("q")
        self.odd: list[OddRead] = []

    def note_odd(self, read: OddRead) -> None:
        """A read that brought no whole event, or several."""
        if len(self.odd) < _MOST_ODD:
            self.odd.append(read)

    def arrivals(self, first_us: int | None, last_us: int | None) -> Arrivals | None:
        """How the events between the first token and the last one came; None without a token."""
        if first_us is None or last_us is None:
            return None
        if len(self.odd) == _MOST_ODD:
            last_us = min(last_us, self.odd[-1].at_us)
        plain_us = [at_us for at_us in self.plain_us if first_us <= at_us <= last_us]
        odd = [read for read in self.odd if first_us <= read.at_us <= last_us]
        if not any(read.events > 1 and read.at_us < last_us for read in odd) and _apart(plain_us):
            events = len(plain_us) + sum(read.events for read in odd)
            return Arrivals(events=events, moments=len(plain_us) + any(read.events for read in odd))
        reads = sorted([*(OddRead(at_us, 1, None, False) for at_us in plain_us), *odd], key=_moment)
        if not any(read.events for read in reads):
            return None
        return _arrivals(reads, min(read.at_us for read in (*self.odd, *reads)) >= first_us)


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """How the events of a reply came."""

    events: int
    """From the first token to the last."""
    moments: int
    """At which they came."""
    lumped: int = 0
    """Events that came together with others at the beginning or after a silence that is longer than the pace."""
    waits: int = 0
    """Such silences."""
    torn: int = 0
    """Those of them that began inside an event: no server stops there, and a full buffer does."""
    wait_ms: float | None = None
    """Their median; None without any."""
    lump_bytes: int | None = None
    """Median size of the lumps between the first and the last; None where there are none."""
    first_bytes: int | None = None
    """Size of the first lump, where the body begins with it and half an event ends it.

    No buffer on the way is larger by more than the answer's head, which it may hold too.
    """

    @property
    def held(self) -> bool:
        """Whether the reply came in lumps, whoever made them."""
        return self.events >= LEAST_EVENTS and 2 * self.moments <= self.events and self.lumped >= _LUMPED * self.events


class _Lump(NamedTuple):
    """Reads that came at one moment."""

    events: int
    size: int | None
    """None where it holds a read whose size nobody kept."""
    wait_us: int
    """The silence before it; 0 before the first."""
    cut: bool
    """That silence began inside an event."""


def _apart(moments_us: Sequence[int]) -> bool:
    """Whether no two reads are one moment: true of most replies, and found out fast."""
    if len(moments_us) < 2:
        return len(moments_us) == 1
    pace_us = (moments_us[-1] - moments_us[0]) / (len(moments_us) - 1)
    nearest_us: int = min(map(sub, moments_us[1:], moments_us))
    return nearest_us > _near_us(pace_us)


def _near_us(pace_us: float) -> float:
    return min(max(_NEAR_PACES * pace_us, _NEAR_LEAST_US), _NEAR_MOST_US)


def _moment(read: OddRead) -> int:
    return read.at_us


def _arrivals(reads: Sequence[OddRead], from_the_beginning: bool) -> Arrivals:
    events = sum(read.events for read in reads)
    later = events - reads[0].events
    pace_us = (reads[-1].at_us - reads[0].at_us) / later if later > 0 else 0.0
    together = _moments(reads, _near_us(pace_us))
    least_us = max(_WAIT_PACES * pace_us, LEAST_WAIT_US)
    waited = [lump for lump in together[1:] if lump.events > 1 and lump.wait_us >= least_us]
    first = together[0].events if together[0].events > 1 else 0
    sizes = [lump.size for lump in waited if lump is not together[-1] and lump.size is not None]
    cut_first = bool(waited) and waited[0] is together[1] and waited[0].cut
    return Arrivals(
        events=events,
        moments=len(together),
        lumped=first + sum(lump.events for lump in waited),
        waits=len(waited),
        torn=sum(lump.cut for lump in waited),
        wait_ms=median(lump.wait_us for lump in waited) / 1000 if waited else None,
        lump_bytes=round(median(sizes)) if sizes else None,
        first_bytes=together[0].size if from_the_beginning and cut_first else None,
    )


def _moments(reads: Sequence[OddRead], near_us: float) -> list[_Lump]:
    """The reads, those that follow one another closely taken together."""
    number, numbers = 0, [0]
    for before, read in pairwise(reads):
        number += read.at_us - before.at_us > near_us
        numbers.append(number)
    lumps: list[_Lump] = []
    last: OddRead | None = None
    for _, group in groupby(zip(numbers, reads, strict=True), key=lambda pair: pair[0]):
        some = [read for _, read in group]
        wait_us, cut = (0, False) if last is None else (some[0].at_us - last.at_us, last.torn)
        lumps.append(_Lump(sum(read.events for read in some), _size(some), wait_us, cut))
        last = some[-1]
    return lumps


def _size(reads: Sequence[OddRead]) -> int | None:
    sizes = [read.size for read in reads if read.size is not None]
    return sum(sizes) if len(sizes) == len(reads) else None
