"""Sessions side by side on one KV pool, event by event: who waits, who is preempted, what is computed again.

Peaks added up say what is safe; sessions are seldom at their peaks at the same time. This plays them as vLLM would:
first come, first served; a running request holds whole blocks; what ended requests leave behind stays until its room is
needed, the oldest first and from its end; when a running request needs a block and there is none, the one that was
admitted last is preempted, and computed again when there is room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from infermaxx_tui.core.kv_pool import Cost
from infermaxx_tui.core.load import Load, Step

MAX_MOVES: Final = 50_000
"""Moves of one play after which it counts as a storm that does not end."""


class Rates(msgspec.Struct, frozen=True):
    """How fast the server is taken to be; it decides how long sessions overlap, not how much they hold."""

    prefill_tokens_per_s: float = 2000.0
    """All prompts together, one after another."""
    decode_tokens_per_s: float = 40.0
    """One stream."""


RATES: Final = Rates()


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sessions that ran side by side."""

    preemptions: int
    recomputed_tokens: int
    """Of preempted requests: what had been computed and was no longer there."""
    evicted_tokens: int
    """Of prompts that go on from an earlier one: what had to make room meanwhile, and was computed again."""
    peak_blocks: int
    """Most blocks that running requests held."""
    too_large: int
    """Sessions with a request that does not fit by itself; they end there."""
    queued_s: float
    """Time that requests waited for room, in all."""
    running_peak: int
    lasted_s: float
    moves: int
    """How much it took to find out."""
    storm: bool
    """Whether it did not come to an end: requests preempt one another over and over."""


@dataclass(slots=True, eq=False)
class _Run:
    """One session on its way."""

    place: int
    load: Load
    at: int = 0
    """Its request, or the next one."""
    written: float = 0.0
    """Tokens of the reply so far."""
    kept: int = 0
    """Tokens of it that lie in the cache while it does not run."""
    let_go: int = 0
    """When it was last let go of, as a count."""
    admitted: int = 0
    """How often; it tells a prompt that is through from one that was preempted meanwhile."""
    computed: int = 0
    """Tokens that were in the cache when it was last admitted, or all of them once its prompt is through."""
    queued_at: float = 0.0
    decoding: bool = False
    preempted: bool = False

    @property
    def step(self) -> Step:
        return self.load.steps[self.at]

    @property
    def tokens(self) -> float:
        return self.step.prompt_tokens + self.written


@dataclass(slots=True)
class _Count:
    preemptions: int = 0
    recomputed: int = 0
    evicted: int = 0
    peak: int = 0
    too_large: int = 0
    queued_s: float = 0.0
    running: int = 0
    moves: int = 0


@dataclass(slots=True)
class Pool:
    """The server with its pool, and all sessions."""

    cost: Cost
    blocks: int
    rates: Rates
    max_num_seqs: int
    now: float = 0.0
    prefill_free: float = 0.0
    clock: int = 0
    due: list[tuple[float, int, int]] = field(default_factory=list)
    """(when, which session, 0): a request arrives; (when, which session, n): the prompt of its n-th admission is
    through."""
    runs: list[_Run] = field(default_factory=list)
    queue: deque[_Run] = field(default_factory=deque)
    running: list[_Run] = field(default_factory=list)
    """In the order in which they were admitted."""
    count: _Count = field(default_factory=_Count)
    held: int | None = None
    """Blocks of all running requests; None where it has to be counted again."""

    def play(self, loads: Sequence[Load], offsets_s: Sequence[float]) -> Played:
        """All sessions from their offsets to their ends."""
        for load, offset in zip(loads, offsets_s, strict=True):
            if load.steps:
                self.runs.append(_Run(len(self.runs), load))
                heapq.heappush(self.due, (offset + load.steps[0].wait_s, len(self.runs) - 1, 0))
        while (self.due or self.running or self.queue) and self.count.moves < MAX_MOVES:
            self.count.moves += 1
            self._move()
        count = self.count
        return Played(
            preemptions=count.preemptions,
            recomputed_tokens=count.recomputed,
            evicted_tokens=count.evicted,
            peak_blocks=count.peak,
            too_large=count.too_large,
            queued_s=count.queued_s,
            running_peak=count.running,
            lasted_s=self.now,
            moves=count.moves,
            storm=count.moves >= MAX_MOVES,
        )

    def _move(self) -> None:
        """To the next moment at which something happens."""
        then = self._next()
        passed, self.held = then - self.now, None
        for run in self.running:
            if run.decoding:
                run.written = min(run.written + passed * self.rates.decode_tokens_per_s, run.step.reply_tokens)
        self.now = then
        self.count.peak = max(self.count.peak, min(self._held(), self.blocks))
        self._evict()
        for run in [run for run in self.running if run.decoding and run.written >= run.step.reply_tokens - 1e-6]:
            self._ends(run)
        while self.due and self.due[0][0] <= self.now + 1e-9:
            _, place, admission = heapq.heappop(self.due)
            run = self.runs[place]
            if not admission:
                run.queued_at = self.now
                self.queue.append(run)
            elif admission == run.admitted and run in self.running:
                run.decoding, run.computed = True, _whole(run.tokens)
        self._make_room()
        self._admit()
        self.count.peak = max(self.count.peak, self._held())
        self.count.running = max(self.count.running, len(self.running))

    def _next(self) -> float:
        """When a request arrives, a prompt is through, a reply ends, or the pool may be full."""
        rate = self.rates.decode_tokens_per_s
        decoding = [run for run in self.running if run.decoding]
        ends = [self.now + (run.step.reply_tokens - run.written) / rate for run in decoding]
        moments = [*ends, *([self.due[0][0]] if self.due else [])]
        then = max(min(moments, default=self.now), self.now)
        if not decoding:
            return then
        step = self.cost.block_tokens
        share = max(self.cost.full_groups + self.cost.sliding_groups, 1)
        free = self.blocks - self._held()
        if free >= share * len(decoding) and then <= self.now + (free / share / len(decoding) - 1) * step / rate:
            return then
        border = min(step - run.tokens % step for run in decoding) / rate
        return min(then, self.now + max(border, 1e-3) + 1e-9)

    def _held(self) -> int:
        if self.held is None:
            self.held = sum(self.cost.blocks(_whole(run.tokens)) for run in self.running)
        return self.held

    def _ends(self, run: _Run) -> None:
        self.running.remove(run)
        self.held = None
        self._let_go(run, run.step.tokens)
        run.at += 1
        run.written, run.decoding = 0.0, False
        if run.at < len(run.load.steps):
            heapq.heappush(self.due, (self.now + run.step.wait_s, run.place, 0))
        else:
            run.kept = 0

    def _let_go(self, run: _Run, tokens: int) -> None:
        self.clock += 1
        run.kept, run.let_go = tokens, self.clock

    def _make_room(self) -> None:
        """Preempts as long as running requests hold more than there is; then lets cached prefixes go."""
        while self._held() > self.blocks and self.running:
            run, self.held = self.running.pop(), None
            if not self.running:
                self._drop(run)
                continue
            self.count.preemptions += 1
            run.computed = _whole(run.tokens) if run.decoding else run.computed
            self._let_go(run, run.computed)
            run.decoding, run.preempted, run.queued_at = False, True, self.now
            self.queue.appendleft(run)
        self._evict()

    def _evict(self) -> None:
        room = max(self.blocks - self._held(), 0)
        cached = [run for run in self.runs if run.kept]
        if sum(self.cost.blocks(run.kept) for run in cached) <= room:
            return
        share = max(self.cost.full_groups + self.cost.sliding_groups, 1)
        for run in sorted(cached, key=lambda run: -run.let_go):
            blocks = self.cost.blocks(run.kept)
            if blocks > room:
                run.kept = max(room - self.cost.state_groups, 0) // share * self.cost.block_tokens
                blocks = self.cost.blocks(run.kept)
            room -= blocks

    def _admit(self) -> None:
        """The queue's first, as long as there is room for all that it has to compute."""
        while self.queue and len(self.running) < self.max_num_seqs:
            run = self.queue[0]
            needed = self.cost.blocks(_whole(run.tokens))
            if needed > self.blocks:
                self.queue.popleft()
                self._drop(run)
                continue
            if needed > self.blocks - self._held():
                return
            self.queue.popleft()
            self._start(run)

    def _start(self, run: _Run) -> None:
        self.count.queued_s += self.now - run.queued_at
        whole = _whole(run.tokens)
        had = run.computed if run.preempted else run.step.kept_tokens
        lost = max(had - run.kept, 0)
        if run.preempted:
            self.count.recomputed += lost
        else:
            self.count.evicted += lost
        there = min(run.kept, had)
        run.preempted, run.kept, run.computed = False, 0, there
        run.admitted += 1
        self.prefill_free = max(self.prefill_free, self.now) + (whole - there) / self.rates.prefill_tokens_per_s
        heapq.heappush(self.due, (self.prefill_free, run.place, run.admitted))
        self.running.append(run)
        self.held = None
        self._evict()

    def _drop(self, run: _Run) -> None:
        """A request that does not fit by itself: its session ends."""
        self.count.too_large += 1
        run.at, run.kept, run.decoding, run.written = len(run.load.steps) - 1, 0, False, 0.0


def _whole(tokens: float) -> int:
    return int(tokens + 0.999999)


def play(
    loads: Sequence[Load],
    offsets_s: Sequence[float],
    cost: Cost,
    blocks: int,
    rates: Rates = RATES,
    max_num_seqs: int = 1024,
) -> Played:
    """What comes of sessions that begin at these offsets on a pool of so many blocks."""
    return Pool(cost, blocks, rates, max_num_seqs).play(loads, offsets_s)
