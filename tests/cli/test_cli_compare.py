"""`infermaxx compare`: two and more runs side by side; what may not be compared is refused with its keys."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from clitools import Done, Place

from infermaxx_tui.core.verdict import read_verdict, verdict_bytes
from infermaxx_tui.exitcodes import ExitCode


def copy_of(folder: Path, name: str, **regime: object) -> Path:
    """A run folder with the same verdict on another regime."""
    verdict = read_verdict((folder / "verdict.json").read_bytes())
    made = folder.parent.parent / "others" / f"20260101-000000-{name}-abcd"
    made.mkdir(parents=True, exist_ok=True)
    changed = msgspec.structs.replace(verdict, regime=msgspec.structs.replace(verdict.regime, **regime))
    (made / "verdict.json").write_bytes(verdict_bytes(changed))
    (made / "events.jsonl").write_bytes((folder / "events.jsonl").read_bytes())
    return made


def test_the_same_regime_shows_figures(shared: Place, passed: tuple[Done, Path]) -> None:
    other = copy_of(passed[1], "same")
    done = shared.inside("compare", str(passed[1]), str(other))
    assert done.code == ExitCode.PASS
    assert "no key differs" in done.out
    assert "ttft p50 ms" in done.out


def test_one_lever_is_named_and_figures_are_refused(shared: Place, passed: tuple[Done, Path]) -> None:
    other = copy_of(passed[1], "fp8", kv_cache_dtype="fp8_e4m3", pool_tokens=524288)
    done = shared.inside("compare", str(passed[1]), str(other))
    assert done.code == ExitCode.INCONCLUSIVE
    assert "refused: the regimes differ in kv_cache_dtype, pool_tokens" in " ".join(done.out.split())
    assert "CONFOUNDED" not in done.out
    assert "moved with them, no levers of their own: pool_tokens" in " ".join(done.out.split())
    assert "ttft" not in done.out


def test_more_than_one_lever_is_confounded(shared: Place, passed: tuple[Done, Path]) -> None:
    other = copy_of(passed[1], "both", kv_cache_dtype="fp8_e4m3", speculative="ngram, 3 tokens")
    done = shared.inside("compare", str(passed[1]), str(other), "--json")
    assert done.code == ExitCode.INCONCLUSIVE
    found = json.loads(done.out)
    assert (found["comparable"], found["confounded"]) == (False, True)
    assert found["levers"] == ["kv_cache_dtype", "speculative"] or set(found["levers"]) == {
        "kv_cache_dtype",
        "speculative",
    }
    assert all(run["instrument"] is None for run in found["runs"])


def test_what_follows_alone_is_a_difference_too(shared: Place, passed: tuple[Done, Path]) -> None:
    other = copy_of(passed[1], "pool", pool_tokens=7)
    done = shared.inside("compare", str(passed[1]), str(other), "--json")
    assert json.loads(done.out)["levers"] == ["pool_tokens"]


def test_three_runs_stand_side_by_side(shared: Place, passed: tuple[Done, Path]) -> None:
    one, two = copy_of(passed[1], "one"), copy_of(passed[1], "two")
    done = shared.inside("compare", str(passed[1]), str(one), str(two))
    assert done.code == ExitCode.PASS
    assert done.out.count("PASS") >= 3


def test_one_run_alone_is_refused(shared: Place, passed: tuple[Done, Path]) -> None:
    assert shared.inside("compare", str(passed[1])).code == ExitCode.USAGE
    assert shared.inside("compare", "no-such-run", "latest").code == ExitCode.USAGE


def test_a_run_and_its_serial_arm_are_read_together(shared: Place, passed: tuple[Done, Path]) -> None:
    other = copy_of(passed[1], "serial", at_once=1, concurrency_requested=1, interleaved=3)
    done = shared.inside("compare", str(passed[1]), str(other))
    assert done.code == ExitCode.INCONCLUSIVE
    assert "serial arm: both pass, so there is no failure" in " ".join(done.out.split())
    assert "CONFOUNDED" not in done.out
    found = json.loads(shared.inside("compare", str(passed[1]), str(other), "--json").out)
    assert found["levers"] == ["concurrency_requested"]
    assert found["together"][0].startswith("serial arm: both pass")
