"""NVML through the same code as on a real card: timelines of healthy, hot, capped, lost and shared cards."""

from __future__ import annotations

import msgspec
import pytest
from sensortools import HERE, Played, facts_of, recording

from infermaxx_tui.core.gpu import FAST, OK, SLOW
from infermaxx_tui.core.gpu_owner import ServerPids
from infermaxx_tui.sensors.machine import Machine
from infermaxx_tui.sim.fake_card import CardFacts
from infermaxx_tui.sim.gpu_timeline import (
    Moment,
    limit_set,
    lost,
    other_process,
    played,
    power_capped,
    ramp,
    step,
    throttle,
    unknown_reason,
    without,
    xid,
)


def test_a_recording_of_a_real_card_comes_out_as_it_was() -> None:
    timeline, length_s = recording()
    run = Played(timeline).run(length_s)
    card = run.summed
    assert card.energy_source == "counter"
    assert card.energy_j is not None
    assert card.energy_j == pytest.approx(6267.6, abs=1)
    assert card.power_mean_w is not None
    assert card.power_mean_w * 45 == pytest.approx(card.energy_j, rel=0.05), "the counter and the power agree"
    assert (card.sm_mhz.least, card.sm_mhz.median, card.sm_mhz.most) == (1980, 1980, 1980)
    assert card.sm_mhz.n == 7
    assert (card.edge_max_c, card.vram_max_c, card.hotspot_max_c) == (44, 47, None)
    assert set(card.throttle_share.values()) == {0.0}
    assert card.reason_share == {}
    assert card.server_vram_max_mib == pytest.approx(72474, abs=1)
    assert run.card.metrics["hotspot_c"] == "needs driver 615 (this is 580)"


def test_each_reading_is_probed_and_has_a_state() -> None:
    run = Played(ramp())
    assert set(run.card.metrics) == {*FAST, *SLOW}
    assert [name for name, status in run.card.metrics.items() if status != OK] == ["hotspot_c"]
    assert run.card.server
    assert run.card.server_why == "process 1 of the server computes on it"
    assert (run.card.limit_w, run.card.max_sm_mhz, run.card.slowdown_margin_c) == (700.0, 1980, -2)
    assert run.probe.simulated
    assert (run.probe.driver, run.probe.error) == ("580.159.04", None)


@pytest.mark.parametrize(
    ("driver", "metric", "status"),
    [
        ("615.10", "hotspot_c", OK),
        ("580.1", "hotspot_c", "needs driver 615 (this is 580)"),
        ("565.1", "margin_c", "needs driver 570 (this is 565)"),
        ("575.1", "sw_thermal_ms", "needs driver 580 (this is 575)"),
        ("575.1", "power_brake_ms", "needs driver 580 (this is 575)"),
        ("565.1", "recovery", "needs driver 570 (this is 565)"),
        ("580.1", "sw_thermal_ms", OK),
    ],
)
def test_a_reading_that_a_driver_is_too_old_for_says_which_driver_it_needs(
    driver: str, metric: str, status: str
) -> None:
    hot = played(ramp(), lambda now_s, moment: msgspec.structs.replace(moment, hotspot_c=90))
    assert Played(hot, driver=driver).card.metrics[metric] == status


def test_a_renumbered_field_is_never_read_on_an_old_driver() -> None:
    """Before 580 the numbers 269 to 271 hold power-smoothing settings, which would look like throttling."""
    run = Played(ramp(), driver="575.51").run(12)
    assert all(one.sw_thermal_ms is None and one.power_brake_ms is None for one in run.readings())
    assert "sw_thermal" not in run.summed.throttle_share


def test_what_a_card_does_not_support_is_asked_for_once_and_stays_none() -> None:
    calls = ("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTotalEccErrors", "field 82", "field 83")
    run = Played(played(ramp(), without(*calls))).run(40)
    for metric in ("margin_c", "ecc_corrected", "vram_c", "energy_j"):
        assert run.card.metrics[metric] == "not supported"
        assert all(getattr(one, metric) is None for one in run.readings())
    assert run.lib.calls["nvmlDeviceGetMarginTemperature"] == 1
    assert run.summed.vram_max_c is None
    assert run.summed.ecc_corrected is None
    assert run.summed.energy_source == "integrated"
    assert run.summed.energy_j == pytest.approx(sum(one.power_w or 0 for one in run.readings()), rel=0.05)


def test_a_call_that_newer_drivers_lack_has_an_older_one_behind_it() -> None:
    gone = without("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo_v2")
    run = Played(played(ramp(), gone)).run(10)
    last = run.summed.last
    assert last is not None
    assert (last.edge_c, last.reasons) == (58, 0)
    assert last.vram_used_mib == pytest.approx(72_615)
    assert last.vram_reserved_mib is None
    assert run.card.metrics["vram_reserved_mib"] == "not supported"


def test_heat_behind_a_harmless_edge_is_a_share_of_the_time() -> None:
    run = Played(played(ramp(), throttle(20, 0.5))).run(60)
    card = run.summed
    assert card.edge_max_c == 78
    assert card.throttle_ms["thermal"] == pytest.approx(20_000, rel=0.02)
    assert card.thermal_share == pytest.approx(20 / 60, rel=0.02)
    assert card.reason_share["thermal, by software"] == pytest.approx(2 / 3, rel=0.05)
    assert card.slowed_below_cap is not None
    assert card.slowed_below_cap > 0.5


def test_a_healthy_card_is_neither_throttled_nor_slowed() -> None:
    card = Played(ramp()).run(60).summed
    assert card.thermal_share == 0.0
    assert card.slowed_below_cap == 0.0
    assert card.foreign == ()
    assert card.xids == {}
    assert card.limit_changed == 0
    assert card.lost == 0


def test_at_the_cap_is_not_slowed_below_it() -> None:
    card = Played(played(ramp(), power_capped(5, 275.0))).run(60).summed
    assert card.throttle_share["power_capped"] == pytest.approx(0.9 * 55 / 60, rel=0.03)
    assert card.thermal_share == 0.0
    assert card.slowed_below_cap == 0.0
    assert card.reason_share["power cap"] > 0.8


def test_a_limit_that_is_reset_is_seen_within_a_slow_round() -> None:
    run = Played(played(ramp(), limit_set(0, 275.0), limit_set(30, 350.0))).run(60)
    card = run.summed
    assert run.card.limit_w == 275.0
    assert card.limit_w == 350.0
    assert [(change.from_w, change.to_w) for change in card.limit_changes] == [(275.0, 350.0)]
    at = next(one for one in run.reads if any(gpu.limit_w == 350.0 for gpu in one.gpus))
    assert 30 <= run.reads.index(at) <= 35


def test_a_step_of_power_is_followed() -> None:
    card = Played(played(ramp(), step(20, 300.0, 1200))).run(40).summed
    assert card.sm_mhz.least == 1200
    assert card.power_max_w == 610.0


def test_unknown_reasons_are_shown_in_hex_and_never_dropped() -> None:
    card = Played(played(ramp(), unknown_reason(0, 0x9000))).run(10).summed
    assert card.reason_share["unknown 0x9000"] == 1.0


def test_a_lost_card_is_a_reading_with_the_reason_and_the_run_goes_on() -> None:
    run = Played(played(ramp(), xid(19, 79), lost(20))).run(60)
    card = run.summed
    assert card.lost_why == "GPU is lost"
    assert card.lost >= 39
    assert not card.back
    assert card.xids == {79: 1}
    assert all(one.power_w is None for one in run.readings() if one.lost)
    assert card.energy_window_ms == pytest.approx(15_000, abs=5000)


def test_a_card_that_comes_back_is_read_again_and_its_counters_begin_anew() -> None:
    run = Played(played(ramp(), lost(20, 29, code=16))).run(60)
    card = run.summed
    assert card.back
    assert card.lost_why == "GPU requires a reset"
    assert card.last is not None
    assert card.last.power_w == 610.0
    assert card.energy_j is not None
    assert card.energy_j < 610 * 60


def test_with_one_card_lost_the_other_is_read_on() -> None:
    run = Played(played(ramp(), lost(10)), ramp()).run(30)
    first, second = run.summary.cards
    assert first.lost > 0
    assert second.lost == 0
    assert second.readings == 31


def test_a_driver_that_forgets_nvml_is_started_anew() -> None:
    run = Played(ramp()).run(5)
    run.lib.started = 0
    run.run(30)
    assert run.summed.lost > 0
    assert run.summed.lost_why == "Uninitialized"
    assert run.summed.back


def test_another_process_on_the_servers_card_is_named() -> None:
    card = Played(played(ramp(), other_process(10, 4242, 2000.0))).run(30).summed
    assert [(one.pid, one.name, one.vram_mib) for one in card.foreign] == [(4242, "another", 2000.0)]
    assert card.server_vram_max_mib == pytest.approx(71_400)


def test_xids_before_the_run_are_not_of_the_run() -> None:
    assert Played(played(ramp(), xid(0, 31))).run(20).summed.xids == {}
    assert Played(played(ramp(), xid(0, 31), xid(5, 31), xid(6, 43))).run(20).summed.xids == {31: 1, 43: 1}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (12, "no NVIDIA driver on this machine"),
        (9, "driver is not loaded"),
        (18, "upgraded under the running kernel"),
        (4, "no right to use"),
        (999, "NVML does not start: Unknown Error"),
    ],
)
def test_nvml_that_does_not_start_is_one_line_and_no_card(code: int, said: str) -> None:
    run = Played(ramp(), start_error=code).run(3)
    assert run.probe.cards == ()
    assert said in (run.probe.error or "")
    assert "\n" not in (run.probe.error or "")
    assert run.summary.reason == run.probe.error
    assert all(event.gpus == () for event in run.reads)


def test_a_driver_without_a_card_says_so() -> None:
    assert Played().probe.error == "the NVIDIA driver sees no card"


class TestWhoseCardItIs:
    """Only a card of the server's may enter a verdict."""

    def test_a_local_card_beside_a_remote_server_is_not_the_servers(self) -> None:
        run = Played(ramp(), server=ServerPids(False, why="gpu-box is not this machine")).run(5)
        assert run.card.server is False
        assert "the server is elsewhere" in run.card.server_why
        assert run.summary.of_server == ()
        assert all(event.server == () for event in run.reads)

    def test_a_card_without_the_servers_processes_is_not_the_servers(self) -> None:
        elsewhere = played(ramp(), lambda now_s, moment: msgspec.structs.replace(moment, processes=((7, 500.0),)))
        one, other = Played(ramp(), elsewhere).probe.cards
        assert (one.server, other.server) == (True, False)
        assert other.server_why == "none of the server's processes computes on it"

    def test_in_a_container_the_only_card_with_memory_held_is_inferred(self) -> None:
        strange = Machine(lambda pid: False, lambda pid: None)
        run = Played(ramp(), server=ServerPids(True, frozenset({99})), machine=strange).run(6)
        assert run.card.server
        assert run.card.server_why.startswith("inferred: ")
        assert "container" in run.card.server_why
        assert run.summed.foreign == ()

    def test_in_a_container_one_of_two_cards_is_not_known(self) -> None:
        strange = Machine(lambda pid: False, lambda pid: None)
        run = Played(ramp(), ramp(), server=ServerPids(True, frozenset({99})), machine=strange)
        assert [card.server for card in run.probe.cards] == [None, None]

    def test_under_wsl_processes_without_memory_are_kept_as_they_are(self) -> None:
        hidden = played(ramp(), lambda now_s, moment: msgspec.structs.replace(moment, processes=((1, None),)))
        wsl = Machine(HERE.exists, HERE.name, wsl=True)
        run = Played(hidden, machine=wsl).run(6)
        assert run.card.server
        assert run.summed.server_vram_max_mib is None
        assert any("WSL2" in remark for remark in run.probe.remarks)

    def test_without_a_process_list_the_reason_stays(self) -> None:
        run = Played(played(ramp(), without("nvmlDeviceGetComputeRunningProcesses")), ramp())
        assert run.card.metrics["processes"] == "not supported"
        assert run.card.server is None
        assert "its processes: not supported" in run.card.server_why

    def test_an_idle_card_without_processes_is_not_inferred(self) -> None:
        idle = Moment(used_mib=10.0, processes=())
        card = Played(lambda now_s: idle).card
        assert card.server is False

    def test_a_server_that_was_not_found_leaves_it_open(self) -> None:
        card = Played(ramp(), server=ServerPids(True, why="who listens on port 8000 belongs to another user")).card
        assert card.server is None
        assert "another user" in card.server_why

    def test_the_users_word_stands_over_all(self) -> None:
        run = Played(ramp(), ramp(), server=ServerPids(None, why="?"), wanted=("1",))
        assert [card.server for card in run.probe.cards] == [False, True]
        by_uuid = Played(ramp(), ramp(), wanted=(facts_of(0).uuid[:12],))
        assert [card.server for card in by_uuid.probe.cards] == [True, False]

    def test_a_server_that_comes_later_claims_its_card(self) -> None:
        late = played(ramp(), lambda now_s, m: m if now_s >= 8 else msgspec.structs.replace(m, processes=()))
        run = Played(late, server=ServerPids(True, frozenset({1})))
        assert run.card.server is not True or run.card.server_why.startswith("inferred")
        run.run(20)
        assert run.probe.cards[0].server
        assert run.reads[-1].server == (0,)


def test_mig_instances_are_cards_of_their_own_and_say_what_they_share() -> None:
    facts = CardFacts(mig_instances=2)
    run = Played(ramp(), facts=facts).run(6)
    first, second = run.probe.cards
    assert first.uuid != second.uuid
    assert (first.uuid or "").startswith("MIG-")
    assert first.mig
    for metric in ("power_w", "energy_j", "busy_percent"):
        assert "MIG instances share" in first.metrics[metric]
    assert first.metrics["edge_c"] == OK
    assert all(one.power_w is None for one in run.readings())
    assert any("MIG is on with 2 instances" in remark for remark in run.probe.remarks)


def test_the_log_of_a_night_stays_small() -> None:
    """Eight hours of one card, a round a second."""
    run = Played(ramp())
    before = run.bytes
    run.run(300)
    assert (run.bytes - before) / 300 * 8 * 3600 < 15e6


def test_what_it_found_is_closed_in_the_end() -> None:
    run = Played(ramp()).run(3)
    run.rounds.close()
    assert run.lib.started == 0
