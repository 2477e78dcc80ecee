"""What the TUI costs: CPU of its process and bytes to its terminal, with 32 streams that are written at their own pace.

python tests/bench/bench_tui.py [--seconds 20] [--streams 32]

Each line of the table is a TUI process of its own on a pty. `live`: a runner (this script) writes beats, scrapes and
requests of a synthetic soak as they would come. `idle`: the same run, over, with nothing to show. First paint is the
time from the start of the process to the first thing on the screen, streams until five minutes of log were read and
are shown; CPU and bytes are counted some seconds after that.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from make_long_log import Options, long_log

from infermaxx_tui.core.events import Beat, Record, RunEnded, encode
from infermaxx_tui.rundir import RunFolder

BEFORE_S = 300.0
"""Log time that is there when the TUI starts."""
SETTLE_S = 3.0
FIRST_PAINT_S = 30.0
_PROGRAM = """
import sys
from pathlib import Path
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.tui.main import TuiArgs, run_tui
run_tui(TuiArgs(run=RunFolder(Path(sys.argv[1])), fps=float(sys.argv[2])))
"""

NEAR = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
REMOTE = {"TERM": "xterm-256color", "SSH_CONNECTION": "10.0.0.1 5000 10.0.0.2 22"}


class Case(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    columns: int
    lines: int
    fps: float
    live: bool
    env: dict[str, str]


CASES = (
    Case("idle, near", 140, 45, 2, False, NEAR),
    Case("live over SSH", 80, 24, 1, True, REMOTE),
    Case("live over SSH", 140, 45, 1, True, REMOTE),
    Case("live, near", 80, 24, 1, True, NEAR),
    Case("live, near", 140, 45, 1, True, NEAR),
    Case("live, near", 140, 45, 2, True, NEAR),
)


class Cost(msgspec.Struct, frozen=True):
    """What one case took."""

    first_paint_s: float
    streams_s: float
    cpu_share: float
    bytes_per_s: float
    rss_mib: float


def growing(records: Iterator[Record]) -> Iterator[Record]:
    """The same log with depths that grow with every token, as a real run's do."""
    extra: dict[int, int] = {}
    before: dict[int, int] = {}
    for record in records:
        event = record.event
        if isinstance(event, Beat):
            depths = []
            for session, tokens, depth in zip(event.sessions, event.tokens, event.depths, strict=True):
                extra[session] = extra.get(session, 0) + tokens if before.get(session) == depth else tokens
                before[session] = depth
                depths.append(depth + extra[session])
            event = msgspec.structs.replace(event, depths=tuple(depths))
        yield msgspec.structs.replace(record, event=event)


class Writer:
    """Plays a runner: what was before is there at once, the rest comes as it happened."""

    def __init__(self, folder: Path, streams: int, seconds: float) -> None:
        self.run = RunFolder(folder)
        self._options = Options(hours=(BEFORE_S + seconds) / 3600, streams=streams)
        self._records = growing(record for record in long_log(self._options) if not isinstance(record.event, RunEnded))
        self._file = self.run.events.open("wb", buffering=0)
        self._next: Record | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._lock = self.run.hold()

    def start(self, live: bool) -> None:
        """Writes what was before, and goes on in a thread if the run is live."""
        base = None
        lines = []
        for record in self._records:
            base = record.mono_us if base is None else base
            if record.mono_us - base > BEFORE_S * 1e6:
                self._next = record
                break
            lines.append(encode(record))
        self._file.write(b"".join(lines))
        if live:
            self._thread.start()
        else:
            os.close(self._lock)

    def stop(self) -> None:
        """Ends the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _play(self) -> None:
        if self._next is None:
            return
        began, base = time.monotonic(), self._next.mono_us
        self._file.write(encode(self._next))
        for record in self._records:
            if self._over.wait(max(began + (record.mono_us - base) / 1e6 - time.monotonic(), 0)):
                return
            self._file.write(encode(record))


class Terminal:
    """A pty whose output is counted."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "SSH_CONNECTION", "TMUX")}
            os.execve(
                sys.executable,
                [sys.executable, "-c", _PROGRAM, str(folder), str(case.fps)],
                {**env, "LANG": "C.UTF-8", **case.env},
            )
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", case.lines, case.columns, 0, 0))
        self.bytes = 0
        self.seen = b""

    def read_for(self, seconds: float, until: bytes | None = None) -> bool:
        """Reads what comes, for a time or until something was seen."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.fd], [], [], min(left, 0.05))[0]:
                try:
                    data = os.read(self.fd, 65536)
                except OSError:
                    return False
                self.bytes += len(data)
                if until is not None:
                    self.seen += data
                    if until in self.seen:
                        return True
        return False


def measure(case: Case, streams: int, seconds: float) -> Cost:
    """One TUI process on one pty."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "20300101-000000-soak-long-0b0b"
        folder.mkdir()
        writer = Writer(folder, streams, seconds + 60)
        writer.start(case.live)
        terminal = Terminal(case, folder)
        try:
            if not terminal.read_for(FIRST_PAINT_S, b"soak-long"):
                raise RuntimeError("the TUI painted nothing")
            first = time.monotonic() - terminal.began
            if b"tok/s" not in terminal.seen and not terminal.read_for(FIRST_PAINT_S, b"tok/s"):
                raise RuntimeError("the TUI painted no streams")
            streams_s = time.monotonic() - terminal.began
            terminal.read_for(SETTLE_S)
            process = psutil.Process(terminal.pid)
            before, counted = process.cpu_times(), terminal.bytes
            terminal.read_for(seconds)
            after = process.cpu_times()
            cpu = (after.user + after.system - before.user - before.system) / seconds
            return Cost(
                first, streams_s, cpu, (terminal.bytes - counted) / seconds, process.memory_info().rss / (1 << 20)
            )
        finally:
            writer.stop()
            os.kill(terminal.pid, signal.SIGTERM)
            terminal.read_for(1.0)
            os.close(terminal.fd)
            os.waitpid(terminal.pid, 0)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--streams", type=int, default=32)
    asked = parser.parse_args()
    print(
        f"{'case':16} {'size':>7} {'fps':>4} {'first paint':>11} {'streams':>8} {'CPU':>7} {'KiB/s':>7} {'RSS MiB':>8}"
    )
    for case in CASES:
        cost = measure(case, asked.streams, asked.seconds)
        size = f"{case.columns}x{case.lines}"
        print(
            f"{case.name:16} {size:>7} {case.fps:4.0f} {cost.first_paint_s:9.2f} s {cost.streams_s:6.2f} s"
            f" {cost.cpu_share:7.1%} {cost.bytes_per_s / 1024:7.2f} {cost.rss_mib:8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
