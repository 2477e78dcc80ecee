"""What the sources of GPU readings call things, beside what they are called here and in which unit they come."""

from __future__ import annotations

from typing import Final

MIB: Final = 2.0**20
WHOLE: Final = frozenset(
    {
        "sm_mhz",
        "mem_mhz",
        "edge_c",
        "hotspot_c",
        "vram_c",
        "busy_percent",
        "reasons",
        "margin_c",
        "pcie_gen",
        "pcie_width",
        "pcie_replays",
        "ecc_corrected",
        "ecc_uncorrected",
        "max_sm_mhz",
        "max_mem_mhz",
        "max_pcie_gen",
        "max_pcie_width",
        "slowdown_c",
        "shutdown_c",
        "supported_reasons",
    }
)
"""Readings that are whole numbers."""
CARD_WORDS: Final = frozenset({"uuid", "name", "driver", "bus", "vbios", "compute"})
CARD_NUMBERS: Final = frozenset(
    {
        "limit_w",
        "default_limit_w",
        "min_limit_w",
        "max_limit_w",
        "max_sm_mhz",
        "max_mem_mhz",
        "vram_total_mib",
        "slowdown_c",
        "shutdown_c",
        "supported_reasons",
        "max_pcie_gen",
        "max_pcie_width",
    }
)
"""What a source may say of a card that does not change."""
OF_CARD: Final = frozenset({"limit_w"})
"""Readings that the card keeps as well, as they were when it was probed."""

_DCGM: Final[dict[str, tuple[str, float]]] = {
    "POWER_USAGE": ("power_w", 1.0),
    "POWER_USAGE_INSTANT": ("power_instant_w", 1.0),
    "GPU_TEMP": ("edge_c", 1.0),
    "MEMORY_TEMP": ("vram_c", 1.0),
    "SM_CLOCK": ("sm_mhz", 1.0),
    "MEM_CLOCK": ("mem_mhz", 1.0),
    "GPU_UTIL": ("busy_percent", 1.0),
    "FB_USED": ("vram_used_mib", 1.0),
    "FB_RESERVED": ("vram_reserved_mib", 1.0),
    "FB_TOTAL": ("vram_total_mib", 1.0),
    "POWER_VIOLATION": ("power_capped_ms", 1e-6),
    "THERMAL_VIOLATION": ("thermal_ms", 1e-6),
    "TOTAL_ENERGY_CONSUMPTION": ("energy_j", 1e-3),
    "CLOCK_THROTTLE_REASONS": ("reasons", 1.0),
    "CLOCKS_EVENT_REASONS": ("reasons", 1.0),
    "ENFORCED_POWER_LIMIT": ("limit_w", 1.0),
    "PCIE_REPLAY_COUNTER": ("pcie_replays", 1.0),
    "PCIE_LINK_GEN": ("pcie_gen", 1.0),
    "PCIE_LINK_WIDTH": ("pcie_width", 1.0),
    "ECC_SBE_VOL_TOTAL": ("ecc_corrected", 1.0),
    "ECC_DBE_VOL_TOTAL": ("ecc_uncorrected", 1.0),
    "XID_ERRORS": ("xid", 1.0),
}
"""Fields of dcgm-exporter. The violation counters are ns, whatever is written about them (gpu-and-verdicts §1.5)."""
_SMI: Final[dict[str, tuple[str, float]]] = {
    "power_draw_watts": ("power_w", 1.0),
    "power_draw_instant_watts": ("power_instant_w", 1.0),
    "enforced_power_limit_watts": ("limit_w", 1.0),
    "power_default_limit_watts": ("default_limit_w", 1.0),
    "power_min_limit_watts": ("min_limit_w", 1.0),
    "power_max_limit_watts": ("max_limit_w", 1.0),
    "temperature_gpu": ("edge_c", 1.0),
    "temperature_memory": ("vram_c", 1.0),
    "clocks_current_sm_clock_hz": ("sm_mhz", 1e-6),
    "clocks_current_memory_clock_hz": ("mem_mhz", 1e-6),
    "clocks_max_sm_clock_hz": ("max_sm_mhz", 1e-6),
    "clocks_max_memory_clock_hz": ("max_mem_mhz", 1e-6),
    "utilization_gpu_ratio": ("busy_percent", 100.0),
    "memory_used_bytes": ("vram_used_mib", 1 / MIB),
    "memory_reserved_bytes": ("vram_reserved_mib", 1 / MIB),
    "memory_total_bytes": ("vram_total_mib", 1 / MIB),
    "clocks_event_reasons_active": ("reasons", 1.0),
    "clocks_throttle_reasons_active": ("reasons", 1.0),
    "clocks_event_reasons_supported": ("supported_reasons", 1.0),
    "pcie_link_gen_current": ("pcie_gen", 1.0),
    "pcie_link_gen_max": ("max_pcie_gen", 1.0),
    "pcie_link_width_current": ("pcie_width", 1.0),
    "pcie_link_width_max": ("max_pcie_width", 1.0),
    "ecc_errors_corrected_volatile_total": ("ecc_corrected", 1.0),
    "ecc_errors_uncorrected_volatile_total": ("ecc_uncorrected", 1.0),
}
"""Fields of nvidia_gpu_exporter, which are nvidia-smi's in base units."""
SAMPLES: Final[dict[str, tuple[str, float]]] = {f"DCGM_FI_DEV_{name}": known for name, known in _DCGM.items()} | {
    f"nvidia_smi_{name}": known for name, known in _SMI.items()
}
"""Name of a metric -> our name, and the factor to our unit."""
INFO_LABELS: Final[dict[str, str]] = {
    "modelName": "name",
    "name": "name",
    "pci_bus_id": "bus",
    "driver_version": "driver",
    "DCGM_FI_DRIVER_VERSION": "driver",
    "vbios_version": "vbios",
    "compute_cap": "compute",
}
"""Labels that say what a card is."""
SMI_FIELDS: Final[tuple[tuple[str, str, float], ...]] = (
    ("index", "index", 1.0),
    ("uuid", "uuid", 1.0),
    ("name", "name", 1.0),
    ("driver_version", "driver", 1.0),
    ("power.draw", "power_w", 1.0),
    ("enforced.power.limit", "limit_w", 1.0),
    ("power.default_limit", "default_limit_w", 1.0),
    ("clocks.sm", "sm_mhz", 1.0),
    ("clocks.mem", "mem_mhz", 1.0),
    ("clocks.max.sm", "max_sm_mhz", 1.0),
    ("clocks.max.mem", "max_mem_mhz", 1.0),
    ("temperature.gpu", "edge_c", 1.0),
    ("temperature.memory", "vram_c", 1.0),
    ("utilization.gpu", "busy_percent", 1.0),
    ("memory.used", "vram_used_mib", 1.0),
    ("memory.total", "vram_total_mib", 1.0),
    ("clocks_event_reasons.active", "reasons", 1.0),
    ("pcie.link.gen.current", "pcie_gen", 1.0),
    ("pcie.link.width.current", "pcie_width", 1.0),
    ("ecc.errors.corrected.volatile.total", "ecc_corrected", 1.0),
    ("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", 1.0),
)
"""nvidia-smi's query fields, in order; a name with a comma in it would shift them, and no card's name has one."""
