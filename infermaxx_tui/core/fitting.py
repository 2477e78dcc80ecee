"""How many sessions a pool carries, by playing them side by side many times, and when to start which of them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.kv_pool import Cost
from infermaxx_tui.core.load import Load
from infermaxx_tui.core.overlap import RATES, Played, Rates, play
from infermaxx_tui.core.stats import quantile

DRAWS: Final = 8
"""Choices of sessions and offsets for each number of sessions."""
MOST: Final = 64
"""Sessions side by side that are tried at most."""
VALUES: Final = 16
"""Numbers of sessions that are tried at most, spaced by ratio where there are more."""
BUDGET: Final = 120_000
"""Moves of all plays together, after which no larger number is tried."""
PLANNED: Final = 128
"""Sessions that an admission plan is made for at most."""


class Spread(msgspec.Struct, frozen=True):
    """A figure over the draws."""

    p50: float
    p90: float
    max: float


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """So many sessions side by side."""

    sessions: int
    draws: int
    clean: int
    """Draws without a preemption."""
    preemptions: Spread
    recomputed_tokens: Spread
    evicted_tokens: Spread
    peak_share: Spread
    """Most blocks that running requests held, as a share of the pool."""
    queued_s: Spread
    storms: int


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """What playing sessions side by side came to."""

    seed: int
    left_out: int
    """Sessions that exceed the pool by themselves, and so were not played."""
    timed: int
    """Sessions whose waits are recorded; the others' are assumed."""
    rates: Rates
    without_preemption: int
    """Most sessions for which no draw had a preemption."""
    without_preemption_half: int
    """Most sessions for which at least half of the draws had none."""
    without_eviction: int
    """Most sessions for which, in no draw, a prefix had to make room while its session lived."""
    tried: tuple[Tried, ...]


class Start(msgspec.Struct, frozen=True):
    """When to let a session begin."""

    session: str
    at_s: float
    ends_s: float
    peak_blocks: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Starts with which all sessions go through without a preemption and with their prefixes kept."""

    starts: tuple[Start, ...]
    refused: tuple[str, ...]
    """Sessions that exceed the pool by themselves."""
    at_once: int
    max_num_seqs: int
    """A value for vLLM's --max-num-seqs with which the pool carries what is admitted, whatever the overlap."""
    lasts_s: float
    peak_share: float


def overlap(loads: Sequence[Load], cost: Cost, blocks: int, seed: int, rates: Rates = RATES) -> Overlap:
    """Plays 1, 2, … sessions side by side, up to all of them or MOST, or until that has taken its BUDGET.

    Which sessions, and when each begins within the mean length of them, is drawn by the seed.
    """
    fitting = [load for load in loads if cost.blocks(load.peak_tokens) <= blocks and load.steps]
    lengths = [_profile(load, cost, rates).ends_ms for load in fitting]
    spread_s = sum(lengths) / len(lengths) / 1000 if lengths else 0.0
    tried: list[Tried] = []
    spent = 0
    for number in _numbers(min(len(fitting), MOST)):
        draws = [
            play(*_drawn(fitting, number, spread_s, f"{seed}/{number}/{draw}"), cost, blocks, rates)
            for draw in range(DRAWS)
        ]
        tried.append(_tried(number, draws, blocks))
        spent += sum(draw.moves for draw in draws)
        if tried[-1].storms or spent > BUDGET:
            break
    return Overlap(
        seed=seed,
        left_out=len(loads) - len(fitting),
        timed=sum(load.timed for load in fitting),
        rates=rates,
        without_preemption=_most(tried, lambda one: one.clean == one.draws),
        without_preemption_half=_most(tried, lambda one: 2 * one.clean >= one.draws),
        without_eviction=_most(tried, lambda one: one.clean == one.draws and not one.evicted_tokens.max),
        tried=tuple(tried),
    )


def _numbers(most: int) -> list[int]:
    if most <= VALUES:
        return list(range(1, most + 1))
    return sorted({round(most ** (at / (VALUES - 1))) for at in range(VALUES)})


def _most(tried: Sequence[Tried], holds: Callable[[Tried], bool]) -> int:
    """The largest number up to which it holds without a gap."""
    most = 0
    for one in tried:
        if not holds(one):
            break
        most = one.sessions
    return most


def _drawn(loads: Sequence[Load], number: int, spread_s: float, name: str) -> tuple[list[Load], list[float]]:
    """So many different sessions and their offsets, by hash: the same on each Python."""
    order = sorted(range(len(loads)), key=lambda at: _share(f"{name}/order/{at}"))
    chosen = order[:number]
    return [loads[at] for at in chosen], [_share(f"{name}/offset/{at}") * spread_s for at in range(number)]


def _share(name: str) -> float:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big") / float(1 << 48)


def _tried(number: int, draws: Sequence[Played], blocks: int) -> Tried:
    return Tried(
        sessions=number,
        draws=len(draws),
        clean=sum(draw.preemptions == 0 for draw in draws),
        preemptions=_spread([draw.preemptions for draw in draws]),
        recomputed_tokens=_spread([draw.recomputed_tokens for draw in draws]),
        evicted_tokens=_spread([draw.evicted_tokens for draw in draws]),
        peak_share=_spread([draw.peak_blocks / blocks if blocks else 0.0 for draw in draws]),
        queued_s=_spread([draw.queued_s for draw in draws]),
        storms=sum(draw.storm for draw in draws),
    )


def _spread(values: Sequence[float]) -> Spread:
    some = sorted(values)
    return Spread(quantile(some, 0.5) or 0.0, quantile(some, 0.9) or 0.0, some[-1] if some else 0.0)


class _Profile(msgspec.Struct, frozen=True):
    """Blocks that a session holds over its life, when nobody is in its way."""

    at_ms: tuple[int, ...]
    blocks: tuple[int, ...]
    ends_ms: int

    def held(self, after_ms: int) -> int:
        """At a moment after its start."""
        if not 0 <= after_ms < self.ends_ms:
            return 0
        return self.blocks[max(bisect_right(self.at_ms, after_ms) - 1, 0)]


def _profile(load: Load, cost: Cost, rates: Rates) -> _Profile:
    """It holds each request's whole length from its start on, and keeps it until the next one begins."""
    at, moments, blocks = 0.0, list[int](), list[int]()
    for step in load.steps:
        at += step.wait_s
        moments.append(round(at * 1000))
        blocks.append(cost.blocks(step.tokens))
        fresh = step.prompt_tokens - step.kept_tokens
        at += fresh / rates.prefill_tokens_per_s + step.reply_tokens / rates.decode_tokens_per_s
    return _Profile(tuple(moments), tuple(blocks), round(at * 1000) + 1)


def admission(loads: Sequence[Load], cost: Cost, blocks: int, rates: Rates = RATES) -> Plan | None:
    """The largest sessions first, each at the first moment from which on there is room for it; None for too many.

    Prefills of several sessions at once take longer than is reckoned here, so starts are the earliest ones.
    """
    if len(loads) > PLANNED:
        return None
    fitting = [load for load in loads if load.steps and cost.blocks(load.peak_tokens) <= blocks]
    refused = tuple(load.id for load in loads if cost.blocks(load.peak_tokens) > blocks)
    placed: list[_Placed] = []
    starts: list[Start] = []
    for load in sorted(fitting, key=lambda one: (-one.peak_tokens, one.id)):
        profile = _profile(load, cost, rates)
        at = next(
            start
            for start in sorted({0, *(begin + other.ends_ms for begin, other in placed)})
            if _fits(start, profile, placed, blocks)
        )
        placed.append((at, profile))
        starts.append(Start(load.id, at / 1000, (at + profile.ends_ms) / 1000, max(profile.blocks)))
    peaks = sorted((cost.blocks(load.peak_tokens) for load in fitting), reverse=True)
    return Plan(
        starts=tuple(sorted(starts, key=lambda one: (one.at_s, one.session))),
        refused=refused,
        at_once=max((_alive(begin, placed) for begin, _ in placed), default=0),
        max_num_seqs=max(_safe(peaks, blocks), 1),
        lasts_s=max((one.ends_s for one in starts), default=0.0),
        peak_share=max((_sum(at, placed) for at in _moments(placed)), default=0) / max(blocks, 1),
    )


_Placed = tuple[int, _Profile]
"""When a session begins, in ms, and what it holds from then on."""


def _fits(start_ms: int, profile: _Profile, placed: Sequence[_Placed], blocks: int) -> bool:
    """Whether there is room for it at each moment at which anybody's share rises."""
    beside = [one for one in placed if one[0] < start_ms + profile.ends_ms and start_ms < one[0] + one[1].ends_ms]
    both = [*beside, (start_ms, profile)]
    moments = (at for at in _moments(both) if start_ms <= at < start_ms + profile.ends_ms)
    return all(_sum(at, both) <= blocks for at in moments)


def _moments(placed: Sequence[_Placed]) -> list[int]:
    """When anybody's share rises, or one begins."""
    return sorted({begin + at for begin, profile in placed for at in (0, *profile.at_ms)})


def _sum(at_ms: int, placed: Sequence[_Placed]) -> int:
    return sum(profile.held(at_ms - begin) for begin, profile in placed)


def _alive(at_ms: int, placed: Sequence[_Placed]) -> int:
    return sum(begin <= at_ms < begin + profile.ends_ms for begin, profile in placed)


def _safe(peaks: Sequence[int], blocks: int) -> int:
    """How many of the largest sessions fit at their peaks at once: then any others do too."""
    used = 0
    for count, peak in enumerate(peaks):
        used += peak
        if used > blocks:
            return count
    return len(peaks)
