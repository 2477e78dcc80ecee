"""Asks each miss again: alone and salted, to tell the model's memory from the server's; then under load."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal

import anyio

from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Asked, Order
from infermaxx_tui.runner.keep import Kept
from infermaxx_tui.runner.stream import Streams

ALONE: Final = 2
UNDER_LOAD: Final = 3
_LOAD_WAIT_S: Final = 30.0
_BREATHER_S: Final = 0.2
"""Between two requests of a load that fails."""


async def ask_misses_again(run: RunContext, streams: Streams) -> None:
    """Every miss whose prompt was kept: the same ids, alone, twice, salted; if it then recalls, three times under load.

    The end of the duration does not keep a run from it, any other wish to stop does.
    """
    state = run.recorder.fold.snapshot()
    misses = [recall for recall in (*state.recalls, *state.alone) if recall.kind == "recall" and recall.miss]
    for miss in misses:
        kept = run.keep.miss(miss.req)
        if kept is None or run.stopper.hard:
            continue
        recalled = False
        for attempt in range(ALONE):
            salt = f"{run.prepared.nonce}-again-{miss.req}-{attempt}"
            recalled |= await _again(run, streams, miss, kept, "reask_alone", salt)
        if recalled and not run.stopper.hard:
            alone = run.prepared.plan.at_once == 1  # then what it missed under was no load either
            async with _load(run, streams, miss.session, alone):
                for _ in range(UNDER_LOAD):
                    await _again(run, streams, miss, kept, "reask_load", kept.salt)


async def _again(
    run: RunContext,
    streams: Streams,
    miss: Recall,
    kept: Kept,
    kind: Literal["reask_alone", "reask_load"],
    salt: str | None,
) -> bool:
    asked = Asked(
        label=miss.label,
        tag=miss.tag,
        asked_at=miss.asked_at,
        planted_depth_tokens=miss.planted_depth_tokens,
        depth_tokens=miss.depth_tokens,
        again_of=miss.req,
    )
    exchange = await streams.send(
        Order(
            prompt=kept.prompt,
            session=kept.session,
            turn=kept.turn,
            kind=kind,
            max_tokens=miss.max_tokens,
            salt=salt,
            asked=asked,
            keep_text=True,
        )
    )
    return miss.tag in exchange.own_tags


class _Load:
    """One conversation's deep prompt, generating over and over until it is told to stop."""

    def __init__(self, run: RunContext, streams: Streams, kept: Kept) -> None:
        self.decoding = anyio.Event()
        """It has had a first token, or cannot have one."""
        self.over = False
        self._run = run
        self._streams = streams
        self._kept = kept

    async def generate(self) -> None:
        """Ends with a whole reply, so that nothing is cut and all counts stay comparable."""
        kept = self._kept
        order = Order(
            prompt=kept.prompt,
            session=kept.session,
            turn=kept.turn,
            kind="load",
            max_tokens=self._run.scenario.reply.max_tokens,
            salt=kept.salt,
            on_first=self.decoding.set,
        )
        while not self.over and not self._run.stopper.hard:
            exchange = await self._streams.send(order)
            if exchange.ended.outcome != "ok":
                self.decoding.set()
                await anyio.sleep(_BREATHER_S)
        self.decoding.set()


@asynccontextmanager
async def _load(run: RunContext, streams: Streams, session: int, alone: bool) -> AsyncIterator[None]:
    """Inside the block other conversations' deep prompts are being answered; none where one request runs at once."""
    loads = [] if alone else [_Load(run, streams, kept) for kept in run.keep.beside(session)]
    async with anyio.create_task_group() as group:
        for load in loads:
            group.start_soon(load.generate)
        with anyio.move_on_after(_LOAD_WAIT_S):
            for load in loads:
                await load.decoding.wait()
        try:
            yield
        finally:
            for load in loads:
                load.over = True
