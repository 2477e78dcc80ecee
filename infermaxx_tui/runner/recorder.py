"""Everything a run knows goes through here into the log, and into the fold that the runner itself looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from infermaxx_tui.core.events import AnyEvent, EvidenceLost, Record
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.log import EvidenceLostError
from infermaxx_tui.runner.clock import Clock


class Sink(Protocol):
    """Where lines go: a file, or memory in a self-test."""

    @property
    def written(self) -> int:
        """Lines written so far."""

    def append(self, event: AnyEvent, wall_ms: int, mono_us: int) -> Record:
        """The record as written. Raises EvidenceLostError."""


class Recorder:
    """Stamps events, appends them and folds them.

    When the log cannot be written any more, `lost` says why, `on_lost` is called once, and what is left to say goes to
    the spare sink, if there is one. Nothing is to be sent after that.
    """

    def __init__(
        self, sink: Sink, clock: Clock, on_lost: Callable[[], None], spare: Callable[[], Sink | None] = lambda: None
    ) -> None:
        self.fold = Fold()
        self.clock = clock
        self.lost: str | None = None
        self._sink: Sink | None = sink
        self._on_lost = on_lost
        self._spare = spare
        self._before_spare = 0

    @property
    def written(self) -> int:
        """Lines in the log, all parts together."""
        return self._before_spare + (self._sink.written if self._sink is not None else 0)

    def emit(self, event: AnyEvent) -> None:
        """Writes and folds one event; without a place to write it, it is gone and `lost` is set."""
        if self._sink is None:
            return
        try:
            record = self._sink.append(event, self.clock.wall_ms(), self.clock.mono_us())
        except EvidenceLostError as error:
            self._lose(str(error), event)
            return
        self.fold.add(record)

    def _lose(self, why: str, event: AnyEvent) -> None:
        first = self.lost is None
        self._before_spare = self.written
        self._sink = self._spare() if first else None
        self.lost = self.lost or why
        if first:
            self._on_lost()
            self.emit(EvidenceLost(detail=f"the log could not be written: {why}"))
            self.emit(event)
