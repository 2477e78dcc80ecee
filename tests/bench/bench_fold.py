"""How fast a log is decoded and folded: events a second over a synthetic log of 200,000 events.

python tests/bench/bench_fold.py [--events 200000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

from infermaxx_tui.core import events as ev
from infermaxx_tui.core.canary import make_tags
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.limits import Limits

SESSIONS = 32
TAGS = make_tags(0, "bench", SESSIONS)


def log_events(total: int) -> Iterator[ev.AnyEvent]:
    """A soak as it is logged: 32 streams whose replies take ten seconds, a recall each eighth turn.

    Between them what each second brings, a beat of all streams and a scrape, and each fifth second the instrument.
    """
    yield ev.RunStarted(
        schema=ev.SCHEMA,
        program="bench",
        run="bench",
        scenario="bench",
        scenario_text="",
        scenario_sha256="",
        seed=0,
        nonce="00",
        host=ev.Host(name="bench", system="bench", python="", cpus=2),
        limits=Limits(),
        sessions=SESSIONS,
        at_once=SESSIONS,
        planned_recalls=total // 64,
    )
    columns = tuple(range(SESSIONS))
    for session in columns:
        tag = TAGS[session]
        yield ev.TagIssued(kind="own", session=session, label=f"label {session}", tag=tag)
        yield ev.SessionStarted(session=session, wave=0, transcripts=("t",), planned_recalls=total // 64 // SESSIONS)
        yield ev.TagPlanted(session=session, label=f"label {session}", tag=tag, how="exchange", depth_tokens=50, turn=0)
    made, req = 1 + 3 * SESSIONS, 0
    while made < total:
        req += 1
        batch = [*_request(req, req % SESSIONS, req // SESSIONS)]
        if req % 3 == 0:
            batch += _second(req, columns)
        made += len(batch)
        yield from batch


def _second(req: int, columns: tuple[int, ...]) -> Iterator[ev.AnyEvent]:
    yield ev.Beat(
        window_ms=1000.0,
        sessions=columns,
        tokens=(40,) * SESSIONS,
        depths=(500 + req % 9000,) * SESSIONS,
        gap_buckets=tuple((bucket, 60) for bucket in range(90, 110)),
    )
    yield ev.MetricsRead(running=32.0, waiting=0.0, kv_usage=0.5, generation_tokens=req * 400.0, process_start_s=1.0)
    if req % 15 == 0:
        yield ev.InstrumentRead(
            window_ms=5000.0,
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=1.0,
            loop_lag_max_ms=2.0,
            cpu_share=0.1,
            rss_mib=90.0,
            events_parsed=6400,
        )


def _request(req: int, session: int, turn: int) -> Iterator[ev.AnyEvent]:
    kind: ev.RequestKind = "recall" if turn % 8 == 7 else "turn"
    depth = 500 + 120 * (turn % 300)
    tag = TAGS[session]
    yield ev.RequestStarted(req=req, session=session, turn=turn, kind=kind, prompt_tokens=depth, max_tokens=400)
    if kind == "recall":
        yield ev.TagAsked(
            req=req,
            session=session,
            label=f"label {session}",
            tag=tag,
            kind=kind,
            asked_at=1.0,
            planted_depth_tokens=50,
            depth_tokens=depth,
        )
    yield ev.FirstToken(req=req, session=session, ttft_ms=120.0)
    yield ev.RequestEnded(
        req=req,
        session=session,
        turn=turn,
        kind=kind,
        outcome="ok",
        finish_reason="stop",
        status=200,
        max_tokens=400,
        prompt_tokens=depth,
        completion_tokens=120,
        ids_received=120,
        chunks=120,
        ttft_ms=120.0,
        first_visible_ms=120.0,
        decode_ms=3000.0,
        total_ms=3120.0,
        content_chars=480,
        text_sha256="0" * 64,
        content=f"The lot tag is {tag}." if kind == "recall" else None,
        server_id=f"cmpl-{req}",
    )


def best_s(rounds: int, work: Callable[[], object]) -> float:
    """Least CPU seconds of several goes."""
    times = []
    for _ in range(rounds):
        begin_s = time.process_time()
        work()
        times.append(time.process_time() - begin_s)
    return min(times)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    records = [ev.Record(0, n, 1000 * n, 1000 * n, event) for n, event in enumerate(log_events(options.events))]
    lines = [ev.encode(record) for record in records]

    def fold() -> None:
        state = Fold()
        for record in records:
            state.add(record)
        state.snapshot()

    def both() -> None:
        state = Fold()
        for line in lines:
            state.add(ev.decode(line))
        state.snapshot()

    print(f"{len(lines):,} events, {sum(map(len, lines)) / len(lines):.0f} bytes a line, best of {options.rounds}")
    print(f"{'':20}{'events/s':>12}{'µs/event':>12}")
    for name, work in (
        ("encode", lambda: [ev.encode(record) for record in records]),
        ("decode", lambda: [ev.decode(line) for line in lines]),
        ("fold", fold),
        ("decode and fold", both),
    ):
        seconds = best_s(options.rounds, work)
        print(f"{name:20}{len(lines) / seconds:12,.0f}{seconds * 1e6 / len(lines):12.2f}")
    _print_kinds(records)


def _print_kinds(records: list[ev.Record]) -> None:
    """The fold's time by kind of event: one pass in which the adds of each kind are timed together."""
    spent: dict[str, list[float]] = {}
    state, clock = Fold(), time.process_time
    for record in records:
        begin_s = clock()
        state.add(record)
        spent.setdefault(type(record.event).__name__, []).append(clock() - begin_s)
    print(f"\n{'fold, by kind':20}{'events':>12}{'µs/event':>12}{'share':>8}")
    whole = sum(map(sum, spent.values()))
    for name, times in sorted(spent.items(), key=lambda item: -sum(item[1])):
        print(f"{name:20}{len(times):12,}{sum(times) / len(times) * 1e6:12.2f}{sum(times) / whole:8.0%}")


if __name__ == "__main__":
    main()
