"""What an arm should come to before it is started, held against what real servers of that shape printed afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core.experiment.commandline import option
from infermaxx_tui.core.experiment.forecast import Card, Forecast, forecast, forecast_lines, pool_text
from infermaxx_tui.core.kv_pool import GIB
from infermaxx_tui.core.model_facts import ModelFacts, as_loaded, model_facts

QWEN: dict[str, object] = json.loads((Path(__file__).parent / "configs" / "qwen3.6-27b.json").read_text())
SMOLLM2: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 576,
    "head_dim": 64,
    "dtype": "bfloat16",
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
WEIGHTS = 269_030_016
"""Bytes of SmolLM2-135M's tensors in 16 bits."""
FACTS = ModelFacts(
    weight_bytes=WEIGHTS,
    read_bytes_per_token=WEIGHTS,
    dtype="bfloat16",
    kv_bytes_per_token={"auto": 23_040, "fp8": 11_520},
)
H200 = Card("H200", "9.0", 4.8e12, 139.8 * GIB)


def _of(*flags: str, card: Card | None = None, config: dict[str, object] = SMOLLM2, space: str = "") -> Forecast:
    """`space`: GiB of the pool on a CPU."""
    return forecast(("vllm", "serve", "m", *flags), {"VLLM_CPU_KVCACHE_SPACE": space}, config, FACTS, card)


def test_the_pool_of_the_real_server_on_the_cpu_was_foreseen() -> None:
    """vLLM 0.32 printed 23,296 tokens for 1 GiB and 46,592 for 2, its weights and keys in 32 bits by --dtype."""
    one = _of("--dtype", "float32", "--max-model-len", "2048", space="1")
    assert (one.kv_dtype, one.kv_bytes_per_token, one.pool_tokens) == ("float32", 46_080, 23_296)
    assert not one.at_most
    assert _of("--dtype=float32", space="2").pool_tokens == 46_592
    assert one.missing.keys() == {"roofline_tokens_per_s"}
    assert "pool: 23,296 tokens (1 GiB by VLLM_CPU_KVCACHE_SPACE), 11.4 requests of 2,048" in tuple(forecast_lines(one))


@pytest.mark.parametrize(("dtype", "printed"), [("auto", 623_200), ("fp8_e4m3", 1_243_488)])
def test_on_a_card_the_pool_is_bounded_by_what_the_weights_leave(dtype: str, printed: int) -> None:
    """vLLM 0.26 on an H200 at utilisation 0.1: it kept some 0.4 GiB for itself."""
    one = _of("--gpu-memory-utilization", "0.1", "--kv-cache-dtype", dtype, card=H200)
    assert one.at_most
    assert printed <= (one.pool_tokens or 0) <= 1.04 * printed
    assert (pool_text(one, printed) or "").endswith(f"{printed:,} there")


def test_a_hybrid_model_has_the_pool_that_its_server_printed() -> None:
    memory = str(int(2.33 * GIB))
    one = _of("--kv-cache-dtype", "fp8", "--max-model-len", "40960", "--kv-cache-memory-bytes", memory, config=QWEN)
    assert one.pool_tokens == 65_536


def test_blocks_and_sizes_are_read_as_vllm_reads_them() -> None:
    assert _of("--num-gpu-blocks-override", "24", "--block-size", "32").pool_tokens == 768
    assert _of("--kv-cache-memory-bytes", "1G").pool_bytes == GIB
    assert _of("--kv-cache-memory-bytes", "1g").pool_bytes == 1e9
    assert option(("serve", "--a", "1", "--a=2", "--b"), "a") == "2"
    assert option(("serve", "--max_model_len", "9"), "max-model-len") == "9"
    assert option(("serve", "--b"), "b") is None


def test_float32_weights_are_loaded_in_16_bits_unless_the_command_says_otherwise() -> None:
    config, facts = {**SMOLLM2, "dtype": "float32"}, msgspec.structs.replace(FACTS, dtype="float32")
    half, whole = (forecast(("vllm", "serve", *said), {}, config, facts, H200) for said in ((), ("--dtype", "float")))
    assert (half.kv_dtype, half.kv_bytes_per_token) == ("bfloat16", 23_040)
    assert (whole.kv_dtype, whole.kv_bytes_per_token) == ("float32", 46_080)
    assert half.pool_bytes is not None
    assert whole.pool_bytes is not None
    assert half.pool_bytes - whole.pool_bytes == WEIGHTS - WEIGHTS // 2


@pytest.mark.parametrize("words", [("-tp", "2"), ("--tensor_parallel_size=2",), ("--tensor-parallel-size", "2")])
def test_two_cards_are_two_cards_in_every_spelling(words: tuple[str, ...]) -> None:
    alone, both = _of(card=H200), _of(*words, card=H200)
    assert alone.pool_bytes is not None
    assert both.pool_bytes is not None
    assert both.pool_bytes > 1.9 * alone.pool_bytes


@pytest.mark.parametrize(
    ("flags", "key", "said"),
    [
        (("--disable-sliding-window",), "kv_bytes_per_token", "--disable-sliding-window changes what is kept"),
        (("--disable_hybrid_kv_cache_manager",), "kv_bytes_per_token", "--disable-hybrid-kv-cache-manager changes"),
        (("--hf-overrides", '{"num_hidden_layers": 2}'), "kv_bytes_per_token", "--hf-overrides changes"),
        (("--hf-overrides.num_hidden_layers", "2"), "kv_bytes_per_token", "--hf-overrides changes"),
        (("--config", "server.yaml"), "kv_bytes_per_token", "--config changes"),
        (("-dcp", "2"), "kv_bytes_per_token", "--decode-context-parallel-size changes"),
        (("--cpu-offload-gb", "4"), "pool_tokens", "--cpu-offload-gb changes what memory is there"),
        (("--enable-lora",), "pool_tokens", "--enable-lora changes what memory is there"),
    ],
)
def test_a_flag_that_changes_what_is_kept_or_where_leaves_no_figure(
    flags: tuple[str, ...], key: str, said: str
) -> None:
    one = _of(*flags, card=H200)
    assert (getattr(one, key), one.pool_tokens) == (None, None)
    assert said in one.missing[key]


@pytest.mark.parametrize(
    ("told", "size"), [({}, 576 * 2 * 2), ({"VLLM_MLA_DISABLE": "0"}, 576 * 2 * 2), ({"VLLM_MLA_DISABLE": "1"}, None)]
)
def test_a_compressed_cache_is_none_where_the_environment_has_it_kept_whole(
    told: dict[str, str], size: int | None
) -> None:
    mla: dict[str, object] = {
        **SMOLLM2,
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    }
    assert forecast(("vllm", "serve", "m"), told, mla, FACTS, H200).kv_bytes_per_token == size


def test_what_does_not_follow_is_missing_with_its_reason() -> None:
    assert "how much memory" in _of().missing["pool_tokens"]
    assert "not reckoned" in _of("--pipeline-parallel-size", "2", card=H200).missing["pool_tokens"]
    assert "quantised to fp8 while it is loaded" in _of("--quantization", "fp8", card=H200).missing["pool_tokens"]
    assert "'fp7' is not known" in _of("--kv-cache-dtype", "fp7", card=H200).missing["kv_bytes_per_token"]
    brings: dict[str, object] = {**SMOLLM2, "quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}
    assert "brings a type" in _of(config=brings, card=H200).missing["kv_bytes_per_token"]
    small = Card("small", None, None, 0.2 * GIB)
    assert "the weights do not fit" in _of(card=small).missing["pool_tokens"]


def test_traps_are_named_before_the_start_and_only_where_they_are() -> None:
    assert "TRAP" not in "".join(forecast_lines(_of("--max-model-len", "8192", space="1")))
    long = tuple(forecast_lines(_of("--max-model-len", "100000", space="1")))
    assert any("TRAP window of 100,000: config.json names 8,192" in line for line in long)
    assert any("TRAP no request of 100,000 fits" in line for line in long)


def test_a_pool_beside_what_was_printed_agrees_differs_or_is_not_compared() -> None:
    one = _of("--dtype", "float32", space="1")
    assert (pool_text(one, 23_296) or "").endswith("23,296 tokens expected (1 GiB by VLLM_CPU_KVCACHE_SPACE, float32),"
                                                   " 23,296 there")  # fmt: skip
    assert "OTHER THAN EXPECTED, 2 times it" in (pool_text(one, 46_592) or "")
    assert "OTHER THAN EXPECTED, 0.5 of it" in (pool_text(one, 11_648) or "")
    assert pool_text(one, None) is None
    assert pool_text(_of(), 23_296) is None
    bound = _of("--gpu-memory-utilization", "0.1", card=H200)
    assert "OTHER" not in (pool_text(bound, 100_000) or "")
    assert "OTHER" in (pool_text(bound, 1_243_488) or "")


def test_a_roofline_reads_the_bytes_that_were_loaded() -> None:
    assert _of(card=H200).roofline_tokens_per_s == pytest.approx(4.8e12 / WEIGHTS)
    assert _of("--dtype", "float32", card=H200).roofline_tokens_per_s == pytest.approx(4.8e12 / WEIGHTS / 2)
    assert _of("--tensor-parallel-size", "2", card=H200).roofline_tokens_per_s == pytest.approx(9.6e12 / WEIGHTS)
    assert _of("--quantization", "fp8", card=H200).roofline_tokens_per_s is None


def test_facts_are_those_of_the_server_that_loads_them() -> None:
    wide = as_loaded(FACTS, "float32", None)
    assert (wide.weight_bytes, wide.kv_bytes_per_token) == (2 * WEIGHTS, {"auto": 46_080, "fp8": 11_520})
    assert as_loaded(FACTS, None, None) == FACTS
    assert as_loaded(FACTS, "unheard", None) == FACTS
    online = as_loaded(FACTS, None, "fp8")
    assert (online.weight_bytes, online.read_bytes_per_token) == (None, None)
    quantised = model_facts({**SMOLLM2, "quantization_config": {"quant_method": "awq"}}, None)
    assert as_loaded(quantised, "float16", "awq_marlin") == quantised
