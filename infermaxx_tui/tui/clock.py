"""Which moment of a run is looked at, how much time around it is shown, and how fast it plays: view state alone.

All times are log time in microseconds since the first line.
"""

from __future__ import annotations

from typing import Final

import msgspec

SECOND: Final = 1_000_000
WINDOWS_S: Final = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 86_400, 259_200)
"""Lengths of the time axis."""
LIVE_WINDOW_S: Final = 600
"""The longest axis that is taken by itself while a run is followed."""
SPEEDS: Final = (1, 2, 5, 10, 20, 30, 60)


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The moment, the axis and the speed."""

    at_us: int | None = None
    """None follows the end."""
    from_us: int = 0
    """Where the axis begins while the moment stands inside it."""
    window_s: int | None = None
    """As chosen; None takes one that fits."""
    speed: int = 1
    playing: bool = False

    def moment(self, end_us: int) -> int:
        """The moment that is looked at."""
        return end_us if self.at_us is None else min(self.at_us, end_us)

    def window_us(self, end_us: int, live: bool) -> int:
        """Length of the axis; one that is not chosen shows the whole run, or the newest part of one that goes on."""
        if self.window_s is not None:
            return self.window_s * SECOND
        if live and self.at_us is None:
            return next(w for w in WINDOWS_S if w * SECOND >= end_us or w >= LIVE_WINDOW_S) * SECOND
        return max(-(-end_us // SECOND), WINDOWS_S[0]) * SECOND

    def settled(self, end_us: int, live: bool) -> Clock:
        """The same with an axis that holds the moment."""
        window, at = self.window_us(end_us, live), self.moment(end_us)
        if self.at_us is None:
            return msgspec.structs.replace(self, from_us=max(end_us - window, 0))
        if self.from_us <= at <= self.from_us + window:
            return self
        start = min(max(at - window // 2, 0), max(end_us - window, 0))
        return msgspec.structs.replace(self, from_us=start)

    def to(self, at_us: int, end_us: int) -> Clock:
        """At that moment, within the run; whoever moves by hand does not play on."""
        return msgspec.structs.replace(self, at_us=min(max(at_us, 0), end_us), playing=False)

    def by(self, delta_us: int, end_us: int) -> Clock:
        """So much later, or earlier; a step beyond the end follows it."""
        at = self.moment(end_us) + delta_us
        return self.follow() if at > end_us else self.to(at, end_us)

    def follow(self) -> Clock:
        """At the end, also while it moves on."""
        return msgspec.structs.replace(self, at_us=None, playing=False)

    def play(self, end_us: int) -> Clock:
        """Playing, or no more. From the end it plays from the start."""
        if self.playing:
            return msgspec.structs.replace(self, playing=False)
        at = self.moment(end_us)
        return msgspec.structs.replace(self, at_us=0 if at >= end_us else at, playing=True)

    def ticked(self, passed_us: int, end_us: int) -> Clock:
        """After so much real time; playing ends at the end of the log."""
        if not self.playing or self.at_us is None:
            return self
        at = self.at_us + passed_us * self.speed
        if at >= end_us:
            return self.follow()
        return msgspec.structs.replace(self, at_us=at)

    def faster(self, steps: int) -> Clock:
        """So many speeds up, or down."""
        place = min(max(SPEEDS.index(self.speed) + steps, 0), len(SPEEDS) - 1)
        return msgspec.structs.replace(self, speed=SPEEDS[place])

    def longer(self, steps: int, end_us: int, live: bool) -> Clock:
        """So many windows longer, or shorter, around the moment."""
        now = self.window_us(end_us, live) // SECOND
        other = [w for w in WINDOWS_S if (w > now if steps > 0 else w < now)]
        if not other:
            return self
        window = other[min(steps, len(other)) - 1] if steps > 0 else other[max(steps, -len(other))]
        start = max(self.moment(end_us) - window * SECOND // 2, 0)
        return msgspec.structs.replace(self, window_s=window, from_us=start)
