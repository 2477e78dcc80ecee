"""What a model's KV cache costs in each dtype, and which dtype given sessions need on given memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.kv_layers import ConfigError, layers_of
from infermaxx_tui.core.kv_pool import BLOCK_TOKENS, GIB, LADDER, Cost, cost, memory_of
from infermaxx_tui.core.load import Load


class KvAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the server."""

    config: Mapping[str, object] | None = None
    """The model's config.json; None: tokens are all that is reckoned with."""
    dtype: str = "auto"
    memory_gib: float | None = None
    """What the start-up log calls `Available KV cache memory`."""
    max_model_len: int | None = None
    """None: the largest that the model allows."""
    block_size: int = BLOCK_TOKENS
    mtp: bool = False
    """Whether the model's own draft head is in use."""


TOKENS_ONLY: Final = KvAsked()
"""Nothing but the pool's size is known."""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One KV dtype on the same memory."""

    dtype: str
    estimate: bool
    """Whether its bytes follow from a description of the format, and no real pool was compared."""
    bytes_per_token: int
    pool_tokens: int
    longest_tokens: int
    """Of one sequence that has the pool for itself."""
    exceeds_alone: int
    fit_together: int


class KvReport(msgspec.Struct, frozen=True, kw_only=True):
    """The model's cache, and the sessions on it."""

    model: str
    dtype: str
    full_layers: int
    sliding_layers: int
    state_layers: int
    mtp_layers: int
    """Of its draft head, where that is in use."""
    window: int
    state_bytes: int
    """Of one sequence, whatever its length."""
    bytes_per_token: int
    block_tokens: int
    memory_gib: float
    max_model_len: int | None
    rungs: tuple[Rung, ...]
    needed_alone: str | None
    """The most exact dtype in which every session fits by itself; None if none does."""
    needed_together: str | None
    """The same for all sessions at their peaks at once."""


def server_cost(asked: KvAsked) -> Cost | None:
    """What sequences cost on that server; None without a config. Raises ConfigError."""
    if asked.config is None:
        return None
    return cost(layers_of(asked.config), asked.dtype, asked.block_size, asked.mtp)


def window_of(asked: KvAsked) -> int | None:
    """The longest request that the server takes, as far as that is known."""
    if asked.max_model_len is not None or asked.config is None:
        return asked.max_model_len
    return layers_of(asked.config).max_model_len


def pool_of(asked: KvAsked, pool: int | None) -> tuple[int | None, int | None]:
    """The pool in tokens as vLLM prints it, and in blocks; None where it is not known. Raises ConfigError."""
    priced = server_cost(asked)
    if priced is None:
        return pool, None if pool is None else pool // asked.block_size
    if asked.memory_gib is not None:
        blocks = priced.pool_blocks(asked.memory_gib * GIB)
        return priced.pool_tokens(blocks, window_of(asked)), blocks
    if pool is None:
        return None, None
    return pool, priced.pool_blocks(memory_of(priced, pool, window_of(asked)))


def kv_report(asked: KvAsked, pool: int | None, loads: Sequence[Load]) -> KvReport | None:
    """None without a config, or where neither memory nor pool is known. Raises ConfigError."""
    priced = server_cost(asked)
    if priced is None or asked.config is None or (pool is None and asked.memory_gib is None):
        return None
    layers, window = layers_of(asked.config), window_of(asked)
    memory = asked.memory_gib * GIB if asked.memory_gib is not None else memory_of(priced, pool or 0, window)
    rungs = []
    for dtype in dict.fromkeys((asked.dtype, *LADDER)):
        try:
            one = cost(layers, dtype, asked.block_size, asked.mtp)
        except ConfigError:
            continue
        rungs.append(_rung(one, one.pool_blocks(memory), window, loads))
    rungs.sort(key=lambda rung: -rung.bytes_per_token)
    return KvReport(
        model=layers.name,
        dtype=asked.dtype,
        full_layers=layers.full,
        sliding_layers=layers.sliding,
        state_layers=layers.state,
        mtp_layers=layers.mtp if asked.mtp else 0,
        window=layers.window,
        state_bytes=priced.state_bytes,
        bytes_per_token=priced.bytes_per_token,
        block_tokens=priced.block_tokens,
        memory_gib=memory / GIB,
        max_model_len=window,
        rungs=tuple(rungs),
        needed_alone=next((rung.dtype for rung in rungs if not rung.exceeds_alone), None),
        needed_together=next((rung.dtype for rung in rungs if rung.fit_together == len(loads)), None),
    )


def _rung(one: Cost, blocks: int, window: int | None, loads: Sequence[Load]) -> Rung:
    peaks = [one.blocks(load.peak_tokens) for load in loads]
    return Rung(
        dtype=one.dtype,
        estimate=one.estimate,
        bytes_per_token=one.bytes_per_token,
        pool_tokens=one.pool_tokens(blocks, window),
        longest_tokens=longest(one, blocks),
        exceeds_alone=sum(peak > blocks for peak in peaks),
        fit_together=fit(peaks, blocks),
    )


def longest(one: Cost, blocks: int) -> int:
    """Tokens of the longest sequence that so many blocks hold."""
    low, high = 0, blocks + 1
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one.blocks(middle * one.block_tokens) <= blocks else (low, middle)
    return low * one.block_tokens


def fit(peaks: Sequence[int], room: int) -> int:
    """How many fit if all are at their peaks at once, the smallest first: any other choice fits fewer."""
    used = 0
    for count, peak in enumerate(sorted(peaks)):
        used += peak
        if used > room:
            return count
    return len(peaks)
