"""CPU a client process spends on one streamed event, for bare loops, for our path, and for the whole runner.

Every row receives the same events over loopback sockets from `blaster.py` and at least parses their JSON. CPU is
`time.process_time` of this process from the moment at which all streams have their headers. Best of the rounds, which
are interleaved so that a busy moment of the machine hits all rows alike. A process that is kept waiting finds several
events in a read and pays for one: rounds with more than MOST_PER_READ do not count, for any row.

    python -m tests.bench.bench_stream [--streams 64] [--events 400] [--rate-hz 200] [--rounds 6]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

from tests.bench.loops import rows
from tests.bench.sinks import Gate, Load, Row, Sink

MOST_PER_READ = 1.1
RUNNER = "the whole runner"


@contextlib.contextmanager
def blaster(streams: int, events: int, rate_hz: float) -> Iterator[Load]:
    """The server in a process of its own."""
    script = str(Path(__file__).with_name("blaster.py"))
    arguments = [f"--streams={streams}", f"--events={events}", f"--rate-hz={rate_hz}"]
    with subprocess.Popen([sys.executable, script, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Load(int(process.stdout.readline()), streams, events)
        finally:
            process.terminate()


def measure(row: Row, sink: Sink, load: Load) -> tuple[float, float]:
    """(CPU µs per event, events per read) of one run. Raises if events went missing."""
    gate = Gate(load.streams)
    asyncio.run(_awaited(row(load, gate, sink)))
    end_s = time.process_time()
    assert gate.begin_s is not None
    wanted = load.streams * load.events
    if gate.events < wanted:
        raise SystemExit(f"{gate.events} events of {wanted} came")
    return (end_s - gate.begin_s) * 1e6 / wanted, wanted / gate.reads


async def _awaited(row: Awaitable[None]) -> None:
    await row


def measure_runner(load: Load) -> tuple[float, float]:
    """The same of the whole runner, from its first token to the end of its last reply."""
    from tests.bench.whole_runner import drive_in_new_loop  # late: the other rows do without a runner

    took = drive_in_new_loop(load.port, load.streams)
    wanted = load.streams * load.events
    return took.cpu_s * 1e6 / wanted, wanted / took.reads


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--rate-hz", type=float, default=200.0, help="events a second of each stream; 0: no pause")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--without-runner", action="store_true")
    parser.add_argument("--only", default="", help="rows whose names hold one of these words, commas between")
    options = parser.parse_args()
    words = options.only.split(",")
    table = {name: row for name, row in rows().items() if any(word in name for word in words)}
    taken: dict[str, list[tuple[float, float]]] = {}
    with blaster(options.streams, options.events, options.rate_hz) as load:
        for _ in range(options.rounds):
            for name, (row, sink, _) in table.items():
                taken.setdefault(name, []).append(measure(row, sink, load))
            if not options.without_runner:
                taken.setdefault(RUNNER, []).append(measure_runner(load))
    bare = [name for name, (_, _, is_bare) in table.items() if is_bare]
    print(
        f"{options.streams} streams, {options.events} events each, {options.rate_hz:g} Hz, load {os.getloadavg()[0]:g}"
    )
    show(taken, bare)


def show(taken: dict[str, list[tuple[float, float]]], bare: list[str]) -> None:
    """Prints the best round of each row that counts, how many counted, and the median of the rounds' own ratios.

    Where a machine's speed changes between rounds, the best of one row and of another are of two machines.
    """
    counting = {name: [costs for costs in all_costs if costs[1] <= MOST_PER_READ] for name, all_costs in taken.items()}
    floor = min((cost for name in bare for cost, _ in counting[name]), default=float("nan"))
    rounds = range(len(taken[bare[0]]))
    floors = [min((taken[n][k][0] for n in bare if taken[n][k] in counting[n]), default=float("nan")) for k in rounds]
    print(f"{'':42}{'CPU µs/event':>14}{'events/read':>13}{'rounds':>8}{'x best bare':>13}{'same round':>12}")
    for name, costs in counting.items():
        cost, per_read = min(costs, default=(float("nan"), float("nan")))
        ratios = [taken[name][k][0] / floors[k] for k in rounds if taken[name][k] in costs and floors[k] == floors[k]]
        median = statistics.median(ratios) if ratios else float("nan")
        print(f"{name:42}{cost:14.2f}{per_read:13.2f}{len(costs):8}{cost / floor:13.2f}{median:12.2f}")


if __name__ == "__main__":
    main()
