"""What a round of the GPU sensors costs: the card of this machine if there is one, else a fake library that plays one.

The fake one shows the cost of this program alone; on a GPU host the driver's own cost comes with it. The promise is
under 1 ms for a fast round and under 30 ms for a slow one on a real card, and a scrape of /metrics under 2 ms of loop
time.

    python -m tests.bench.bench_sensors [--rounds 200] [--fake] [--show]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infermaxx_tui.core.gpu import OK, GpuProbe
from infermaxx_tui.core.readings import parse_metrics
from infermaxx_tui.sensors.choose import local_source, simulated_source
from infermaxx_tui.sensors.source import Source
from infermaxx_tui.sim.fake_card import FakeCard
from infermaxx_tui.sim.fake_nvml import FakeNvml
from infermaxx_tui.sim.gpu_timeline import ramp

METRICS = Path(__file__).parent.parent / "logs" / "metrics"
FAST_MS, SLOW_MS, SCRAPE_MS = 1.0, 30.0, 2.0


def times_ms(work: Callable[[], object], rounds: int, pause_s: float = 0.0) -> list[float]:
    """How long each of so many calls took, sorted."""
    work()
    taken = []
    for _ in range(rounds):
        time.sleep(pause_s)
        began = time.perf_counter()
        work()
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)


def line(name: str, taken: Sequence[float], promise_ms: float | None) -> str:
    """Median, 95th percentile and largest; what is promised is held to the median."""
    half, most = taken[len(taken) // 2], taken[min(int(len(taken) * 0.95), len(taken) - 1)]
    kept = "" if promise_ms is None else f"{promise_ms:10.1f}  {'kept' if half < promise_ms else 'BROKEN'}"
    return f"{name:28}{half:10.3f}{most:10.3f}{taken[-1]:10.3f}{kept}"


def open_source(fake: bool) -> tuple[Source, GpuProbe]:
    """The cards of this machine, or the fake ones."""
    if not fake:
        source = local_source(None, None)
        probe = source.probe(0)
        if probe.cards:
            return source, probe
        source.close()
        print(f"no card here: {probe.error}")
    began = time.monotonic()
    made = simulated_source(FakeNvml([FakeCard(ramp())], lambda: time.monotonic() - began))
    return made, made.probe(0)


def about(probe: GpuProbe) -> Iterator[str]:
    """What was found, and which readings it does not give."""
    label = " (simulated)" if probe.simulated else ""
    yield f"{probe.source}{label}, driver {probe.driver}, {probe.library}, {probe.binding}"
    yield f"  probed in {probe.cost_ms} ms"
    for card in probe.cards:
        yield f"  {card.gpu}: {card.name}, {card.limit_w} W; server: {card.server} ({card.server_why})"
        for metric, status in card.metrics.items():
            if status != OK:
                yield f"     {metric}: {status}"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--fake", action="store_true", help="the fake library, whatever is here")
    parser.add_argument("--show", action="store_true", help="print one reading of each card")
    options = parser.parse_args()
    source, probe = open_source(options.fake)
    for text in about(probe):
        print(text)
    if options.show:
        for reading in source.read(True):
            print(f"  {reading}")
    print(f"{'':28}{'median ms':>10}{'p95':>10}{'max':>10}{'promise':>10}")
    pause_s = 0.0 if probe.simulated else 0.02
    print(line("fast round", times_ms(lambda: source.read(False), options.rounds, pause_s), FAST_MS))
    print(line("slow round", times_ms(lambda: source.read(True), max(options.rounds // 5, 5), pause_s), SLOW_MS))
    source.close()
    for path in sorted(METRICS.glob("*.txt")):
        page = path.read_bytes()
        name = f"/metrics, {len(page) >> 10} KiB, parsed"
        print(line(name, times_ms(lambda: parse_metrics(page), options.rounds), SCRAPE_MS))  # noqa: B023 - used at once


if __name__ == "__main__":
    main()
