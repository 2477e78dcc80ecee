"""What the fold keeps of the cards: sums over counters, and energy per token only where it covers the tokens."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.events import GpuProbed, GpuRead, Record
from infermaxx_tui.core.fold_gpu import Gpus
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuProcess, GpuReading, gpu_name, power_limit_w
from infermaxx_tui.core.gpu_card import KeptCard, Load, take
from infermaxx_tui.core.gpu_regime import sensor_lines, with_gpus
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.regime import Regime

CARD = GpuCard(gpu=0, uuid="GPU-aa", name="NVIDIA H200", limit_w=700.0, max_sm_mhz=1980, server=True)


def folded(*readings: GpuReading, window_ms: float = 1000.0, card: GpuCard = CARD, tokens: int = 0) -> GpuSummary:
    """Readings a window apart, the first one at the start."""
    gpus = fed(readings, window_ms, card)
    elapsed_us = round((len(readings) - 1) * window_ms * 1000)
    return gpus.summary(tokens, tokens * 3, tokens, elapsed_us)


def fed(readings: tuple[GpuReading, ...], window_ms: float, card: GpuCard) -> Gpus:
    gpus = Gpus()
    gpus.probed(Record(0, 0, 0, 0, probed := GpuProbed(probe=GpuProbe(source="nvml", cards=(card,)))), probed)
    for at, reading in enumerate(readings):
        event = GpuRead(gpus=(reading,), server=(0,), window_ms=window_ms if at else 0.0, fast_ms=0.1)
        gpus.read(Record(0, at + 1, 0, 0, event), event)
    return gpus


def energy(*joules: float) -> list[GpuReading]:
    return [GpuReading(gpu=0, energy_j=one) for one in joules]


class TestEnergyPerToken:
    """It is given for a run that it covers, and refused with the reason for any other."""

    def test_of_the_whole_run(self) -> None:
        found = folded(*energy(1000, 1600, 2200, 2800), tokens=600).energy
        assert (found.joules, found.per_output_token, found.per_token) == (1800.0, 3.0, 0.75)
        assert found.cached_share == pytest.approx(1 / 3)
        assert found.reason == ""

    def test_not_without_a_card_of_the_servers(self) -> None:
        card = msgspec.structs.replace(CARD, server=None)
        found = folded(*energy(0, 1, 2, 3), card=card, tokens=5).energy
        assert (found.joules, found.per_output_token) == (None, None)
        assert found.reason == "no card is known to be the server's"

    def test_not_without_energy_or_power(self) -> None:
        found = folded(*[GpuReading(gpu=0, sm_mhz=5)] * 4, tokens=5).energy
        assert found.joules is None
        assert "neither energy nor power" in found.reason

    def test_not_of_a_moment(self) -> None:
        assert folded(*energy(0, 600), tokens=5).energy.reason == "less than 2 s of energy were read"

    def test_not_when_it_covers_a_part_of_the_run(self) -> None:
        gpus = fed(tuple(energy(0, 600, 1200, 1800)), 1000.0, CARD)
        found = gpus.summary(600, 0, None, 60_000_000).energy
        assert found.joules == 1800.0
        assert found.per_output_token is None
        assert "part of the run" in found.reason

    def test_not_without_tokens(self) -> None:
        found = folded(*energy(0, 600, 1200, 1800), tokens=0).energy
        assert (found.per_output_token, found.reason) == (None, "no token was generated")

    def test_from_power_where_the_card_has_no_counter(self) -> None:
        summary = folded(*[GpuReading(gpu=0, power_w=300.0)] * 5, tokens=100)
        assert summary.cards[0].energy_source == "integrated"
        assert summary.energy.per_output_token == pytest.approx(12.0)


def test_a_counter_that_falls_was_set_back_and_is_never_taken_as_its_amount() -> None:
    found = folded(*energy(10_000, 10_600, 50, 650)).cards[0]
    assert found.energy_j == 1200.0
    assert found.energy_window_ms == 2000.0


def test_a_resume_begins_anew() -> None:
    gpus = fed(tuple(energy(0, 600)), 1000.0, CARD)
    for joules, window_ms in ((9000.0, 0.0), (9600.0, 1000.0)):
        event = GpuRead(gpus=(GpuReading(gpu=0, energy_j=joules),), server=(0,), window_ms=window_ms)
        gpus.read(Record(0, 9, 0, 0, event), event)
    assert gpus.summary(0, 0, None, 0).cards[0].energy_j == 1200.0


def test_shares_are_of_the_time_between_readings_of_the_counter() -> None:
    """Counters come every fifth round; the rounds between add to the time that they cover."""
    rounds = [GpuReading(gpu=0, thermal_ms=at * 500.0 if at % 5 == 0 else None, sm_mhz=1) for at in range(11)]
    found = folded(*rounds).cards[0]
    assert found.throttle_window_ms == 10_000.0
    assert found.throttle_share == {"thermal": 0.5}
    assert found.thermal_share == 0.5


def test_a_counter_that_is_not_there_has_no_share() -> None:
    found = folded(*[GpuReading(gpu=0, power_capped_ms=0.0)] * 3).cards[0]
    assert found.throttle_share == {"power_capped": 0.0}
    assert found.thermal_share is None


def test_clocks_are_judged_under_load_only() -> None:
    idle = GpuReading(gpu=0, sm_mhz=345, busy_percent=0, reasons=1)
    busy = GpuReading(gpu=0, sm_mhz=1980, busy_percent=95, reasons=0)
    found = folded(idle, idle, busy, busy, busy, idle).cards[0]
    assert (found.sm_mhz.n, found.sm_mhz.least, found.loaded) == (3, 1980, 3)


RESTING = GpuReading(gpu=0, busy_percent=0, power_w=119.0)
DESKTOP = GpuReading(gpu=0, busy_percent=4, power_w=20.0)
HIDDEN = GpuReading(gpu=0, power_w=80.0)
SILENT = GpuReading(gpu=0)
AT_WORK = [
    (RESTING, GpuReading(gpu=0, busy_percent=1, power_w=119.0), "ours", True),
    (RESTING, GpuReading(gpu=0, busy_percent=0, power_w=138.0), "ours", True),
    (RESTING, GpuReading(gpu=0, busy_percent=0, power_w=125.0), "ours", False),
    (RESTING, GpuReading(gpu=0, busy_percent=8, power_w=138.0), "other", False),
    (RESTING, GpuReading(gpu=0, busy_percent=8, power_w=138.0), "quiet", False),
    (RESTING, GpuReading(gpu=0, busy_percent=20, power_w=119.0), "other", True),
    (DESKTOP, GpuReading(gpu=0, busy_percent=6, power_w=22.0), "ours", False),
    (DESKTOP, GpuReading(gpu=0, busy_percent=9, power_w=22.0), "ours", True),
    (DESKTOP, GpuReading(gpu=0, busy_percent=4, power_w=24.0), "ours", False),
    (DESKTOP, GpuReading(gpu=0, busy_percent=4, power_w=26.0), "ours", True),
    (HIDDEN, GpuReading(gpu=0, power_w=81.0), "ours", False),
    (HIDDEN, GpuReading(gpu=0, power_instant_w=95.0), "ours", True),
    (SILENT, GpuReading(gpu=0, busy_percent=1), "ours", True),
    (SILENT, GpuReading(gpu=0, power_w=300.0), "ours", False),
    (SILENT, GpuReading(gpu=0, busy_percent=19, reasons=0), "other", False),
    (SILENT, GpuReading(gpu=0, reasons=4), "other", True),
    (SILENT, GpuReading(gpu=0, reasons=1), "ours", False),
    (SILENT, SILENT, "ours", False),
]
"""What was read before the first request, what was read then, during what, and whether the card computed."""


@pytest.mark.parametrize(("quiet", "reading", "when", "worked"), AT_WORK)
def test_at_work_is_more_than_before_the_first_request(
    quiet: GpuReading, reading: GpuReading, when: Load, worked: bool
) -> None:
    card = KeptCard(CARD, "nvml", True)
    take(card, (0, 0), quiet, 0.0, "quiet")
    take(card, (0, 1), reading, 1000.0, when)
    assert card.loaded == worked
    assert card.worked == (worked and when == "ours")
    assert card.streamed == (when == "ours")


def test_what_a_card_rests_at_is_the_least_that_was_read_before_the_first_request() -> None:
    card = KeptCard(CARD, "nvml", True)
    for reading in (DESKTOP, RESTING, SILENT):
        take(card, (0, 0), reading, 1000.0, "quiet")
    take(card, (0, 1), GpuReading(gpu=0, busy_percent=0, power_w=1.0), 1000.0, "ours")
    assert (card.quiet_busy, card.quiet_w) == (0, 20.0)


def test_a_round_counts_as_ours_while_a_request_is_open_and_once_after_it() -> None:
    gpus = Gpus()
    probed = GpuProbed(probe=GpuProbe(source="nvml", cards=(CARD,)))
    gpus.probed(Record(0, 0, 0, 0, probed), probed)
    event = GpuRead(gpus=(GpuReading(gpu=0, busy_percent=2, sm_mhz=1500),), server=(0,), window_ms=1000.0)
    for open_now, sent in ((0, False), (3, True), (0, True), (0, True)):
        gpus.read(Record(0, 1, 0, 0, event), event, open_now, sent)
    found = gpus.summary(0, 0, None, 0).cards[0]
    assert (found.readings, found.streamed, found.quiet_busy) == (4, 2, 2)
    assert (found.worked, found.sm_mhz.n) == (0, 0)


def test_a_card_that_is_hardly_busy_says_nothing_of_heat() -> None:
    """Its low clocks may be its own choice, so they are not held against it."""
    card = KeptCard(msgspec.structs.replace(CARD, max_sm_mhz=1980, limit_w=700.0), "nvml", True)
    take(card, (0, 0), RESTING, 0.0, "quiet")
    barely = GpuReading(gpu=0, busy_percent=8, power_w=138.0, sm_mhz=900, reasons=0)
    take(card, (0, 1), barely, 1000.0, "ours")
    assert (card.worked, card.judged, dict(card.sm)) == (1, 0, {900: 1})
    take(card, (0, 2), msgspec.structs.replace(barely, busy_percent=80), 1000.0, "ours")
    assert (card.judged, card.slowed) == (1, 1)


def test_a_reading_of_a_card_that_was_never_probed_is_kept_and_is_nobodys() -> None:
    event = GpuRead(gpus=(GpuReading(gpu=7, power_w=5.0),), window_ms=0.0)
    gpus = Gpus()
    gpus.read(Record(0, 0, 0, 0, event), event)
    (found,) = gpus.summary(0, 0, None, 0).cards
    assert found.card.server is None
    assert found.readings == 1


def test_nothing_read_is_nothing_said() -> None:
    empty = Gpus().summary(10, 10, None, 1000)
    assert empty.cards == ()
    assert empty.reason == "no GPU sensors were read"
    assert empty.energy.joules is None


def test_a_fold_can_be_kept_and_taken_up_again() -> None:
    gpus = fed(tuple(energy(0, 600, 1200)), 1000.0, CARD)
    event = GpuRead(gpus=(GpuReading(gpu=0, processes=(GpuProcess(5, 2.0, "x", False),), xids=(79,)),), window_ms=1.0)
    gpus.read(Record(0, 8, 0, 0, event), event)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(gpus), type=Gpus)
    for one in (gpus, again):
        more = GpuRead(gpus=(GpuReading(gpu=0, energy_j=1800.0),), window_ms=1000.0)
        one.read(Record(0, 9, 0, 0, more), more)
    assert gpus.summary(5, 5, 1, 9) == again.summary(5, 5, 1, 9)


@given(
    st.lists(
        st.builds(
            lambda power, mhz, joules, bits, lost: GpuReading(
                gpu=0, power_w=power, sm_mhz=mhz, energy_j=joules, reasons=bits, lost="gone" if lost else None
            ),
            st.none() | st.floats(0, 1e6),
            st.none() | st.integers(0, 5000),
            st.none() | st.floats(0, 1e12),
            st.none() | st.integers(0, 2**64 - 1),
            st.booleans(),
        ),
        max_size=30,
    )
)
@settings(deadline=None)
def test_whatever_comes_no_figure_is_out_of_bounds(readings: list[GpuReading]) -> None:
    for found in folded(*readings).cards:
        assert found.readings + found.lost == len(readings)
        assert all(0 <= share <= 1 for share in (*found.throttle_share.values(), *found.reason_share.values()))
        assert found.energy_j is None or found.energy_j >= 0
        assert found.power_mean_w is None or found.power_mean_w >= 0


class TestRegime:
    """Only the server's cards are part of what a run ran on."""

    def test_of_one_card(self) -> None:
        probe = GpuProbe(source="nvml", cards=(CARD,), driver="580.1")
        regime = with_gpus(Regime(missing={"gpu": "old"}), (probe,))
        assert (regime.gpu, regime.power_limit_w, regime.gpu_uuid) == ("NVIDIA H200", 700.0, "GPU-aa")
        assert regime.gpu_driver == "580.1"
        assert regime.missing == {}

    def test_of_several(self) -> None:
        other = msgspec.structs.replace(CARD, gpu=1, limit_w=350.0)
        probes = (GpuProbe(source="nvml", cards=(CARD, other)),)
        assert gpu_name(probes) == ("2x NVIDIA H200", "")
        assert power_limit_w(probes) == (None, "differs between cards: 700 W, 350 W")

    def test_a_card_that_is_not_the_servers_is_a_reason(self) -> None:
        card = msgspec.structs.replace(CARD, server=False, server_why="a local card, and the server is elsewhere")
        regime = with_gpus(Regime(), (GpuProbe(source="nvml", cards=(card,)),))
        assert regime.gpu is None
        assert "the server is elsewhere" in regime.missing["gpu"]
        assert regime.power_limit_w is None

    def test_without_sensors(self) -> None:
        assert with_gpus(Regime(), ()).missing["gpu"] == "no GPU sensors were asked for"
        probe = GpuProbe(source="nvml", error="no NVIDIA driver on this machine")
        assert with_gpus(Regime(), (probe,)).missing["power_limit_w"] == "no NVIDIA driver on this machine"

    def test_a_user_is_told_what_is_missing_or_not_certain_in_a_line_each(self) -> None:
        hidden = msgspec.structs.replace(CARD, server=False, server_why="the server is elsewhere")
        inferred = msgspec.structs.replace(CARD, gpu=1, server_why="inferred: the only card here")
        probe = GpuProbe(source="nvml", cards=(hidden, inferred), remarks=("WSL2: the driver hides them",))
        assert sensor_lines((probe, GpuProbe(source="none", error="no NVIDIA driver"))) == (
            "GPU sensors: WSL2: the driver hides them",
            "GPU 0 (NVIDIA H200) enters no verdict: the server is elsewhere",
            "GPU 1 (NVIDIA H200) is taken to be the server's; inferred: the only card here",
            "GPU sensors: no NVIDIA driver",
        )
        assert sensor_lines((GpuProbe(source="nvml", cards=(CARD,)),)) == ()
