"""What a token costs in each KV dtype, and how large a pool some memory makes, as vLLM lays it out.

Checked against start-up lines of real servers: 623,200 tokens of 13.37 GiB in 16 bits, 1,243,488 of 13.34 GiB in 8,
1,320,576, 1,682,784 and 1,815,552 of 13.37 GiB in three TurboQuant modes, 46,592 of 2 GiB in 32 bits (SmolLM2), and
65,536 of 2.33 GiB for the hybrid Qwen3.6 27B at a window of 40,960.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from infermaxx_tui.core.kv_layers import WIDTHS, Attention, ConfigError, Layers

GIB: Final = 1 << 30
BLOCK_TOKENS: Final = 16
"""vLLM's block where nothing demands a larger one."""
_NEAR: Final = 1.25
"""Kinds of layers whose numbers differ by less than this are grouped by the larger number, as vLLM does it."""
_ALIGN: Final = 16
"""A block that had to be enlarged to hold a recurrent state is a multiple of this."""


def _turbo(key_bits: int, value_bits: int) -> tuple[int, int]:
    return key_bits, value_bits


_TURBO: Final = {
    "turboquant_k8v4": _turbo(8, 4),
    "turboquant_4bit_nc": _turbo(4, 4),
    "turboquant_k3v4_nc": _turbo(3, 4),
    "turboquant_3bit_nc": _turbo(3, 3),
}
_EDGE_LAYERS: Final = 2
"""Layers at each end of a dense model that TurboQuant leaves as wide as the weights (vLLM 0.26.0, TurboQuantConfig)."""
DTYPES: Final = (
    "float32",
    "bfloat16",
    "float16",
    "fp8",
    "fp8_e4m3",
    "fp8_e5m2",
    "fp8_ds_mla",
    "int8_per_token_head",
    "fp8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    *_TURBO,
)
"""What `--kv-dtype` takes beside `auto`."""
LADDER: Final = ("auto", "fp8", "int8_per_token_head", "nvfp4", "turboquant_k8v4", "turboquant_3bit_nc")
"""The rungs that are shown, from the most exact to the smallest."""
_MEASURED: Final = frozenset(
    {"float32", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2"}
    | {"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc"}
)


def is_estimate(dtype: str) -> bool:
    """Whether the bytes follow from a description of the format and no real pool was compared with them."""
    return dtype != "auto" and dtype not in _MEASURED


def layer_bytes(attention: Attention, dtype: str, weights: str) -> int:
    """Bytes that one layer keeps of one token. Raises ConfigError for a dtype that is not known or does not fit.

    A scale of a whole tensor takes no room per token; one per head and token does: 4 bytes, as TurboQuant's norm and
    offsets do (2 a key, 4 a value, the slot an even number). NVFP4 has one byte of scale for 16 numbers.
    """
    name = weights if dtype == "auto" else dtype
    if name in WIDTHS:
        return attention.numbers * WIDTHS[name]
    if name == "fp8_ds_mla":
        return _ds_mla(attention)
    if name in ("fp8", "fp8_e4m3", "fp8_e5m2"):
        return attention.numbers
    heads, dim = attention.vectors * attention.heads, attention.head_dim
    match name:
        case "int8_per_token_head" | "fp8_per_token_head":
            return heads * (dim + 4)
        case "int4_per_token_head":
            return heads * (-(-dim // 2) + 4)
        case "nvfp4":
            return heads * (-(-dim // 2) + -(-dim // 16))
        case _ if name in _TURBO and attention.vectors == 2:
            key, value = (-(-dim * bits // 8) for bits in _TURBO[name])
            slot = key + (0 if _TURBO[name][0] == 8 else 2) + value + 4
            return attention.heads * (slot + slot % 2)
        case _ if name in _TURBO:
            raise ConfigError(f"{name} keeps keys and values apart, and this model has one vector for both")
        case _:
            raise ConfigError(f"KV dtype {dtype!r} is not known; known: auto, {', '.join(DTYPES)}")


def _ds_mla(attention: Attention) -> int:
    """8 bits for the compressed part with a scale of 4 bytes for 128 numbers, 16 bits for the rotary part."""
    if attention.vectors != 1:
        raise ConfigError("fp8_ds_mla is for models with compressed keys and values (kv_lora_rank)")
    plain = attention.head_dim - attention.rope_dim
    return plain + 4 * -(-plain // 128) + 2 * attention.rope_dim


NULL_BLOCKS: Final = 1
"""Blocks of a pool that hold nobody's tokens: vLLM points there where a sequence has no block, and counts them in the
tokens that it prints."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What sequences cost in one KV dtype."""

    dtype: str
    estimate: bool
    """Whether no real pool was compared with these bytes."""
    bytes_per_token: int
    """Of a token in all layers that keep every token; what a long sequence grows by."""
    window_bytes_per_token: int
    """Of a token in the sliding layers, which keep the last `window` tokens only."""
    window: int
    state_bytes: int
    """Of one sequence in all recurrent layers, whatever its length."""
    block_tokens: int
    block_bytes: int
    full_groups: int
    """Blocks that `block_tokens` more tokens take: 1, unless full layers are more than the others."""
    sliding_groups: int
    state_groups: int

    def blocks(self, tokens: int) -> int:
        """Blocks that a sequence of so many tokens holds."""
        if tokens <= 0:
            return 0
        whole = -(-tokens // self.block_tokens)
        if not self.sliding_groups:
            return self.full_groups * whole + self.state_groups
        last = min(whole, -(-self.window // self.block_tokens) + 1)
        return self.full_groups * whole + self.sliding_groups * last + self.state_groups

    def pool_blocks(self, memory_bytes: float) -> int:
        """Blocks that so much memory holds."""
        return int(memory_bytes // self.block_bytes)

    def pool_tokens(self, blocks: int, max_model_len: int | None) -> int:
        """The figure that vLLM prints as `KV cache size` for so many blocks.

        With layers of one kind it is the tokens that the blocks hold; with several it is the number of requests of the
        whole window that fit, times the window, so that it moves with --max-model-len. Without a window the tokens of
        one sequence that takes it all.
        """
        if not (self.sliding_groups or self.state_groups):
            return blocks // self.full_groups * self.block_tokens
        if max_model_len is None:
            rest = blocks - self.state_groups
            return max(rest // max(self.full_groups + self.sliding_groups, 1), 0) * self.block_tokens
        return int(blocks / self.blocks(max_model_len) * max_model_len)


def cost(layers: Layers, dtype: str = "auto", block_size: int = BLOCK_TOKENS, mtp: bool = False) -> Cost:
    """What a model's sequences cost in a KV dtype. `mtp`: its draft head is in use. Raises ConfigError."""
    full = layers.full + (layers.mtp if mtp else 0)
    if (wide := _wide_layers(layers, dtype)) and not layers.sliding:
        return _mixed_cost(layers, dtype, block_size, full, wide)
    a_token = layer_bytes(layers.attention, dtype, layers.dtype)
    a_local = layer_bytes(layers.sliding_attention, dtype, layers.dtype) if layers.sliding else 0
    widest = max(a_token if full else 0, a_local)
    block = block_size
    if layers.state and widest:
        block = max(block, -(-layers.state_bytes // widest))
        block = -(-block // _ALIGN) * _ALIGN if block > block_size else block
    size = _group_size([count for count in (full, layers.sliding, layers.state) if count])
    page = max(block * widest, layers.state_bytes if layers.state else 0)
    return Cost(
        dtype=dtype,
        estimate=is_estimate(dtype) or wide > 0,
        bytes_per_token=full * a_token,
        window_bytes_per_token=layers.sliding * a_local,
        window=layers.window,
        state_bytes=layers.state * layers.state_bytes,
        block_tokens=block,
        block_bytes=page * size,
        full_groups=-(-full // size),
        sliding_groups=-(-layers.sliding // size),
        state_groups=-(-layers.state // size),
    )


def _wide_layers(layers: Layers, dtype: str) -> int:
    """Layers that stay as wide as the weights in this dtype: none of a model with recurrent layers."""
    if dtype not in _TURBO or layers.state:
        return 0
    return 2 * min(_EDGE_LAYERS, (layers.full + layers.sliding) // 2)


def _mixed_cost(layers: Layers, dtype: str, block_size: int, full: int, wide: int) -> Cost:
    """Of a model whose layers keep every token, `wide` of them in the dtype of the weights: what they add up to."""
    of_all = (full - wide) * layer_bytes(layers.attention, dtype, layers.dtype)
    of_all += wide * layer_bytes(layers.attention, layers.dtype, layers.dtype)
    return Cost(
        dtype=dtype,
        estimate=is_estimate(dtype),
        bytes_per_token=of_all,
        window_bytes_per_token=0,
        window=0,
        state_bytes=0,
        block_tokens=block_size,
        block_bytes=block_size * of_all,
        full_groups=1,
        sliding_groups=0,
        state_groups=0,
    )


def _group_size(counts: list[int]) -> int:
    """Layers that share a block: as many as the rarest kind has, since all groups must be of one size."""
    least, most = min(counts), max(counts)
    return most if most < least * _NEAR else least


def plain_cost(block_size: int = BLOCK_TOKENS) -> Cost:
    """Where only the pool's tokens are known: blocks of tokens, nothing else."""
    return Cost(
        dtype="unknown",
        estimate=False,
        bytes_per_token=1,
        window_bytes_per_token=0,
        window=0,
        state_bytes=0,
        block_tokens=block_size,
        block_bytes=block_size,
        full_groups=1,
        sliding_groups=0,
        state_groups=0,
    )


def memory_of(one: Cost, pool_tokens: int, max_model_len: int | None) -> float:
    """Bytes of a pool that prints so many tokens; the least memory for which that is so."""
    if not (one.sliding_groups or one.state_groups):
        return pool_tokens / one.block_tokens * one.full_groups * one.block_bytes
    low, high = 0, 1
    while one.pool_tokens(high, max_model_len) < pool_tokens:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if one.pool_tokens(middle, max_model_len) >= pool_tokens else (middle + 1, high)
    return float(math.ceil(low) * one.block_bytes)
