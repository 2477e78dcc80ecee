"""`python -m infermaxx_tui.sim`: its port file, its log, its ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infermaxx_tui.sim.__main__ import main
from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.faults import FAULTS

_LINE = re.compile(
    r"^(?:\((?P<proc>[^)]+?) pid=(?P<pid>\d+)\) )?(?P<lvl>DEBUG|INFO|WARNING|ERROR|CRITICAL)"
    r" (?P<ts>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<src>[\w.]+\.py):(?P<ln>\d+)\] (?P<msg>.*)$"
)


@contextmanager
def running(folder: Path, *args: str) -> Iterator[tuple[subprocess.Popen[str], int, list[str]]]:
    """A server process that answers, its port, and its log so far."""
    port_file = folder / "port"
    command = [sys.executable, "-m", "infermaxx_tui.sim", "--port", "0", "--port-file", str(port_file), *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            log = []
            for line in process.stdout:
                log.append(line)
                if "Application startup complete" in line:
                    break
            yield process, int(port_file.read_text()), log
        finally:
            process.kill()


def ended(process: subprocess.Popen[str], log: list[str]) -> str:
    """The whole log of a process that comes to its end."""
    rest, _ = process.communicate(timeout=30)
    return "".join(log) + rest


def ask(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return bytes(answer.read())


def test_it_serves_logs_and_ends_in_order(tmp_path: Path) -> None:
    with running(tmp_path, "--max-model-len", "9000", "--pool", "90000") as (process, port, log_so_far):
        card = json.loads(ask(port, "/v1/models"))["data"][0]
        assert card["max_model_len"] == 9000
        process.send_signal(signal.SIGTERM)
        log = ended(process, log_so_far)
        assert process.returncode == 0
    assert "version 0.32.0+infermaxxsim" in log
    assert re.search(r"CPU KV cache size: 90,000 tokens, Maximum concurrency for 9,000 tokens per request: 10.00x", log)
    assert f"Starting vLLM server on http://127.0.0.1:{port}" in log
    assert "INFO:     Application startup complete.\n" in log
    assert f"Finished server process [{process.pid}]" in log
    lines = [line for line in log.splitlines() if not line.startswith("INFO:     ")]
    assert all(_LINE.match(line) for line in lines)


def test_a_scripted_death_ends_the_process(tmp_path: Path) -> None:
    with running(tmp_path, "--fault", "dies", "--healthy-turns", "0") as (process, port, log_so_far):
        body = json.dumps({"prompt": "hello there", "stream": True, "max_tokens": 50}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/completions", body, {"content-type": "application/json"}
        )
        with (
            pytest.raises(OSError, match=r"reset|Remote end closed"),
            urllib.request.urlopen(request, timeout=10) as answer,
        ):
            answer.read()
        log = ended(process, log_so_far)
        assert process.returncode == 1
        assert "EngineDeadError" in log
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)


def test_it_ends_with_the_process_that_started_it() -> None:
    """A parent that is gone at once leaves no server behind: the pipe that both hold comes to its end."""
    code = (
        "import os, subprocess, sys\n"
        "server = [sys.executable, '-m', 'infermaxx_tui.sim', '--exit-with-parent', str(os.getpid())]\n"
        "subprocess.Popen(server)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, timeout=60)
    assert "Application startup complete" in done.stdout
    assert "Finished server process" in done.stdout


def test_the_faults_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-faults"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(FAULTS)
    assert any(line.split()[:3] == ["leak", "FAIL", "isolation"] for line in lines)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--fault", "leek"], "'leek' is not a fault; the nearest is 'leak'"),
        (["--max-model-len", "100", "--pool", "50"], "make the pool larger or the window smaller"),
    ],
)
def test_a_wrong_command_line_gets_one_line(args: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_a_taken_port_gets_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 2
    assert "address already in use" in capsys.readouterr().err


def test_the_key_never_reaches_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIM_KEY", "sk-CANARY-1")
    with running(tmp_path, "--api-key-env", "SIM_KEY") as (process, port, log_so_far):
        with pytest.raises(OSError, match="401"):
            ask(port, "/v1/models")
        assert os.environ["SIM_KEY"] not in str(process.args)
        process.send_signal(signal.SIGTERM)
        log = ended(process, log_so_far)
    assert "'api_key': '***'" in log
    assert "CANARY" not in log


def test_the_pools_window_fits_by_default() -> None:
    assert SimConfig().max_model_len <= SimConfig().pool_tokens
