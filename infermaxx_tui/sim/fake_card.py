"""A card that plays a timeline, with the counters that a real driver keeps."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.sim.gpu_timeline import Moment, Timeline, ramp

_STEP_S: Final = 0.1
"""A real driver's counters step ten times a second (gpu-and-verdicts §1.1)."""


class CardFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What does not change of a made-up card."""

    name: str = "Simulated GPU"
    uuid: str = "GPU-5157a7ed-0000-4000-8000-000000000000"
    total_mib: float = 143_771.0
    default_limit_w: float = 700.0
    limits_w: tuple[float, float] = (200.0, 700.0)
    max_sm_mhz: int = 1980
    max_mem_mhz: int = 3201
    bus_bits: int = 6144
    slowdown_c: int = 89
    shutdown_c: int = 95
    slowdown_margin_c: int = -2
    compute: tuple[int, int] = (9, 0)
    mig_instances: int = 0
    """More than 0: MIG is on."""


class FakeCard:
    """One card that plays a timeline. Counters are sums of it in steps of a tenth of a second."""

    def __init__(self, timeline: Timeline | None = None, facts: CardFacts | None = None) -> None:
        self.facts = facts or CardFacts()
        self._timeline = timeline or ramp()
        self._steps = 0
        self.energy_j = 0.0
        self.throttled_s = [0.0] * 5
        self.told_xids = 0

    def at(self, now_s: float) -> Moment:
        """The moment, with the counters brought up to it."""
        while (self._steps + 1) * _STEP_S <= now_s:
            moment = self._timeline(self._steps * _STEP_S)
            self._steps += 1
            if moment.gone is not None:
                continue
            self.energy_j += moment.power_w * _STEP_S
            shares = (moment.capped, moment.thermal, moment.sw_thermal, moment.hw_thermal, moment.brake)
            self.throttled_s = [s + share * _STEP_S for s, share in zip(self.throttled_s, shares, strict=True)]
        return self._timeline(now_s)
