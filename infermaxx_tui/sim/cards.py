"""The made-up cards of an embedded server: healthy, or sick as its faults say."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from infermaxx_tui.sim.fake_card import FakeCard
from infermaxx_tui.sim.gpu_timeline import Effect, Moment, limit_set, played, ramp, throttle

CREEP_MIB_PER_S: Final = 40.0
THROTTLED_FROM_S: Final = 2.0
RESET_AT_S: Final = 2.0
RESET_W: Final = 450.0


def creeping(mib_per_s: float = CREEP_MIB_PER_S) -> Effect:
    """The server's process takes more and more memory of the card."""

    def grown(now_s: float, moment: Moment) -> Moment:
        more = mib_per_s * max(now_s, 0.0)
        held = tuple((pid, None if mib is None else mib + more) for pid, mib in moment.processes)
        return msgspec.structs.replace(moment, processes=held, used_mib=moment.used_mib + more)

    return grown


def cards_of(faults: Collection[str]) -> list[FakeCard]:
    """The cards that a server with these faults has: one."""
    known = {
        "vram-creep": creeping(),
        "throttle": throttle(THROTTLED_FROM_S, share=0.9),
        "limit-reset": limit_set(RESET_AT_S, RESET_W),
    }
    return [FakeCard(played(ramp(), *(effect for name, effect in known.items() if name in faults)))]
