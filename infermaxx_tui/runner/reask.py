"""Asks each miss again: alone and salted, to tell the model's memory from the server's; under load, to see it repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.runner.context import Kept, RunContext
from infermaxx_tui.runner.stream import Asked, Streams

ALONE = 2
UNDER_LOAD = 3
_LOAD_STREAMS = 3
_LOAD_WAIT_S = 30.0


async def ask_misses_again(run: RunContext, streams: Streams) -> None:
    """Every miss whose prompt was kept: the same ids, alone, twice, salted; if it then recalls, three times under load."""
    misses = [recall for recall in run.recorder.fold.snapshot().recalls if recall.kind == "recall" and recall.miss]
    for miss in misses:
        kept = run.kept.get(miss.req)
        if kept is None or run.stopper.by is not None:
            continue
        recalled = False
        for attempt in range(ALONE):
            salt = f"{run.prepared.nonce}-again-{miss.req}-{attempt}"
            recalled |= await _again(run, streams, miss, kept, "reask_alone", salt)
        if recalled and run.stopper.by is None:
            async with _load(run, streams, miss):
                for _ in range(UNDER_LOAD):
                    await _again(run, streams, miss, kept, "reask_load", None)


async def _again(run: RunContext, streams: Streams, miss: Recall, kept: Kept, kind: str, salt: str | None) -> bool:
    exchange = await streams.send(
        kept.prompt,
        session=kept.session,
        turn=kept.turn,
        kind=kind,
        max_tokens=run.scenario.canaries.max_tokens,
        salt=salt,
        asked=Asked(
            label=miss.label,
            tag=miss.tag,
            asked_at=miss.asked_at,
            planted_depth_tokens=miss.planted_depth_tokens,
            depth_tokens=miss.depth_tokens,
            again_of=miss.req,
        ),
        keep_text=True,
    )
    return miss.tag in exchange.own_tags


@asynccontextmanager
async def _load(run: RunContext, streams: Streams, miss: Recall) -> AsyncIterator[None]:
    """Other conversations' deep prompts, generating over and over until the block ends."""
    others = [kept for session, kept in sorted(run.load.items()) if session != miss.session][-_LOAD_STREAMS:]
    async with anyio.create_task_group() as group:
        for kept in others:
            group.start_soon(_generate, run, streams, kept)
        with anyio.move_on_after(_LOAD_WAIT_S):
            while others and not run.board.streams:
                await anyio.sleep(0.01)
        yield
        group.cancel_scope.cancel()


async def _generate(run: RunContext, streams: Streams, kept: Kept) -> None:
    while run.stopper.by is None:
        exchange = await streams.send(
            kept.prompt,
            session=kept.session,
            turn=kept.turn,
            kind="load",
            max_tokens=run.scenario.reply.max_tokens,
            salt=None,
            asked=None,
            keep_text=False,
        )
        if exchange.ended.outcome != "ok":
            await anyio.sleep(0.2)
