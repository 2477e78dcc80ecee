"""AMD cards through amdsmi, an optional extra. Its missing values (`N/A`, the largest number of a type) become None."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from infermaxx_tui.core.gpu import FAST, NOT_SUPPORTED, OK, SLOW, GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.core.gpu_nvml import checked
from infermaxx_tui.core.gpu_owner import Seen, ServerPids, claim, marked
from infermaxx_tui.core.gpu_text_names import WHOLE
from infermaxx_tui.sensors.machine import Machine

T = TypeVar("T")
_MIB: Final = 2.0**20
_NONE_ABOVE: Final = 2**63
"""A counter of 64 bits that is all ones has no value (gpu-and-verdicts §1.12)."""
_NONE_EXACTLY: Final = (0xFFFF, 0xFFFFFFFF)
_SLOW: Final = frozenset(SLOW)


class Kinds(Protocol):
    """An enumeration of amdsmi; its members are passed back to it."""

    def __getattr__(self, name: str) -> object: ...


class AmdSmi(Protocol):
    """The calls of amdsmi, by its names."""

    AmdSmiException: type[Exception]
    AmdSmiTemperatureType: Kinds
    AmdSmiTemperatureMetric: Kinds
    AmdSmiClkType: Kinds

    def amdsmi_init(self) -> object: ...
    def amdsmi_shut_down(self) -> object: ...
    def amdsmi_get_processor_handles(self) -> Sequence[object]: ...
    def amdsmi_get_gpu_device_uuid(self, handle: object) -> str: ...
    def amdsmi_get_gpu_device_bdf(self, handle: object) -> str: ...
    def amdsmi_get_gpu_asic_info(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_gpu_driver_info(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_power_info(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_power_cap_info(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_clock_info(self, handle: object, kind: object) -> Mapping[str, object]: ...
    def amdsmi_get_temp_metric(self, handle: object, sensor: object, metric: object) -> object: ...
    def amdsmi_get_gpu_activity(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_gpu_vram_usage(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_energy_count(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_pcie_info(self, handle: object) -> Mapping[str, Mapping[str, object]]: ...
    def amdsmi_get_gpu_total_ecc_count(self, handle: object) -> Mapping[str, object]: ...
    def amdsmi_get_gpu_process_list(self, handle: object) -> Sequence[Mapping[str, object]]: ...


def _power(lib: AmdSmi, h: object) -> float | None:
    info = lib.amdsmi_get_power_info(h)
    known = (number(info.get(name)) for name in ("average_socket_power", "current_socket_power"))
    return next((value for value in known if value), None)


def _energy(lib: AmdSmi, h: object) -> float | None:
    info = lib.amdsmi_get_energy_count(h)
    count, step_uj = number(info.get("energy_accumulator")), number(info.get("counter_resolution"))
    return None if count is None or step_uj is None else count * step_uj / 1e6


def _temperature(kind: str) -> Callable[[AmdSmi, object], float | None]:
    def read(lib: AmdSmi, h: object) -> float | None:
        sensor = getattr(lib.AmdSmiTemperatureType, kind)
        return number(lib.amdsmi_get_temp_metric(h, sensor, lib.AmdSmiTemperatureMetric.CURRENT))

    return read


def _clock(kind: str, key: str = "clk") -> Callable[[AmdSmi, object], float | None]:
    return lambda lib, h: number(lib.amdsmi_get_clock_info(h, getattr(lib.AmdSmiClkType, kind)).get(key))


READS: Final[dict[str, Callable[[AmdSmi, object], float | None]]] = {
    "power_w": _power,
    "sm_mhz": _clock("GFX"),
    "mem_mhz": _clock("MEM"),
    "edge_c": _temperature("EDGE"),
    "hotspot_c": _temperature("HOTSPOT"),
    "vram_c": _temperature("VRAM"),
    "busy_percent": lambda lib, h: number(lib.amdsmi_get_gpu_activity(h).get("gfx_activity")),
    "vram_used_mib": lambda lib, h: number(lib.amdsmi_get_gpu_vram_usage(h).get("vram_used")),
    "limit_w": lambda lib, h: scaled(lib.amdsmi_get_power_cap_info(h).get("power_cap"), 1e-6),
    "energy_j": _energy,
    "pcie_width": lambda lib, h: number(lib.amdsmi_get_pcie_info(h)["pcie_metric"].get("pcie_width")),
    "pcie_replays": lambda lib, h: number(lib.amdsmi_get_pcie_info(h)["pcie_metric"].get("pcie_replay_count")),
    "ecc_corrected": lambda lib, h: number(lib.amdsmi_get_gpu_total_ecc_count(h).get("correctable_count")),
    "ecc_uncorrected": lambda lib, h: number(lib.amdsmi_get_gpu_total_ecc_count(h).get("uncorrectable_count")),
}
"""Readings by our names. The power cap is in µW, energy in steps of so many µJ, VRAM in MiB."""


def number(value: object) -> float | None:
    """A number of amdsmi; None for whatever it puts where it has none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if value in _NONE_EXACTLY or value >= _NONE_ABOVE or value != value else float(value)


def scaled(value: object, factor: float) -> float | None:
    """The same in another unit."""
    read = number(value)
    return None if read is None else read * factor


class AmdSource:
    """A sensors.source.Source over amdsmi."""

    def __init__(self, lib: AmdSmi, find_server: Callable[[], ServerPids], machine: Machine) -> None:
        self._lib = lib
        self._find_server = find_server
        self._machine = machine
        self._handles: dict[int, object] = {}
        self._cards: dict[int, GpuCard] = {}
        self._server = ServerPids(None, why="not looked for")
        self._started = False

    def _ask(self, call: Callable[[], T | None]) -> tuple[T | None, str]:
        """What a call gives and `ok`, or None and the reason."""
        try:
            value = call()
        except self._lib.AmdSmiException as error:
            words = " ".join(str(error).split())[:120]
            return None, NOT_SUPPORTED if "NOT_SUPPORTED" in words else f"error: {words or type(error).__name__}"
        except (KeyError, AttributeError):
            return None, "this version of amdsmi does not give it"
        return value, OK if value is not None else "the card has no value"

    def probe(self, first: int) -> GpuProbe:
        """Starts amdsmi and asks each card for each reading."""
        began = time.perf_counter()
        _, why = self._ask(lambda: self._lib.amdsmi_init() or True)
        if why != OK:
            return GpuProbe(source="amdsmi", error=f"amdsmi does not start: {why}")
        self._started = True
        self._server = self._find_server()
        found, why = self._ask(self._lib.amdsmi_get_processor_handles)
        self._handles = {first + at: handle for at, handle in enumerate(found or ())}
        driver = None
        for gpu, handle in self._handles.items():
            self._cards[gpu] = self._card(gpu, handle)
            info = self._ask(lambda: self._lib.amdsmi_get_gpu_driver_info(handle))[0] or {}  # noqa: B023
            driver = driver or _word(info.get("driver_version"))
        return GpuProbe(
            source="amdsmi",
            cards=tuple(self._cards.values()),
            driver=driver,
            error=None if self._handles else f"amdsmi sees no card ({why})",
            cost_ms=round((time.perf_counter() - began) * 1000, 3),
        )

    def _card(self, gpu: int, h: object) -> GpuCard:
        lib = self._lib
        metrics = dict.fromkeys((*FAST, *SLOW), "amdsmi does not give it")
        values: dict[str, float] = {}
        for name, read in READS.items():
            value, metrics[name] = self._checked(name, read, h)
            if value is not None:
                values[name] = value
        cap = self._ask(lambda: lib.amdsmi_get_power_cap_info(h))[0] or {}
        vram = self._ask(lambda: lib.amdsmi_get_gpu_vram_usage(h))[0] or {}
        processes, metrics["processes"] = self._processes(h)
        card = GpuCard(
            gpu=gpu,
            uuid=self._ask(lambda: lib.amdsmi_get_gpu_device_uuid(h))[0],
            name=_word((self._ask(lambda: lib.amdsmi_get_gpu_asic_info(h))[0] or {}).get("market_name")),
            bus=self._ask(lambda: lib.amdsmi_get_gpu_device_bdf(h))[0],
            limit_w=values.get("limit_w"),
            default_limit_w=scaled(cap.get("default_power_cap"), 1e-6),
            min_limit_w=scaled(cap.get("min_power_cap"), 1e-6),
            max_limit_w=scaled(cap.get("max_power_cap"), 1e-6),
            max_sm_mhz=_whole(self._ask(lambda: _clock("GFX", "max_clk")(lib, h))[0]),
            max_mem_mhz=_whole(self._ask(lambda: _clock("MEM", "max_clk")(lib, h))[0]),
            vram_total_mib=number(vram.get("vram_total")),
            metrics=metrics,
        )
        why = "" if metrics["processes"] == OK else metrics["processes"]
        seen = Seen(processes, why, self._visible(processes))
        return claim(card, seen, values.get("vram_used_mib"), len(self._handles), self._server)

    def _checked(
        self, name: str, read: Callable[[AmdSmi, object], float | None], h: object
    ) -> tuple[float | None, str]:
        value, why = self._ask(lambda: read(self._lib, h))
        if value is None:
            return None, why
        return checked(name, value)

    def _processes(self, h: object) -> tuple[tuple[GpuProcess, ...] | None, str]:
        found, why = self._ask(lambda: self._lib.amdsmi_get_gpu_process_list(h))
        if found is None:
            return None, why
        made = []
        for one in found:
            pid, memory = number(one.get("pid")), one.get("memory_usage")
            held = scaled(memory.get("vram_mem"), 1 / _MIB) if isinstance(memory, Mapping) else None
            if pid is not None:
                made.append(GpuProcess(int(pid), held, self._machine.name(int(pid))))
        return tuple(made), OK

    def _visible(self, processes: tuple[GpuProcess, ...] | None) -> frozenset[int]:
        return frozenset(one.pid for one in processes or () if self._machine.exists(one.pid))

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """A reading of each card."""
        return tuple(self._read(gpu, handle, slow) for gpu, handle in self._handles.items())

    def _read(self, gpu: int, h: object, slow: bool) -> GpuReading:
        card = self._cards[gpu]
        values: dict[str, float | int] = {}
        tried = [name for name in READS if card.metrics[name] == OK and (slow or name not in _SLOW)]
        for name in tried:
            value, _ = self._checked(name, READS[name], h)
            if value is not None:
                values[name] = round(value) if name in WHOLE else round(value, 3)
        if tried and not values:
            return GpuReading(gpu=gpu, lost="the card answers none of its readings any more")
        reading = msgspec.convert({"gpu": gpu, **values}, GpuReading)
        if not slow or card.metrics["processes"] != OK:
            return reading
        processes, _ = self._processes(h)
        if processes is None:
            return reading
        told = marked(processes, self._visible(processes), self._server, card.server)
        return msgspec.structs.replace(reading, processes=told)

    def changed(self) -> GpuProbe | None:
        """What a card gives is settled when it is probed."""
        return None

    def close(self) -> None:
        """Ends amdsmi."""
        if self._started:
            self._ask(lambda: self._lib.amdsmi_shut_down() or True)
            self._started = False


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "N/A") else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
