"""Asks whether the server is still there, after something broke as it does when a server goes away.

An engine that dies leaves broken streams and answers of 500 behind, as a proxy or a bug may; only /health tells them
apart, and a server that is being torn down still answers there for a moment. So it is asked again while there is doubt.
"""

from __future__ import annotations

from typing import Final

import anyio
import httpx
import msgspec

from infermaxx_tui.core.events import RequestEnded, ServerLost
from infermaxx_tui.core.standing import behind
from infermaxx_tui.runner.client import TRANSPORT_ERRORS, describe
from infermaxx_tui.runner.context import RunContext

ASK_S: Final = 5.0
"""How long an answer may take."""
_WATCH_S: Final = 0.1
_AGAIN_S: Final = 0.5
_DOUBT_S: Final = 10.0
"""How long after a stream broke it is asked; as far back as a fold takes broken streams for the server's going."""
_TRIES: Final = 3
_GATEWAY_TIMEOUT: Final = 504


class Vital(msgspec.Struct, frozen=True):
    """What came of asking at /health."""

    well: bool
    """Whether nothing speaks against the server."""
    how: str
    """One line about it."""
    refused: bool = False
    reachable: bool | None = None
    """Whether the server's host is there; None if nobody knows."""


async def ask(run: RunContext) -> Vital:
    """What /health answers now, and what it means where it does not.

    Where it was never well it speaks against nobody: a gateway may have no such page.
    """
    strange = not run.was_well
    try:
        answer = await run.client.get("/health", timeout=ASK_S)
    except (httpx.ReadTimeout, httpx.WriteTimeout):
        reachable, known = behind(await run.standing())
        return Vital(strange, f"/health does not answer within {ASK_S:g} s; {known}", reachable=reachable)
    except TRANSPORT_ERRORS as error:
        outcome, text = describe(error, answered=False)
        refused = outcome == "refused_connection"
        return Vital(strange and not refused, text, refused, reachable=refused)
    if answer.status_code < 500:
        run.was_well = True
        return Vital(True, "/health answers", reachable=True)
    # a gateway that waited in vain says nothing of who was to blame
    speaks = not strange and answer.status_code != _GATEWAY_TIMEOUT
    return Vital(strange, f"/health answers {answer.status_code}", reachable=True if speaks else None)


async def look_first(run: RunContext) -> None:
    """Asks while all is as it should be, so that what is said later can be held against it."""
    if run.recorder.lost is None:
        await ask(run)


async def watch_doubts(run: RunContext) -> None:
    """While a broken stream is unexplained, asks again and again, and logs that the server went away."""
    while run.recorder.lost is None:
        await anyio.sleep(_WATCH_S)
        if run.doubt is not None:
            await _look(run, run.doubt)
            await anyio.sleep(_AGAIN_S)


async def settle_doubts(run: RunContext) -> None:
    """Asks for the last time at the end of a run, so that what broke its last streams is known."""
    for _ in range(_TRIES):
        if run.doubt is None or run.stopper.hard:
            return
        await _look(run, run.doubt)
        await anyio.sleep(_AGAIN_S)


async def still_there(run: RunContext) -> bool:
    """False, and the run is asked to stop, when a server that had answered is gone for good, which is logged."""
    if not run.tokens_seen:
        return True
    found = await ask(run)
    for _ in range(_TRIES - 1):
        if found.well:
            return True
        if await run.stopped_within(_AGAIN_S):
            return False
        found = await ask(run)
    if found.well:
        return True
    _gone(run, found, None)
    run.stopper.ask("server_lost")
    return False


async def _look(run: RunContext, doubt: RequestEnded) -> None:
    """Asks once. A doubt ends with the server's next token, when the server is found to be gone, or by its age."""
    age_us = run.recorder.clock.mono_us() - run.doubt_us
    found = await ask(run)
    if not found.well:
        _gone(run, found, doubt)
    if run.doubt is doubt and (not found.well or age_us > _DOUBT_S * 1e6):
        run.doubt = None


def _gone(run: RunContext, found: Vital, doubt: RequestEnded | None) -> None:
    run.recorder.emit(
        ServerLost(
            how="refused" if found.refused else "unhealthy",
            session=None if doubt is None else doubt.session,
            req=None if doubt is None else doubt.req,
            detail=found.how,
            reachable=found.reachable,
        )
    )
