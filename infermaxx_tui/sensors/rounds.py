"""Rounds of readings over all sources, without a clock of its own: what each round says, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.events import GpuProbed, GpuRead, Noted
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_owner import named
from infermaxx_tui.sensors.source import Source

Said = GpuProbed | GpuRead | Noted
SLOW_EVERY: Final = 5
"""Every so many rounds the costly readings are taken too."""
MOST_SHARE: Final = 0.01
"""Sensors that cost more than this share of the time are read less often (gpu-and-verdicts §1.10)."""
_JUDGE_AFTER: Final = 10
_MOST_INTERVAL_S: Final = 8.0


class Rounds:
    """The sources, read together. A source that adds to another's card is told by the card's UUID or number."""

    def __init__(
        self,
        sources: Sequence[Source],
        wanted: Sequence[str] = (),
        interval_s: float = 1.0,
        cost: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`wanted`: the user's own word on which cards are the server's."""
        self._sources = list(sources)
        self._wanted = tuple(wanted)
        self._cost = cost
        self.interval_s = interval_s
        """Seconds between rounds; grows if they cost too much."""
        self._probes: list[GpuProbe] = []
        self._firsts: list[int] = []
        self._same: dict[int, int] = {}
        """Cards that are another source's card."""
        self._lent: dict[int, set[str]] = {}
        """Readings of a card that another source gives."""
        self._round = 0
        self._before_s: float | None = None
        self._spent: list[float] = []

    @property
    def probes(self) -> tuple[GpuProbe, ...]:
        """What the sources found, the newest of each."""
        return tuple(self._probes)

    @property
    def server(self) -> tuple[int, ...]:
        """Numbers of the server's cards."""
        return tuple(card.gpu for probe in self._probes for card in probe.cards if card.server)

    def probe(self) -> list[Said]:
        """Starts all sources."""
        for source in self._sources:
            first = max((card.gpu + 1 for probe in self._probes for card in probe.cards), default=0)
            probe = source.probe(first)
            self._firsts.append(first)
            self._probes.append(probe)
            self._settle(len(self._probes) - 1, probe)
        return [GpuProbed(probe=probe) for probe in self._probes]

    def _settle(self, at: int, probe: GpuProbe) -> None:
        """Keeps a probe, with the user's word on its cards, and without those that an earlier source has as well."""
        earlier = [card for known in self._probes[:at] for card in known.cards]
        own = []
        for card in probe.cards:
            same = next((one.gpu for one in earlier if self._are_one(at, probe, card, one)), None)
            if same is None:
                own.append(named(card, self._wanted) if self._wanted else card)
            else:
                self._same[card.gpu] = same
                given = {name for name, status in card.metrics.items() if status == "ok"}
                self._lent.setdefault(same, set()).update(given)
        self._probes[at] = msgspec.structs.replace(probe, cards=tuple(own))
        for place, known in enumerate(self._probes):
            self._probes[place] = self._with_loans(known)

    def _are_one(self, at: int, probe: GpuProbe, card: GpuCard, known: GpuCard) -> bool:
        """Whether a card is one that an earlier source told of: by its UUID, or by the number a user's command gave."""
        if card.uuid is not None:
            return card.uuid == known.uuid
        return probe.source == "command" and card.gpu - self._firsts[at] == known.gpu

    def _with_loans(self, probe: GpuProbe) -> GpuProbe:
        """A card gives what another source reads of it."""
        cards = []
        remarks = list(probe.remarks)
        for card in probe.cards:
            names = sorted(name for name in self._lent.get(card.gpu, ()) if card.metrics.get(name) != "ok")
            if names:
                card = msgspec.structs.replace(card, metrics={**card.metrics, **dict.fromkeys(names, "ok")})
                remarks.append(f"card {card.gpu}: {', '.join(names)} from another source")
            cards.append(card)
        return msgspec.structs.replace(probe, cards=tuple(cards), remarks=tuple(dict.fromkeys(remarks)))

    def round(self, now_s: float, slow: bool = False) -> list[Said]:
        """One round at a moment of a monotonic clock; `slow` takes the costly readings out of turn."""
        slow = slow or self._round % SLOW_EVERY == 0
        self._round += 1
        began = self._cost()
        readings = [reading for source in self._sources for reading in source.read(slow)]
        spent_ms = (self._cost() - began) * 1000
        said: list[Said] = [*self._changes()]
        window_ms = 0.0 if self._before_s is None else (now_s - self._before_s) * 1000
        if readings or slow:
            self._before_s = now_s
            said.append(
                GpuRead(
                    gpus=tuple(self._merged(readings)),
                    server=self.server,
                    window_ms=round(window_ms, 3),
                    fast_ms=None if slow else round(spent_ms, 3),
                    slow_ms=round(spent_ms, 3) if slow else None,
                )
            )
        return said + self._thrift(spent_ms)

    def _merged(self, readings: Sequence[GpuReading]) -> list[GpuReading]:
        """One reading a card: what a second source says fills what the first one left out."""
        merged: dict[int, GpuReading] = {}
        for reading in readings:
            gpu = self._same.get(reading.gpu, reading.gpu)
            if gpu not in merged:
                merged[gpu] = msgspec.structs.replace(reading, gpu=gpu)
                continue
            known = merged[gpu]
            if reading.lost is None:
                fresh = {
                    name: value
                    for name in GpuReading.__struct_fields__
                    if getattr(known, name) is None and (value := getattr(reading, name)) is not None
                }
                merged[gpu] = msgspec.structs.replace(known, **fresh)
        return list(merged.values())

    def _changes(self) -> list[GpuProbed]:
        before = list(self._probes)
        for at, source in enumerate(self._sources):
            probe = source.changed()
            if probe is not None:
                self._settle(at, probe)
        return [GpuProbed(probe=now) for now, old in zip(self._probes, before, strict=True) if now != old]

    def _thrift(self, spent_ms: float) -> list[Said]:
        """Doubles the interval when rounds cost too much of it."""
        self._spent.append(spent_ms)
        if len(self._spent) < _JUDGE_AFTER:
            return []
        share = sum(self._spent) / len(self._spent) / (self.interval_s * 1000)
        self._spent.clear()
        if share <= MOST_SHARE or self.interval_s >= _MOST_INTERVAL_S:
            return []
        self.interval_s *= 2
        text = f"the GPU sensors take {share:.1%} of the time: they are read every {self.interval_s:g} s from now on"
        return [Noted(text=text)]

    def close(self) -> None:
        """Closes all sources."""
        for source in self._sources:
            source.close()
