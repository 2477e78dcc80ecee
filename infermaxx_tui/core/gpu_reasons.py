"""The names of what holds a GPU's clocks. Bits that are not known yet are shown in hex and never dropped."""

from __future__ import annotations

from typing import Final

IDLE: Final = "idle"
POWER_CAP: Final = "power cap"

REASONS: Final[dict[int, str]] = {
    0x001: IDLE,
    0x002: "clocks set by the application",
    0x004: POWER_CAP,
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "thermal, by software",
    0x040: "thermal, by hardware",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""Bits of NVML's clocks event reasons (gpu-and-verdicts §1.4)."""
ALARMS: Final = frozenset({REASONS[0x008], REASONS[0x020], REASONS[0x040], REASONS[0x080]})
"""Reasons that mean trouble. At the power cap is not among them: being at a cap is not being slowed by it."""
_KNOWN: Final = sum(REASONS)


def reason_names(bits: int) -> tuple[str, ...]:
    """Names of the bits that are set, the unknown ones together as `unknown 0x…`; none at all if no bit is set."""
    names = [name for bit, name in REASONS.items() if bits & bit]
    unknown = bits & ~_KNOWN
    return (*names, f"unknown {unknown:#x}") if unknown else tuple(names)


def is_idle(bits: int) -> bool:
    """Whether the card says that it is idle, which is no throttle."""
    return bool(bits & 0x001)


def at_power_cap(bits: int) -> bool:
    """Whether the card says that it is at its power cap."""
    return bool(bits & 0x004)
