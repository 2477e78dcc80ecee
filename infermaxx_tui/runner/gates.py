"""Looks at the gates before hours are spent, and again when they were; a gate that fails before ends the run there."""

from __future__ import annotations

from typing import Final

import anyio

from infermaxx_tui.core import gates
from infermaxx_tui.core.events import Noted
from infermaxx_tui.core.gates import Tried
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.probes import POLL_S, let_it_think, let_it_work, repeat_a_prompt
from infermaxx_tui.runner.stream import Streams

_SENSORS_WAIT_S: Final = 5.0
"""How long the first word of the GPU sensors is waited for."""
_OF_GPU: Final = ("power_limit", "gpu_used", "card_exclusive")


async def check_before(run: RunContext, streams: Streams, sensors: bool) -> None:
    """Logs the gates; one that decides and fails asks the run to end before any request of its own is sent."""
    scenario = run.scenario
    if run.prepared.selftest is not None:
        run.recorder.emit(run.prepared.selftest)
    tried = await _try_out(run, streams, sensors)
    gpu = run.recorder.fold.snapshot().gpus
    at_once, regime = run.prepared.plan.at_once, run.prepared.regime
    for gate in gates.before(scenario, at_once, regime, gpu, tried):
        run.recorder.emit(gate)
        if gate.required and gate.outcome == "fail":
            advice = f"; {gate.advice}" if gate.advice else ""
            run.recorder.emit(Noted(text=f"gate {gate.name}: {gate.said}{advice}"))
            run.stopper.ask("gate")


async def _try_out(run: RunContext, streams: Streams, sensors: bool) -> Tried:
    """What the gates that are asked for need; the card is read at rest first."""
    asked = gates.asked(run.scenario)
    if sensors and any(asked[name] for name in (*_OF_GPU, "prefix_cache", "thinking_off")):
        await _sensors_spoke(run)
    return Tried(
        prefix=await repeat_a_prompt(run) if asked["prefix_cache"] else None,
        thought=await let_it_think(run, streams) if asked["thinking_off"] else None,
        worked=await let_it_work(run) if sensors and asked["gpu_used"] else None,
    )


def check_after(run: RunContext) -> None:
    """Logs the gates again, as they stand now."""
    state = run.recorder.fold.snapshot()
    at_once, regime = run.prepared.plan.at_once, run.prepared.regime
    for gate in gates.after(run.scenario, at_once, regime, state.gpus, state.server):
        run.recorder.emit(gate)


async def _sensors_spoke(run: RunContext) -> None:
    """Waits for a reading of each card of the server: what it does before anything is sent, it does at rest."""
    for _ in range(round(_SENSORS_WAIT_S / POLL_S)):
        seen = run.recorder.fold.snapshot().gpus
        if seen.probes and all(card.readings or card.lost for card in seen.of_server):
            return
        await anyio.sleep(POLL_S)
