"""A server's start: slow is not stuck, hanging and dying give one line, and a log is read wherever it lies."""

from __future__ import annotations

import socket
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.server import startup
from infermaxx_tui.server.describe import ServerUnusableError
from infermaxx_tui.server.launch import LaunchedServer, launch_url, refuse_taken
from infermaxx_tui.server.startup import Patience, Work, read_startup

LOGS = Path(__file__).parent.parent / "logs" / "startup"
DEAD = LOGS / "vllm-0.26.0-h200-turboquant-failed-start.log"


def told(patience: Patience, *works: Work) -> list[str | None]:
    return [patience.over(work, 10.0) for work in works]


def test_a_start_that_writes_is_waited_for_whatever_it_takes() -> None:
    assert told(Patience(idle_s=30, quiet_s=60), *(Work(n, 0.0, 0) for n in range(100))) == [None] * 100


def test_a_start_that_does_nothing_is_given_up_after_the_idle_time() -> None:
    said = told(Patience(idle_s=30, quiet_s=60), *[Work(5, 1.0, 0)] * 6)
    assert said[:4] == [None] * 4
    assert said[4] == "wrote and did nothing for 40 s"


def test_a_start_that_computes_in_silence_has_the_longer_time() -> None:
    said = told(Patience(idle_s=30, quiet_s=60), *(Work(5, 10.0 * n, 0) for n in range(9)))
    assert said[:7] == [None] * 7
    assert said[7] == "wrote nothing for 70 s"


def test_a_start_that_reads_weights_is_not_idle() -> None:
    said = told(Patience(idle_s=30, quiet_s=600), *(Work(5, 0.0, n << 24) for n in range(20)))
    assert said == [None] * 20


def test_a_line_begins_both_times_anew() -> None:
    works = [Work(5 + n // 3, 0.0, 0) for n in range(30)]
    assert told(Patience(idle_s=30, quiet_s=60), *works) == [None] * 30


def test_a_start_that_writes_for_ever_has_a_limit_for_the_whole_of_it() -> None:
    """A server that waits for a worker that is gone says so every minute."""
    said = told(Patience(start_s=95), *(Work(n, 10.0 * n, 0) for n in range(11)))
    assert said[:9] == [None] * 9
    assert said[9] == "used up its 95 s (start_s)"


def test_a_log_is_read_from_a_file() -> None:
    got = read_startup(DEAD, "file")
    assert got.source == "file"
    assert got.facts is not None
    assert got.facts.version == "0.26.0"


@pytest.mark.parametrize("text", ["", "nothing of vLLM here\n"])
def test_a_log_without_the_lines_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.log"
    path.write_text(text)
    got = read_startup(path, "file")
    assert (got.source, got.facts) == ("none", None)
    assert "no line of a vLLM start" in (got.reason or "")


def test_a_log_that_is_not_there_says_so(tmp_path: Path) -> None:
    got = read_startup(tmp_path / "gone.log", "file")
    assert (got.source, got.reason) == ("none", "gone.log: No such file or directory")


def test_of_a_long_log_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "MAX_BYTES", 64 << 10)
    text = DEAD.read_text(encoding="utf-8")
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    path = tmp_path / "long.log"
    path.write_text(head[:30_000] + "\n" + "x" * 1_000_000 + "\n" + tail[-30_000:], encoding="utf-8")
    got = read_startup(path, "file")
    assert got.facts is not None
    assert got.facts.version == "0.26.0"
    assert "FlashAttention version not detected" in (got.facts.failure or "")


@given(st.binary(max_size=500))
def test_no_bytes_break_it(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(data)
    read_startup(path, "file")


def no_sleep(seconds: float) -> None:
    """The test's clock is the server's own end, or how often it was asked."""


def launched(tmp_path: Path, script: str) -> LaunchedServer:
    return LaunchedServer([sys.executable, "-c", script], {}, tmp_path / "server.log")


def url_of_nobody() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_start_that_dies_gives_the_cause_that_its_log_shows(tmp_path: Path) -> None:
    script = f"import sys; sys.stdout.write(open({str(DEAD)!r}, encoding='utf-8').read()); sys.exit(1)"
    server = launched(tmp_path, script)
    with pytest.raises(ServerUnusableError) as caught:
        server.wait_ready(url_of_nobody(), no_sleep)
    server.stop()
    said = str(caught.value)
    assert said.startswith("server.launch: exited with 1 after the stage 'weights loaded': AssertionError: FlashAtt")
    assert "another --attention-backend" in said
    assert "\n" not in said


def test_a_start_that_hangs_gives_the_stage_it_came_to(tmp_path: Path) -> None:
    warned = "WARNING 12-01 04:58:41 [x.py:255] This can cause errors like `OSError: [Errno 24] Too many files`"
    line = "(EngineCore pid=7) INFO 11-30 16:14:55 [x.py:1] Loading weights took 0.08 seconds"
    server = launched(tmp_path, f"import time; print({warned!r}); print({line!r}, flush=True); time.sleep(600)")
    with pytest.raises(ServerUnusableError) as caught:
        server.wait_ready(url_of_nobody(), no_sleep, Patience(idle_s=20.0), count(0.0, 0.25).__next__)
    server.stop()
    said = str(caught.value)
    assert "did nothing for 20 s" in said or "wrote and did nothing" in said
    assert "and is not up at http://127.0.0.1:" in said
    assert "its last line is" in said
    assert "OSError" not in said, "what a log warned of is no reason"


def test_the_time_of_a_start_is_that_of_the_clock_and_not_the_number_of_looks(tmp_path: Path) -> None:
    """Who listens and does not answer holds each look up for seconds."""
    looks = count()
    server = launched(tmp_path, "import time; time.sleep(600)")
    with pytest.raises(ServerUnusableError, match=r"used up its 100 s \(start_s\) and is not up"):
        server.wait_ready(url_of_nobody(), no_sleep, Patience(start_s=100.0), lambda: 40.0 * next(looks))
    server.stop()
    assert next(looks) == 4


@pytest.mark.parametrize(
    ("command", "port"),
    [
        (["vllm", "serve", "m"], 8000),
        (["vllm", "serve", "m", "--port", "8001"], 8001),
        (["vllm", "serve", "m", "--port=8001", "--port", "8002"], 8002),
        (["bash", "-c", "exec vllm serve m \\\n  --port 8003 --max-num-seqs 8"], 8003),
        (["bash", "-c", 'exec vllm serve m --port 8003 "$@"', "vllm", "--port", "8004"], 8004),
        (["bash", "-c", "exec vllm serve m --port ${PORT:-8000} --data-parallel-rpc-port 9"], 8000),
    ],
)
def test_a_command_is_asked_where_it_will_listen(command: list[str], port: int) -> None:
    assert launch_url(command) == f"http://127.0.0.1:{port}"


def test_a_port_that_somebody_has_is_not_started_on() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        url = launch_url(["vllm", "serve", "m", "--port", str(taken.getsockname()[1])])
        with pytest.raises(ServerUnusableError, match="another server listens"):
            refuse_taken(url)
    refuse_taken(url_of_nobody())
