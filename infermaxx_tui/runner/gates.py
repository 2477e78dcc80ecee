"""Looks at the gates before hours are spent, and again when they were; a gate that fails before ends the run there."""

from __future__ import annotations

import hashlib
from typing import Final

import anyio
import msgspec
import orjson

from infermaxx_tui.core import gates
from infermaxx_tui.core.events import Noted
from infermaxx_tui.core.gates import Probe
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.runner.client import TRANSPORT_ERRORS
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.sampling import scrape

_PROBE_WAIT_S: Final = 5.0
"""How long the first word of the GPU sensors is waited for."""
_POLL_S: Final = 0.05
_PROBE_BLOCKS: Final = 3
_PROBE_TIMEOUT_S: Final = 120.0
_OF_GPU: Final = ("power_limit", "gpu_used", "card_exclusive")


async def check_before(run: RunContext, sensors: bool) -> None:
    """Logs the gates; one that decides and fails asks the run to end before anything is sent."""
    scenario = run.scenario
    asked = gates.asked(scenario)
    if sensors and any(asked[name] for name in (*_OF_GPU, "prefix_cache")):
        await _sensors_spoke(run)
    probe = await _repeat_a_prompt(run) if asked["prefix_cache"] else None
    gpu = run.recorder.fold.snapshot().gpus
    at_once, regime = run.prepared.plan.at_once, run.prepared.regime
    for gate in gates.before(scenario, at_once, regime, gpu, probe):
        run.recorder.emit(gate)
        if gate.required and gate.outcome == "fail":
            advice = f"; {gate.advice}" if gate.advice else ""
            run.recorder.emit(Noted(text=f"gate {gate.name}: {gate.said}{advice}"))
            run.stopper.ask("gate")


def check_after(run: RunContext) -> None:
    """Logs the gates again, as they stand now."""
    state = run.recorder.fold.snapshot()
    at_once, regime = run.prepared.plan.at_once, run.prepared.regime
    for gate in gates.after(run.scenario, at_once, regime, state.gpus, state.server):
        run.recorder.emit(gate)


async def _sensors_spoke(run: RunContext) -> None:
    """Waits for a reading of each card of the server: what it does before anything is sent, it does at rest."""
    for _ in range(round(_PROBE_WAIT_S / _POLL_S)):
        seen = run.recorder.fold.snapshot().gpus
        if seen.probes and all(card.readings or card.lost for card in seen.of_server):
            return
        await anyio.sleep(_POLL_S)


async def _repeat_a_prompt(run: RunContext) -> Probe:
    """Sends one prompt twice, for a token each, and sees what the server took from its cache the second time."""
    block = run.prepared.regime.block_size or 128
    prompt = _prompt(run, _PROBE_BLOCKS * block)
    tokens, why = await _ask(run, prompt)
    if why:
        return Probe(None, None, why)
    before = await scrape(run)
    _, why = await _ask(run, prompt)
    after = await scrape(run)
    if why or before.prefix_hits is None or after.prefix_hits is None:
        return Probe(tokens, None, why or after.error or before.error or "the server does not count prefix hits")
    return Probe(tokens, round(after.prefix_hits - before.prefix_hits))


def _prompt(run: RunContext, tokens: int) -> str | list[int]:
    """A prompt of about so many tokens that no other run sent; by ids, of which every vocabulary has the first ones."""
    drawn = hashlib.shake_128(f"probe {run.prepared.nonce}".encode()).digest(tokens)
    if run.scenario.sessions.prompt == "tokens":
        return [100 + byte for byte in drawn]
    return " ".join(f"{byte:02x}" for byte in drawn)


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


async def _ask(run: RunContext, prompt: str | list[int]) -> tuple[int | None, str]:
    """Tokens of the prompt as the server counts, and why it did not answer."""
    body = orjson.dumps({"model": run.prepared.model, "prompt": prompt, "max_tokens": 1, "temperature": 0.0})
    head = {"content-type": "application/json"}
    try:
        answer = await run.client.post("/v1/completions", content=body, headers=head, timeout=_PROBE_TIMEOUT_S)
        usage = msgspec.json.decode(answer.content, type=_Body).usage if answer.status_code == 200 else None
    except TRANSPORT_ERRORS as error:
        return None, one_line(f"the probe got no answer: {type(error).__name__}: {error}")[:200]
    except msgspec.DecodeError:
        return None, "the probe's answer is not that of an OpenAI-compatible server"
    if answer.status_code != 200:
        return None, f"the probe was answered with {answer.status_code}"
    return (usage.prompt_tokens if usage is not None else None), ""
