"""Plays the probes of a scenario, with nothing of ours beside them: what is asked, in which order, how long."""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio

from infermaxx_tui.core.events import ProbeAsked, ProbeCached
from infermaxx_tui.core.plan import draw
from infermaxx_tui.core.probes import COLD_TOKENS, Round, rounds
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.words import FIRST, SECOND
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.holding import try_fits
from infermaxx_tui.runner.lag import LagWatch
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.long_prompt import long_prompt
from infermaxx_tui.runner.sampling import hits, queries, scrape
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.wave import new_line

_NOBODY: Final = -1
"""No conversation of the run."""


async def measure_all(run: RunContext, streams: Streams) -> None:
    """Every round of every probe, one after another; ends early when the run is asked to stop."""
    probes = run.scenario.probes
    if not probes:
        return
    text = "\n\n".join(
        message.content
        for transcript in run.prepared.transcripts
        for request in transcript.requests
        for message in request.delta
        if message.content
    )
    for one in rounds(probes):
        if run.stopper.by is not None:
            return
        await _play(run, streams, one, text)
    await try_fits(run, streams, text)


async def _play(run: RunContext, streams: Streams, one: Round, text: str) -> None:
    """Renders first and sends then, so that requests of one round go out together."""
    probe = run.scenario.probes[one.probe]
    clock = run.recorder.clock
    lags = None if clock.jumps else LagWatch(clock.mono_us)
    orders = []
    for beside in range(one.streams):
        prompt = await run.render(_prompt, run, new_line(run), one, beside, text)
        orders.append(
            Order(
                prompt=prompt,
                session=_NOBODY,
                turn=0,
                kind="probe",
                max_tokens=min(COLD_TOKENS, probe.max_tokens) if one.part == "cold" else probe.max_tokens,
                forced=probe.forced,
                salt=_salt(run, one),
                announced=partial(_announce, one),
                lags=lags,
            )
        )
    send = partial(_send_and_count, run) if one.part in ("cold", "loaded") else _send
    async with anyio.create_task_group() as watching:
        if lags is not None:
            watching.start_soon(lags.run)
        async with anyio.create_task_group() as group:
            for order in orders:
                group.start_soon(send, streams, order)
        watching.cancel_scope.cancel()


async def _send(streams: Streams, order: Order) -> None:
    await streams.send(order)


async def _send_and_count(run: RunContext, streams: Streams, order: Order) -> None:
    """Sends it alone, and notes what came from the cache by the server's counters: its usage may be silent, or wrong.

    Not if they counted more than this prompt: then others were served meanwhile.
    """
    before = await scrape(run)
    ended = (await streams.send(order)).ended
    if ended.outcome != "ok":
        return
    after = await scrape(run)
    found, asked = hits(before, after), queries(before, after)
    if found is None or asked is None or ended.prompt_tokens is None:
        return
    if asked <= ended.prompt_tokens:
        run.recorder.emit(ProbeCached(req=ended.req, cached_tokens=found))


def _salt(run: RunContext, one: Round) -> str | None:
    """What must not come from the cache has a salt of its own; a loaded prompt has that of its cold one.

    Prompts of a fit probe are made elsewhere, with theirs.
    """
    own = f"{run.prepared.nonce}-probe-{one.probe}-{one.rep}"
    match one.part:
        case "cold" | "loaded":
            return f"{own}-{one.tokens}"
        case "identity":
            return f"{own}-{one.place}"
        case "decode" | "parallel" | "held" | "over":
            return None


def _announce(one: Round, req: int) -> ProbeAsked:
    return ProbeAsked(
        req=req,
        probe=one.probe,
        part=one.part,
        rep=one.rep,
        streams=one.streams,
        wanted_tokens=one.tokens,
        place=one.place,
    )


def _prompt(run: RunContext, line: Line, one: Round, beside: int, text: str) -> Prompt:
    """A short prompt is the same in each run, so that arms answer the same; a long one was never sent before."""
    if one.tokens is None:
        rep = 0 if one.part == "identity" else one.rep
        number = draw(run.prepared.seed, "probe", one.probe, rep, one.place, beside)
        about = f"{FIRST[number % len(FIRST)]} {SECOND[number // len(FIRST) % len(SECOND)]}"
        line.begin((Message("user", f"Write a long story about a {about}, with several people who talk."),), "")
        return line.prompt()
    own = f"Record {run.prepared.nonce}-{one.probe}-{one.rep}."
    return long_prompt(line, own, text, one.tokens)
