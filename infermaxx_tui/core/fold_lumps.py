"""How the replies of a log travelled: event by event, or in lumps that somebody on the way made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core.events import RequestEnded
from infermaxx_tui.core.lumps import LEAST_EVENTS
from infermaxx_tui.core.stats import LogHistogram

_STEP_BYTES: Final = 256
"""Sizes of lumps are counted to this."""
_LARGEST_BYTES: Final = 1 << 20
"""Larger ones are counted as this one."""


class Travel(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the way between server and client."""

    replies: int = 0
    """Replies with enough events to show how they came."""
    held: int = 0
    """Those of them that came in lumps."""
    again: int = 0
    """Those of these with more than one silence before a lump."""
    cut: int = 0
    """Those of these whose lumps ended inside an event, where no server stops."""
    waits: int = 0
    """Silences before lumps in all of them."""
    cuts: int = 0
    """Those of them that began inside an event."""
    wait_ms: float | None = None
    """The median of the replies' median silences; None without any."""
    lump_bytes: int | None = None
    """The most frequent size of a lump; None where no reply had one between its first and its last."""
    most_bytes: int | None = None
    """No buffer on the way is larger than this and an answer's head; None where no reply began with a lump that ends
    inside an event."""


@dataclass(slots=True)
class Travels:
    """The same, summed up; of constant size."""

    replies: int = 0
    held: int = 0
    again: int = 0
    cut: int = 0
    waits: int = 0
    cuts: int = 0
    times: LogHistogram = field(default_factory=LogHistogram)
    sizes: dict[int, int] = field(default_factory=dict)
    most_bytes: int | None = None

    def ended(self, event: RequestEnded) -> None:
        """A reply that came whole and is long enough to show it."""
        came = event.arrivals
        if came is None or event.outcome != "ok" or came.events < LEAST_EVENTS:
            return
        self.replies += 1
        if not came.held:
            return
        self.held += 1
        self.again += came.waits > 1
        self.waits += came.waits
        self.cuts += came.torn
        self.cut += came.torn > 0
        if came.wait_ms is not None and 0 <= came.wait_ms < math.inf:
            self.times.add(came.wait_ms)
        if came.first_bytes is not None:
            self.most_bytes = min(came.first_bytes, self.most_bytes or came.first_bytes)
        if came.lump_bytes is not None:
            size = min(round(came.lump_bytes / _STEP_BYTES) * _STEP_BYTES, _LARGEST_BYTES)
            self.sizes[size] = self.sizes.get(size, 0) + 1

    def travel(self) -> Travel:
        """What was seen so far."""
        return Travel(
            replies=self.replies,
            held=self.held,
            again=self.again,
            cut=self.cut,
            waits=self.waits,
            cuts=self.cuts,
            wait_ms=self.times.quantile(0.5),
            lump_bytes=max(self.sizes, key=lambda size: (self.sizes[size], size), default=None),
            most_bytes=self.most_bytes,
        )
