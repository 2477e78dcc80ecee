"""The GPU panel: what it shows of a card, what it warns of, and the reason for whatever it cannot show."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.glyphs import ASCII, UNICODE, Glyphs, cells
from infermaxx_tui.core.gpu import FAST, SLOW, GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.core.panels import rows_axis, rows_gpu
from infermaxx_tui.core.panels.axis import axis_columns
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.timeline import Timeline, TimelineView

OK_BUT_HOTSPOT = dict.fromkeys((*FAST, *SLOW), "ok") | {"hotspot_c": "needs driver 615 (this is 580)"}
CARD = GpuCard(
    gpu=0,
    name="NVIDIA H200",
    uuid="GPU-aa",
    limit_w=700.0,
    max_sm_mhz=1980,
    max_mem_mhz=3201,
    vram_total_mib=143_771.0,
    server=True,
    metrics=OK_BUT_HOTSPOT,
)
READING = GpuReading(
    gpu=0,
    power_w=612.0,
    sm_mhz=1980,
    mem_mhz=3201,
    edge_c=58,
    vram_c=57,
    busy_percent=98,
    vram_used_mib=72_000.0,
    reasons=0,
    thermal_ms=0.0,
    limit_w=700.0,
)


def seen(*events: e.AnyEvent) -> tuple[RunState, TimelineView]:
    fold, timeline = Fold(), Timeline()
    for at, event in enumerate(events):
        record = e.Record(0, at, 0, at * 1_000_000, event)
        fold.add(record)
        timeline.add(record)
    return fold.snapshot(), timeline.snapshot(0, len(events) * 1_000_000, 40)


def probed(*cards: GpuCard, source: str = "nvml", simulated: bool = False, error: str | None = None) -> e.GpuProbed:
    return e.GpuProbed(probe=GpuProbe(source=source, cards=cards, simulated=simulated, error=error))


def read(*gpus: GpuReading, first: bool = False, server: tuple[int, ...] = (0,)) -> e.GpuRead:
    return e.GpuRead(gpus=gpus, server=server, window_ms=0.0 if first else 1000.0, slow_ms=1.0)


def changed(**values: object) -> GpuReading:
    return msgspec.structs.replace(READING, **values)


def text(*events: e.AnyEvent, width: int = 100, glyphs: Glyphs = UNICODE) -> str:
    state, view = seen(*events)
    rows = rows_gpu(state, view, width, glyphs)
    assert all(cells(row.text) <= width for row in rows)
    return "\n".join(row.text for row in rows)


def test_each_reading_with_its_bound_and_the_reason_for_the_one_that_is_missing() -> None:
    said = text(probed(CARD), read(READING, first=True), read(READING))
    for part in (
        "NVIDIA H200",
        "612 of 700 W",
        "1980 of 1980 MHz",
        "3201 of 3201 MHz",
        "58 C",
        "57 C",
        "0% of time",
        "70 of 140 GiB",
        "hotspot: n/a (needs driver 615 (this is 580))",
    ):
        assert part in said
    assert "not the server's" not in said
    assert "lost" not in said


def test_a_card_that_is_not_the_servers_says_so_first() -> None:
    local = GpuCard(gpu=0, name="RTX 3090", server=False, server_why="a local card, and the server is elsewhere: box")
    said = text(probed(local), read(READING, first=True, server=()))
    assert said.splitlines()[1].startswith("LOCAL GPU, not the server's: a local card")
    unknown = GpuCard(gpu=0, name="RTX 3090", server_why="its processes are hidden")
    assert "not known to be the server's: its processes are hidden" in text(probed(unknown), read(READING))


def test_with_the_servers_card_known_the_others_are_not_shown() -> None:
    other = GpuCard(gpu=1, name="RTX 3090", server=False)
    said = text(probed(CARD, other), read(READING, changed(gpu=1, power_w=999.0), first=True))
    assert "999" not in said
    assert "3090" not in said


def test_of_several_cards_the_worst_is_shown() -> None:
    second = GpuCard(gpu=1, name="NVIDIA H200", server=True, limit_w=700.0, metrics=OK_BUT_HOTSPOT)
    said = text(probed(CARD, second), read(READING, changed(gpu=1, sm_mhz=1200, edge_c=80), first=True, server=(0, 1)))
    assert "2x NVIDIA H200, the worst of them" in said
    assert "1200 of" in said
    assert "80 C" in said


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (changed(xids=(79, 79)), "XID 79 x2"),
        (changed(recovery="reset the GPU"), "the driver asks: reset the GPU"),
        (GpuReading(gpu=0, lost="GPU is lost"), "lost (GPU is lost) and is gone: 1 rounds"),
        (changed(limit_w=350.0), "the power limit went from 700 to 350 W"),
        (changed(processes=(GpuProcess(42, 900.0, "python", False),)), "others compute on this card: python 42"),
        (changed(reasons=0x8020), "unknown 0x8000"),
        (changed(reasons=0x20), "thermal, by software"),
        (changed(thermal_ms=500.0), "50% of time"),
        (changed(sm_mhz=900, power_w=300.0), "heat that no sensor here shows"),
    ],
)
def test_what_one_ought_to_know_is_said_and_only_then(reading: GpuReading, said: str) -> None:
    healthy = (probed(CARD), read(READING, first=True), read(READING))
    sick = (probed(CARD), read(READING, first=True), read(reading))
    assert said not in text(*healthy, width=140)
    assert said in text(*sick, width=140)


def test_a_simulated_card_cannot_hide_it() -> None:
    assert "NVIDIA H200 (simulated)" in text(probed(CARD, simulated=True), read(READING, first=True))


def test_without_a_card_there_is_one_reason() -> None:
    said = text(probed(error="no NVIDIA driver on this machine", source="none"), width=140)
    assert said.startswith("GPU power, SM clock")
    assert "n/a (no NVIDIA driver on this machine)" in said


def test_a_log_of_before_there_were_sensors_keeps_its_own_reason() -> None:
    regime = e.RegimeNoted(regime=Regime(missing={"gpu": "no GPU sensors in this version"}))
    assert "n/a (no GPU sensors in this version)" in text(regime, width=140)
    assert "n/a (no GPU sensors were read)" in text(e.Noted(text="x"), width=140)


def test_the_time_axis_has_a_lane_for_what_was_read_and_none_for_what_was_not() -> None:
    state, view = seen(probed(CARD), read(READING, first=True), read(READING))
    labels = [row.text.split("  ")[0].strip() for row in rows_axis(state, view, 100)]
    for label in ("power", "SM clock", "mem clock", "edge", "VRAM temp", "throttled", "VRAM used"):
        assert label in labels
    assert "hotspot" not in labels
    bare, empty = seen(e.Noted(text="x"))
    assert not any(row.text.startswith(("power", "SM clock")) for row in rows_axis(bare, empty, 100))


def test_a_silence_of_the_sensors_is_a_gap_and_not_a_line() -> None:
    silence = [e.Noted(text="nothing")] * 6
    state, view = seen(probed(CARD), read(READING, first=True), *silence, read(READING))
    assert view.series["gpu_power_w"][2:8] == (None,) * 6
    assert state.gpus.rounds == 2


@pytest.mark.parametrize("width", [20, 40, 60, 80, 140])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_it_fits_any_width(width: int, glyphs: Glyphs) -> None:
    said = text(probed(CARD), read(READING, first=True), read(changed(xids=(31,))), width=width, glyphs=glyphs)
    assert said
    assert axis_columns(width) > 0
    if glyphs is ASCII:
        assert said.isascii()


def test_a_hostile_name_of_a_card_or_a_process_is_made_harmless() -> None:
    card = GpuCard(gpu=0, name="\x1b]0;pwned\x07RTX", server=True)
    process = GpuProcess(7, 1.0, "\x1b[31mevil", False)
    said = text(probed(card), read(changed(processes=(process,)), first=True))
    assert "\x1b" not in said
    assert "\x07" not in said
