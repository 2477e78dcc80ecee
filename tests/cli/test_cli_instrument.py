"""What a real run's verdict says of the instrument that made it."""

from __future__ import annotations

from pathlib import Path

from clitools import Done, log_of

from infermaxx_tui.core import events as ev


def test_a_run_over_sockets_knows_how_it_sent_and_read(passed: tuple[Done, Path]) -> None:
    seen = passed[0].verdict["instrument"]
    assert 0 < seen["dispatch_n"] <= seen["connections_new"]
    assert 0 <= seen["dispatch_p50_ms"] <= seen["dispatch_p99_ms"] <= seen["dispatch_max_ms"]
    assert {"wave", "turn", "meeting"} <= set(seen["dispatch_max_ms_by"])
    assert set(seen["dispatch_ms_spent"]) == {"render", "connect", "other"}
    assert 0 < seen["connect_p50_ms"] <= seen["connect_max_ms"]
    assert seen["connections_reused"] == 0
    assert seen["reads"] > 0
    assert 0 <= seen["coalesced_share"] < 1
    assert seen["gc_pauses"] is not None
    assert seen["loop_cpu_share_max"] is not None
    assert (seen["suspend_ms"] is None) == ("suspend_ms" in seen["missing"])


def test_a_run_cites_the_calibration_or_says_why_there_is_none(passed: tuple[Done, Path]) -> None:
    done, folder = passed
    (cited,) = (event for event in log_of(folder) if isinstance(event, ev.Calibrated))
    seen = done.verdict["instrument"]
    assert (seen["calibration"], seen["calibration_age_s"]) == (None, None)
    assert seen["calibration_reason"] == cited.reason
    assert "nobody has calibrated this host: infermaxx doctor" in seen["calibration_reason"]
