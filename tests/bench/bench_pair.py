"""What the TUI does to the runner's own figures: the same run with nobody looking, with a TUI, with a stalled terminal.

python -m tests.bench.bench_pair [--rounds 15] [--pairs 3] [--stalled-rounds 35]

The runs go on the embedded server and take turns (off, on, off, on, …), so that what the machine does meanwhile falls
on both. The noise is how far the runs without a TUI lie apart from one another; a difference below it is none. In
the stalled run the terminal's other side is never read (what ctrl-S does), for about two seconds a round.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

sys.path.extend(str(Path(__file__).resolve().parents[1] / folder) for folder in ("tui", "shared"))

from living import until
from ptytools import PROGRAM, Terminal, environment, lines_with

from infermaxx_tui.core.events import Beat, Record, RequestEnded, RunEnded
from infermaxx_tui.core.stats import LogHistogram, quantile
from infermaxx_tui.log import last_line, read_log
from infermaxx_tui.rundir import RunFolder

Look = Literal["off", "on", "stalled"]
_GIVE_UP_S = 600.0


class Figures(msgspec.Struct, frozen=True):
    """What the runner measured of one run."""

    look: Look
    turns: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    gap_p50_ms: float
    gap_p99_ms: float
    beat_worst_ms: float
    """The longest time between two beats, which are a second apart."""


def measure(look: Look, rounds: int) -> Figures:
    """One run from its start to its last line."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        words = [*PROGRAM, "run", "demo", "--set", f"sessions.rounds={rounds}", "--detach"]
        done = subprocess.run(words, env=environment(root), cwd=root, check=True, capture_output=True, text=True)
        run = RunFolder(root / "runs" / done.stdout.strip())
        until(lambda: lines_with(run, b"beat"))
        tty = None if look == "off" else Terminal([*PROGRAM, "attach", run.id], environment(root), root, (140, 45))
        give_up = time.monotonic() + _GIVE_UP_S
        while run.alive():
            if time.monotonic() > give_up:
                raise RuntimeError(f"{run.id}: not over after {_GIVE_UP_S:.0f} s")
            if tty is not None and look == "on":
                tty.read(0.1)
            else:
                time.sleep(0.1)
        if tty is not None:
            tty.close()
        return read(look, run)


def read(look: Look, run: RunFolder) -> Figures:
    """The figures of a run that is over."""
    last = last_line(run.path)
    if not isinstance(last, Record) or not isinstance(last.event, RunEnded) or last.event.reason != "finished":
        raise RuntimeError(f"{run.id}: did not finish: {last}")
    ttft: list[float] = []
    gaps, beats_us = LogHistogram(), []
    for record in read_log(run.path):
        match record:
            case Record(event=RequestEnded(kind="turn", ttft_ms=float(ms))):
                ttft.append(ms)
            case Record(event=Beat() as beat):
                gaps.merge(beat.gap_buckets)
                beats_us.append(record.mono_us)
            case _:
                pass
    ttft.sort()
    apart = [(b - a) / 1000 for a, b in pairwise(beats_us)]
    gap_p50, gap_p99 = gaps.quantile(0.5), gaps.quantile(0.99)
    p50, p99 = quantile(ttft, 0.5), quantile(ttft, 0.99)
    if gap_p50 is None or gap_p99 is None or p50 is None or p99 is None:
        raise RuntimeError(f"{run.id}: nothing was measured")
    return Figures(look, len(ttft), p50, p99, gap_p50, gap_p99, max(apart))


def line(figures: Figures) -> str:
    """One row of the table."""
    return (
        f"{figures.look:8} {figures.turns:6} {figures.ttft_p50_ms:11.2f} {figures.ttft_p99_ms:11.2f}"
        f" {figures.gap_p50_ms:10.2f} {figures.gap_p99_ms:10.2f} {figures.beat_worst_ms:13.1f}"
    )


def compared(name: str, off: list[float], on: list[float]) -> str:
    """The difference of the medians beside how far the runs without a TUI lie apart."""
    moved = statistics.median(on) - statistics.median(off)
    noise = max(off) - min(off)
    word = "no movement" if abs(moved) <= noise else "MOVED"
    return f"{name:12} on - off {moved:+.2f} ms, runs without a TUI lie {noise:.2f} ms apart: {word}"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--stalled-rounds", type=int, default=35)
    asked = parser.parse_args()
    if asked.pairs < 2:
        parser.error("--pairs: two at least, since one run has no noise to compare with")
    print(
        f"{'TUI':8} {'turns':>6} {'TTFT p50 ms':>11} {'TTFT p99 ms':>11}"
        f" {'gap p50 ms':>10} {'gap p99 ms':>10} {'worst beat ms':>13}"
    )
    seen: dict[Look, list[Figures]] = {"off": [], "on": [], "stalled": []}
    looks: list[Look] = ["off", "on"] * asked.pairs
    for look in [*looks, "stalled"]:
        figures = measure(look, asked.stalled_rounds if look == "stalled" else asked.rounds)
        seen[look].append(figures)
        print(line(figures), flush=True)
    for name in ("ttft_p50_ms", "ttft_p99_ms", "gap_p99_ms"):
        print(compared(name, [getattr(f, name) for f in seen["off"]], [getattr(f, name) for f in seen["on"]]))


if __name__ == "__main__":
    main()
