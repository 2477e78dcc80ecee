"""Moving in time: the same keys and the same feed on every screen that has a moment."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.rows import duration_text
from infermaxx_tui.tui import asks
from infermaxx_tui.tui.asks import Broken, Loading, Snapshot, Told
from infermaxx_tui.tui.feed import Feed
from infermaxx_tui.tui.screens.base import Base, Part
from infermaxx_tui.tui.shared import Shared


class Timed(Base):
    """A screen over a feed."""

    def __init__(self, shared: Shared, feed: Feed) -> None:
        super().__init__(shared)
        self.feed = feed
        self.told: Told | None = None
        """The newest picture."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest picture, if it is one of the run."""
        return self.told if isinstance(self.told, Snapshot) else None

    def take(self, told: Told) -> None:
        """The newest picture, from whoever reads the feed."""
        self.told = told

    def action_step(self, columns: int) -> None:
        """Columns of the axis on, or back."""
        self.feed.ask(asks.Step(columns))

    def action_skip(self, seconds: int) -> None:
        """Seconds on, or back."""
        self.feed.ask(asks.Skip(seconds))

    def action_mark(self, target: Literal["failure", "gap"], direction: int) -> None:
        """The next failure or gap, or the one before."""
        self.feed.ask(asks.Find(target, direction < 0))

    def action_start(self) -> None:
        """The start of the run."""
        self.feed.ask(asks.Start())

    def action_follow(self) -> None:
        """The end of the run."""
        self.feed.ask(asks.Follow())

    def action_play(self) -> None:
        """Play, or pause."""
        self.feed.ask(asks.Play())

    def action_faster(self, steps: int) -> None:
        """Another speed."""
        self.feed.ask(asks.Faster(steps))

    def action_window(self, steps: int) -> None:
        """Another length of the time axis."""
        self.feed.ask(asks.Longer(steps))

    def when(self) -> list[Part]:
        """Where in time the newest picture stands, for the bar."""
        match self.told:
            case None:
                return [(" opening the log ", "dim")]
            case Loading(done, total):
                return [(f" reading the log: {100 * done // max(total, 1)} % ", "dim")]
            case Broken():
                return [(" not a log that can be shown ", "bad")]
            case Snapshot() as seen:
                return self._when(seen)

    def _when(self, seen: Snapshot) -> list[Part]:
        at, end = duration_text(seen.moment.at_us / 1000), duration_text(seen.end_us / 1000)
        parts: list[Part] = [(" LIVE ", "ok")] if seen.live else [(" over ", "dim")]
        if seen.following:
            parts.append((f" at the end, {end} ", None))
        elif seen.playing:
            parts.append((f" PLAY {seen.speed}x at {at} of {end} ", "accent"))
        else:
            parts.append((f" REVIEW at {at} of {end} ", "accent"))
        parts.append((f" axis {duration_text(seen.window_us / 1000)} ", "dim"))
        return parts
