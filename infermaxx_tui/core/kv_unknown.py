"""What a config.json may say that changes what layers keep, and that is not reckoned here: refused, never passed over.

A figure that leaves out half of a cache looks like any other. The rules are those of vLLM 0.32 and of the configuration
classes whose defaults stand where a file is silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_heads", "head_dim")
_LISTS: Final = ("layer_types", "layers_block_type", "layer_block_types")
_MORE: Final = {
    "block_configs": "its layers differ from one another (block_configs)",
    "num_key_value_heads_per_layer": "its layers differ from one another (num_key_value_heads_per_layer)",
    "index_topk": "its sparse attention keeps an index beside keys and values (index_topk)",
    "index_head_dim": "its sparse attention keeps an index beside keys and values (index_head_dim)",
    "compress_ratios": "its layers compress what they keep (compress_ratios)",
    "cross_attention_layers": "layers of cross attention keep what an encoder said (cross_attention_layers)",
    "layer_group_size": "which of its layers are recurrent follows from layer_group_size, which is not read here",
    "swa_head_dim": "its sliding layers have heads of their own (swa_head_dim)",
    "swa_num_key_value_heads": "its sliding layers have heads of their own (swa_num_key_value_heads)",
    "attn_layer_indices": "which of its layers attend is said by attn_layer_indices, which is not read here",
}
_STATES: Final = (
    "conv_L_cache",
    "linear_num_value_heads",
    "mamba_d_state",
    "mamba_num_heads",
    "ssm_state_size",
    "state_size",
)
_MLA: Final = (
    "axk1",
    "bailing_hybrid",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_mtp",
    "dots3_note",
    "glm4_moe_lite",
    "kimi_k2",
    "kimi_linear",
    "longcat_flash",
    "pangu_ultra_moe",
)
"""Types of models of which vLLM keeps the compressed vector."""
_ALL_SLIDING: Final = ("ministral", "mistral", "mixtral", "phi3", "phimoe", "starcoder2")
"""Types of models of which a window means every layer."""


def unreckoned(config: Mapping[str, object], whole: Mapping[str, object]) -> str | None:
    """Why what a model keeps does not follow from its configuration; None where it does. `config`: of its text part."""
    said = next((why for key, why in _MORE.items() if config.get(key)), None)
    if said is not None:
        return said
    if whole.get("is_encoder_decoder") is True or config.get("is_encoder_decoder") is True:
        return "an encoder and a decoder keep more than a decoder does"
    return _of_heads(config) or _of_layers(config) or _of_windows(config)


def _of_heads(config: Mapping[str, object]) -> str | None:
    listed = next((key for key in _HEADS if isinstance(config.get(key), list | dict)), None)
    if listed is not None:
        return f"{listed} differs from layer to layer"
    kind, compressed = config.get("model_type"), config.get("kv_lora_rank")
    if compressed and kind is not None and kind not in _MLA:
        return f"whether a {kind} keeps compressed or whole keys and values (kv_lora_rank) is not known here"
    value, key = config.get("v_head_dim"), config.get("head_dim")
    if not compressed and value and key and value != key:
        return "keys and values are of different width (v_head_dim)"
    if isinstance(kind, str) and kind.startswith("gemma") and not key:
        return f"head_dim is missing, and a {kind} has one that does not follow from hidden_size"
    hidden, heads = config.get("hidden_size"), config.get("num_attention_heads")
    whole = isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and hidden % heads == 0
    if not (key or compressed or whole or hidden is None or heads is None or config.get("attention_head_dim")):
        return f"head_dim is missing, and hidden_size {hidden} is no multiple of {heads} heads"
    return None


def _of_layers(config: Mapping[str, object]) -> str | None:
    for name in _LISTS:
        listed = config.get(name)
        if listed is None:
            continue
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            return f"{name} is no list of words"
        layers = config.get("num_hidden_layers")
        if isinstance(layers, int) and len(listed) != layers:
            return f"{name} names {len(listed)} layers, and num_hidden_layers {layers}"
    kinds = config.get("attn_type_list")
    if isinstance(kinds, list) and any(kind != 1 for kind in kinds):
        return "some of its layers are linear attention (attn_type_list), whose state is not reckoned here"
    if config.get("use_cla") is True:
        return "layers share keys and values (use_cla)"
    return None


def _of_windows(config: Mapping[str, object]) -> str | None:
    if any(config.get(name) for name in _LISTS):
        return None
    if config.get("attention_chunk_size"):
        return "attention_chunk_size, and nothing says in which layers"
    kind = config.get("model_type")
    open_ = config.get("sliding_window") and not isinstance(config.get("use_sliding_window"), bool)
    if not open_ or kind is None or kind in _ALL_SLIDING:
        return None
    if isinstance(config.get("sliding_window_pattern"), int):
        return None
    return f"sliding_window, and nothing says in which layers of a {kind}"


def states_without_layers(config: Mapping[str, object]) -> str | None:
    """Why layers that all attend cannot be all; None where nothing speaks of a state."""
    named = next((name for name in _STATES if config.get(name)), None)
    return None if named is None else f"{named} speaks of a recurrent state, and nothing says in which layers"
