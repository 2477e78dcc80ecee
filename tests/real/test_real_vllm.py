"""The main job on a real vLLM: what the model can do passes, what it cannot fails, what is unseen is not judged."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.core.verdict import Verdict, read_verdict
from infermaxx_tui.server.launch import LaunchedServer
from infermaxx_tui.shipped import find_scenario

NONCE = "c0ffee0123456789"
"""Fixed, so that the tags are: which tags this model can recall depends on their letters."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM on the CPU, started as the shipped scenario starts it, for all tests of this file."""
    home = os.environ.get("INFERMAXX_REAL", "")
    if not Path(home, "venv/bin/vllm").exists():
        if os.environ.get("INFERMAXX_NO_SKIP"):
            pytest.fail("the real vLLM is missing and nothing may be skipped: run tests/real/provision.sh")
        pytest.skip("no real vLLM: run tests/real/provision.sh DIR and set INFERMAXX_REAL=DIR")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = find_scenario("cpu-recall")
    scenario = parse_scenario(path.read_text(encoding="utf-8"), path.name)
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    server = LaunchedServer(scenario.server.launch, {"PORT": str(port)}, log)
    address = f"http://127.0.0.1:{port}"
    try:
        server.wait_ready(address, time.sleep)
        yield address
    finally:
        server.stop()


def _run(url: str, runs: Path, scenario: str, *flags: str) -> tuple[int, Verdict]:
    command = [sys.executable, "-m", "infermaxx_tui", "run", scenario, "--url", url, "--headless", "--json"]
    done = subprocess.run(
        [*command, "--nonce", NONCE, "--runs-dir", str(runs), *flags], capture_output=True, check=False, timeout=1400
    )
    assert done.stdout, done.stderr.decode()
    verdict = read_verdict(done.stdout)
    print(json.dumps(msgspec.to_builtins(verdict), indent=1))
    return done.returncode, verdict


def _outcomes(verdict: Verdict) -> dict[str, str]:
    return {check.name: check.outcome for check in verdict.checks}


def _counts_agree(verdict: Verdict) -> None:
    seen = verdict.instrument
    assert seen.counts_reason is None
    assert seen.generation_client == seen.generation_server
    assert seen.prompt_client == seen.prompt_server
    assert seen.generation_client


def test_within_its_depth_it_passes_and_the_counts_agree(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-recall")
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert (code, verdict.verdict) == (0, "PASS"), _outcomes(verdict)
    assert recall.n_planned == 24
    assert recall.n_evaluated >= 22
    assert verdict.regime.engine is not None
    assert verdict.regime.engine.startswith("vllm 0.32")
    assert not verdict.simulated
    assert verdict.regime.concurrency_admitted_peak == 4
    assert verdict.regime.depth_reached is not None
    assert verdict.regime.depth_reached >= 1500
    _counts_agree(verdict)


def test_beyond_its_depth_it_fails_alone_too_and_nothing_leaks(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-too-deep")
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert (code, verdict.verdict, recall.outcome, recall.cause) == (1, "FAIL", "fail", "alone_too")
    assert recall.evidence
    assert _outcomes(verdict)["isolation"] != "fail"
    assert _outcomes(verdict)["availability"] == "pass"


def test_a_budget_of_eight_tokens_is_not_amnesia(url: str, tmp_path: Path) -> None:
    code, verdict = _run(url, tmp_path, "cpu-capped")
    assert (code, verdict.verdict) == (3, "INCONCLUSIVE")
    assert "fail" not in _outcomes(verdict).values()
    budget = next(check for check in verdict.checks if check.name == "budget")
    assert budget.outcome == "not_evaluable"
    assert budget.advice is not None
    assert "canaries.max_tokens=8" in budget.advice
    _counts_agree(verdict)


def test_chat_replay_counts_what_the_server_counts(url: str, tmp_path: Path) -> None:
    flags = [
        word
        for key, value in (
            ("sessions.prompt", "chat"),
            ("sessions.count", "1"),
            ("sessions.at_once", "1"),
            ("sessions.target_depth", "800"),
            ("limits.min_recalls", "2"),
        )
        for word in ("--set", f"{key}={value}")
    ]
    code, verdict = _run(url, tmp_path, "cpu-recall", *flags)
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert recall.n_evaluated == 2, _outcomes(verdict)
    assert verdict.regime.prompt_mode == "chat"
    assert code in (0, 1)
    isolation = next(check for check in verdict.checks if check.name == "isolation")
    assert not isolation.required
    _counts_agree(verdict)
