"""What can be known of a GPU: the card itself, which of its sensors answer, and one moment's readings.

Whatever source a number came from (NVML, an exporter, nvidia-smi, a user's command, amdsmi), it has the shapes of this
module. A reading that could not be taken is None, and the card's `metrics` says why under the reading's name; a reading
that is 0 was read as 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

OK: Final = "ok"
"""What a metric's status says when it can be read; else the status is the reason, for people."""
NOT_SUPPORTED: Final = "not supported"
NOT_GIVEN: Final = "the source does not give it"

FAST: Final[tuple[str, ...]] = (
    "power_w",
    "power_instant_w",
    "sm_mhz",
    "mem_mhz",
    "edge_c",
    "hotspot_c",
    "vram_c",
    "busy_percent",
    "vram_used_mib",
    "vram_reserved_mib",
    "reasons",
)
"""Read once a second; by the names of GpuReading."""
SLOW: Final[tuple[str, ...]] = (
    "limit_w",
    "margin_c",
    "power_capped_ms",
    "thermal_ms",
    "sw_thermal_ms",
    "hw_thermal_ms",
    "power_brake_ms",
    "energy_j",
    "pcie_gen",
    "pcie_width",
    "pcie_replays",
    "ecc_corrected",
    "ecc_uncorrected",
    "recovery",
    "processes",
    "xids",
)
"""Read every few seconds, since they cost more; by the names of GpuReading."""


class GpuProcess(msgspec.Struct, frozen=True):
    """A process that computes on a card."""

    pid: int
    """As the driver numbers it: in a container that may be the host's number."""
    vram_mib: float | None
    """None where the driver hides it (WSL)."""
    name: str | None = None
    """None where the process is not visible from here."""
    server: bool | None = None
    """Whether it belongs to the server under test; None: not known."""


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card at one moment. None: not read now, or not at all, which the card's `metrics` knows."""

    gpu: int
    """The number of the card, as in its GpuCard."""
    power_w: float | None = None
    """Mean over a second on newer cards."""
    power_instant_w: float | None = None
    sm_mhz: int | None = None
    mem_mhz: int | None = None
    edge_c: int | None = None
    hotspot_c: int | None = None
    vram_c: int | None = None
    busy_percent: int | None = None
    """Share of time in which any kernel ran: no measure of how full the card is."""
    vram_used_mib: float | None = None
    """Without the driver's own reserve where the driver tells them apart."""
    vram_reserved_mib: float | None = None
    reasons: int | None = None
    """Bits of what holds the clocks at this moment; core.gpu_reasons names them."""
    limit_w: float | None = None
    """The power limit that is enforced."""
    margin_c: int | None = None
    """Degrees to the temperature at which the card slows itself down."""
    power_capped_ms: float | None = None
    """Time at the power cap since the driver was loaded; so are the four after it for heat and the power brake."""
    thermal_ms: float | None = None
    sw_thermal_ms: float | None = None
    hw_thermal_ms: float | None = None
    power_brake_ms: float | None = None
    energy_j: float | None = None
    """Of the board, since the driver was loaded."""
    pcie_gen: int | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    recovery: str | None = None
    """What the driver asks for, `none` if nothing."""
    processes: tuple[GpuProcess, ...] | None = None
    xids: tuple[int, ...] = ()
    """XID errors since the last reading."""
    lost: str | None = None
    """Why the card could not be read at all, if it could not."""


DATA_RATE: Final = 2
"""Transfers a cycle of the memory clock as NVML gives it, for GDDR and HBM alike: 9,751 MHz and 384 bits are the
936 GB/s of an RTX 3090, 3,201 MHz and 6,144 bits the 4.9 TB/s of an H200."""


class GpuCard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card: what does not change during a run, and which readings it gives."""

    gpu: int
    """The number under which this run knows the card; the readings carry it."""
    uuid: str | None = None
    name: str | None = None
    bus: str | None = None
    vbios: str | None = None
    compute: str | None = None
    """CUDA compute capability, e.g. `9.0`."""
    limit_w: float | None = None
    """Enforced when it was probed."""
    default_limit_w: float | None = None
    min_limit_w: float | None = None
    max_limit_w: float | None = None
    max_sm_mhz: int | None = None
    max_mem_mhz: int | None = None
    bus_bits: int | None = None
    """Width of the memory bus."""
    vram_total_mib: float | None = None
    slowdown_c: int | None = None
    """Edge temperature at which the card slows itself down."""
    shutdown_c: int | None = None
    slowdown_margin_c: int | None = None
    """The margin (GpuReading.margin_c) at which the card slows itself down: an offset, mostly 0 or less."""
    supported_reasons: int | None = None
    """A clear bit of GpuReading.reasons outside this mask says nothing."""
    max_pcie_gen: int | None = None
    max_pcie_width: int | None = None
    persistence: bool | None = None
    mig: bool | None = None
    ecc: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    """When it was probed."""
    server: bool | None = None
    """Whether the server under test computes on it; None: not known."""
    server_why: str = ""
    """How that is known, or why it is not."""

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """What the memory can bring at its highest clock; None where clock or width is not known."""
        if self.max_mem_mhz is None or self.bus_bits is None:
            return None
        return DATA_RATE * self.max_mem_mhz * 1e6 * self.bus_bits / 8

    metrics: dict[str, str] = msgspec.field(default_factory=dict)
    """For each reading of FAST and SLOW: `ok`, or the reason why there is none."""

    def why_not(self, metric: str) -> str:
        """Why the card does not give a reading; empty if it does."""
        status = self.metrics.get(metric, NOT_GIVEN)
        return "" if status == OK else status


class GpuProbe(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one source of sensors found when it was asked for the first time."""

    source: str
    """`nvml`, `exporter`, `nvidia-smi`, `command`, `amdsmi`, or `none`."""
    cards: tuple[GpuCard, ...] = ()
    driver: str | None = None
    library: str | None = None
    """Version of NVML, or whatever the source says of itself."""
    binding: str | None = None
    """Version of the Python binding."""
    local: bool = True
    """Whether the cards are in this machine."""
    simulated: bool = False
    error: str | None = None
    """Why there are no cards, for people; None if there are."""
    remarks: tuple[str, ...] = ()
    cost_ms: float = 0.0

    @property
    def of_server(self) -> tuple[GpuCard, ...]:
        """Cards that the server under test is known to compute on: only these may enter a verdict."""
        return tuple(card for card in self.cards if card.server)


def driver_major(driver: str | None) -> int | None:
    """580 of `580.159.04`; None if there is no number."""
    head = (driver or "").split(".")[0]
    return int(head) if head.isascii() and head.isdigit() else None


def gpu_name(probes: Iterable[GpuProbe]) -> tuple[str | None, str]:
    """For the regime: `NVIDIA H200`, `2x NVIDIA H200`, and if None the reason. Only cards of the server are named."""
    seen = list(probes)
    cards = [card for probe in seen for card in probe.of_server]
    names = sorted({card.name or "a card without a name" for card in cards})
    counted = [(sum((card.name or "a card without a name") == name for card in cards), name) for name in names]
    if counted:
        return " + ".join(name if n == 1 else f"{n}x {name}" for n, name in counted), ""
    return None, why_none(seen)


def power_limit_w(probes: Iterable[GpuProbe]) -> tuple[float | None, str]:
    """For the regime: the limit in force, if it is the same for all cards of the server; else None and the reason."""
    seen = list(probes)
    cards = [card for probe in seen for card in probe.of_server]
    limits = {card.limit_w for card in cards}
    if not cards:
        return None, why_none(seen)
    if len(limits) > 1:
        return None, "differs between cards: " + ", ".join(
            "n/a" if card.limit_w is None else f"{card.limit_w:g} W" for card in cards
        )
    limit = limits.pop()
    return limit, "" if limit is not None else cards[0].why_not("limit_w") or "not read"


def why_none(probes: Iterable[GpuProbe]) -> str:
    """Why no card is known to be the server's: the reason of the source, or what is known of the cards there are."""
    seen = list(probes)
    cards = [card for probe in seen for card in probe.cards]
    if cards:
        return "; ".join(dict.fromkeys(f"{card.name or 'GPU'}: {card.server_why or 'not known'}" for card in cards))
    return "; ".join(dict.fromkeys(probe.error or "no card" for probe in seen)) or "no GPU sensors were asked for"
