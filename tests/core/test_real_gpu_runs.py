"""Two runs on a real H200, recorded: sixteen sessions to 6k tokens on real weights of a small model, and on dummy ones.

They were made by tests/real/gpu/host.sh and redacted by tests/tools/redact_run.py. The gates in the logs are those that
were said then, when a card below 20 % counted as unused; what is said now is asked here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core.comparison import difference
from infermaxx_tui.core.events import Record
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.gates import after, before, standing
from infermaxx_tui.core.gpu_verdict import SensorReport, sensor_lines, sensor_report
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.scenario import Scenario, parse_scenario
from infermaxx_tui.core.startup_log import StartupFacts, parse_startup
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict, judge_run, read_verdict, verdict_bytes
from infermaxx_tui.log import read_log

LOGS = Path(__file__).parent.parent / "logs"
RUNS = ("real", "dummy")
_OF_REPLAY = frozenset(
    {
        "cache_salt",
        "compaction",
        "interleaved",
        "output_lengths",
        "request_nonce",
        "subagents",
        "think_time",
        "timestamp",
    }
)
"""How conversations were replayed, which no log of that time names."""


@cache
def state_of(name: str) -> RunState:
    fold = Fold()
    for record in read_log(LOGS / f"gpu-h200-{name}"):
        assert isinstance(record, Record)
        fold.add(record)
    return fold.snapshot()


def verdict_of(name: str) -> Verdict:
    return judge_run(state_of(name))


def check_of(name: str, check: str) -> Check:
    return next(one for one in verdict_of(name).checks if one.name == check)


def scenario() -> Scenario:
    meta = state_of("real").meta
    assert meta is not None
    return parse_scenario(meta.scenario_text, "gpu.toml")


def startup_of(name: str) -> StartupFacts:
    return parse_startup((LOGS / f"gpu-h200-{name}" / "server.log").read_text(encoding="utf-8"))


def test_a_small_model_forgets_alone_too_and_repeats_itself() -> None:
    assert verdict_of("real").verdict == "FAIL"
    recall, degenerate = check_of("real", "recall"), check_of("real", "degeneration")
    assert (recall.outcome, recall.n_evaluated, recall.n_planned, recall.cause) == ("fail", 46, 48, "alone_too")
    assert [(one.session, one.what) for one in recall.evidence][:3] == [
        (5, "forgotten"),
        (5, "forgotten"),
        (7, "mislabelled"),
    ]
    assert recall.evidence[0].said == "The lot tag for the plain mill is 999-9999."
    assert (degenerate.outcome, degenerate.n_evaluated) == ("fail", 223)
    assert (degenerate.advice or "").startswith("52 of 223 replies degenerate")
    assert check_of("real", "isolation").outcome == "pass"


def test_noise_never_passes_what_it_cannot_show() -> None:
    assert verdict_of("dummy").verdict == "FAIL"
    assert check_of("dummy", "degeneration").outcome == "fail"
    for name in ("recall", "isolation", "vacuity", "controls", "budget"):
        assert check_of("dummy", name).outcome == "not_evaluable", name
    assert check_of("dummy", "recall").excluded == {"degenerate": 48}


@pytest.mark.parametrize("name", RUNS)
def test_what_the_instrument_saw_is_whole(name: str) -> None:
    seen = verdict_of(name).instrument
    assert check_of(name, "instrument").outcome == "pass"
    assert (seen.lines_missing, seen.unknown_events, seen.torn_tail) == (0, 0, False)
    assert (seen.generation_client, seen.prompt_client) == (seen.generation_server, seen.prompt_server)
    assert seen.loop_lag_p99_ms is not None
    assert seen.loop_lag_p99_ms < 5


def test_the_card_of_the_real_run() -> None:
    (card,) = state_of("real").gpus.of_server
    assert (card.readings, card.streamed, card.worked, card.quiet_w, card.quiet_busy) == (41, 40, 40, 118.958, 0)
    assert card.power_mean_w is not None
    assert card.power_mean_w == pytest.approx(136.69, abs=0.01)
    assert card.power_max_w == 258.655
    assert (card.limit_w, card.limit_changed) == (700.0, 0)
    assert (card.sm_mhz.least, card.sm_mhz.median, card.card.max_sm_mhz) == (1980, 1980, 1980)
    assert (card.mem_mhz.median, card.edge_max_c, card.vram_max_c, card.hotspot_max_c) == (3201, 37, 40, None)
    assert card.card.why_not("hotspot_c") == "needs driver 615 (this is 580)"
    assert set(card.throttle_share.values()) == {0.0}
    assert len(card.throttle_share) == 5
    assert card.energy_j == pytest.approx(card.power_mean_w * card.energy_window_ms / 1000, rel=0.01)
    assert (card.slowed_below_cap, card.foreign, card.lost) == (None, (), 0)
    assert state_of("real").gpus.energy.per_output_token == pytest.approx(0.2091, abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_what_sampling_cost(name: str) -> None:
    gpus = state_of(name).gpus
    assert gpus.fast_mean_ms is not None
    assert gpus.slow_max_ms is not None
    assert gpus.fast_mean_ms < 1.0
    assert gpus.slow_max_ms < 30.0


@pytest.mark.parametrize(("name", "babble"), [("real", "52 of 223"), ("dummy", "204 of 204")])
def test_the_cards_stand_in_the_verdict(name: str, babble: str) -> None:
    """Both babbled, the real model at the end of long replies: what a token cost there is withheld."""
    found = read_verdict(verdict_bytes(verdict_of(name))).sensors
    (card,) = found.cards
    assert (found.reason, found.driver, card.server) == (None, "580.159.04", True)
    assert (card.sm_mhz.median, card.sm_mhz_highest, card.vram_total_mib) == (1980, 1980, 143771.0)
    assert card.at_work >= 0.9 * card.while_open
    assert card.missing == {"hotspot_c": "needs driver 615 (this is 580)"}
    assert found.energy.joules is not None
    assert (found.energy.reason, found.energy.per_output_token) == (f"{babble} replies degenerate", None)


def test_energy_stands_beside_each_token_where_speeds_may_be_quoted() -> None:
    found = sensor_report(state_of("real").gpus, None)
    assert found.energy.reason == ""
    assert "energy 5,433 J, 0.209 J for each token generated" in sensor_lines(found)


def test_the_cards_are_said_to_people() -> None:
    text = " ".join(verdict_lines(verdict_of("real"), 400))
    assert "NVIDIA H200: at work in 40 of 40 readings, 137 of 700 W (119 W at rest), SM 1980 of 1980 MHz" in text
    assert "edge 37 C, VRAM 40 C, never held down" in text
    assert "energy 5,433 J (52 of 223 replies degenerate)" in text
    assert "Speeds are withheld: 52 of 223 replies degenerate." in text


def test_a_run_whose_speeds_are_withheld_has_no_energy_per_token_either() -> None:
    found = sensor_report(state_of("real").gpus, "its quality fell")
    assert (found.energy.per_output_token, found.energy.per_token, found.energy.reason) == (
        None,
        None,
        "its quality fell",
    )
    assert "energy 5,433 J (its quality fell)" in sensor_lines(found)


def test_without_a_card_of_the_servers_nothing_is_said_to_people() -> None:
    found = sensor_report(state_of("real").gpus)
    strange = tuple(msgspec.structs.replace(card, server=False) for card in found.cards)
    assert sensor_lines(msgspec.structs.replace(found, cards=strange)) == ()
    assert sensor_lines(SensorReport()) == ()


@pytest.mark.parametrize("name", RUNS)
def test_the_regime_has_no_gap_that_the_card_could_fill(name: str) -> None:
    regime = verdict_of(name).regime
    assert (regime.gpu, regime.power_limit_w, regime.sm_mhz_median, regime.mem_mhz_median) == (
        "NVIDIA H200",
        700.0,
        1980,
        3201,
    )
    assert (regime.thermal_share, regime.power_capped_share, regime.power_limit_changed) == (0.0, 0.0, 0)
    assert (regime.concurrency_requested, regime.concurrency_admitted_peak) == (16, 16)
    assert regime.depth_reached is not None
    assert regime.depth_reached > 6300
    assert set(regime.missing) <= {"kv_cache_stored", "load_format", "server_args"} | _OF_REPLAY, (
        "which this program did not know then"
    )


@pytest.mark.parametrize("name", RUNS)
def test_each_gate_would_pass_today_before_and_after(name: str) -> None:
    state = state_of(name)
    assert state.regime is not None
    early = before(scenario(), 16, state.regime, state.gpus)
    late = after(scenario(), 16, state.regime, state.gpus, state.server)
    assert {gate.name: gate.outcome for gate in standing([*early, *late])} == dict.fromkeys(
        ("power_limit", "gpu_used", "card_exclusive", "prefix_cache", "slots", "thinking_off"), "pass"
    )
    assert [gate.when for gate in state.gates] == ["before"] * 5 + ["after"] * 6


@pytest.mark.parametrize("name", RUNS)
def test_the_start_up_log(name: str) -> None:
    got = startup_of(name)
    assert (got.version, got.model, got.ready, got.failure) == ("0.26.0", "DIR/smollm2", True, None)
    assert (got.pool_tokens, got.kv_gib, got.model_gib, got.max_concurrency) == (1926192, 41.33, 0.26, 235.13)
    assert (got.pool_formula, got.attention_backend, got.enforce_eager) == ("uniform", "FLASH_ATTN", True)
    assert (got.dtype, got.kv_cache_dtype, got.kv_stored) == ("bfloat16", "auto", "bfloat16")
    noted = state_of(name).startup
    assert noted is not None
    assert noted.facts is not None
    now = ("kv_stored", "load_format", "traps")
    assert msgspec.structs.replace(got, **{key: getattr(noted.facts, key) for key in now}) == noted.facts


def test_noise_for_weights_is_told_from_the_real_ones() -> None:
    real, dummy = startup_of("real"), startup_of("dummy")
    assert (real.load_format, dummy.load_format) == ("auto", "dummy")
    assert [trap.name for trap in dummy.traps] == ["dummy_weights"]
    assert real.traps == ()


def test_runs_of_the_two_are_compared_only_if_it_is_known_what_they_ran_on() -> None:
    """Their logs were written before the regime had the key, so nothing else tells them apart."""
    left, right = verdict_of("real"), verdict_of("dummy")
    assert difference(left, right).keys == ()
    assert "load_format" in difference(left, right).unknown
    told = [
        msgspec.structs.replace(
            one, regime=msgspec.structs.replace(one.regime, load_format=startup_of(name).load_format)
        )
        for name, one in (("real", left), ("dummy", right))
    ]
    assert difference(told[0], told[1]).levers == ("load_format",)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_names_the_machine(name: str) -> None:
    for path in (LOGS / f"gpu-h200-{name}").iterdir():
        text = path.read_text(encoding="utf-8")
        for word in ("/tmp/", "/root", "/opt/", "/home/", "GPU-c", "00:06.0", '"vm"', "6.18.44"):
            assert word not in text, (path, word)
