"""What an arm's server should come to, from its command, its checkpoint and the card, before it is started.

Bytes of a token in the type in which this command keeps them, the pool that follows, and the most that one stream can
decode. Whatever does not follow is None with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.experiment.commandline import given_flags, option
from infermaxx_tui.core.kv_layers import WIDTHS, ConfigError, layers_of
from infermaxx_tui.core.kv_pool import BLOCK_TOKENS, GIB, Cost, cost
from infermaxx_tui.core.model_facts import (
    ModelFacts,
    as_loaded,
    in_type,
    loaded_dtype,
    quantization_of,
    roofline_tokens_per_s,
)

_DTYPES: Final = {"half": "float16", "float": "float32"}
"""Other names of types that `--dtype` takes."""
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", re.ASCII)
_STEPS: Final = {letter: place for place, letter in enumerate("kmgt", 1)}
_UTILISATION: Final = 0.92
"""What vLLM 0.32 takes of a card where nothing is said."""
_SPREAD: Final = ("pipeline-parallel-size", "data-parallel-size")
_OTHER_LAYERS: Final = (
    "config",
    "decode-context-parallel-size",
    "disable-hybrid-kv-cache-manager",
    "disable-sliding-window",
    "hf-overrides",
    "kv-cache-dtype-skip-layers",
    "kv-sharing-fast-prefill",
    "mamba-block-size",
    "mamba-cache-dtype",
    "mamba-ssm-cache-dtype",
    "prefill-context-parallel-size",
)
"""Flags by which a server keeps something else than its checkpoint says."""
_OTHER_MEMORY: Final = ("cpu-offload-gb", "enable-lora", "kv-offloading-size", "kv-transfer-config", "offload-backend")
"""Flags by which the weights or the pool lie elsewhere, or something lies beside them."""
_WHOLE_KV: Final = "VLLM_MLA_DISABLE"
_CPU_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
"""GiB of the pool of vLLM on a CPU."""
_NAMES: Final = {
    "kv_bytes_per_token": "KV cache of this arm",
    "pool_tokens": "pool",
    "roofline_tokens_per_s": "roofline",
}
SLACK: Final = 0.02
"""Share by which a pool may differ from the expected one: memory is printed with two digits, and blocks are whole."""


class Card(msgspec.Struct, frozen=True):
    """One of the cards that a server here would be started on, as far as it is known."""

    name: str
    compute: str | None = None
    """CUDA compute capability, e.g. `8.9`."""
    bytes_per_s: float | None = None
    memory_bytes: float | None = None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Of one arm. None: it does not follow from what is known, and `missing` says why."""

    kv_dtype: str | None = None
    """The type in which keys and values are kept, `auto` resolved."""
    kv_bytes_per_token: int | None = None
    """In all layers that keep every token."""
    kv_window_bytes_per_token: int = 0
    """Of each of the last `kv_window_tokens` besides."""
    kv_window_tokens: int = 0
    window_tokens: int | None = None
    """The longest request."""
    model_tokens: int | None = None
    """The longest request that the model was made for, as its configuration says."""
    pool_bytes: float | None = None
    pool_from: str = ""
    """What sets the memory of the pool."""
    pool_tokens: int | None = None
    """As the server would print it."""
    at_most: bool = False
    """Whether the pool will be smaller, since the engine keeps room for itself that nobody knows before."""
    roofline_tokens_per_s: float | None = None
    """Of one stream without speculation and with nothing before it."""
    missing: dict[str, str] = {}


def forecast(
    launch: Sequence[str],
    env: Mapping[str, str],
    config: Mapping[str, object],
    facts: ModelFacts,
    card: Card | None,
) -> Forecast:
    """What follows for a server of this command on a checkpoint; `card` None: there is none, or it is not known."""
    given = given_flags(launch)
    if (other := next((f"--{name}" for name in _OTHER_LAYERS if f"--{name}" in given), None)) is not None:
        return Forecast(missing={"kv_bytes_per_token": f"{other} changes what is kept, which is not reckoned here"})
    dtype = told_dtype(launch) or loaded_dtype(facts)
    stored = option(launch, "kv-cache-dtype") or "auto"
    if stored == "auto" and _brings_kv_type(config):
        why = "the checkpoint's quantisation brings a type for its cache"
        return Forecast(missing={"kv_bytes_per_token": why})
    if stored == "auto" and dtype not in WIDTHS:
        return Forecast(missing={"kv_bytes_per_token": facts.missing.get("kv_bytes_per_token", "no type is named")})
    try:
        layers = layers_of(in_type(config, dtype))
        mtp = "mtp" in (option(launch, "speculative-config") or "")
        priced = cost(layers, stored, _whole(option(launch, "block-size")) or BLOCK_TOKENS, mtp)
    except ConfigError as error:
        return Forecast(missing={"kv_bytes_per_token": str(error)})
    if layers.attention.vectors == 1 and env.get(_WHOLE_KV, "0") not in ("", "0"):
        return Forecast(missing={"kv_bytes_per_token": f"{_WHOLE_KV} has keys and values kept whole: not reckoned"})
    loaded = as_loaded(facts, dtype, told_quantization(launch))
    memory = _memory(launch, env, loaded, card, priced)
    window = _whole(option(launch, "max-model-len")) or layers.max_model_len
    roof = _roof(loaded, launch, stored, card)
    missing = {} if memory.n_bytes is not None else {"pool_tokens": memory.said}
    missing |= {"roofline_tokens_per_s": roof} if isinstance(roof, str) else {}
    return Forecast(
        kv_dtype=layers.dtype if stored == "auto" else stored,
        kv_bytes_per_token=priced.bytes_per_token,
        kv_window_bytes_per_token=priced.window_bytes_per_token,
        kv_window_tokens=priced.window,
        window_tokens=window,
        model_tokens=layers.max_model_len,
        pool_bytes=memory.n_bytes,
        pool_from=memory.said if memory.n_bytes is not None else "",
        pool_tokens=None if memory.n_bytes is None else priced.pool_tokens(priced.pool_blocks(memory.n_bytes), window),
        at_most=memory.at_most or (_shards(launch) > 1 and layers.attention.heads % _shards(launch) > 0),
        roofline_tokens_per_s=None if isinstance(roof, str) else roof,
        missing=missing,
    )


def told_dtype(launch: Sequence[str]) -> str | None:
    """The type in which a command has the weights loaded; None where that is left to the checkpoint."""
    said = option(launch, "dtype")
    return None if said in (None, "auto") else _DTYPES.get(str(said), said)


def told_quantization(launch: Sequence[str]) -> str | None:
    """How a command has the weights quantised; None where that is left to the checkpoint."""
    return option(launch, "quantization")


def _brings_kv_type(config: Mapping[str, object]) -> bool:
    quant = quantization_of(config)
    return bool(quant.get("kv_cache_scheme") or quant.get("kv_cache_quant_algo"))


class _Memory(msgspec.Struct, frozen=True):
    n_bytes: float | None
    said: str
    """What sets it, or why it is not known."""
    at_most: bool = False


def _memory(
    launch: Sequence[str], env: Mapping[str, str], loaded: ModelFacts, card: Card | None, priced: Cost
) -> _Memory:
    """The memory of the pool over all cards, by what the command sets, the exact first."""
    if any((_whole(option(launch, name)) or 1) > 1 for name in _SPREAD):
        return _Memory(None, "stages or copies of the model share the cards: not reckoned")
    given = given_flags(launch)
    if (other := next((f"--{name}" for name in _OTHER_MEMORY if f"--{name}" in given), None)) is not None:
        return _Memory(None, f"{other} changes what memory is there: not reckoned")
    shards = _shards(launch)
    drafts = option(launch, "speculative-config") is not None
    blocks = _whole(option(launch, "num-gpu-blocks-override"))
    if blocks is not None:
        return _Memory(blocks * priced.block_bytes, f"{blocks:,} blocks by --num-gpu-blocks-override", drafts)
    told = _whole(option(launch, "kv-cache-memory-bytes"))
    if told is not None:
        return _Memory(told * shards, f"{_gib(told * shards)} by --kv-cache-memory-bytes", drafts)
    space = _whole(env.get(_CPU_SPACE))
    if card is None and space is not None:
        return _Memory(space * GIB, f"{_gib(space * GIB)} by {_CPU_SPACE}", drafts)
    if card is None or card.memory_bytes is None:
        return _Memory(None, "neither the command nor a card that is known here says how much memory it has")
    if loaded.weight_bytes is None:
        return _Memory(None, loaded.missing.get("weight_bytes", "the bytes of its weights are not known"))
    share = _number(option(launch, "gpu-memory-utilization"))
    taken = (share or _UTILISATION) * card.memory_bytes * shards
    said = f"{share or _UTILISATION:g} of {_gib(card.memory_bytes * shards)} ({card.name}) without the weights"
    if taken <= loaded.weight_bytes:
        return _Memory(None, f"the weights do not fit: {_gib(loaded.weight_bytes)} in {_gib(taken)}")
    return _Memory(taken - loaded.weight_bytes, said if share is not None else f"{said}, by vLLM's own share", True)


def _roof(loaded: ModelFacts, launch: Sequence[str], stored: str, card: Card | None) -> float | str:
    """The roofline without speculation, or why there is none."""
    if card is None or card.bytes_per_s is None:
        return "the bandwidth of its memory is not known here"
    found = roofline_tokens_per_s(loaded, card.bytes_per_s * _shards(launch), 0, stored)
    return found if found is not None else "the bytes that a token reads are not known"


def _shards(launch: Sequence[str]) -> int:
    return _whole(option(launch, "tensor-parallel-size")) or 1


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _whole(text: str | None) -> int | None:
    """A whole number above 0 as vLLM reads it: `8k` is 8,000 and `8K` 8,192."""
    match = _SIZE.fullmatch((text or "").strip())
    if match is None:
        return None
    step = 1024 if match[2].isupper() else 1000
    return int(float(match[1]) * step ** _STEPS.get(match[2].lower(), 0)) or None


def _gib(n_bytes: float) -> str:
    return f"{n_bytes / GIB:.4g} GiB"


def forecast_lines(one: Forecast) -> Iterator[str]:
    """For people, before a boot."""
    if one.kv_bytes_per_token is not None:
        near = f", and {one.kv_window_bytes_per_token:,} of each of the last {one.kv_window_tokens:,}"
        near = near if one.kv_window_tokens else ""
        yield f"KV cache of this arm: {one.kv_bytes_per_token:,} bytes a token in {one.kv_dtype}{near}"
    if one.pool_tokens is not None:
        yield f"pool: {'at most ' if one.at_most else ''}{one.pool_tokens:,} tokens ({one.pool_from}){_fits(one)}"
    if one.window_tokens and one.model_tokens and one.window_tokens > one.model_tokens:
        yield f"TRAP window of {one.window_tokens:,}: config.json names {one.model_tokens:,}, and vLLM refuses more"
    if one.roofline_tokens_per_s is not None:
        yield f"roofline: {one.roofline_tokens_per_s:,.0f} tokens/s for one stream at the start of a prompt"
    yield from (f"{_NAMES.get(name, name)}: n/a ({why})" for name, why in one.missing.items())


def _fits(one: Forecast) -> str:
    pool, window = one.pool_tokens, one.window_tokens
    if pool is None or window is None:
        return ""
    if pool < window:
        return f": TRAP no request of {window:,} fits, and vLLM does not start so"
    return f", {pool / window:.3g} requests of {window:,}"


def pool_text(one: Forecast, said_tokens: int | None) -> str | None:
    """The pool beside what the start-up said, in one line; None where one of them is not known."""
    if one.pool_tokens is None or said_tokens is None:
        return None
    ratio = said_tokens / one.pool_tokens if one.pool_tokens else float("inf")
    most = "at most " if one.at_most else ""
    said = f"pool: {most}{one.pool_tokens:,} tokens expected ({one.pool_from}, {one.kv_dtype}), {said_tokens:,} there"
    if ratio > 1 + SLACK:
        return f"{said}: OTHER THAN EXPECTED, {ratio:.3g} times it"
    if ratio < 1 - SLACK and not one.at_most:
        return f"{said}: OTHER THAN EXPECTED, {ratio:.3g} of it"
    return said
