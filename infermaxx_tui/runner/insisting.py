"""A request that is part of a set is sent again where the server shed it, or where we cut it ourselves: what is missing
would say nothing of the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Exchange

_TRIES: Final = 3
"""Requests for one reply while the server sheds load, or while we cut it because the duration was over."""


async def insisted(run: RunContext, send: Callable[[], Awaitable[Exchange]]) -> bool:
    """Calls `send` until its reply is neither shed nor cut, a few times at the most. False if it makes no sense to send
    more: nobody answers, or the run is being cut."""
    for _ in range(_TRIES):
        exchange = await send()
        match exchange.ended.outcome:
            case "shed":
                await run.stopped_within(exchange.retry_after_s)
            case "cancelled":
                pass
            case outcome:
                return outcome not in ("refused_connection", "stalled", "timeout")
        if run.stopper.hard or run.closing:
            return False
    return True
