"""The sensors of a run on virtual time: the same rounds of readings, taken when they are due and not by a thread."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from infermaxx_tui.core.events import GpuProbed, GpuRead, Noted
from infermaxx_tui.core.scenario import Sensors
from infermaxx_tui.sensors.choose import sources_of
from infermaxx_tui.sensors.rounds import Rounds
from infermaxx_tui.sim.cards import cards_of
from infermaxx_tui.sim.fake_nvml import FakeNvml
from infermaxx_tui.virtual import VirtualClock


class VirtualSensors:
    """What `Sampler` is for a real run. It never waits, and says nothing of what a reading costs."""

    def __init__(self, wanted: Sensors, faults: tuple[str, ...], clock: VirtualClock) -> None:
        self._clock = clock
        cards = FakeNvml(cards_of(faults), self._now_s)
        self._rounds = Rounds(sources_of(wanted, None, None, cards), wanted.server_gpus, wanted.interval_s, lambda: 0.0)
        self._due_s: float | None = None
        self._probed = False

    def _now_s(self) -> float:
        return self._clock.mono_us() / 1e6

    def begin(self) -> None:
        """Readings are wanted from now on."""
        self._due_s = self._now_s()

    def take(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """The round that is due, if one is."""
        probed = self._probe()
        now_s = self._now_s()
        if self._due_s is None or now_s < self._due_s:
            return probed
        self._due_s += self._rounds.interval_s
        return [*probed, *self._rounds.round(now_s)]

    def _probe(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """What the sources find, the first time; a cost in real time would make two runs of one seed differ."""
        if self._probed:
            return ()
        self._probed = True
        replace = msgspec.structs.replace
        return [
            replace(said, probe=replace(said.probe, cost_ms=0.0)) if isinstance(said, GpuProbed) else said
            for said in self._rounds.probe()
        ]

    def finish(self) -> Sequence[GpuProbed | GpuRead | Noted]:
        """The last round."""
        said = [*self._probe(), *self._rounds.round(self._now_s(), slow=True)]
        self._rounds.close()
        return said
