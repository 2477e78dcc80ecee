"""A server that is killed in the middle of a run and started again on the same port: the run says so, and is over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clitools import Place
from living import PATIENCE_S, until
from survivaltools import left_in, running, same_bytes, when

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.wish import Wish


@contextmanager
def _serving(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The embedded server on a port; killed at the end if it is still there."""
    ready = folder / "port"
    ready.unlink(missing_ok=True)
    words = ["-m", "infermaxx_tui.sim", "--port", str(port), "--port-file", str(ready), "--log-file", os.devnull]
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.DEVNULL) as process:
        try:
            until(ready.exists)
            yield process
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def _decoded(folder: Path | None) -> int:
    """Replies whose first token has come."""
    log = None if folder is None else folder / "events.jsonl"
    return log.read_bytes().count(b'"e":"firsttoken"') if log is not None and log.exists() else 0


def test_a_server_that_was_killed_and_came_back_fails_the_run(
    place: Place, two_waves: Path, tmp_path: Path, free_port: int
) -> None:
    url = f"http://127.0.0.1:{free_port}"
    more = ("sessions.rounds=12", "limits.stall_s=3.0")
    wish = Wish(scenario=str(two_waves), overrides=more, url=url, no_gpu=True)
    with _serving(tmp_path, free_port) as first, running(place, wish) as runner:
        assert when(lambda: _decoded(runner.folder) >= 6, runner)
        first.send_signal(signal.SIGKILL)
        first.wait()
        with _serving(tmp_path, free_port):
            code, _ = runner.end()
            folder = runner.folder
            assert folder is not None
            left = left_in(folder)
            assert code == left.code == ExitCode.FAIL
            assert same_bytes(folder)
            failed = {check.name for check in left.verdict.checks if check.outcome == "fail"}
            assert "availability" in failed
            assert any(isinstance(event, ev.ServerLost) for event in left.events)
            last = left.events[-1]
            assert isinstance(last, ev.RunEnded)
            if last.reason == "finished":
                return
            with running(place, Wish(scenario="", resume=str(folder), no_gpu=True)) as again:
                code, _ = again.end()
            assert code == ExitCode.FAIL, "what the server did stays in the verdict"
            assert left_in(folder).over
