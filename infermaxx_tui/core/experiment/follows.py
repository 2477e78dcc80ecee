"""Which keys of a regime a lever moves, where that is more than one: a whole model is one lever, and so is a count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from infermaxx_tui.core.experiment.commandline import option
from infermaxx_tui.core.experiment.levers import Settings

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


def following(one: Settings) -> frozenset[str]:
    """Keys that the levers of an arm move, as far as that is known, and those that it leaves to its server."""
    keys = {key for lever in one.moved for key in _MOVES.get(lever, ())}
    if option(one.launch, "max-model-len") in ("auto", "-1"):
        keys.add("max_model_len")
    return frozenset(keys)


def unforeseen(moved: Iterable[str]) -> int:
    """Levers of which it is not known here what they move: one key each, besides those that follow from others."""
    return sum(lever not in _MOVES for lever in moved)
