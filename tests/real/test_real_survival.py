"""A real vLLM that is frozen, whose engine hangs or is killed, and whose pool is too small: what a run says of it.

What goes wrong here is the server's and never the model's, so only availability may fail, whatever the model recalls.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil
import pytest
from living import gone, holding, until

from infermaxx_tui.core.events import FirstToken, MetricsRead, Record, RequestEnded, RequestStarted, Resumed, ServerLost
from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.core.verdict import Verdict, read_verdict
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.log import read_log
from infermaxx_tui.server.launch import LaunchedServer
from infermaxx_tui.shipped import find_scenario

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NONCE = "c0ffee0123456789"
BLOCKS, BLOCK_TOKENS, WINDOW = 40, 32, 1024
"""A pool that holds two conversations of these tests, and makes three prompts of 13 blocks preempt one another."""
STALL_S = 12
SMALL = {
    "sessions.count": 2,
    "sessions.at_once": 2,
    "sessions.target_depth": 400,
    "canaries.max_tokens": 48,
    "limits.min_recalls": 2,
    "limits.stall_s": STALL_S,
}


class Served:
    """A vLLM on one port, which can be started again there."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder = folder
        self._server: LaunchedServer | None = None

    @property
    def pid(self) -> int:
        """The API server, which leads the group of all its processes."""
        assert self._server is not None
        return self._server.pid

    @property
    def engine(self) -> psutil.Process:
        """The process that computes."""
        (found,) = (one for one in psutil.Process(self.pid).children() if one.name().startswith("VLLM::Engine"))
        return found

    def start(self) -> None:
        """Returns once it answers."""
        path = find_scenario("cpu-recall")
        *shell, script = parse_scenario(path.read_text(encoding="utf-8"), path.name).server.launch
        small = f"--num-gpu-blocks-override {BLOCKS} --block-size {BLOCK_TOKENS} --max-model-len {WINDOW}"
        self._server = LaunchedServer(
            (*shell, f"{script.rstrip()} {small}\n"), {"PORT": str(self.port)}, self.folder / "server.log"
        )
        self._server.wait_ready(self.url, time.sleep)

    def stop(self) -> None:
        """All of its processes are gone then, also those that are stopped."""
        if self._server is not None:
            self._server.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests of this file; the last of them kills it and starts it anew."""
    home = os.environ.get("INFERMAXX_REAL", "")
    if not Path(home, "venv/bin/vllm").exists():
        pytest.skip("no real vLLM: run tests/real/provision.sh DIR and set INFERMAXX_REAL=DIR")
    server = Served(tmp_path_factory.mktemp("vllm"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Running:
    """A run that goes on, as a user starts it."""

    def __init__(self, url: str, runs: Path, settings: Mapping[str, object], *words: str) -> None:
        command = [sys.executable, "-m", "infermaxx_tui", "run", "cpu-recall", "--url", url, "--headless", "--json"]
        command += ["--no-gpu", "--nonce", NONCE, "--runs-dir", str(runs), *words]
        command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self._runs = runs
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def until_decoding(self) -> None:
        """Returns while a reply is being written, and not the first one."""
        until(self._decoding, patience_s=300.0)

    def _decoding(self) -> bool:
        assert self._process.poll() is None, "the run is over"
        events = logged(self._runs)
        first = [event.req for event in events if isinstance(event, FirstToken)]
        ended = {event.req for event in events if isinstance(event, RequestEnded)}
        return bool(ended) and any(req not in ended for req in first)

    def over(self) -> tuple[int, Verdict]:
        """Its exit code and its verdict."""
        out, err = self._process.communicate(timeout=600)
        print(err.decode())
        return self._process.returncode, read_verdict(out)


def logged(runs: Path) -> list[object]:
    """The events of the only run in a folder, as far as they have come."""
    found = [path.parent for path in runs.glob("*/events.jsonl")]
    return [record.event for record in read_log(found[0]) if isinstance(record, Record)] if found else []


def only_availability_fails(code: int, verdict: Verdict) -> None:
    """FAIL with a witness, and nothing held against the model or the wire."""
    print(json.dumps(msgspec.to_builtins(verdict.checks), indent=1))
    failed = {check.name: check for check in verdict.checks if check.outcome == "fail"}
    assert (code, verdict.verdict, list(failed)) == (ExitCode.FAIL, "FAIL", ["availability"])
    assert failed["availability"].evidence


def lost(runs: Path, how: str) -> list[ServerLost]:
    """How the run saw that the server was away."""
    return [event for event in logged(runs) if isinstance(event, ServerLost) and event.how == how]


def test_a_server_that_is_frozen_and_thawed_is_availability_s(served: Served, tmp_path: Path) -> None:
    """It takes connections and says nothing: that its processes are here, and stopped, tells it from a network."""
    run = Running(served.url, tmp_path, SMALL)
    run.until_decoding()
    os.killpg(served.pid, signal.SIGSTOP)
    try:
        until(lambda: lost(tmp_path, "stalled"), patience_s=300.0)
    finally:
        os.killpg(served.pid, signal.SIGCONT)
    only_availability_fails(*run.over())
    stalled = lost(tmp_path, "stalled")
    assert all(event.reachable for event in stalled)
    assert all("processes here are stopped" in event.detail for event in stalled)


def test_an_engine_that_hangs_behind_a_server_that_answers_is_availability_s(served: Served, tmp_path: Path) -> None:
    run = Running(served.url, tmp_path, SMALL)
    run.until_decoding()
    engine = served.engine
    engine.send_signal(signal.SIGSTOP)
    try:
        until(lambda: lost(tmp_path, "stalled"), patience_s=300.0)
    finally:
        engine.send_signal(signal.SIGCONT)
    only_availability_fails(*run.over())
    stalled = lost(tmp_path, "stalled")
    assert all(event.reachable for event in stalled)
    assert all(event.detail.endswith("/health answers") for event in stalled)


def _trace(folder: Path) -> Path:
    """Three conversations of one request each: 13 blocks a prompt, 39 together, and there are no more than 39."""
    file = folder / "trace.jsonl"
    rows = [
        {
            "session_id": f"s{n}",
            "timestamp": 0,
            "input_length": 410,
            "output_length": 40,
            "hash_ids": [*range(n, n + 7)],
        }
        for n in (10, 20, 30)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def test_preemptions_are_foretold_counted_and_named(served: Served, tmp_path: Path) -> None:
    trace, runs = _trace(tmp_path), tmp_path / "runs"
    bare = {
        "transcripts.paths": f'["{trace}"]',
        "sessions.count": 3,
        "sessions.at_once": 3,
        "sessions.target_depth": 420,
        "sessions.output": "recorded",
        "canaries.per_session": 0,
        "canaries.plant_at": "[]",
        "canaries.ask_at": "[]",
        "canaries.tail": "false",
        "canaries.absent": "false",
        "canaries.max_tokens": 48,
        "limits.min_recalls": 0,
        "limits.max_drift_share_per_hour": 0.5,
    }
    code, verdict = Running(served.url, runs, bare).over()
    drift = next(check for check in verdict.checks if check.name == "drift")
    assert (code, verdict.verdict) == (ExitCode.INCONCLUSIVE, "INCONCLUSIVE")
    assert "fail" not in {check.outcome for check in verdict.checks}
    counted = [event.preemptions for event in logged(runs) if isinstance(event, MetricsRead)]
    assert counted[-1] is not None
    assert counted[0] is not None
    assert verdict.server is not None
    assert verdict.server.preemptions == counted[-1] - counted[0] >= 1
    assert drift.outcome == "not_evaluable"
    words = ["transcripts", "stats", str(trace), "--pool", str(BLOCKS * BLOCK_TOKENS)]
    command = [sys.executable, "-m", "infermaxx_tui", *words, "--block-size", str(BLOCK_TOKENS), "--json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert said["fit_together"] == 2
    assert said["overlap"]["without_preemption"] == 2


def test_an_engine_that_is_killed_is_availability_s_and_the_run_goes_on_with_the_next_one(
    served: Served, tmp_path: Path
) -> None:
    run = Running(served.url, tmp_path, SMALL)
    run.until_decoding()
    server = [psutil.Process(served.pid), *psutil.Process(served.pid).children(recursive=True)]
    served.engine.kill()
    code, verdict = run.over()
    only_availability_fails(code, verdict)
    assert verdict.ended == "server_lost"
    assert lost(tmp_path, "unhealthy") or lost(tmp_path, "refused")
    (folder,) = tmp_path.iterdir()
    until(lambda: gone(server))
    before = _written(folder)
    assert _resumed(folder).returncode == ExitCode.SERVER
    assert _written(folder) == before
    served.stop()
    assert holding(served.folder) == []
    served.start()
    assert served.engine.cmdline() in holding(served.folder)
    done = _resumed(folder)
    assert done.stdout, done.stderr.decode()
    verdict = read_verdict(done.stdout)
    only_availability_fails(done.returncode, verdict)
    events = logged(tmp_path)
    (resumed,) = (event for event in events if isinstance(event, Resumed))
    assert (resumed.how, resumed.verdict, resumed.finished, resumed.again) == ("server_lost", "FAIL", 0, 2)
    again = events[events.index(resumed) :]
    sent = [event for event in again if isinstance(event, RequestStarted)]
    ended = [event for event in again if isinstance(event, RequestEnded)]
    assert {event.session for event in sent if event.session >= 0} == {0, 1}
    assert all(event.outcome == "ok" for event in ended)
    recall = next(check for check in verdict.checks if check.name == "recall")
    assert recall.n_planned == 4
    assert recall.n_evaluated >= 3, "what the first server took with it is not forgotten, it is asked again"


def _written(folder: Path) -> dict[str, bytes]:
    """All that a run's folder holds, but for who holds it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def _resumed(folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "infermaxx_tui", "resume", str(folder), "--headless", "--json"]
    return subprocess.run(command, capture_output=True, check=False, timeout=600)
