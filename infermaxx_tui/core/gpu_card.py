"""What is kept of one card while a log goes on: sums, extremes and counts, of constant size."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.gpu import GpuCard, GpuProcess, GpuReading
from infermaxx_tui.core.gpu_reasons import at_power_cap, is_idle
from infermaxx_tui.core.gpu_summary import LimitChange

COUNTERS: Final = {
    "power_capped": "power_capped_ms",
    "thermal": "thermal_ms",
    "sw_thermal": "sw_thermal_ms",
    "hw_thermal": "hw_thermal_ms",
    "power_brake": "power_brake_ms",
}
"""Cumulative counters by the names that shares have, and the readings that they are."""
GROWING: Final = (*COUNTERS.values(), "energy_j", "ecc_corrected", "ecc_uncorrected", "pcie_replays")
LOADED_PERCENT: Final = 20
"""From this share of time in which a kernel ran a card is under load, whoever gives it the work; only then do its
clocks say something about heat."""
QUIET_TIMES: Final = 2
"""So many times busier than before the first request: more than a desktop that draws does by itself."""
POWER_STEP: Final = 1.1
"""So many times the power before the first request is more than an idle card's power wanders."""
POWER_STEP_W: Final = 5.0
"""At least that much more, for a card that takes next to nothing when idle."""
CLOCK_STEP_MHZ: Final = 15
"""NVIDIA's own step between clocks; what comes beyond so many different ones is counted in these steps."""
_MOST_CLOCKS: Final = 512
_FEW: Final = 8
Load = Literal["quiet", "ours", "other"]
"""What a reading was taken during: before the first request, with a request of ours open (now or a round before), or at
any other time."""


class KeptCard(msgspec.Struct):
    """What is kept of one card while the log goes on."""

    card: GpuCard
    source: str
    local: bool
    newest: dict[str, int | float | str | None] = {}
    readings: int = 0
    streamed: int = 0
    worked: int = 0
    loaded: int = 0
    quiet_busy: int | None = None
    quiet_w: float | None = None
    since_slow_ms: float = 0.0
    window_ms: float = 0.0
    grown: dict[str, float] = {}
    before: dict[str, float] = {}
    power_ms: float = 0.0
    power_integral_mj: float = 0.0
    power_before_w: float | None = None
    most: dict[str, float] = {}
    least: dict[str, float] = {}
    sm: dict[int, int] = {}
    mem: dict[int, int] = {}
    reasons: dict[int, int] = {}
    reason_rounds: int = 0
    judged: int = 0
    slowed: int = 0
    limit_now_w: float | None = None
    changes: list[LimitChange] = []
    changed: int = 0
    vram_first_mib: float | None = None
    recovery: str | None = None
    xids: dict[int, int] = {}
    foreign: dict[int, GpuProcess] = {}
    lost: int = 0
    lost_why: str | None = None
    lost_at: Ref | None = None
    lost_now: bool = False


def take(card: KeptCard, at: Ref, reading: GpuReading, window_ms: float, when: Load = "other") -> None:
    """Takes one reading in, `window_ms` after the round before; 0: nothing is known of the time before."""
    for number in reading.xids:
        card.xids[number] = card.xids.get(number, 0) + 1
    if reading.lost is not None:
        card.lost += 1
        card.lost_now = True
        card.before.clear()
        card.power_before_w = None
        if card.lost_why is None:
            card.lost_why, card.lost_at = reading.lost, at
        return
    card.lost_now = False
    card.readings += 1
    if window_ms <= 0:
        card.before.clear()
        card.power_before_w = None
        card.since_slow_ms = 0.0
    card.since_slow_ms += window_ms
    _newest(card, reading)
    _power(card, reading, window_ms)
    _extremes(card, reading)
    if reading.reasons is not None:
        card.reason_rounds += 1
        card.reasons[reading.reasons] = card.reasons.get(reading.reasons, 0) + 1
    if when == "quiet":
        _quiet(card, reading)
    working = at_work(reading, card, when)
    card.streamed += when == "ours"
    card.worked += working and when == "ours"
    if working:
        _at_work(card, reading)
    if under_load(reading):
        _held_down(card, reading)
    if any(getattr(reading, name) is not None for name in GROWING):
        _grow(card, reading)
    _limit(card, at, reading)
    _company(card, reading)


def at_work(reading: GpuReading, card: KeptCard, when: Load) -> bool:
    """Whether the card computed at that moment.

    While a request of ours was open, it did if a kernel ran in any share of the last sample (at least QUIET_TIMES the
    share before the first request), or if it took POWER_STEP times the power that it took before the first request: a
    small model keeps a large card busy for a few percent of the time. Energy is not looked at apart from power, which
    is its growth, read more often. At any other time, and for a card that gives neither, it must say itself that it is
    under load.
    """
    if under_load(reading):
        return True
    return when == "ours" and above_rest(reading, card.quiet_busy, card.quiet_w)


def above_rest(reading: GpuReading, quiet_busy: int | None, quiet_w: float | None) -> bool:
    """Whether a card does more than it did at rest, by its busy share (percent) or its power (W); None: not known."""
    if reading.busy_percent is not None and reading.busy_percent > min(QUIET_TIMES * (quiet_busy or 0), LOADED_PERCENT):
        return True
    power_w = _power_of(reading)
    if power_w is None or quiet_w is None:
        return False
    return power_w >= max(POWER_STEP * quiet_w, quiet_w + POWER_STEP_W)


def under_load(reading: GpuReading) -> bool:
    """Whether the card says itself that it has work to do; one that says neither is taken to be idle."""
    if reading.busy_percent is not None:
        return reading.busy_percent >= LOADED_PERCENT
    return reading.reasons is not None and not is_idle(reading.reasons)


def _quiet(card: KeptCard, reading: GpuReading) -> None:
    """The least of what was read before anything was sent: what comes on top of it is the run's."""
    power_w = _power_of(reading)
    if reading.busy_percent is not None:
        known = reading.busy_percent if card.quiet_busy is None else card.quiet_busy
        card.quiet_busy = min(known, reading.busy_percent)
    if power_w is not None:
        card.quiet_w = power_w if card.quiet_w is None else min(card.quiet_w, power_w)


def _power_of(reading: GpuReading) -> float | None:
    return reading.power_w if reading.power_w is not None else reading.power_instant_w


def _newest(card: KeptCard, reading: GpuReading) -> None:
    for name in _SCALARS:
        value = getattr(reading, name)
        if value is not None:
            card.newest[name] = value


_SCALARS: Final = tuple(
    name for name in GpuReading.__struct_fields__ if name not in ("gpu", "processes", "xids", "lost")
)


def _power(card: KeptCard, reading: GpuReading, window_ms: float) -> None:
    """Trapezoids between rounds."""
    power_w = _power_of(reading)
    if power_w is None:
        card.power_before_w = None
        return
    if card.power_before_w is not None and window_ms > 0:
        card.power_integral_mj += (power_w + card.power_before_w) / 2 * window_ms
        card.power_ms += window_ms
    card.power_before_w = power_w


def _extremes(card: KeptCard, reading: GpuReading) -> None:
    for name in ("power_w", "power_instant_w", "edge_c", "hotspot_c", "vram_c", "vram_used_mib"):
        value = getattr(reading, name)
        if value is not None:
            card.most[name] = max(card.most.get(name, value), value)
    if reading.margin_c is not None:
        card.least["margin_c"] = min(card.least.get("margin_c", reading.margin_c), reading.margin_c)
    if card.vram_first_mib is None:
        card.vram_first_mib = reading.vram_used_mib


def _at_work(card: KeptCard, reading: GpuReading) -> None:
    card.loaded += 1
    for counts, mhz in ((card.sm, reading.sm_mhz), (card.mem, reading.mem_mhz)):
        if mhz is not None:
            new = mhz not in counts and len(counts) >= _MOST_CLOCKS
            step = mhz // CLOCK_STEP_MHZ * CLOCK_STEP_MHZ if new else mhz
            counts[step] = counts.get(step, 0) + 1
    for name in ("pcie_gen", "pcie_width"):
        value = getattr(reading, name)
        if value is not None:
            card.least[name] = min(card.least.get(name, value), value)


def _held_down(card: KeptCard, reading: GpuReading) -> None:
    """Counts rounds under load with low clocks that no power cap explains."""
    top, limit_w = card.card.max_sm_mhz, reading.limit_w or _number(card.newest.get("limit_w")) or card.card.limit_w
    if reading.sm_mhz is None or reading.power_w is None or reading.reasons is None or not top or not limit_w:
        return
    card.judged += 1
    below_cap = reading.power_w < 0.95 * limit_w and not at_power_cap(reading.reasons)
    card.slowed += below_cap and reading.sm_mhz < 0.9 * top


def _number(value: float | str | None) -> float | None:
    return value if isinstance(value, float | int) else None


def _grow(card: KeptCard, reading: GpuReading) -> None:
    """Counters that only rise. One that fell was set back by a driver that was loaded again: that step is left out."""
    covered = False
    for name in GROWING:
        value = getattr(reading, name)
        if value is None:
            continue
        before = card.before.get(name)
        card.before[name] = value
        if before is None:
            card.grown.setdefault(name, 0.0)
        elif value >= before:
            card.grown[name] = card.grown.get(name, 0.0) + value - before
            covered = True
    if covered:
        card.window_ms += card.since_slow_ms
    card.since_slow_ms = 0.0


def _limit(card: KeptCard, at: Ref, reading: GpuReading) -> None:
    if reading.limit_w is None:
        return
    before = card.limit_now_w if card.limit_now_w is not None else card.card.limit_w
    if before is not None and before != reading.limit_w:
        card.changed += 1
        if len(card.changes) < _FEW:
            card.changes.append(LimitChange(at, before, reading.limit_w))
    card.limit_now_w = reading.limit_w


def _company(card: KeptCard, reading: GpuReading) -> None:
    if reading.recovery is not None and (card.recovery is None or reading.recovery != "none"):
        card.recovery = reading.recovery
    if reading.processes is None:
        return
    own = [process.vram_mib for process in reading.processes if process.server and process.vram_mib is not None]
    if own:
        card.most["server_vram_mib"] = max(card.most.get("server_vram_mib", 0.0), sum(own))
    for process in reading.processes:
        if process.server is False and (process.pid in card.foreign or len(card.foreign) < _FEW):
            known = card.foreign.get(process.pid)
            if known is None or (process.vram_mib or 0.0) > (known.vram_mib or 0.0):
                card.foreign[process.pid] = process
