"""NVML's raw answers -> values and reasons: a success of the whole call says nothing about one field of it.

Each field has a return code and a value type of its own, and some numbers of fields mean something else on an older
driver. A reading that makes no sense is refused here with the reason, not handed on.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import NOT_SUPPORTED, OK

SUCCESS: Final = 0
INVALID_ARGUMENT: Final = 2
NOT_SUPPORTED_CODE: Final = 3
FUNCTION_NOT_FOUND: Final = 13
LOST_CODES: Final = frozenset({1, 15, 16, 28})
"""Uninitialized, GPU is lost, reset required, GPU not found: the card is not there any more."""
PASSING_CODES: Final = frozenset({10, 11, 20, 21, 22, 23, 27, 999})
"""Time-out, interrupt, memory, no data, insufficient resources, not ready, unknown: worth another try."""
ERRORS: Final[dict[int, str]] = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML library not found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires a reset",
    17: "blocked by the operating system",
    18: "driver and library differ in version",
    20: "Insufficient Memory",
    21: "No Data",
    26: "Deprecated",
    27: "Not Ready",
    28: "GPU not found",
    999: "Unknown Error",
}
"""Return codes of NVML, by number."""
ADVICE: Final[dict[int, str]] = {
    9: "the NVIDIA driver is not loaded",
    12: "no NVIDIA driver on this machine (its library libnvidia-ml.so is not there)",
    18: "the NVIDIA driver was upgraded under the running kernel: reboot, or load the new module",
    4: "no right to use the NVIDIA driver: look at the rights of /dev/nvidia*",
}
"""What a failed start means to a user."""
RECOVERY: Final[dict[int, str]] = {
    0: "none",
    1: "reset the GPU",
    2: "reboot the node",
    3: "drain peer-to-peer traffic",
    4: "drain and reset",
    5: "recover the IMEX domain",
    6: "reset the bus",
    7: "reboot the system",
}
"""Values of NVML's recovery action."""
_FORMATS: Final[dict[int, str]] = {0: "<d", 1: "<I", 2: "<Q", 3: "<Q", 4: "<q", 5: "<i", 6: "<H"}
"""By value type: double, u32, unsigned long, u64, s64, s32, u16 (gpu-and-verdicts §1.2)."""


class Field(msgspec.Struct, frozen=True):
    """A field of NVML: which reading it is, in which unit it comes, and from which driver on its number means that."""

    number: int
    metric: str
    scale: float
    """Times the raw value is the reading."""
    needs_driver: int = 0


FAST_FIELDS: Final = (Field(82, "vram_c", 1.0), Field(186, "power_instant_w", 1e-3))
SLOW_FIELDS: Final = (
    Field(74, "power_capped_ms", 1e-6),
    Field(75, "thermal_ms", 1e-6),
    Field(83, "energy_j", 1e-3),
    Field(94, "pcie_replays", 1.0),
    Field(230, "recovery", 1.0, 570),
    Field(269, "sw_thermal_ms", 1e-6, 580),
    Field(270, "hw_thermal_ms", 1e-6, 580),
    Field(271, "power_brake_ms", 1e-6, 580),
)
"""The counters of throttling are in ns; on drivers before 580 the numbers 269 to 271 are power-smoothing settings."""
SLOWDOWN_MARGIN: Final = Field(194, "slowdown_margin_c", 1.0, 570)
HOTSPOT_DRIVER: Final = 615
MARGIN_DRIVER: Final = 570


def decode_field(value_type: int, raw: int) -> float | int | None:
    """The value in the 8 bytes `raw` of a field, by its value type; None for a type that is not known."""
    form = _FORMATS.get(value_type)
    if form is None:
        return None
    value: float | int = struct.unpack_from(form, struct.pack("<Q", raw & 0xFFFF_FFFF_FFFF_FFFF))[0]
    return value


def field_reading(field: Field, code: int, value_type: int, raw: int) -> tuple[float | int | str | None, str]:
    """A field's reading in its unit and `ok`, or None and the reason."""
    if code != SUCCESS:
        return None, status_of(code)
    value = decode_field(value_type, raw)
    if value is None:
        return None, f"error: value type {value_type} is not known"
    if field.metric == "recovery":
        return RECOVERY.get(int(value), f"unknown action {int(value)}"), OK
    return checked(field.metric, value if field.scale == 1.0 else round(value * field.scale, 3))


def checked(metric: str, value: float | int) -> tuple[float | int | None, str]:
    """A value that can be one and `ok`; a temperature of 0 or less, or of 255 or more, is none that was measured."""
    if metric in ("edge_c", "hotspot_c", "vram_c") and not 0 < value < 255:
        return None, f"reads {value:g} C, which is no temperature"
    if value < 0 and metric != "margin_c" and metric != "slowdown_margin_c":
        return None, f"reads {value:g}, which cannot be"
    return value, OK


def status_of(code: int, needs_driver: int = 0, driver: int | None = None) -> str:
    """Why a call gave nothing. What a newer driver would give is said with its number."""
    if needs_driver and driver is not None and driver < needs_driver:
        return f"needs driver {needs_driver} (this is {driver})"
    if code == NOT_SUPPORTED_CODE:
        return NOT_SUPPORTED
    if code == FUNCTION_NOT_FOUND:
        return "the installed driver has no such function"
    return f"error: {ERRORS.get(code, f'NVML code {code}')}"


def start_failed(code: int) -> str:
    """Why NVML could not be started, and what that means."""
    return ADVICE.get(code, f"NVML does not start: {ERRORS.get(code, f'code {code}')}")
