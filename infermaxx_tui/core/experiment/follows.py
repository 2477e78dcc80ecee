"""Which keys of a regime a lever moves: one may move several, and one that moves none was not pulled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from infermaxx_tui.core.experiment.commandline import option
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.experiment.rows import ArmRow

_MOVES: Final[Mapping[str, tuple[str, ...]]] = {
    "--dtype": ("dtype", "quantization"),
    "--model": ("model", "checkpoint_sha256", "dtype", "quantization", "max_model_len", "tokenizer"),
    "--quantization": ("quantization", "dtype"),
    "--tensor-parallel-size": ("tensor_parallel", "gpu"),
    "set sessions.count": ("concurrency_requested", "sessions"),
    "set sessions.output": ("output_lengths", "replies_mode"),
    "set sessions.prompt": ("prompt_mode", "tool_results", "tokenizer"),
    "set sessions.replies": ("replies_mode", "tool_results"),
    "set transcripts.paths": ("transcripts_sha256", "sessions", "subagents", "compaction", "output_lengths"),
}
"""Keys beside those of `core.regime.FOLLOWS`."""
_SAID: Final[Mapping[str, str]] = {
    "--dtype": "dtype",
    "--enable-chunked-prefill": "chunked_prefill",
    "--enable-prefix-caching": "prefix_caching",
    "--enforce-eager": "enforce_eager",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--load-format": "load_format",
    "--max-model-len": "max_model_len",
    "--max-num-batched-tokens": "max_batched_tokens",
    "--max-num-seqs": "max_num_seqs",
    "--quantization": "quantization",
    "--tensor-parallel-size": "tensor_parallel",
}
"""Levers of which the server says in its log what it took them for."""


def following(one: Settings) -> frozenset[str]:
    """Keys that the levers of an arm move, as far as that is known, and those that it leaves to its server."""
    keys = {key for lever in one.moved for key in _MOVES.get(lever, ())}
    if option(one.launch, "max-model-len") in ("auto", "-1"):
        keys.add("max_model_len")
    return frozenset(keys)


def unmoved(one: Settings, control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> Iterator[str]:
    """A line for each lever of which the server says the same with it and without it: it did not reach the server, or
    says what is so anyway."""
    regimes = [row.regime for row in (*control, *arm) if row.regime is not None]
    for lever in one.moved if control and arm else ():
        key = _SAID.get(lever)
        values = set() if key is None else {getattr(regime, key) for regime in regimes}
        if len(values) == 1 and None not in values:
            yield f"{lever} {one.lever(lever)}: the server says {key} {values.pop()} in both arms"


def unforeseen(moved: Iterable[str]) -> int:
    """Levers of which it is not known here what they move: one key each, besides those that follow from others."""
    return sum(lever not in _MOVES for lever in moved)
