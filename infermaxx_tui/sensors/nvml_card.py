"""One NVIDIA card: asks it for each reading once, remembers what it cannot say and why, and never asks for that again.

Answers that may come right later (time-out, unknown error) are asked for again after a while. A card that is gone says
so as a reading, and is looked for again by its UUID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from infermaxx_tui.core.gpu import FAST, OK, SLOW, GpuCard, GpuProcess, GpuReading, driver_major
from infermaxx_tui.core.gpu_nvml import (
    ERRORS,
    FAST_FIELDS,
    FUNCTION_NOT_FOUND,
    HOTSPOT_DRIVER,
    LOST_CODES,
    MARGIN_DRIVER,
    PASSING_CODES,
    SLOW_FIELDS,
    SLOWDOWN_MARGIN,
    Field,
    checked,
    field_reading,
    status_of,
)
from infermaxx_tui.sensors.nvml_lib import Nvml

T = TypeVar("T")
Value = float | int | str
MIB: Final = 2.0**20
_REST_ROUNDS: Final = 30
"""Rounds after which an answer that may come right is asked for again; doubled each time."""
_MOST_REST: Final = 960
_SHARED: Final = "of the whole board, which MIG instances share"
_PARENT_ONLY: Final = frozenset({"power_w", "power_instant_w", "energy_j", "limit_w", "busy_percent"})
"""Readings that a MIG instance has no own of."""


class LostError(Exception):
    """The card does not answer any more."""


class Getter(msgspec.Struct, frozen=True):
    """How a reading is asked for by a call of its own; the first call that works is kept."""

    metric: str
    slow: bool
    calls: tuple[Callable[[Nvml, object], float | int], ...]
    needs_driver: int = 0
    on_board: bool = True
    """Asked of the board, not of the MIG instance on it."""


GETTERS: Final = (
    Getter("power_w", False, (lambda lib, h: lib.nvmlDeviceGetPowerUsage(h) / 1000,)),
    Getter("sm_mhz", False, (lambda lib, h: lib.nvmlDeviceGetClockInfo(h, 1),)),
    Getter("mem_mhz", False, (lambda lib, h: lib.nvmlDeviceGetClockInfo(h, 2),)),
    Getter(
        "edge_c",
        False,
        (lambda lib, h: lib.nvmlDeviceGetTemperatureV(h, 0), lambda lib, h: lib.nvmlDeviceGetTemperature(h, 0)),
    ),
    Getter("hotspot_c", False, (lambda lib, h: lib.nvmlDeviceGetTemperatureV(h, 1),), HOTSPOT_DRIVER),
    Getter("busy_percent", False, (lambda lib, h: lib.nvmlDeviceGetUtilizationRates(h).gpu,)),
    Getter(
        "reasons",
        False,
        (
            lambda lib, h: lib.nvmlDeviceGetCurrentClocksEventReasons(h),
            lambda lib, h: lib.nvmlDeviceGetCurrentClocksThrottleReasons(h),
        ),
    ),
    Getter("limit_w", True, (lambda lib, h: lib.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,)),
    Getter("margin_c", True, (lambda lib, h: lib.nvmlDeviceGetMarginTemperature(h),), MARGIN_DRIVER),
    Getter("pcie_gen", True, (lambda lib, h: lib.nvmlDeviceGetCurrPcieLinkGeneration(h),)),
    Getter("pcie_width", True, (lambda lib, h: lib.nvmlDeviceGetCurrPcieLinkWidth(h),)),
    Getter("ecc_corrected", True, (lambda lib, h: lib.nvmlDeviceGetTotalEccErrors(h, 0, 0),)),
    Getter("ecc_uncorrected", True, (lambda lib, h: lib.nvmlDeviceGetTotalEccErrors(h, 1, 0),)),
)
"""The numbers are NVML's: clock domains SM and memory, sensors of the edge and (since driver 615) the hottest part."""


def ask(lib: Nvml, call: Callable[[], T]) -> tuple[T | None, int]:
    """What a call of NVML gives and 0, or None and the code of its error."""
    try:
        return call(), 0
    except lib.NVMLError as error:
        return None, int(getattr(error, "value", 999))
    except UnicodeDecodeError:
        return None, 999
    except AttributeError:  # an older binding has no such name
        return None, FUNCTION_NOT_FOUND


def text_of(value: str | bytes | None) -> str | None:
    """Older bindings give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class NvmlCard:
    """A card, or a MIG instance of one."""

    def __init__(self, lib: Nvml, number: int, board: object, instance: object | None, driver: str | None) -> None:
        self._lib = lib
        self.board = board
        """The handle of the board."""
        self.hears_xids = False
        """Whether the driver tells of XID errors."""
        self._handle = instance if instance is not None else board
        self._mig = instance is not None
        self._driver = driver_major(driver)
        self._status: dict[str, str] = {}
        self._calls: dict[str, Callable[[Nvml, object], float | int]] = {}
        self._rests: dict[str, int] = {}
        self._wait: dict[str, int] = {}
        self._memory_v2 = True
        self.dirty = False
        """Whether a reading came to be answered otherwise since `card` was made."""
        self.number = number
        self.uuid = text_of(self._ask(lambda: lib.nvmlDeviceGetUUID(self._handle)))

    def _ask(self, call: Callable[[], T]) -> T | None:
        return ask(self._lib, call)[0]

    def probe(self) -> tuple[GpuCard, float | None]:
        """The card with what each of its readings says, and the VRAM used on it in MiB."""
        for field in (*FAST_FIELDS, *SLOW_FIELDS):
            self._status[field.metric] = OK
        values = self._values(True, first=True)
        return self._card(), _number(values.get("vram_used_mib"))

    @property
    def metrics(self) -> dict[str, str]:
        """For each reading `ok`, or the reason why there is none."""
        heard = OK if self.hears_xids else "the driver tells of none here"
        return {**{name: self._status.get(name, OK) for name in (*FAST, *SLOW)}, "xids": heard}

    def _card(self) -> GpuCard:
        lib, board = self._lib, self.board
        limits = self._ask(lambda: lib.nvmlDeviceGetPowerManagementLimitConstraints(board)) or (None, None)
        compute = self._ask(lambda: lib.nvmlDeviceGetCudaComputeCapability(board))
        pci = self._ask(lambda: lib.nvmlDeviceGetPciInfo(board))
        memory = self._ask(lambda: lib.nvmlDeviceGetMemoryInfo(self._handle))
        mig, ecc = (
            self._ask(lambda: lib.nvmlDeviceGetMigMode(board)),
            self._ask(lambda: lib.nvmlDeviceGetEccMode(board)),
        )
        persistence = self._ask(lambda: lib.nvmlDeviceGetPersistenceMode(board))
        return GpuCard(
            gpu=self.number,
            uuid=self.uuid,
            name=text_of(self._ask(lambda: lib.nvmlDeviceGetName(self._handle))),
            bus=None if pci is None else text_of(pci.busId),
            vbios=text_of(self._ask(lambda: lib.nvmlDeviceGetVbiosVersion(board))),
            compute=None if compute is None else ".".join(map(str, compute)),
            limit_w=_watts(self._ask(lambda: lib.nvmlDeviceGetEnforcedPowerLimit(board))),
            default_limit_w=_watts(self._ask(lambda: lib.nvmlDeviceGetPowerManagementDefaultLimit(board))),
            min_limit_w=_watts(limits[0]),
            max_limit_w=_watts(limits[1]),
            max_sm_mhz=self._ask(lambda: lib.nvmlDeviceGetMaxClockInfo(board, 1)),
            max_mem_mhz=self._ask(lambda: lib.nvmlDeviceGetMaxClockInfo(board, 2)),
            bus_bits=self._ask(lambda: lib.nvmlDeviceGetMemoryBusWidth(board)),
            vram_total_mib=None if memory is None else memory.total / MIB,
            slowdown_c=self._ask(lambda: lib.nvmlDeviceGetTemperatureThreshold(board, 1)),
            shutdown_c=self._ask(lambda: lib.nvmlDeviceGetTemperatureThreshold(board, 0)),
            slowdown_margin_c=self._slowdown_margin(),
            supported_reasons=self._ask(lambda: lib.nvmlDeviceGetSupportedClocksEventReasons(board)),
            max_pcie_gen=self._ask(lambda: lib.nvmlDeviceGetMaxPcieLinkGeneration(board)),
            max_pcie_width=self._ask(lambda: lib.nvmlDeviceGetMaxPcieLinkWidth(board)),
            persistence=None if persistence is None else bool(persistence),
            mig=None if mig is None else bool(mig[0]),
            ecc=None if ecc is None else bool(ecc[0]),
            metrics=self.metrics,
        )

    def _slowdown_margin(self) -> int | None:
        got = self._ask(lambda: self._lib.nvmlDeviceGetFieldValues(self.board, [SLOWDOWN_MARGIN.number]))
        if not got or self._driver is None or self._driver < SLOWDOWN_MARGIN.needs_driver:
            return None
        value, _ = field_reading(SLOWDOWN_MARGIN, got[0].nvmlReturn, got[0].valueType, got[0].value.ullVal)
        return value if isinstance(value, int) else None

    def read(self, slow: bool) -> GpuReading:
        """One reading, without processes. Raises LostError."""
        return msgspec.convert({"gpu": self.number, **self._values(slow)}, GpuReading)

    def processes(self) -> tuple[tuple[GpuProcess, ...] | None, str]:
        """Processes that compute on it, or None and the reason. One that is listed twice holds the larger of both."""
        found, code = ask(self._lib, lambda: self._lib.nvmlDeviceGetComputeRunningProcesses(self._handle))
        if found is None:
            self._note("processes", status_of(code), code)
            return None, status_of(code)
        self._note("processes", OK, 0)
        held: dict[int, float | None] = {}
        for one in found:
            mib = None if one.usedGpuMemory is None else one.usedGpuMemory / MIB
            known = held.get(one.pid)
            held[one.pid] = mib if known is None else max(known, mib or 0.0)
        return tuple(GpuProcess(pid, mib) for pid, mib in sorted(held.items())), ""

    def find_again(self) -> bool:
        """Looks for the card by its UUID; whether it answers."""
        uuid = (self.uuid or "").encode()
        handle = self._ask(lambda: self._lib.nvmlDeviceGetHandleByUUID(uuid)) if uuid and not self._mig else None
        if handle is not None:
            self.board = self._handle = handle
        return self._ask(lambda: self._lib.nvmlDeviceGetUUID(self._handle)) is not None

    def _values(self, slow: bool, first: bool = False) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for getter in GETTERS:
            if (slow or not getter.slow) and self._wanted(getter.metric, first):
                self._get(getter, values, first)
        self._fields(FAST_FIELDS, values)
        if slow:
            self._fields(SLOW_FIELDS, values)
        self._memory(values)
        return values

    def _get(self, getter: Getter, values: dict[str, Value], first: bool) -> None:
        if self._mig and getter.metric in _PARENT_ONLY:
            self._status[getter.metric] = _SHARED
            return
        code, value = FUNCTION_NOT_FOUND, None
        for call in getter.calls if first else (self._calls.get(getter.metric, getter.calls[0]),):
            value, code = ask(self._lib, lambda call=call: call(self._lib, self.board))  # type: ignore[misc]
            if value is not None:
                self._calls[getter.metric] = call
                break
        self._lost(code, first)
        if value is None:
            self._note(getter.metric, status_of(code, getter.needs_driver, self._driver), code)
            return
        good, status = checked(getter.metric, value)
        self._note(getter.metric, status, 0)
        if good is not None:
            values[getter.metric] = good

    def _fields(self, fields: Sequence[Field], values: dict[str, Value]) -> None:
        wanted = []
        for field in fields:
            if self._mig and field.metric in _PARENT_ONLY:
                self._status[field.metric] = _SHARED
            elif field.needs_driver and self._driver is not None and self._driver < field.needs_driver:
                self._status[field.metric] = status_of(0, field.needs_driver, self._driver)
            elif self._wanted(field.metric, False):
                wanted.append(field)
        if not wanted:
            return
        got, code = ask(self._lib, lambda: self._lib.nvmlDeviceGetFieldValues(self.board, [f.number for f in wanted]))
        self._lost(code, False)
        if got is None:
            for field in wanted:
                self._note(field.metric, status_of(code), code)
            return
        answers = {answer.fieldId: answer for answer in got}
        for field in wanted:
            answer = answers.get(field.number)
            if answer is None:
                self._note(field.metric, "error: the driver left it out of its answer", 999)
                continue
            self._lost(answer.nvmlReturn, False)
            value, status = field_reading(field, answer.nvmlReturn, answer.valueType, answer.value.ullVal)
            self._note(field.metric, status, answer.nvmlReturn)
            if value is not None:
                values[field.metric] = value

    def _memory(self, values: dict[str, Value]) -> None:
        lib, code = self._lib, 0
        if self._memory_v2 and self._wanted("vram_used_mib", False):
            got, code = ask(lib, lambda: lib.nvmlDeviceGetMemoryInfo(self._handle, version=lib.nvmlMemory_v2))
            self._lost(code, False)
            if got is not None:
                values["vram_used_mib"] = round(got.used / MIB, 1)
                values["vram_reserved_mib"] = round(int(getattr(got, "reserved", 0)) / MIB, 1)
                self._note("vram_used_mib", OK, 0)
                self._note("vram_reserved_mib", OK, 0)
                return
            self._memory_v2 = code in PASSING_CODES
            self._note("vram_reserved_mib", status_of(code), code)
        if self._wanted("vram_used_mib", False) or not self._memory_v2:
            got, code = ask(lib, lambda: lib.nvmlDeviceGetMemoryInfo(self._handle))
            self._lost(code, False)
            self._note("vram_used_mib", OK if got is not None else status_of(code), code)
            if got is not None:
                values["vram_used_mib"] = round(got.used / MIB, 1)

    def _wanted(self, metric: str, first: bool) -> bool:
        """Whether it is to be asked for in this round."""
        if first or self._status.get(metric, OK) == OK:
            return True
        if metric not in self._wait:
            return False
        self._wait[metric] -= 1
        return self._wait[metric] <= 0

    def _note(self, metric: str, status: str, code: int) -> None:
        if self._status.get(metric) != status:
            self.dirty = True
            self._status[metric] = status
        if status == OK:
            self._wait.pop(metric, None)
            self._rests.pop(metric, None)
        elif code == 0 or code in PASSING_CODES:
            rest = self._rests[metric] = min(self._rests.get(metric, _REST_ROUNDS // 2) * 2, _MOST_REST)
            self._wait[metric] = rest

    def _lost(self, code: int, first: bool) -> None:
        if code in LOST_CODES and not first:
            raise LostError(ERRORS.get(code, f"NVML code {code}"))


def _number(value: Value | None) -> float | None:
    return value if isinstance(value, float | int) else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000
