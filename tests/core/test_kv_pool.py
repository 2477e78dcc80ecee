"""Bytes of a token by config.json, against figures that real servers printed and against sums made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.kv_layers import ConfigError, layers_of
from infermaxx_tui.core.kv_pool import DTYPES, GIB, Cost, cost, layer_bytes, memory_of
from infermaxx_tui.core.kv_report import KvAsked, kv_report, longest, pool_of
from infermaxx_tui.core.load import Load, Step

QWEN: dict[str, object] = json.loads((Path(__file__).parent / "configs" / "qwen3.6-27b.json").read_text())
SMOLLM2: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "dtype": "bfloat16",
    "head_dim": 64,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_hidden_layers": 30,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
}
LLAMA_70B: dict[str, object] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
}
DEEPSEEK: dict[str, object] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "num_nextn_predict_layers": 1,
}
GEMMA3: dict[str, object] = {
    "text_config": {
        "dtype": "bfloat16",
        "hidden_size": 5376,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "num_hidden_layers": 62,
        "sliding_window": 1024,
        "layer_types": [("full" if at % 6 == 0 else "sliding") + "_attention" for at in range(1, 63)],
    }
}
NEMOTRON_H: dict[str, object] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 4480,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "attention_head_dim": 128,
    "hybrid_override_pattern": "M-M-M*-M-",
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 80,
    "n_groups": 8,
    "conv_kernel": 4,
}


def _pool(config: dict[str, object], dtype: str, gib: float, window: int) -> tuple[int, int]:
    """The smallest and largest pool that memory of so many GiB makes, which a log prints with two decimals."""
    one = cost(layers_of(config), dtype)
    low, high = (one.pool_tokens(one.pool_blocks((gib + off) * GIB), window) for off in (-0.005, 0.005))
    return low, high


@pytest.mark.parametrize(
    ("dtype", "gib", "printed"),
    [
        ("auto", 13.37, 623_200),
        ("auto", 69.23, 3_226_496),
        ("fp8_e4m3", 13.34, 1_243_488),
        ("turboquant_k8v4", 13.37, 1_320_576),
        ("turboquant_4bit_nc", 13.37, 1_682_784),
        ("turboquant_k3v4_nc", 13.37, 1_815_552),
        ("float32", 2.0, 46_592),
    ],
)
def test_real_servers_of_smollm2_printed_such_a_pool(dtype: str, gib: float, printed: int) -> None:
    low, high = _pool(SMOLLM2, dtype, gib, 8192)
    assert low <= printed <= high


def test_memory_that_is_set_exactly_gives_the_printed_figure_exactly() -> None:
    one = cost(layers_of(SMOLLM2), "float32")
    assert one.pool_tokens(one.pool_blocks(2 * GIB), 8192) == 46_592


def test_what_no_real_pool_was_held_against_is_an_estimate() -> None:
    said = {dtype: cost(layers_of(SMOLLM2), dtype).estimate for dtype in ("fp8", "turboquant_4bit_nc", "nvfp4")}
    assert said == {"fp8": False, "turboquant_4bit_nc": False, "nvfp4": True}
    assert cost(layers_of(SMOLLM2), "turboquant_3bit_nc").estimate
    assert cost(layers_of(GEMMA3), "turboquant_4bit_nc").estimate


def test_a_model_of_few_layers_is_left_wide_as_a_whole() -> None:
    tiny = layers_of({**SMOLLM2, "num_hidden_layers": 3})
    one = cost(tiny, "turboquant_4bit_nc")
    assert one.bytes_per_token == 2 * 3 * 64 * 2 * 2 + 3 * 70


def test_the_field_notes_hybrid_pools() -> None:
    assert _pool(QWEN, "fp8_e4m3", 2.33, 40_960) == (65_536, 65_536)
    turbo = cost(layers_of(QWEN), "turboquant_3bit_nc")
    assert turbo.estimate
    assert turbo.pool_tokens(56, 40_960) == 163_840
    assert turbo.pool_tokens(57, 131_072) == 207_530


def test_qwens_arithmetic_by_hand() -> None:
    layers = layers_of(QWEN)
    assert (layers.full, layers.state, layers.sliding, layers.mtp) == (16, 48, 0, 1)
    one = cost(layers, "fp8")
    assert one.bytes_per_token == 16 * 4 * 256 * 2
    assert one.bytes_per_token * 262_144 == pytest.approx(8.59e9, rel=1e-3)
    conv, state = 3 * (2 * 16 * 128 + 48 * 128) * 2, 48 * 128 * 128 * 4
    assert layers.state_bytes == conv + state
    assert one.state_bytes == 48 * (conv + state)
    assert one.block_tokens == 1568  # the state of one layer, in tokens of 2,048 bytes, up to a multiple of 16
    assert (one.full_groups, one.state_groups) == (1, 3)
    assert one.blocks(1569) == 2 + 3
    assert cost(layers, "fp8", mtp=True).bytes_per_token == 17 * 4 * 256 * 2


@pytest.mark.parametrize(
    ("config", "dtype", "expected"),
    [
        (LLAMA_70B, "auto", 80 * 8 * 128 * 2 * 2),
        (LLAMA_70B, "fp8", 80 * 8 * 128 * 2),
        (LLAMA_70B, "int8_per_token_head", 80 * 8 * 2 * (128 + 4)),
        (LLAMA_70B, "nvfp4", 80 * 8 * 2 * (64 + 8)),
        (LLAMA_70B, "turboquant_k8v4", 76 * 8 * (128 + 64 + 4) + 4 * 8 * 128 * 2 * 2),
        (SMOLLM2, "turboquant_k8v4", 26 * 3 * (64 + 32 + 4) + 4 * 3 * 64 * 2 * 2),
        (SMOLLM2, "turboquant_4bit_nc", 26 * 3 * (34 + 36) + 4 * 3 * 64 * 2 * 2),
        (SMOLLM2, "turboquant_k3v4_nc", 26 * 3 * (26 + 36) + 4 * 3 * 64 * 2 * 2),
        (SMOLLM2, "turboquant_3bit_nc", 26 * 3 * (26 + 28) + 4 * 3 * 64 * 2 * 2),
        (QWEN, "turboquant_3bit_nc", 16 * 4 * (98 + 100)),
        (DEEPSEEK, "auto", 61 * 576 * 2),
        (DEEPSEEK, "fp8", 61 * 576),
        (DEEPSEEK, "fp8_ds_mla", 61 * 656),
        (NEMOTRON_H, "auto", 8 * 128 * 2 * 2),
    ],
)
def test_bytes_of_a_token(config: dict[str, object], dtype: str, expected: int) -> None:
    assert cost(layers_of(config), dtype).bytes_per_token == expected


def test_sliding_layers_stop_growing_at_their_window() -> None:
    layers = layers_of(GEMMA3)
    assert (layers.full, layers.sliding, layers.window) == (10, 52, 1024)
    one = cost(layers)
    assert (one.full_groups, one.sliding_groups) == (1, 6)
    assert one.blocks(16_000) - one.blocks(8_000) == 500
    assert one.blocks(160) == 7 * 10


def test_mamba_state_by_hand() -> None:
    layers = layers_of(NEMOTRON_H)
    assert (layers.full, layers.state) == (1, 4)
    assert layers.state_bytes == 3 * (128 * 80 + 2 * 8 * 128) * 2 + 128 * 80 * 128 * 2


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({"sliding_window": 4096}, (0, 80)),
        ({"sliding_window": 4096, "use_sliding_window": False}, (80, 0)),
        ({"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 60}, (60, 20)),
        ({"sliding_window": 4096, "sliding_window_pattern": 4}, (20, 60)),
        ({"sliding_window": 0}, (80, 0)),
        ({"num_kv_shared_layers": 20}, (60, 0)),
    ],
)
def test_ways_to_say_which_layers_slide(more: dict[str, object], counts: tuple[int, int]) -> None:
    layers = layers_of({**LLAMA_70B, **more})
    assert (layers.full, layers.sliding) == counts


def test_kimis_lists_count_from_one() -> None:
    linear = {"full_attn_layers": [4, 8], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}
    layers = layers_of({**DEEPSEEK, "num_hidden_layers": 8, "linear_attn_config": linear})
    assert (layers.full, layers.state) == (2, 6)
    assert layers.state_bytes == 3 * 32 * 128 * 3 * 2 + 32 * 128 * 128 * 4


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "num_hidden_layers"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 2, "layer_types": ["full_attention", "oracle"]}, "'oracle'"),
        (
            {"num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "hybrid_override_pattern": "M?"},
            "letters",
        ),
        ({**LLAMA_70B, "full_attention_interval": 4}, "no size of their state"),
        ({**LLAMA_70B, "num_hidden_layers": 1, "layer_types": ["mlp"]}, "keeps anything"),
    ],
)
def test_a_config_that_does_not_say_it_is_refused(config: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        layers_of(config)


def test_dtypes_that_do_not_fit_are_refused() -> None:
    plain, compressed = layers_of(LLAMA_70B).attention, layers_of(DEEPSEEK).attention
    for attention, dtype in ((plain, "fp7"), (plain, "fp8_ds_mla"), (compressed, "turboquant_3bit_nc")):
        with pytest.raises(ConfigError):
            layer_bytes(attention, dtype, "bfloat16")


@given(st.sampled_from([SMOLLM2, QWEN, GEMMA3, NEMOTRON_H]), st.sampled_from(DTYPES), st.integers(0, 300_000))
def test_blocks_grow_with_tokens_and_pools_with_memory(config: dict[str, object], dtype: str, tokens: int) -> None:
    try:
        one = cost(layers_of(config), dtype)
    except ConfigError:
        return
    assert one.blocks(tokens) <= one.blocks(tokens + 1)
    assert one.blocks(tokens) * one.block_bytes >= tokens * one.bytes_per_token
    held = longest(one, 500)
    assert one.blocks(held) <= 500 < one.blocks(held + one.block_tokens)
    pool = one.pool_tokens(500, 40_960)
    again = one.pool_blocks(memory_of(one, pool, 40_960))
    assert again <= 500
    assert one.pool_tokens(again, 40_960) == pool


def _load(name: str, peak: int) -> Load:
    return Load(name, (Step(0.0, peak - 100, 100, 0),), timed=False)


def test_the_needed_dtype_is_the_most_exact_that_does() -> None:
    asked = KvAsked(config=QWEN, dtype="fp8", max_model_len=40_960)
    loads = [_load("a", 60_000), _load("b", 69_000), _load("c", 72_000)]
    report = kv_report(asked, 65_536, loads)
    assert report is not None
    by_name = {rung.dtype: rung for rung in report.rungs}
    assert [rung.bytes_per_token for rung in report.rungs] == sorted(
        (rung.bytes_per_token for rung in report.rungs), reverse=True
    )
    assert by_name["fp8"].pool_tokens == 65_536
    assert (by_name["fp8"].longest_tokens, by_name["fp8"].exceeds_alone) == (45 * 1568, 1)
    assert by_name["auto"].exceeds_alone == 3
    assert report.needed_alone == "turboquant_k8v4"
    assert report.needed_together is None


def test_pool_from_memory_or_from_tokens() -> None:
    assert pool_of(KvAsked(), 1600) == (1600, 100)
    assert pool_of(KvAsked(config=QWEN, dtype="fp8", max_model_len=40_960, memory_gib=2.33), None) == (65_536, 48)
    assert pool_of(KvAsked(config=QWEN, dtype="fp8", max_model_len=40_960), 65_536) == (65_536, 48)
    assert kv_report(KvAsked(), 1600, []) is None
    assert isinstance(cost(layers_of(SMOLLM2)), Cost)
