"""Starting a real vLLM for the tests of a file."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infermaxx_tui.core.scenario import parse_scenario
from infermaxx_tui.server.launch import LaunchedServer


def real_home() -> Path:
    """The folder of provision.sh; without it the test is skipped by name."""
    home = os.environ.get("INFERMAXX_REAL", "")
    if not Path(home, "venv/bin/vllm").exists():
        pytest.skip("no real vLLM: run tests/real/provision.sh DIR and set INFERMAXX_REAL=DIR")
    return Path(home)


@contextmanager
def served(scenario: Path, log: Path, **env: str) -> Iterator[str]:
    """The address of a server that is up, started as a scenario starts it, with `env` beside a port of its own."""
    real_home()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = parse_scenario(scenario.read_text(encoding="utf-8"), scenario.name).server.launch
    server = LaunchedServer(launch, {"PORT": str(port), **env}, log)
    address = f"http://127.0.0.1:{port}"
    try:
        server.wait_ready(address, time.sleep)
        yield address
    finally:
        server.stop()
