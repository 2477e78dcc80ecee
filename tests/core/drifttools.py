"""Logs of long made-up soaks, event by event, with a server whose pace and memory the caller sets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuProcess, GpuReading
from infermaxx_tui.core.histories import Shape, history
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState

HOUR_US: Final = 3_600_000_000
TURN_US: Final = 30_000_000
START_MS: Final = 1_700_000_000_000

At = Callable[[float], float]
"""Hours since the start -> a figure."""


class Soak(msgspec.Struct, frozen=True, kw_only=True):
    """A soak of two streams at once over rounds of 12 turns."""

    hours: float = 3.0
    pace: At = lambda hours: 1.0
    """What the decode time of a token is multiplied by."""
    vram_mib: At = lambda hours: 70_000.0
    rss_mib: At = lambda hours: 90.0
    kv_floor: At = lambda hours: 0.0
    ttft: At = lambda hours: 1.0
    preemptions: At = lambda hours: 0.0
    """Preemptions so far."""
    reasons: Callable[[float], int] = lambda hours: 0
    limit_w: At = lambda hours: 300.0
    failing: Callable[[float], bool] = lambda hours: False
    """Whether turns fail then."""
    noise: float = 0.02
    lost_at: tuple[float, ...] = ()
    """Hours at which the server starts anew."""
    metrics: bool = True
    cards: bool = True
    processes: bool = True
    cached: bool = True
    turns: int = 12
    limits: Limits = Limits()


def records(soak: Soak) -> Iterator[e.Record]:
    """The lines of its log."""
    for seq, (us, event) in enumerate(_events(soak)):
        yield e.Record(0, seq, START_MS + us // 1000, us, event)


def state_of(soak: Soak) -> RunState:
    """What its log says."""
    fold = Fold()
    for record in records(soak):
        fold.add(record)
    return fold.snapshot()


def _events(soak: Soak) -> Iterator[tuple[int, e.AnyEvent]]:
    start = history(Shape(limits=soak.limits))[:2]
    yield from ((0, event) for event in start)
    card = GpuCard(gpu=0, name="made-up", server=True)
    yield 0, e.GpuProbed(probe=GpuProbe(source="nvml", cards=(card,)))
    dice, us, req, session = random.Random(11), 0, 0, 0
    lost = [round(hours * HOUR_US) for hours in soak.lost_at]
    while us < soak.hours * HOUR_US:
        pair = (session, session + 1)
        for number in pair:
            yield us, e.SessionStarted(session=number, wave=session // 2, transcripts=("a",), planned_recalls=0)
        for turn in range(soak.turns):
            if lost and us >= lost[0]:
                lost.pop(0)
                yield us, e.ServerLost(how="restarted", session=None, req=None, detail="a new start time")
            yield from _turn(soak, us, pair, turn, req, dice)
            us, req = us + TURN_US, req + 2
        for number in pair:
            yield us, e.SessionEnded(session=number, reason="finished", depth_tokens=36_000, turns=soak.turns)
        session += 2
    yield us, e.RunEnded(reason="finished", events=0)


def _turn(
    soak: Soak, us: int, pair: tuple[int, int], turn: int, req: int, dice: random.Random
) -> Iterator[tuple[int, e.AnyEvent]]:
    """Two replies beside one another, or the first of them alone, and the readings after them."""
    hours = us / HOUR_US
    alone = dice.random() < 0.3
    depth, tokens = 3000 * (turn + 1), 200
    streams = pair[:1] if alone else pair
    ms = (22.7 + 0.55 * (depth + tokens / 2) / 1000 + (0 if alone else 2.0)) * soak.pace(hours)
    ttft_ms = (50 + 300 * 0.4) * soak.ttft(hours) * (1 + soak.noise * dice.gauss(0, 1))
    took = round(ms * (1 + soak.noise * dice.gauss(0, 1)) * (tokens - 1) * 1000)
    first_us = us + round(ttft_ms * 1000)
    for place, number in enumerate(streams):
        started = e.RequestStarted(
            req=req + place, session=number, turn=turn, kind="turn", prompt_tokens=depth, max_tokens=400
        )
        yield us, started
    for place, number in enumerate(streams):
        yield first_us, e.FirstToken(req=req + place, session=number, ttft_ms=ttft_ms)
    for place, number in enumerate(streams):
        bad = soak.failing(hours)
        yield (
            first_us + took,
            e.RequestEnded(
                req=req + place,
                session=number,
                turn=turn,
                kind="turn",
                outcome="truncated" if bad else "ok",
                finish_reason=None if bad else "stop",
                prompt_tokens=depth,
                completion_tokens=tokens,
                cached_tokens=depth - 400 if soak.cached else None,
                ttft_ms=ttft_ms,
                decode_ms=took / 1000,
                first_chunk_tokens=1,
                total_ms=took / 1000 + ttft_ms,
            ),
        )
    end = us + TURN_US - 1_000_000
    if soak.metrics:
        done = e.MetricsRead(
            running=0.0, waiting=0.0, kv_usage=soak.kv_floor(hours), preemptions=soak.preemptions(hours)
        )
        yield end, done
    lag = 0.2
    yield (
        end,
        e.InstrumentRead(
            window_ms=30_000.0,
            loop_lag_p50_ms=lag,
            loop_lag_p99_ms=lag,
            loop_lag_max_ms=lag,
            cpu_share=0.1,
            rss_mib=soak.rss_mib(hours),
            events_parsed=100,
        ),
    )
    yield end, e.Beat(window_ms=1000.0, sessions=pair, tokens=(40, 40), depths=(depth, depth), gap_buckets=((160, 80),))
    if soak.cards:
        yield end, _card(soak, hours)


def _card(soak: Soak, hours: float) -> e.GpuRead:
    mib = soak.vram_mib(hours)
    held = (GpuProcess(pid=1, vram_mib=mib, server=True),) if soak.processes else None
    reading = GpuReading(
        gpu=0, vram_used_mib=mib + 600, limit_w=soak.limit_w(hours), reasons=soak.reasons(hours), processes=held
    )
    return e.GpuRead(gpus=(reading,), server=(0,), window_ms=30_000.0, fast_ms=0.1)
