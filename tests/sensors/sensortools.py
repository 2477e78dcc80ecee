"""Timelines played through the code that reads real cards, on a clock of the test's own."""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui.core.events import GpuProbed, GpuRead, Record, decode, encode
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.gpu_owner import ServerPids
from infermaxx_tui.core.gpu_summary import CardSummary, GpuSummary
from infermaxx_tui.sensors.machine import Machine
from infermaxx_tui.sensors.nvml import NvmlSource
from infermaxx_tui.sensors.rounds import Rounds, Said
from infermaxx_tui.sim.fake_card import CardFacts, FakeCard
from infermaxx_tui.sim.fake_nvml import FakeNvml
from infermaxx_tui.sim.gpu_timeline import SERVER_PID, Timeline, recorded

RECORDING = Path(__file__).parent.parent / "logs" / "nvml" / "h200-load.jsonl"
SERVER = ServerPids(True, frozenset({SERVER_PID}))
HERE = Machine(lambda pid: True, lambda pid: "vllm" if pid == SERVER_PID else "another")


def recording() -> tuple[Timeline, float]:
    """45 s of a real H200, and how long they are."""
    return recorded(RECORDING.read_bytes().splitlines())


class Played:
    """A fake library that is read round by round; what comes out goes through the log's own encoding into a fold."""

    def __init__(
        self,
        *timelines: Timeline,
        driver: str = "580.159.04",
        start_error: int = 0,
        server: ServerPids = SERVER,
        machine: Machine = HERE,
        facts: CardFacts | None = None,
        wanted: tuple[str, ...] = (),
    ) -> None:
        self.now_s = 0.0
        self.server = server
        cards = [FakeCard(timeline, facts or facts_of(at)) for at, timeline in enumerate(timelines)]
        self.lib = FakeNvml(cards, lambda: self.now_s, driver, start_error)
        self.source = NvmlSource(self.lib, lambda: self.server, machine, simulated=True)
        self.rounds = Rounds([self.source], wanted)
        self.fold = Fold()
        self.said: list[Said] = []
        self.bytes = 0
        self._take(self.rounds.probe())

    def _take(self, said: list[Said]) -> None:
        for event in said:
            line = encode(Record(0, len(self.said), 0, round(self.now_s * 1e6), event))
            self.bytes += len(line)
            self.said.append(event)
            self.fold.add(decode(line))

    def run(self, seconds: float, step_s: float = 1.0) -> Played:
        """So many seconds of rounds, and the last one with all readings."""
        until = self.now_s + seconds
        while self.now_s < until:
            self._take(self.rounds.round(self.now_s))
            self.now_s += step_s
        self._take(self.rounds.round(self.now_s, slow=True))
        return self

    @property
    def probe(self) -> GpuProbe:
        """The newest probe."""
        return [event.probe for event in self.said if isinstance(event, GpuProbed)][-1]

    @property
    def card(self) -> GpuCard:
        """The first card as it was probed last."""
        return self.probe.cards[0]

    @property
    def reads(self) -> list[GpuRead]:
        """All rounds."""
        return [event for event in self.said if isinstance(event, GpuRead)]

    def readings(self, gpu: int = 0) -> list[GpuReading]:
        """All readings of one card."""
        return [one for event in self.reads for one in event.gpus if one.gpu == gpu]

    @property
    def summary(self) -> GpuSummary:
        """What the fold made of it."""
        return self.fold.snapshot().gpus

    @property
    def summed(self) -> CardSummary:
        """The first card's."""
        return self.summary.cards[0]


def facts_of(at: int) -> CardFacts:
    """A card with a UUID of its own."""
    return CardFacts(name="NVIDIA H200", uuid=f"GPU-{at:08d}-0000-4000-8000-000000000000")
