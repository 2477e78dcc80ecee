"""Which layers of a model keep what between tokens, from its config.json: the ground of every figure of a KV pool.

A full-attention layer keeps keys and values of every token, a sliding one of the last few, a recurrent one a state of
fixed size. Counting all of them as full attention makes a hybrid model four times as large as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.kv_unknown import states_without_layers, unreckoned

Kind = Literal["full", "sliding", "state", "none"]
Dtype = Literal["bfloat16", "float16", "float32"]
WIDTHS: Final[dict[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of one number."""
INNER: Final = ("text_config", "llm_config", "language_config")
"""Where a config.json of a model that also sees or hears keeps what its language part is, the first that is there."""


class ConfigError(ValueError):
    """A config.json does not say what is needed: one line for people."""


class Attention(msgspec.Struct, frozen=True):
    """What one attention layer keeps of one token."""

    heads: int
    """Heads of keys; values have as many. 1 where keys and values are one compressed vector."""
    head_dim: int
    """Numbers in one head."""
    vectors: int = 2
    """2: keys and values. 1: one vector from which both are made (MLA), `rope_dim` of it as wide as the weights."""
    rope_dim: int = 0

    @property
    def numbers(self) -> int:
        """Numbers that one layer keeps of one token."""
        return self.vectors * self.heads * self.head_dim


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """A model's layers as far as they keep something between tokens."""

    name: str
    """The architecture, as the config names it."""
    dtype: Dtype
    """Of the weights, which is what `auto` keeps keys and values in."""
    full: int
    sliding: int
    state: int
    mtp: int
    """Layers of the draft head that comes with the model: they keep keys and values where it is in use."""
    attention: Attention
    sliding_attention: Attention
    window: int
    """Tokens that a sliding layer keeps; 0 without such layers."""
    state_bytes: int
    """What one recurrent layer keeps of one sequence, whatever its length; 0 without such layers."""
    max_model_len: int | None


_KINDS: Final[dict[str, Kind]] = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "local": "sliding",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "recurrent": "state",
    "conv": "state",
    "moe": "none",
    "mlp": "none",
}
_PATTERN: Final[dict[str, Kind]] = {"M": "state", "*": "full", "-": "none", "E": "none"}


class _Config:
    """Reads typed values out of a config, under the names that different families give them."""

    def __init__(self, raw: Mapping[str, object]) -> None:
        text = next((raw[key] for key in INNER if raw.get(key)), None)
        self.outer = raw
        self.raw: Mapping[str, object] = text if isinstance(text, dict) else raw

    def number(self, *names: str) -> int | None:
        """The first of these keys that holds a whole number above 0."""
        for name in names:
            value = self.raw.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return None

    def need(self, *names: str) -> int:
        """As `number`. Raises ConfigError."""
        value = self.number(*names)
        if value is None:
            raise ConfigError(f"{names[0]} is missing or not a whole number above 0")
        return value

    def words(self, *names: str) -> list[str] | None:
        """The first of these keys that holds a list of words."""
        for name in names:
            value = self.raw.get(name)
            if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                return [str(one) for one in value]
        return None

    def word(self, *names: str) -> str | None:
        """The first of these keys that holds a word, in the text's part or beside it."""
        for raw in (self.raw, self.outer):
            for name in names:
                value = raw.get(name)
                if isinstance(value, str) and value:
                    return value
        return None


def layers_of(raw: Mapping[str, object]) -> Layers:
    """What the layers of a parsed config.json keep. Raises ConfigError."""
    config = _Config(raw)
    if (why := unreckoned(config.raw, raw)) is not None:
        raise ConfigError(why)
    kinds = _kinds(config)
    counts = Counter(kinds)
    if not counts["state"] and (why := states_without_layers(config.raw)) is not None:
        raise ConfigError(why)
    shared = config.number("num_kv_shared_layers") or 0
    if shared:
        counts = Counter(kinds[: max(len(kinds) - shared, 0)])
    if not counts["full"] + counts["sliding"] + counts["state"]:
        raise ConfigError("no layer of it keeps anything between tokens")
    attention = _attention(config)
    local = _attention(config, local=True)
    dtype = (config.word("dtype", "torch_dtype") or "bfloat16").removeprefix("torch.")
    architectures = raw.get("architectures")
    named = architectures[0] if isinstance(architectures, list) and architectures else config.word("model_type")
    return Layers(
        name=str(named or "unknown"),
        dtype="float32" if dtype == "float32" else "float16" if dtype == "float16" else "bfloat16",
        full=counts["full"],
        sliding=counts["sliding"],
        state=counts["state"],
        mtp=config.number("mtp_num_hidden_layers", "num_nextn_predict_layers") or 0,
        attention=attention,
        sliding_attention=local,
        window=config.need("sliding_window", "attention_chunk_size", "window_size") if counts["sliding"] else 0,
        state_bytes=_state_bytes(config, kinds) if counts["state"] else 0,
        max_model_len=config.number("max_position_embeddings", "max_seq_len", "model_max_length"),
    )


def _kinds(config: _Config) -> list[Kind]:
    """What each layer is, in order."""
    for read in (_named, _by_pattern, _by_lists, _by_interval, _by_window):
        found = read(config)
        if found is not None:
            return found
    return ["full"] * config.need("num_hidden_layers", "n_layer", "n_layers", "num_layers")


def _named(config: _Config) -> list[Kind] | None:
    words = config.words("layer_types", "layers_block_type", "layer_block_types")
    if words is None:
        return None
    unknown = next((word for word in words if word not in _KINDS), None)
    if unknown is not None:
        raise ConfigError(f"layers of type {unknown!r} are not known here")
    return [_KINDS[word] for word in words]


def _by_pattern(config: _Config) -> list[Kind] | None:
    pattern = config.word("hybrid_override_pattern")
    if pattern is None:
        return None
    if set(pattern) - _PATTERN.keys():
        raise ConfigError("hybrid_override_pattern holds letters that are not known here")
    return [_PATTERN[letter] for letter in pattern]


def _by_lists(config: _Config) -> list[Kind] | None:
    """Kimi's way: lists of layer numbers, from 1."""
    lists = config.raw.get("linear_attn_config")
    full = lists.get("full_attn_layers") if isinstance(lists, dict) else None
    if not isinstance(full, list):
        return None
    return ["full" if at in full else "state" for at in range(1, config.need("num_hidden_layers") + 1)]


def _by_interval(config: _Config) -> list[Kind] | None:
    """One layer of full attention after so many others."""
    layers = config.number("num_hidden_layers") or 0
    every, kind = config.number("full_attention_interval"), "state"
    if every is None and config.number("sliding_window"):
        every, kind = config.number("sliding_window_pattern"), "sliding"
    if every is not None and layers:
        return [
            "full" if at % every == 0 else ("state" if kind == "state" else "sliding") for at in range(1, layers + 1)
        ]
    period, offset = config.number("attn_layer_period"), config.raw.get("attn_layer_offset", 0)
    if period is not None and layers and isinstance(offset, int):
        return ["full" if at % period == offset else "state" for at in range(layers)]
    return None


def _by_window(config: _Config) -> list[Kind] | None:
    """Sliding windows that the config switches on for all layers, or for those from a certain one on."""
    window, layers = config.number("sliding_window"), config.number("num_hidden_layers")
    if window is None or layers is None or config.raw.get("use_sliding_window") is False:
        return None
    first = config.number("max_window_layers") or 0
    if config.raw.get("use_sliding_window") is True:
        return ["full" if at < first else "sliding" for at in range(layers)]
    return ["sliding"] * layers


def _attention(config: _Config, local: bool = False) -> Attention:
    rank = config.number("kv_lora_rank")
    if rank is not None:
        rope = config.need("qk_rope_head_dim")
        return Attention(1, rank + rope, vectors=1, rope_dim=rope)
    heads = config.need("num_attention_heads", "n_head", "n_heads")
    names = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
    one = config.raw.get("multi_query") is True and config.raw.get("new_decoder_architecture") is not True
    kv_heads = 1 if one else config.number(*names) or heads
    dim = config.number("head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels")
    if not local:
        kv_heads = config.number("num_global_key_value_heads") or kv_heads
        dim = config.number("global_head_dim") or dim
    return Attention(kv_heads, dim or config.need("hidden_size", "n_embd") // heads)


def _state_bytes(config: _Config, kinds: Sequence[Kind]) -> int:
    """What one recurrent layer keeps of one sequence: the state itself and the last inputs of its convolution."""
    readers: tuple[Callable[[_Config], int | None], ...] = (_gated_delta, _delta, _mamba2, _short_conv)
    for read in readers:
        found = read(config)
        if found is not None:
            return found
    raise ConfigError(f"{sum(kind == 'state' for kind in kinds)} recurrent layers, and no size of their state")


def _width(config: _Config, *names: str) -> int:
    """Bytes of one number of a state: as the config says, else as wide as the weights."""
    said = (config.word(*names, "dtype", "torch_dtype") or "bfloat16").removeprefix("torch.")
    return WIDTHS.get(said, 2)


def _gated_delta(config: _Config) -> int | None:
    """Gated DeltaNet (Qwen3-Next, 3.5, 3.6): a matrix a value head, and convolved queries, keys and values."""
    values = config.number("linear_num_value_heads")
    if values is None:
        return None
    keys, key_dim = config.need("linear_num_key_heads"), config.need("linear_key_head_dim")
    value_dim, taps = config.need("linear_value_head_dim"), config.need("linear_conv_kernel_dim")
    convolved = (2 * keys * key_dim + values * value_dim) * (taps - 1)
    return convolved * _width(config) + values * key_dim * value_dim * _width(config, "mamba_ssm_dtype")


def _delta(config: _Config) -> int | None:
    """Kimi's delta attention: a matrix a head in 32 bits, and three convolutions."""
    said = config.raw.get("linear_attn_config")
    if not isinstance(said, dict):
        return None
    heads, dim, taps = (said.get(name) for name in ("num_heads", "head_dim", "short_conv_kernel_size"))
    if not (isinstance(heads, int) and isinstance(dim, int) and isinstance(taps, int)):
        return None
    return 3 * heads * dim * (taps - 1) * _width(config) + heads * dim * dim * WIDTHS["float32"]


def _mamba2(config: _Config) -> int | None:
    """Mamba 2 (Nemotron-H, Bamba, Granite 4): a matrix a head, and convolved inputs, B and C of each group."""
    state = config.number("ssm_state_size", "mamba_d_state")
    heads = config.number("mamba_num_heads", "mamba_n_heads")
    dim = config.number("mamba_head_dim", "mamba_d_head")
    if state is None or heads is None or dim is None:
        return None
    groups, taps = config.number("n_groups", "mamba_n_groups") or 1, config.number("conv_kernel", "mamba_d_conv") or 4
    convolved = (heads * dim + 2 * groups * state) * (taps - 1)
    ssm = _width(config, "mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    return convolved * _width(config) + heads * dim * state * ssm


def _short_conv(config: _Config) -> int | None:
    """Short convolutions alone (LFM2)."""
    taps = config.number("conv_L_cache")
    return None if taps is None else config.need("hidden_size") * (taps - 1) * _width(config)
