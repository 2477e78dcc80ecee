"""Who decodes and who waits: a batch of limited size over a KV pool of limited size, with preemption as in vLLM."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from infermaxx_tui.sim.config import SimConfig
from infermaxx_tui.sim.http import Cut


class Member(Protocol):
    """A request as the batch sees it."""

    blocks: int
    """Blocks of the pool that it holds."""
    preempted: bool
    """It lost its blocks and must come back before its next token."""

    @property
    def size_tokens(self) -> int:
        """Prompt and reply so far."""


class Batch:
    """The running requests of one server process; when the process goes, everybody who waits gets a Cut."""

    def __init__(self, config: SimConfig) -> None:
        self._config = config
        self._members: list[Member] = []
        self._queue: deque[asyncio.Event] = deque()
        self._blocks = 0
        self.gone = asyncio.Event()
        """Set when the process is no more."""
        self.preemptions = 0

    @property
    def running(self) -> int:
        """Requests that decode or prefill."""
        return len(self._members)

    @property
    def waiting(self) -> int:
        """Requests in the queue, preempted ones too."""
        return len(self._queue)

    @property
    def kv_usage(self) -> float:
        """Share of the pool that running requests hold."""
        return self._blocks / self._config.pool_blocks

    async def admit(self, member: Member, again: bool = False) -> None:
        """Waits for a place and for room, first come, first served; a preempted request waits at the head."""
        need = -(-(member.size_tokens + 1) // self._config.block_size)
        if not self._has_room(need) or (self._queue and not again):
            await self._wait(need, again)
        member.preempted = False
        member.blocks = need
        self._blocks += need
        self._members.append(member)

    def grow(self, member: Member) -> None:
        """Takes the block that the reply needs; when the pool is full the youngest request gives up its own."""
        need = -(-(member.size_tokens + 1) // self._config.block_size)
        if need == member.blocks:
            return
        self._blocks += need - member.blocks
        member.blocks = need
        while self._blocks > self._config.pool_blocks and len(self._members) > 1:
            self.preempt(self._members[-1])

    def preempt(self, victim: Member) -> None:
        """A running request loses its place and its blocks."""
        self._members.remove(victim)
        self._blocks -= victim.blocks
        victim.blocks = 0
        victim.preempted = True
        self.preemptions += 1

    def leave(self, member: Member) -> None:
        """The request is over, or was never admitted."""
        if member in self._members:
            self._members.remove(member)
            self._blocks -= member.blocks
            member.blocks = 0
        self._call_next()

    def _has_room(self, need: int) -> bool:
        free = self._config.pool_blocks - self._blocks
        return not self._members or (len(self._members) < self._config.max_num_seqs and need <= free)

    async def _wait(self, need: int, at_head: bool) -> None:
        called = asyncio.Event()
        (self._queue.appendleft if at_head else self._queue.append)(called)
        try:
            while not self.gone.is_set() and not (self._queue[0] is called and self._has_room(need)):
                called.clear()
                await called.wait()
        finally:
            self._queue.remove(called)
            self._call_next()
        if self.gone.is_set():
            raise Cut("reset")

    def _call_next(self) -> None:
        if self._queue:
            self._queue[0].set()

    def end(self) -> None:
        """The process is no more."""
        self.gone.set()
        for called in self._queue:
            called.set()
