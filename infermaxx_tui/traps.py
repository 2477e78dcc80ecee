"""Traps of a server, in lines for people: those that its start-up log shows, and that of its checkpoint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec
import orjson

from infermaxx_tui.checkpoint import find_checkpoint
from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.startup_traps import Trap, weight_block_trap
from infermaxx_tui.server.check_args import serve_of

_TUNED: Final = re.compile(r"device_name=([^,]+),dtype=fp8_w8a8,block_shape=")
_CONFIGS: Final = "lib/python*/site-packages/vllm/model_executor/layers/quantization/utils/configs/*.json"
_MOST_BYTES: Final = 32 << 20


def with_traps(startup: StartupRead, regime: Regime, command: tuple[str, ...], env: dict[str, str]) -> StartupRead:
    """The log's facts with the trap of the checkpoint among theirs, where the checkpoint is to be seen from here."""
    trap = checkpoint_trap(regime, command, env)
    if trap is None or startup.facts is None:
        return startup
    facts = msgspec.structs.replace(startup.facts, traps=(*startup.facts.traps, trap))
    return msgspec.structs.replace(startup, facts=facts)


def trap_lines(startup: StartupRead) -> tuple[str, ...]:
    """Each trap with what to do."""
    traps = startup.facts.traps if startup.facts is not None else ()
    return tuple(f"trap {trap.name}: {trap.detail}; {trap.advice}" for trap in traps)


def checkpoint_trap(regime: Regime, command: tuple[str, ...], env: dict[str, str]) -> Trap | None:
    """Block-FP8 weights on a card without kernels that were tuned for it, before a slow run says so."""
    if not regime.server_local or regime.simulated:
        return None
    folder = find_checkpoint(regime.model_root)
    config = None if folder is None else read_config(folder)
    serve = serve_of(command, env) if command else None
    tuned = None if serve is None or isinstance(serve, str) else tuned_devices(Path(serve.python))
    return weight_block_trap(config, regime.gpu, tuned)


def read_config(folder: Path) -> object:
    """The parsed config.json, None if there is none that can be read."""
    path = folder / "config.json"
    try:
        return orjson.loads(path.read_bytes()) if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, orjson.JSONDecodeError):
        return None


def tuned_devices(python: Path) -> frozenset[str] | None:
    """Names of the devices for which that Python's vLLM brings tuned block-FP8 kernels; None if there is no vLLM."""
    names = [path.name for path in python.parent.parent.glob(_CONFIGS)]
    if not names:
        return None
    return frozenset(match[1] for name in names if (match := _TUNED.search(name)) is not None)
