"""Which conversation runs on which of the streams that run at once: what one line over a whole run can show."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

MAX_LANES = 1024
"""Conversations at once that get a lane; a log in which more begin and never end gets no more."""

Stay = tuple[int, int]
"""(log time from which on, conversation)."""


@dataclass(slots=True)
class Lanes:
    """A conversation takes the lowest lane that is free, and gives it back when it ends."""

    _stays: list[list[Stay]] = field(default_factory=list)
    _free: list[int] = field(default_factory=list)
    _of: dict[int, int] = field(default_factory=dict)

    def take(self, session: int, at_us: int) -> None:
        """A conversation begins."""
        if session in self._of:
            return
        if self._free:
            lane = heappop(self._free)
        elif len(self._stays) < MAX_LANES:
            lane = len(self._stays)
            self._stays.append([])
        else:
            return
        self._of[session] = lane
        self._stays[lane].append((at_us, session))

    def leave(self, session: int) -> None:
        """A conversation is over."""
        lane = self._of.pop(session, None)
        if lane is not None:
            heappush(self._free, lane)

    def restart(self) -> None:
        """A new segment begins: what was running is over."""
        for session in tuple(self._of):
            self.leave(session)

    def all(self) -> tuple[tuple[Stay, ...], ...]:
        """For each lane its conversations, in order."""
        return tuple(tuple(stays) for stays in self._stays)
