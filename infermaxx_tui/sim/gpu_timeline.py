"""What a made-up or recorded GPU does over time: the script that the fake NVML library plays.

A timeline says what a card does at each moment; faults are laid over one another. Nothing of it is measured, and
whoever plays it says `simulated`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

SERVER_PID: Final = 1
"""The number that the embedded server's own process has on its made-up cards."""
IDLE_BIT, CAP_BIT, SW_THERMAL_BIT, HW_THERMAL_BIT = 0x001, 0x004, 0x020, 0x040
LOST_CODE: Final = 15
"""NVML's code for a GPU that fell off the bus."""
NOT_SUPPORTED: Final = 3


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One card at one moment; the defaults are an idle data-centre card with a model loaded."""

    power_w: float = 119.0
    limit_w: float = 700.0
    sm_mhz: int = 1980
    mem_mhz: int = 3201
    busy_percent: int = 0
    edge_c: int = 38
    hotspot_c: int | None = None
    """None: the driver is too old to say."""
    vram_c: int | None = 41
    """None: the card has no such sensor."""
    margin_c: int | None = 49
    used_mib: float = 72_000.0
    processes: tuple[tuple[int, float | None], ...] = ((SERVER_PID, 71_400.0),)
    """Pid and MiB; None where the driver hides it."""
    reasons: int = IDLE_BIT
    capped: float = 0.0
    """Share of time by which the counters of throttling grow; so are the four after it."""
    thermal: float = 0.0
    sw_thermal: float = 0.0
    hw_thermal: float = 0.0
    brake: float = 0.0
    pcie: tuple[int, int, int] = (5, 16, 0)
    """Generation, width, replays."""
    ecc: tuple[int, int] = (0, 0)
    """Corrected and uncorrected errors."""
    recovery: int = 0
    xids: tuple[int, ...] = ()
    """All so far, in order."""
    gone: int | None = None
    """The code that every call gives, if the card is lost."""
    missing: tuple[str, ...] = ()
    """Calls of NVML that this card does not support; a field by `field 82`."""
    fields: dict[int, tuple[int, int, int]] | None = None
    """Raw answers of fields as recorded: return code, value type, value."""


Timeline = Callable[[float], Moment]
"""Seconds since the start -> what the card does then."""
Effect = Callable[[float, Moment], Moment]
"""Something that is laid over a timeline."""


def ramp(begin_s: float = 2.0, rise_s: float = 3.0, power_w: float = 610.0) -> Timeline:
    """Idle, then load that rises to an even level: what a healthy run looks like."""

    def at(now_s: float) -> Moment:
        share = min(max((now_s - begin_s) / rise_s, 0.0), 1.0)
        if share == 0.0:
            return Moment()
        return Moment(
            power_w=119.0 + share * (power_w - 119.0),
            sm_mhz=1980,
            busy_percent=round(20 + 78 * share),
            edge_c=round(38 + 20 * share),
            vram_c=round(41 + 17 * share),
            margin_c=round(49 - 20 * share),
            reasons=0,
        )

    return at


def played(base: Timeline, *effects: Effect) -> Timeline:
    """A timeline with effects laid over it, the last on top."""

    def at(now_s: float) -> Moment:
        moment = base(now_s)
        for effect in effects:
            moment = effect(now_s, moment)
        return moment

    return at


def _from(begin_s: float, change: Callable[[Moment], Moment], until_s: float = float("inf")) -> Effect:
    return lambda now_s, moment: change(moment) if begin_s <= now_s < until_s else moment


def _with(**values: object) -> Callable[[Moment], Moment]:
    return lambda moment: msgspec.structs.replace(moment, **values)


def step(begin_s: float, power_w: float, sm_mhz: int) -> Effect:
    """From then on another power and clock at once."""
    return _from(begin_s, _with(power_w=power_w, sm_mhz=sm_mhz, busy_percent=97, reasons=0))


def limit_set(begin_s: float, limit_w: float) -> Effect:
    """From then on another power limit: what a reboot leaves of `nvidia-smi -pl`."""
    return _from(begin_s, _with(limit_w=limit_w))


def throttle(begin_s: float, share: float, sm_mhz: int = 1200) -> Effect:
    """From then on the card slows itself down by heat for that share of time, at an edge that looks harmless."""
    return _from(
        begin_s,
        _with(
            sm_mhz=sm_mhz,
            power_w=400.0,
            edge_c=78,
            margin_c=0,
            reasons=SW_THERMAL_BIT,
            busy_percent=98,
            thermal=share,
            sw_thermal=share,
        ),
    )


def power_capped(begin_s: float, limit_w: float, share: float = 0.9) -> Effect:
    """From then on at the power cap, with clocks below the most."""
    return _from(
        begin_s,
        _with(limit_w=limit_w, power_w=limit_w * 0.99, sm_mhz=1470, busy_percent=98, reasons=CAP_BIT, capped=share),
    )


def unknown_reason(begin_s: float, bits: int = 0x8000) -> Effect:
    """From then on bits that no list of reasons knows."""
    return _from(begin_s, lambda moment: msgspec.structs.replace(moment, reasons=moment.reasons | bits))


def other_process(begin_s: float, pid: int = 4242, mib: float | None = 2_000.0) -> Effect:
    """From then on somebody else computes on the card too."""

    def joined(moment: Moment) -> Moment:
        return msgspec.structs.replace(
            moment, processes=(*moment.processes, (pid, mib)), used_mib=moment.used_mib + (mib or 0.0)
        )

    return _from(begin_s, joined)


def lost(begin_s: float, until_s: float = float("inf"), code: int = LOST_CODE) -> Effect:
    """The card answers nothing for that time."""
    return _from(begin_s, _with(gone=code), until_s)


def xid(begin_s: float, number: int) -> Effect:
    """An XID error at that moment."""
    return _from(begin_s, lambda moment: msgspec.structs.replace(moment, xids=(*moment.xids, number)))


def without(*calls: str) -> Effect:
    """Calls that the card does not support, by NVML's names; a field by `field 82`."""
    return _from(0.0, lambda moment: msgspec.structs.replace(moment, missing=(*moment.missing, *calls)))


class _Line(msgspec.Struct, frozen=True):
    """A line of a recording of a real card, as shared recordings have it."""

    t: float
    power_mw: int
    limit_mw: int
    sm_mhz: int
    mem_mhz: int
    temp_c: int
    util: int
    mem_used: int
    reasons: int
    procs: tuple[tuple[int, int | None], ...]
    fields: dict[str, tuple[int, int, int]]


def recorded(lines: Iterable[bytes]) -> tuple[Timeline, float]:
    """A recorded timeline and its length in seconds. The process of the recording becomes the server's own."""
    read = [msgspec.json.decode(line, type=_Line) for line in lines if line.strip()]
    times = [line.t for line in read]
    moments = [_moment(line) for line in read]
    return (lambda now_s: moments[max(bisect_right(times, now_s) - 1, 0)]), times[-1]


def _moment(line: _Line) -> Moment:
    mib = 2.0**20
    return Moment(
        power_w=line.power_mw / 1000,
        limit_w=line.limit_mw / 1000,
        sm_mhz=line.sm_mhz,
        mem_mhz=line.mem_mhz,
        edge_c=line.temp_c,
        busy_percent=line.util,
        used_mib=line.mem_used / mib,
        reasons=line.reasons,
        processes=tuple((SERVER_PID, None if held is None else held / mib) for _, held in line.procs),
        fields={int(number): answer for number, answer in line.fields.items()},
    )
