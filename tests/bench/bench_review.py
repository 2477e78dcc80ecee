"""How fast a long log is opened, jumped in and drawn: a table, no pass mark.

python tests/bench/bench_review.py [--folder RUN] [--hours 8] [--streams 32]

Without a folder the log is made by tests/tools/make_long_log.py. The bars that it is held to: open in 3 s, jump in
0.2 s.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from infermaxx_tui.core.glyphs import UNICODE
from infermaxx_tui.core.panels import (
    rows_axis,
    rows_feed,
    rows_gpu,
    rows_server,
    rows_session,
    rows_streams,
    rows_summary,
    rows_verdict,
)
from infermaxx_tui.core.panels.axis import axis_columns
from infermaxx_tui.core.verdict import judge_run
from infermaxx_tui.index import RunLog, describe_log

_WIDTH = 140
_SECOND = 1_000_000


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU milliseconds of one go, without garbage collections, as a screen reads."""
    gc.disable()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    took = (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
    gc.enable()
    return took


def line(name: str, times: list[tuple[float, float]]) -> None:
    """Median and worst of wall and of CPU time; the CPU time is what a machine of one's own would show."""
    wall, cpu = sorted(wall for wall, _ in times), sorted(cpu for _, cpu in times)
    middle = len(times) // 2
    print(f"{name:44}{len(times):6}{wall[middle]:12.1f}{wall[-1]:12.1f}{cpu[middle]:12.1f}{cpu[-1]:12.1f}")


def bench(folder: Path) -> None:
    """Everything that a person waits for."""
    size = sum(path.stat().st_size for path in folder.glob("events*.jsonl"))
    print(f"{'':44}{'goes':>6}{'median ms':>12}{'worst ms':>12}{'CPU median':>12}{'CPU worst':>12}")
    line("what lies there (describe_log)", [timed(lambda: describe_log(folder)) for _ in range(3)])
    (folder / "events.idx").unlink(missing_ok=True)
    log = RunLog(folder)
    line("open without events.idx, and make it", [timed(log.open)])
    line("open with it", [timed(RunLog(folder).open) for _ in range(3)])
    gc.freeze()
    end, rng = log.timeline.end_us, random.Random(7)
    state = log.latest().state
    print(
        f"  {size / 1e6:.0f} MB, {state.events:,} events, {end / 3.6e9:.2f} h, {len(state.sessions):,} conversations,"
        f" {len(state.recalls):,} recalls; largest memory {_rss_mib():.0f} MiB,"
        f" events.idx {(folder / 'events.idx').stat().st_size / size:.1%} of the log"
    )
    _seeks(log, end, rng)
    _views(log, end, rng)
    _panels(log, end)


def _rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _seeks(log: RunLog, end: int, rng: random.Random) -> None:
    def jumps(name: str, moments: Iterable[int]) -> None:
        line(name, [timed(partial(log.seek, at_us)) for at_us in moments])

    at, seconds = end // 2, range(1, 20)
    jumps("jump anywhere", [rng.randrange(end) for _ in range(100)])
    log.seek(at)
    jumps("a second on", [at + n * _SECOND for n in seconds])
    jumps("a second back", [at - n * _SECOND for n in seconds])
    jumps("a minute back", [at - n * 60 * _SECOND for n in seconds])
    jumps("play at 60 x, 2 pictures a second", [at + n * 30 * _SECOND for n in range(40)])
    line("find the next failure", [timed(partial(log.find, "failure", rng.randrange(end))) for _ in range(40)])
    found = [log.find("failure", rng.randrange(end)) for _ in range(20)]
    line("time of an event", [timed(partial(log.time_of, place[1])) for place in found if place is not None])
    line("one conversation's story", [timed(partial(log.session_story, n * 7)) for n in range(20)])


def _views(log: RunLog, end: int, rng: random.Random) -> None:
    columns = axis_columns(_WIDTH)
    for name, seconds in (("whole run", end // _SECOND), ("an hour", 3600), ("10 minutes", 600), ("30 s", 30)):
        span = seconds * _SECOND
        starts = [rng.randrange(max(end - span, 1)) for _ in range(10)]
        views = [timed(partial(log.timeline.snapshot, start, start + span, columns)) for start in starts]
        line(f"time axis: {name}", views)
    last = partial(log.timeline.snapshot, end - 600 * _SECOND, end, columns)
    line("time axis: 10 minutes, again", [timed(last) for _ in range(10)])


def _panels(log: RunLog, end: int) -> None:
    """A picture in the middle of the run, when all streams are open."""
    moment = log.seek(end // 2)
    state, view = moment.state, log.timeline.snapshot(end // 2 - 600 * _SECOND, end // 2, axis_columns(_WIDTH))
    line("judge", [timed(lambda: judge_run(state)) for _ in range(5)])
    verdict, story = judge_run(state), log.session_story(state.sessions[-1].session)
    panels: dict[str, Callable[[], object]] = {
        "summary": lambda: rows_summary(state, view, _WIDTH, UNICODE, verdict),
        "streams": lambda: rows_streams(state, view, _WIDTH),
        "streams, everyone": lambda: rows_streams(state, view, _WIDTH, everyone=True),
        "axis": lambda: rows_axis(state, view, _WIDTH, UNICODE, end // 2),
        "server and GPU": lambda: (*rows_server(state, view, _WIDTH), *rows_gpu(state, view, _WIDTH)),
        "feed": lambda: rows_feed(state, moment.feed, _WIDTH),
        "verdict": lambda: rows_verdict(verdict, _WIDTH),
        "session": lambda: rows_session(state, story, _WIDTH),
    }
    for name, draw in panels.items():
        line(f"rows: {name}", [timed(draw) for _ in range(10)])


def main() -> None:
    """Makes the log if none is given, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--streams", type=int, default=32)
    options = parser.parse_args()
    if options.folder is not None:
        bench(options.folder)
        return
    maker = Path(__file__).parent.parent / "tools" / "make_long_log.py"
    with tempfile.TemporaryDirectory() as folder:
        asked = ["--hours", str(options.hours), "--streams", str(options.streams)]
        subprocess.run([sys.executable, str(maker), folder, *asked], check=True)
        bench(Path(folder))


if __name__ == "__main__":
    main()
