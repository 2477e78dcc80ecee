"""Sends the prompts that prove which sessions a server holds: one that it must serve, and one that it must refuse."""

from __future__ import annotations

from functools import partial

from infermaxx_tui.core.events import ProbeAsked
from infermaxx_tui.core.probe_fit import Aim, Room, aims
from infermaxx_tui.core.probes import Probe
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.long_prompt import long_prompt
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.wave import new_line


async def try_fits(run: RunContext, streams: Streams, text: str) -> None:
    """Both prompts of every fit probe, alone and one after another; what cannot be tried has its reason elsewhere."""
    regime = run.prepared.regime
    for place, probe in enumerate(run.scenario.probes):
        if probe.kind != "fit":
            continue
        for aim in aims(probe.sizes, Room(regime.pool_tokens, regime.max_model_len)):
            if aim.tokens is not None and run.stopper.by is None:
                await streams.send(await _order(run, place, probe, aim, aim.tokens, text))


async def _order(run: RunContext, place: int, probe: Probe, aim: Aim, tokens: int, text: str) -> Order:
    """What must fit has its reply within its size; what must not is longer than that by its reply."""
    reply = min(probe.max_tokens, tokens // 2)
    own = f"{run.prepared.nonce}-probe-{place}-{aim.part}"
    size = tokens - reply if aim.part == "held" else tokens
    prompt = await run.render(_prompt, run, f"Record {own}.", text, size)
    return Order(
        prompt=prompt,
        session=-1,
        turn=0,
        kind="probe",
        max_tokens=reply,
        salt=own,
        announced=partial(_announce, place, aim),
    )


def _prompt(run: RunContext, own: str, text: str, tokens: int) -> Prompt:
    return long_prompt(new_line(run), own, text, tokens)


def _announce(place: int, aim: Aim, req: int) -> ProbeAsked:
    return ProbeAsked(req=req, probe=place, part=aim.part, rep=0, streams=1, wanted_tokens=aim.tokens)
