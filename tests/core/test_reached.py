"""The regime that a run reached: what its cards did, and the true reason where there is no figure."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.histories import history, state_of
from infermaxx_tui.core.reached import RegimeReached, reached

OK = dict.fromkeys(("sm_mhz", "mem_mhz", "power_w", "thermal_ms", "power_capped_ms"), "ok")
CARD = GpuCard(gpu=0, name="NVIDIA H200", server=True, metrics=OK)
REST = GpuReading(gpu=0, busy_percent=0, power_w=119.0, sm_mhz=1980, mem_mhz=3201)
WORK = msgspec.structs.replace(REST, busy_percent=8, power_w=138.0, thermal_ms=0.0, power_capped_ms=0.0)
FIGURES = ("sm_mhz_median", "mem_mhz_median", "gpu_power_mean_w", "thermal_share", "power_capped_share")


def regime(card: GpuCard | None, *readings: GpuReading) -> RegimeReached:
    """One reading before the first request, the others while it is open."""
    events = history()
    sent = next(at for at, event in enumerate(events) if isinstance(event, e.RequestStarted))
    probe = GpuProbe(source="nvml", cards=(card,)) if card else GpuProbe(source="none", error="no NVIDIA driver here")
    first: list[e.AnyEvent] = [e.GpuProbed(probe=probe)]
    first += [e.GpuRead(gpus=(REST,), window_ms=0.0)] if readings else []
    seen = [e.GpuRead(gpus=(reading,), window_ms=1000.0) for reading in readings]
    return reached(state_of([*events[:sent], *first, events[sent], *seen, *events[sent + 1 :]]))


def without(name: str, why: str) -> GpuCard:
    return msgspec.structs.replace(CARD, metrics=OK | {name: why})


def test_a_card_that_is_hardly_busy_has_clocks_all_the_same() -> None:
    got = regime(CARD, WORK, WORK, WORK)
    assert (got.sm_mhz_median, got.mem_mhz_median, got.thermal_share, got.power_capped_share) == (1980, 3201, 0.0, 0.0)
    assert not set(FIGURES) & set(got.missing)


def test_a_card_that_never_worked_is_not_called_unknown() -> None:
    got = regime(CARD, REST, REST)
    assert (got.sm_mhz_median, got.gpu_power_mean_w) == (None, 119.0)
    assert got.missing["sm_mhz_median"] == "the server's card was at work in none of 3 readings"
    assert "power_limit_changed" not in got.missing


NO_CLOCKS = msgspec.structs.replace(WORK, sm_mhz=None, mem_mhz=None)
NOBODYS = msgspec.structs.replace(CARD, server=None, server_why="no server was named")
NONE = [
    (None, (), "sm_mhz_median", "no NVIDIA driver here"),
    (NOBODYS, (WORK,), "thermal_share", "no server"),
    (without("mem_mhz", "not supported"), (NO_CLOCKS,), "mem_mhz_median", "mem_mhz: not supported"),
    (without("sm_mhz", "needs driver 615"), (NO_CLOCKS,), "sm_mhz_median", "needs driver 615"),
    (CARD, (), "gpu_power_mean_w", "never read"),
    (CARD, (WORK,), "thermal_share", "read less than twice"),
    (CARD, (GpuReading(gpu=0, busy_percent=9),), "mem_mhz_median", "without this one"),
]


@pytest.mark.parametrize(("card", "readings", "name", "words"), NONE)
def test_a_figure_that_is_missing_has_its_own_reason(
    card: GpuCard | None, readings: tuple[GpuReading, ...], name: str, words: str
) -> None:
    got = regime(card, *readings)
    assert getattr(got, name) is None
    assert words in got.missing[name]
