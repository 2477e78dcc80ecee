"""`infermaxx doctor`: this host alone, a server that can be used, one that cannot, and one that is something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clitools import Done, Place, sim
from plain_openai import PlainServer

from infermaxx_tui.exitcodes import ExitCode

LOGS = Path(__file__).parent.parent / "logs" / "startup"


def said(done: Done) -> dict[tuple[str, str], dict[str, Any]]:
    """The items of the JSON page, by section and name."""
    page = json.loads(done.out)
    return {(item["section"], item["name"].strip()): item for item in page["items"]}


def test_this_host_alone(place: Place) -> None:
    done = place.inside("doctor", "--no-calibration")
    assert done.code == ExitCode.PASS
    for word in ("machine", "Python", "packages", "terminal", "runs folder", "GPU", "what to type", "infermaxx demo"):
        assert word in done.out
    assert place.folders == []


def test_a_server_that_can_be_used(place: Place, server: str) -> None:
    done = place.inside("doctor", "--no-calibration", "--url", f"{server}/v1", "--json")
    assert done.code == ExitCode.PASS
    page = json.loads(done.out)
    assert (page["usable"], page["url"], page["schema"]) == (True, server, 1)
    items = said(done)
    assert items["server", "engine"]["said"].endswith("infermaxxsim")
    assert items["server", "simulated"]["state"] == "warn"
    assert items["server", "KV pool"]["state"] == "ok"
    assert "prefix_hits" in items["server", "counters"]["said"]
    assert items["start-up log", "log"]["state"] == "note"
    assert any(server in command for command in page["type_next"])


def test_its_start_up_log_is_read(place: Place, tmp_path: Path) -> None:
    with sim(tmp_path / "sim") as url:
        done = place.inside(
            "doctor", "--no-calibration", "--url", url, "--log", str(tmp_path / "sim" / "log"), "--json"
        )
    items = said(done)
    assert items["start-up log", "pool_tokens"]["said"] == "262144"
    assert "max_model_len 65536" in items["start-up log", "pool_shape"]["said"]


def test_a_log_of_another_server_is_told_apart(place: Place, server: str) -> None:
    log = str(LOGS / "vllm-0.26.0-h200-startup.log")
    done = place.inside("doctor", "--no-calibration", "--url", server, "--log", log, "--json")
    assert "it is of vllm 0.26.0" in said(done)["start-up log", "log"]["said"]


def test_nobody_there_exits_with_4_and_the_log_says_why(place: Place, free_port: int) -> None:
    log = str(LOGS / "vllm-0.26.0-h200-turboquant-failed-start.log")
    done = place.inside("doctor", "--no-calibration", "--url", f"http://127.0.0.1:{free_port}", "--log", log)
    assert done.code == ExitCode.SERVER
    assert "connection refused" in done.out
    page = " ".join(done.out.split())
    assert "FlashAttention version not detected" in page
    assert "start-up log" in page


@pytest.mark.parametrize(
    ("name", "item", "reason"),
    [
        ("vllm-0.26.0-h200-turboquant-failed-start.log", "start", "FlashAttention version not detected"),
        ("nowhere.log", "log", "No such file"),
    ],
)
def test_a_log_is_read_without_a_server(place: Place, name: str, item: str, reason: str) -> None:
    """A server that does not come up has a log and no address."""
    done = place.inside("doctor", "--no-calibration", "--log", str(LOGS / name), "--json")
    assert done.code == ExitCode.PASS
    found = said(done)["start-up log", item]
    assert found["state"] == "bad"
    assert reason in found["said"]


def test_a_window_that_is_small_gets_its_own_keys(place: Place, tmp_path: Path) -> None:
    with sim(tmp_path / "sim", "--max-model-len", "4096", "--pool", "8192") as url:
        done = place.inside("doctor", "--no-calibration", "--url", url, "--json")
    commands = json.loads(done.out)["type_next"]
    assert all("--set sessions.target_depth=2048" in command for command in commands)


def test_a_server_that_is_no_vllm_is_usable_and_says_little(place: Place) -> None:
    with PlainServer() as plain:
        done = place.inside("doctor", "--no-calibration", "--url", plain.url, "--json")
    assert done.code == ExitCode.PASS
    items = said(done)
    assert items["server", "engine"]["state"] == "unknown"
    assert items["server", "KV pool"]["state"] == "unknown"


@pytest.mark.parametrize("url", ["ftp://x", "http://user:pass@x", "http://"])
def test_an_address_that_is_none_is_refused(place: Place, url: str) -> None:
    assert place.inside("doctor", "--no-calibration", "--url", url).code == ExitCode.USAGE


def test_a_key_is_never_shown(place: Place, tmp_path: Path) -> None:
    with sim(tmp_path / "sim", env={"VLLM_API_KEY": "geheim"}) as url:
        place.env["VLLM_API_KEY"] = "geheim"
        good = place.inside("doctor", "--no-calibration", "--url", url, "--json")
        place.env["VLLM_API_KEY"] = "falsch"
        bad = place.inside("doctor", "--no-calibration", "--url", url)
    assert good.code == ExitCode.PASS
    assert bad.code == ExitCode.SERVER
    assert "geheim" not in good.out
    assert "falsch" not in bad.out
