"""A port of ours is ours alone: another run waits or is refused, and a stranger who listens there is never measured."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.server.port import refuse_stranger, reserved

_URL = "http://127.0.0.1:18080"
_LISTENS = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as held:
    print(held.getsockname()[1], flush=True)
    sys.stdin.read()
"""


def test_a_port_is_held_against_other_runs_and_given_back(tmp_path: Path) -> None:
    with reserved(_URL, 0.0, tmp_path), reserved("http://127.0.0.1:18081", 0.0, tmp_path):
        second = reserved(_URL, 0.0, tmp_path)
        with pytest.raises(ServerUnusableError, match=r"another run has a server at http://127\.0\.0\.1:18080"):
            second.__enter__()
    with reserved(_URL, 0.0, tmp_path):
        pass


def test_without_a_place_for_locks_or_with_a_link_in_it_the_run_goes_on_and_touches_nothing(tmp_path: Path) -> None:
    with reserved(_URL, 0.0, tmp_path / "gone"):
        pass
    target = tmp_path / "target"
    (tmp_path / f"infermaxx-{os.getuid()}-18080.lock").symlink_to(target)
    with reserved(_URL, 0.0, tmp_path):
        assert not target.exists()


def _listening(port: int = 0) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", _LISTENS, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_who_listened_before_our_process_was_there_is_no_server_of_ours() -> None:
    stranger, port = _listening()
    ours, other = _listening()
    try:
        with pytest.raises(ServerUnusableError, match=f"process {stranger.pid} listens at .* no server of this run"):
            refuse_stranger(f"http://127.0.0.1:{port}", ours.pid)
        refuse_stranger(f"http://127.0.0.1:{other}", ours.pid)
        refuse_stranger(f"http://127.0.0.1:{other}", stranger.pid)
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            free = nobody.getsockname()[1]
        refuse_stranger(f"http://127.0.0.1:{free}", ours.pid)
    finally:
        for process in (stranger, ours):
            process.kill()
            process.communicate()
    refuse_stranger(f"http://127.0.0.1:{port}", ours.pid)
