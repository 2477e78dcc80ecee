"""A config.json that says more than is reckoned gives no figure: each of these gave one, and a wrong one."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.kv_layers import ConfigError, layers_of

_PLAIN: dict[str, object] = {
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "head_dim": 64,
}
_MAMBA: dict[str, object] = {"mamba_d_state": 16, "mamba_n_heads": 4, "mamba_d_head": 8}


def _with(**more: object) -> dict[str, object]:
    return {key: value for key, value in {**_PLAIN, **more}.items() if value is not None}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (_with(num_key_value_heads=[2, 2, 4, 4]), "num_key_value_heads differs from layer to layer"),
        (_with(block_configs=[{"attention": {"n_heads_in_group": 8}}]), "block_configs"),
        (_with(index_topk=2048, kv_lora_rank=64, qk_rope_head_dim=16, model_type="deepseek_v32"), "index_topk"),
        (_with(kv_lora_rank=64, qk_rope_head_dim=16, model_type="minicpm3"), "whether a minicpm3 keeps compressed"),
        (_with(head_dim=192, v_head_dim=128), "different width"),
        (_with(model_type="gemma3_text", head_dim=None), "head_dim is missing"),
        (_with(head_dim=None, hidden_size=500), "no multiple of 8 heads"),
        (_with(layer_types=[1, 1, 0, 1]), "no list of words"),
        (_with(layer_types=["full_attention"] * 3), "names 3 layers, and num_hidden_layers 4"),
        (_with(layers_block_type=["mamba", "hybrid", "mamba", "hybrid"], **_MAMBA), "'hybrid'"),
        (_with(model_type="falcon_h1", **_MAMBA), "speaks of a recurrent state"),
        (_with(model_type="bamba", attn_layer_indices=[1], **_MAMBA), "attn_layer_indices"),
        (_with(conv_L_cache=3), "speaks of a recurrent state"),
        (_with(linear_num_value_heads=8), "speaks of a recurrent state"),
        (_with(attn_type_list=[0, 0, 0, 1]), "attn_type_list"),
        (_with(use_cla=True), "use_cla"),
        (_with(attention_chunk_size=8192), "nothing says in which layers"),
        (_with(model_type="gemma2", sliding_window=4096), "nothing says in which layers of a gemma2"),
        (_with(model_type="qwen2", sliding_window=4096), "nothing says in which layers of a qwen2"),
        (_with(model_type="exaone4", sliding_window=4096, sliding_window_pattern="LLLG"), "nothing says"),
        (_with(is_encoder_decoder=True), "an encoder and a decoder"),
        ({"is_encoder_decoder": True, "text_config": _with()}, "an encoder and a decoder"),
        ({"text_config": _with(cross_attention_layers=[3])}, "cross_attention_layers"),
    ],
)
def test_what_is_not_reckoned_is_refused_in_one_line(config: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        layers_of(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "counts", "heads"),
    [
        (_with(), (4, 0, 0), 2),
        (_with(num_key_value_heads=None), (4, 0, 0), 8),
        (_with(head_dim=None), (4, 0, 0), 2),
        (_with(model_type="mistral", sliding_window=4096), (0, 4, 0), 2),
        (_with(model_type="mistral", sliding_window=None), (4, 0, 0), 2),
        (_with(model_type="qwen2", sliding_window=4096, use_sliding_window=False), (4, 0, 0), 2),
        (_with(model_type="cohere2", sliding_window=4096, sliding_window_pattern=4), (1, 3, 0), 2),
        (_with(attn_type_list=[1, 1, 1, 1]), (4, 0, 0), 2),
        (_with(layer_types=["conv", "full_attention"] * 2, conv_L_cache=3), (2, 0, 2), 2),
        (_with(kv_lora_rank=64, qk_rope_head_dim=16, v_head_dim=128, model_type="deepseek_v3"), (4, 0, 0), 1),
        (_with(model_type="falcon", num_key_value_heads=None, multi_query=True), (4, 0, 0), 1),
        (_with(model_type="falcon", num_kv_heads=4, multi_query=True, new_decoder_architecture=True), (4, 0, 0), 4),
        (_with(model_type="chatglm", num_key_value_heads=None, multi_query_group_num=2), (4, 0, 0), 2),
    ],
)
def test_what_is_reckoned_stays_as_it_is(config: dict[str, object], counts: tuple[int, int, int], heads: int) -> None:
    found = layers_of(config)
    assert (found.full, found.sliding, found.state) == counts
    assert found.attention.heads == heads
