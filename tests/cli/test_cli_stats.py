"""`transcripts stats` on a pool, as typed: what a token costs, who fits, and what is wrong with a command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infermaxx_tui.cli import main

CONFIG = Path(__file__).parent.parent / "core" / "configs" / "qwen3.6-27b.json"
SMALL = ("transcripts", "stats", "iniconfig-form-feed", "tomli-duplicate-key")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERMAXX_CACHE", str(tmp_path))


def test_json_has_the_old_keys_and_the_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--pool", "65536", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) >= {"tokenizer", "sessions", "peak", "mean", "pool", "exceeds_alone", "fit_together"}
    assert (said["pool"], said["pool_blocks"], said["kv"]) == (65536, 4096, None)
    assert said["overlap"]["without_eviction"] == 2
    assert [start["at_s"] for start in said["plan"]["starts"]] == [0.0, 0.0]
    assert main([*SMALL, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["pool"], said["overlap"], said["plan"]) == (None, None, None)


def test_the_servers_speeds_decide_how_long_sessions_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    lasts = []
    for flags in ((), ("--prefill", "300", "--decode", "8"), ("--decode", "8")):
        assert main([*SMALL, "--pool", "65536", "--json", *flags]) == 0
        said = json.loads(capsys.readouterr().out)
        lasts.append((said["overlap"]["rates"], said["plan"]["lasts_s"]))
    assert [tuple(rates.values()) for rates, _ in lasts] == [(2000.0, 40.0), (300, 8), (2000.0, 8)]
    assert lasts[0][1] < lasts[2][1] < lasts[1][1]


def test_a_models_config_prices_the_pool(capsys: pytest.CaptureFixture[str]) -> None:
    known = ("--model-config", str(CONFIG), "--kv-dtype", "fp8", "--max-model-len", "40960")
    assert main([*SMALL, *known, "--kv-memory", "2.33"]) == 0
    said = capsys.readouterr().out
    assert "pool 65,536 tokens: 0 of 2 sessions exceed it alone" in said
    assert "16 layers of full attention, 48 of fixed state (147 MiB a sequence); blocks of 1,568 tokens in fp8" in said
    assert "needed for each session by itself: auto" in said
    assert "admission: all through" in said
    assert main([*SMALL, *known, "--mtp", "--pool", "65536", "--json"]) == 0
    kv = json.loads(capsys.readouterr().out)["kv"]
    assert (kv["mtp_layers"], kv["bytes_per_token"]) == (1, 17 * 2048)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--kv-dtype", "fp8"), "--kv-dtype needs --model-config"),
        (("--kv-memory", "2"), "--kv-memory needs --model-config"),
        (("--model-config", str(CONFIG)), "needs --kv-memory GIB, or --pool N"),
        (("--model-config", str(CONFIG), "--pool", "9", "--kv-memory", "1"), "give one"),
        (("--model-config", str(CONFIG), "--pool", "9", "--kv-dtype", "fp7"), "'fp7' is not known"),
        (("--model-config", "nowhere.json", "--pool", "9"), "No such file"),
        (("--model-config", __file__, "--pool", "9"), "not JSON"),
        (("--pool", "9", "--kv-memory", "nan"), "not a number of GiB"),
    ],
)
def test_what_is_wrong_is_one_line(flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, *flags]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert said in err
    assert err.count("\n") == 1
