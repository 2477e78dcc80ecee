"""The NVIDIA cards of this machine through NVML, each bound by its UUID: indices are not the same for CUDA and NVML."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from infermaxx_tui.core.gpu import OK, GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.core.gpu_nvml import start_failed
from infermaxx_tui.core.gpu_owner import Seen, ServerPids, claim, marked
from infermaxx_tui.sensors.machine import Machine
from infermaxx_tui.sensors.nvml_card import LostError, NvmlCard, ask, text_of
from infermaxx_tui.sensors.nvml_lib import Nvml

_LOOK_AGAIN: Final = 10
"""Rounds after which a card that is gone is looked for again; doubled each time."""
_MOST_ROUNDS: Final = 300
_MOST_EVENTS: Final = 64
"""XID errors that are taken up in one round."""
_WSL: Final = "WSL2: the driver hides the memory of single processes, and often the processes"


class _Gone(msgspec.Struct):
    """A card that does not answer."""

    why: str
    rounds: int = 0
    rest: int = _LOOK_AGAIN


class NvmlSource:
    """A sensors.source.Source over NVML."""

    def __init__(
        self,
        lib: Nvml,
        find_server: Callable[[], ServerPids],
        machine: Machine,
        binding: str | None = None,
        simulated: bool = False,
    ) -> None:
        self._lib = lib
        self._find_server = find_server
        self._machine = machine
        self._binding = binding
        self._simulated = simulated
        self._cards: list[NvmlCard] = []
        self._claimed: dict[int, GpuCard] = {}
        self._gone: dict[int, _Gone] = {}
        self._probe = GpuProbe(source="nvml", simulated=simulated)
        self._server = ServerPids(None, why="not looked for")
        self._events: object | None = None
        self._strangers: set[int] = set()
        self._started = self._dirty = False

    def probe(self, first: int) -> GpuProbe:
        """Starts NVML; without it, or without a card, the probe says why."""
        began = time.perf_counter()
        _, code = ask(self._lib, self._lib.nvmlInit)
        if code:
            self._probe = msgspec.structs.replace(self._probe, error=start_failed(code), binding=self._binding)
            return self._probe
        self._started = True
        driver = text_of(ask(self._lib, self._lib.nvmlSystemGetDriverVersion)[0])
        library = text_of(ask(self._lib, self._lib.nvmlSystemGetNVMLVersion)[0])
        self._server = self._find_server()
        remarks = [_WSL] if self._machine.wsl else []
        self._cards = list(self._found(first, driver, remarks))
        self._listen()
        for card in self._cards:
            self._claim(card)
        self._probe = GpuProbe(
            source="nvml",
            cards=tuple(self._claimed[card.number] for card in self._cards),
            driver=driver,
            library=library,
            binding=self._binding,
            simulated=self._simulated,
            error=None if self._cards else "; ".join(remarks) or "the NVIDIA driver sees no card",
            remarks=tuple(remarks),
            cost_ms=round((time.perf_counter() - began) * 1000, 3),
        )
        return self._probe

    def _found(self, first: int, driver: str | None, remarks: list[str]) -> Iterator[NvmlCard]:
        lib = self._lib
        count = ask(lib, lib.nvmlDeviceGetCount)[0] or 0
        number = first
        for index in range(count):
            board, code = ask(lib, lambda: lib.nvmlDeviceGetHandleByIndex(index))  # noqa: B023 - called at once
            if board is None:
                remarks.append(f"card {index} does not answer: {start_failed(code)}")
                continue
            for instance in self._instances(board, index, remarks):
                yield NvmlCard(lib, number, board, instance, driver)
                number += 1

    def _instances(self, board: object, index: int, remarks: list[str]) -> list[object | None]:
        """The MIG instances of a board, or [None] for the board itself."""
        lib = self._lib
        mode = ask(lib, lambda: lib.nvmlDeviceGetMigMode(board))[0]
        if mode is None or not mode[0]:
            return [None]
        most = ask(lib, lambda: lib.nvmlDeviceGetMaxMigDeviceCount(board))[0] or 0
        found = [ask(lib, lambda: lib.nvmlDeviceGetMigDeviceHandleByIndex(board, at))[0] for at in range(most)]  # noqa: B023
        there = [one for one in found if one is not None]
        said = f"MIG is on with {len(there)} instances" if there else "MIG is on and has no instance"
        remarks.append(f"card {index}: {said}: power, energy and use are of the whole board")
        return list(there) or [None]

    def _listen(self) -> None:
        """Has XID errors kept from now on, where the driver can do that."""
        lib = self._lib
        self._events = ask(lib, lib.nvmlEventSetCreate)[0]
        for card in self._cards:
            mask = ask(lib, lambda: lib.nvmlDeviceGetSupportedEventTypes(card.board))[0] or 0  # noqa: B023
            wanted = mask & lib.nvmlEventTypeXidCriticalError
            events = self._events
            heard = events is not None and wanted
            code = ask(lib, lambda: lib.nvmlDeviceRegisterEvents(card.board, wanted, events))[1] if heard else 3  # noqa: B023
            card.hears_xids = code == 0

    def _claim(self, card: NvmlCard) -> None:
        known, used_mib = card.probe()
        processes, why = card.processes()
        known = msgspec.structs.replace(known, metrics=card.metrics)
        seen = Seen(self._with_names(processes), why, self._visible(processes))
        self._claimed[card.number] = claim(known, seen, used_mib, len(self._cards), self._server)
        card.dirty = False

    def _visible(self, processes: tuple[GpuProcess, ...] | None) -> frozenset[int]:
        return frozenset(one.pid for one in processes or () if self._machine.exists(one.pid))

    def _with_names(self, processes: tuple[GpuProcess, ...] | None) -> tuple[GpuProcess, ...] | None:
        if processes is None:
            return None
        return tuple(msgspec.structs.replace(one, name=self._machine.name(one.pid)) for one in processes)

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """A reading of each card."""
        xids = self._xids() if slow else {}
        return tuple(self._read(card, slow, tuple(xids.get(card.uuid or "", ()))) for card in self._cards)

    def _read(self, card: NvmlCard, slow: bool, xids: tuple[int, ...]) -> GpuReading:
        gone = self._gone.get(card.number)
        if gone is not None and not self._back(card, gone):
            return GpuReading(gpu=card.number, lost=gone.why, xids=xids)
        try:
            reading = card.read(slow)
        except LostError as error:
            self._gone[card.number] = _Gone(str(error))
            return GpuReading(gpu=card.number, lost=str(error), xids=xids)
        self._dirty = self._dirty or card.dirty
        if not slow:
            return msgspec.structs.replace(reading, xids=xids) if xids else reading
        return msgspec.structs.replace(reading, xids=xids, processes=self._company(card))

    def _company(self, card: NvmlCard) -> tuple[GpuProcess, ...] | None:
        """Who computes on the card now; the server's processes are looked for again when somebody new is there."""
        if self._claimed[card.number].metrics.get("processes", OK) != OK:
            return None
        processes, why = card.processes()
        if processes is None:
            return None
        pids = {one.pid for one in processes}
        if pids - self._server.pids - self._strangers:
            self._server = self._find_server()
            self._strangers |= pids - self._server.pids
        named, visible = self._with_names(processes) or (), self._visible(processes)
        own = self._claimed[card.number].server
        if own is not True and pids & self._server.pids:
            held = Seen(named, why, visible)
            claimed = claim(self._claimed[card.number], held, None, len(self._cards), self._server)
            self._claimed[card.number], own, self._dirty = claimed, claimed.server, True
        return marked(named, visible, self._server, own)

    def _xids(self) -> dict[str, list[int]]:
        """XID errors since the last time, by UUID."""
        found: dict[str, list[int]] = {}
        lib, events = self._lib, self._events
        for _ in range(_MOST_EVENTS if events is not None else 0):
            event, code = ask(lib, lambda: lib.nvmlEventSetWait_v2(events, 0))
            if event is None:
                if code == 999:  # a set that failed so answers nothing any more
                    ask(lib, lambda: lib.nvmlEventSetFree(events))
                    self._events = None
                break
            uuid = text_of(ask(lib, lambda: lib.nvmlDeviceGetUUID(event.device))[0]) or self._silent()  # noqa: B023
            if event.eventType & lib.nvmlEventTypeXidCriticalError:
                found.setdefault(uuid, []).append(int(event.eventData))
        return found

    def _silent(self) -> str:
        """The card that does not even say its UUID any more: an error without a name is most likely of that one."""
        for card in self._cards:
            if ask(self._lib, lambda: self._lib.nvmlDeviceGetUUID(card.board))[0] is None:  # noqa: B023
                return card.uuid or ""
        return ""

    def _back(self, card: NvmlCard, gone: _Gone) -> bool:
        """Whether a card that was gone answers again. NVML itself is started anew, since a container may lose it."""
        gone.rounds += 1
        if gone.rounds < gone.rest:
            return False
        gone.rounds, gone.rest = 0, min(gone.rest * 2, _MOST_ROUNDS)
        if not card.find_again():
            if len(self._gone) == len(self._cards):
                ask(self._lib, self._lib.nvmlShutdown)
                ask(self._lib, self._lib.nvmlInit)
            return False
        del self._gone[card.number]
        return True

    def changed(self) -> GpuProbe | None:
        """The probe with the readings' states as they are now."""
        if not self._dirty:
            return None
        self._dirty = False
        cards = []
        for card in self._cards:
            card.dirty = False
            known = msgspec.structs.replace(self._claimed[card.number], metrics=card.metrics)
            self._claimed[card.number] = known
            cards.append(known)
        self._probe = msgspec.structs.replace(self._probe, cards=tuple(cards))
        return self._probe

    def close(self) -> None:
        """Ends NVML. Nothing is in flight then, since one thread makes all calls."""
        if not self._started:
            return
        events = self._events
        if events is not None:
            ask(self._lib, lambda: self._lib.nvmlEventSetFree(events))
        ask(self._lib, self._lib.nvmlShutdown)
        self._started = False
