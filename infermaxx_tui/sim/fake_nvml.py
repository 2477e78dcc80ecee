"""A library with NVML's calls that plays timelines: the same code that reads a real card reads this one.

It is used by tests and by the embedded server, which has no card and says so: whatever comes out is labelled
simulated. Fields come raw, with a return code and a value type each, as the real ones do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.sim.fake_card import FakeCard
from infermaxx_tui.sim.gpu_timeline import NOT_SUPPORTED, Moment

MIB: Final = 2**20
_TIMEOUT, _NOT_FOUND, _INVALID, _NO_FUNCTION = 10, 6, 2, 13
_RESERVED_MIB: Final = 615.0


class FakeNvmlError(Exception):
    """An error of the library, with NVML's number in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class _Answer(msgspec.Struct, frozen=True):
    """Attributes of the real binding's structs, under their names."""

    gpu: int = 0
    total: int = 0
    used: int = 0
    reserved: int = 0
    pid: int = 0
    usedGpuMemory: int | None = None
    busId: str = ""
    device: object = None
    eventType: int = 0
    eventData: int = 0


class _Union(msgspec.Struct, frozen=True):
    ullVal: int


class _Field(msgspec.Struct, frozen=True):
    fieldId: int
    nvmlReturn: int
    valueType: int
    value: _Union


class Handle:
    """What a call is given: a card, or a MIG instance of it."""

    def __init__(self, card: FakeCard, instance: int | None = None) -> None:
        self.card = card
        self.instance = instance


class FakeNvml:
    """The library. `now` gives seconds since the timelines began."""

    NVMLError: type[Exception] = FakeNvmlError
    nvmlMemory_v2 = 0x2000028
    nvmlEventTypeXidCriticalError = 8

    def __init__(
        self,
        cards: Sequence[FakeCard],
        now: Callable[[], float],
        driver: str = "580.159.04",
        start_error: int = 0,
    ) -> None:
        self._cards = list(cards)
        self._now = now
        self._driver = driver
        self._major = int(driver.split(".")[0])
        self.start_error = start_error
        """The code that starting gives; 0 starts."""
        self.started = 0
        self.calls: dict[str, int] = {}
        """How often each call was made."""

    def _moment(self, handle: object, call: str) -> tuple[FakeCard, Moment]:
        self.calls[call] = self.calls.get(call, 0) + 1
        if not self.started:
            raise FakeNvmlError(1)
        if not isinstance(handle, Handle):
            raise FakeNvmlError(_INVALID)
        moment = handle.card.at(self._now())
        if moment.gone is not None:
            raise FakeNvmlError(moment.gone)
        if call in moment.missing:
            raise FakeNvmlError(NOT_SUPPORTED)
        return handle.card, moment

    def nvmlInit(self) -> None:
        """Starts, or raises `start_error`."""
        if self.start_error:
            raise FakeNvmlError(self.start_error)
        self.started += 1

    def nvmlShutdown(self) -> None:
        """Ends."""
        self.started = max(self.started - 1, 0)

    def nvmlSystemGetDriverVersion(self) -> str:
        """As given."""
        return self._driver

    def nvmlSystemGetNVMLVersion(self) -> str:
        """After the driver's."""
        return f"13.{self._driver}"

    def nvmlDeviceGetCount(self) -> int:
        """How many cards play."""
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        """A card by its place."""
        return Handle(self._cards[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes) -> Handle:
        """A card by its UUID, if it is not lost."""
        for card in self._cards:
            if card.facts.uuid.encode() == uuid and card.at(self._now()).gone is None:
                return Handle(card)
        raise FakeNvmlError(_NOT_FOUND)

    def nvmlDeviceGetUUID(self, handle: object) -> str:
        """Of the card, or of the MIG instance."""
        card, _ = self._moment(handle, "nvmlDeviceGetUUID")
        part = handle.instance if isinstance(handle, Handle) else None
        return card.facts.uuid if part is None else f"MIG-{part}-{card.facts.uuid.removeprefix('GPU-')}"

    def nvmlDeviceGetName(self, handle: object) -> str:
        """The name."""
        return self._moment(handle, "nvmlDeviceGetName")[0].facts.name

    def nvmlDeviceGetPciInfo(self, handle: object) -> _Answer:
        """Where it is."""
        card, _ = self._moment(handle, "nvmlDeviceGetPciInfo")
        return _Answer(busId=f"00000000:{self._cards.index(card) + 1:02X}:00.0")

    def nvmlDeviceGetVbiosVersion(self, handle: object) -> str:
        """A version."""
        self._moment(handle, "nvmlDeviceGetVbiosVersion")
        return "96.00.00.00.01"

    def nvmlDeviceGetCudaComputeCapability(self, handle: object) -> tuple[int, int]:
        """Major and minor."""
        return self._moment(handle, "nvmlDeviceGetCudaComputeCapability")[0].facts.compute

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        """mW."""
        return round(self._moment(handle, "nvmlDeviceGetPowerUsage")[1].power_w * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: object) -> int:
        """mW."""
        return round(self._moment(handle, "nvmlDeviceGetEnforcedPowerLimit")[1].limit_w * 1000)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: object) -> int:
        """mW."""
        card, _ = self._moment(handle, "nvmlDeviceGetPowerManagementDefaultLimit")
        return round(card.facts.default_limit_w * 1000)

    def nvmlDeviceGetPowerManagementLimitConstraints(self, handle: object) -> tuple[int, int]:
        """mW, from and to."""
        low, high = self._moment(handle, "nvmlDeviceGetPowerManagementLimitConstraints")[0].facts.limits_w
        return round(low * 1000), round(high * 1000)

    def nvmlDeviceGetClockInfo(self, handle: object, kind: int) -> int:
        """MHz of the SM (1) or memory (2) clock."""
        _, moment = self._moment(handle, "nvmlDeviceGetClockInfo")
        return moment.mem_mhz if kind == 2 else moment.sm_mhz

    def nvmlDeviceGetMaxClockInfo(self, handle: object, kind: int) -> int:
        """MHz."""
        card, _ = self._moment(handle, "nvmlDeviceGetMaxClockInfo")
        return card.facts.max_mem_mhz if kind == 2 else card.facts.max_sm_mhz

    def nvmlDeviceGetMemoryBusWidth(self, handle: object) -> int:
        """Bits."""
        return self._moment(handle, "nvmlDeviceGetMemoryBusWidth")[0].facts.bus_bits

    def nvmlDeviceGetTemperatureV(self, handle: object, sensor: int) -> int:
        """Sensor 1 is the hottest part, and known to drivers from 615 on."""
        _, moment = self._moment(handle, "nvmlDeviceGetTemperatureV")
        if sensor == 0:
            return moment.edge_c
        if moment.hotspot_c is None or self._major < 615:
            raise FakeNvmlError(_INVALID)
        return moment.hotspot_c

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        """The old call."""
        return self._moment(handle, "nvmlDeviceGetTemperature")[1].edge_c

    def nvmlDeviceGetTemperatureThreshold(self, handle: object, threshold: int) -> int:
        """Of the shutdown (0) or the slowdown (1)."""
        facts = self._moment(handle, "nvmlDeviceGetTemperatureThreshold")[0].facts
        return facts.shutdown_c if threshold == 0 else facts.slowdown_c

    def nvmlDeviceGetMarginTemperature(self, handle: object) -> int:
        """Degrees to the slowdown."""
        _, moment = self._moment(handle, "nvmlDeviceGetMarginTemperature")
        if self._major < 570:
            raise FakeNvmlError(_NO_FUNCTION)
        if moment.margin_c is None:
            raise FakeNvmlError(NOT_SUPPORTED)
        return moment.margin_c

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> _Answer:
        """Percent."""
        return _Answer(gpu=self._moment(handle, "nvmlDeviceGetUtilizationRates")[1].busy_percent)

    def nvmlDeviceGetMemoryInfo(self, handle: object, version: int | None = None) -> _Answer:
        """Bytes; version 1 counts the reserve as used."""
        call = "nvmlDeviceGetMemoryInfo" if version is None else "nvmlDeviceGetMemoryInfo_v2"
        card, moment = self._moment(handle, call)
        used = moment.used_mib if version is not None else moment.used_mib + _RESERVED_MIB
        total = round(card.facts.total_mib * MIB)
        return _Answer(total=total, used=round(used * MIB), reserved=round(_RESERVED_MIB * MIB))

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        """Bits."""
        return self._moment(handle, "nvmlDeviceGetCurrentClocksEventReasons")[1].reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:
        """The old name."""
        return self._moment(handle, "nvmlDeviceGetCurrentClocksThrottleReasons")[1].reasons

    def nvmlDeviceGetSupportedClocksEventReasons(self, handle: object) -> int:
        """Bits."""
        self._moment(handle, "nvmlDeviceGetSupportedClocksEventReasons")
        return 0x1FF

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: object) -> int:
        """Now."""
        return self._moment(handle, "nvmlDeviceGetCurrPcieLinkGeneration")[1].pcie[0]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: object) -> int:
        """Now."""
        return self._moment(handle, "nvmlDeviceGetCurrPcieLinkWidth")[1].pcie[1]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: object) -> int:
        """At most."""
        self._moment(handle, "nvmlDeviceGetMaxPcieLinkGeneration")
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: object) -> int:
        """At most."""
        self._moment(handle, "nvmlDeviceGetMaxPcieLinkWidth")
        return 16

    def nvmlDeviceGetTotalEccErrors(self, handle: object, error: int, counter: int) -> int:
        """Corrected (0) or not (1)."""
        return self._moment(handle, "nvmlDeviceGetTotalEccErrors")[1].ecc[error]

    def nvmlDeviceGetEccMode(self, handle: object) -> tuple[int, int]:
        """On, and on after a reboot."""
        self._moment(handle, "nvmlDeviceGetEccMode")
        return (1, 1)

    def nvmlDeviceGetPersistenceMode(self, handle: object) -> int:
        """On."""
        self._moment(handle, "nvmlDeviceGetPersistenceMode")
        return 1

    def nvmlDeviceGetMigMode(self, handle: object) -> tuple[int, int]:
        """Whether it is on."""
        on = int(self._moment(handle, "nvmlDeviceGetMigMode")[0].facts.mig_instances > 0)
        return (on, on)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: object) -> int:
        """As real cards say, whatever is in use."""
        self._moment(handle, "nvmlDeviceGetMaxMigDeviceCount")
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: object, index: int) -> Handle:
        """An instance, if there is one."""
        card, _ = self._moment(handle, "nvmlDeviceGetMigDeviceHandleByIndex")
        if index >= card.facts.mig_instances:
            raise FakeNvmlError(_NOT_FOUND)
        return Handle(card, index)

    def nvmlDeviceGetFieldValues(self, handle: object, ids: Sequence[int]) -> list[_Field]:
        """One answer a field, each with its own return code and value type."""
        card, moment = self._moment(handle, "nvmlDeviceGetFieldValues")
        return [_Field(number, *self._field(card, moment, number)) for number in ids]

    def _field(self, card: FakeCard, moment: Moment, number: int) -> tuple[int, int, _Union]:
        if moment.fields is not None and number in moment.fields:
            code, kind, raw = moment.fields[number]
            return code, kind, _Union(raw)
        code, kind, value = self._made(card, moment, number)
        if f"field {number}" in moment.missing:
            code = NOT_SUPPORTED
        raw = struct.unpack("<Q", struct.pack("<i", value) + bytes(4))[0] if kind == 5 else value
        return code, kind, _Union(0 if code else raw)

    def _made(self, card: FakeCard, moment: Moment, number: int) -> tuple[int, int, int]:
        """Return code, value type and value of a field. Before 580 the numbers from 269 on mean something else."""
        throttled = [round(seconds * 1e9) for seconds in card.throttled_s]
        match number:
            case 82 if moment.vram_c is not None:
                return 0, 1, moment.vram_c
            case 186:
                return 0, 1, round(moment.power_w * 1000)
            case 74 | 75:
                return 0, 3, throttled[number - 74]
            case 83:
                return 0, 3, round(card.energy_j * 1000)
            case 94:
                return 0, 1, moment.pcie[2]
            case 194:
                return 0, 5, card.facts.slowdown_margin_c
            case 230 if self._major >= 570:
                return 0, 1, moment.recovery
            case 269 | 270 | 271:
                return 0, 3, throttled[number - 267] if self._major >= 580 else 300_000
            case _:
                return NOT_SUPPORTED, 1, 0

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[_Answer]:
        """Who computes."""
        _, moment = self._moment(handle, "nvmlDeviceGetComputeRunningProcesses")
        return [
            _Answer(pid=pid, usedGpuMemory=None if mib is None else round(mib * MIB)) for pid, mib in moment.processes
        ]

    def nvmlDeviceGetSupportedEventTypes(self, handle: object) -> int:
        """Bits, with the one for XID errors."""
        self._moment(handle, "nvmlDeviceGetSupportedEventTypes")
        return 65439

    def nvmlEventSetCreate(self) -> object:
        """A set of events."""
        return []

    def nvmlDeviceRegisterEvents(self, handle: object, types: int, events: object) -> None:
        """What came before is not told."""
        card, moment = self._moment(handle, "nvmlDeviceRegisterEvents")
        card.told_xids = len(moment.xids)
        if isinstance(events, list):
            events.append(handle)

    def nvmlEventSetWait_v2(self, events: object, timeout_ms: int) -> _Answer:
        """The next XID error; a time-out if there is none."""
        for handle in events if isinstance(events, list) else ():
            card = handle.card
            xids = card.at(self._now()).xids
            if len(xids) > card.told_xids:
                card.told_xids += 1
                return _Answer(device=handle, eventType=8, eventData=xids[card.told_xids - 1])
        raise FakeNvmlError(_TIMEOUT)

    def nvmlEventSetFree(self, events: object) -> None:
        """Nothing is held."""
