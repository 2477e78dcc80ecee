"""Facts of a checkpoint before a boot: exact bytes, traps that are there and none that are not, and the roofline."""

from __future__ import annotations

from pathlib import Path

import pytest

from infermaxx_tui.core.model_facts import ModelFacts, Tensor, facts_lines, model_facts, roofline_tokens_per_s, traps
from infermaxx_tui.model_folder import model_of

_DENSE: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "head_dim": 16,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096,
}
_TENSORS = (
    Tensor("model.embed_tokens.weight", 1000),
    Tensor("model.layers.0.mlp.up_proj.weight", 500),
    Tensor("model.layers.0.mlp.experts.3.up_proj.weight", 800),
    Tensor("lm_head.weight", 1000),
    Tensor("mtp.layers.0.proj.weight", 50),
)


def test_bytes_are_exact_and_only_what_a_token_reads_counts_for_its_speed() -> None:
    dense = [one for one in _TENSORS if "experts" not in one.name]
    facts = model_facts(_DENSE, dense)
    assert facts.weight_bytes == 2550
    assert facts.read_bytes_per_token == 500 + 1000
    unnamed = model_facts({**_DENSE, "num_experts": 8}, _TENSORS)
    assert (unnamed.weight_bytes, unnamed.read_bytes_per_token) == (3350, None)
    assert "experts" in unnamed.missing["read_bytes_per_token"]
    moe = model_facts({**_DENSE, "num_experts": 8, "num_experts_per_tok": 2}, _TENSORS)
    assert moe.read_bytes_per_token == 500 + 200 + 1000
    assert (moe.experts, moe.experts_active) == (8, 2)
    for held in (dense, [one for one in dense if one.name != "lm_head.weight"]):
        tied = model_facts({**_DENSE, "tie_word_embeddings": True}, held)
        assert tied.read_bytes_per_token == 1000 + 500, "one table, whether the files hold it once or twice"


@pytest.mark.parametrize(
    "name",
    [
        "visual.blocks.0.attn.qkv.weight",
        "model.vision_tower.encoder.layers.0.weight",
        "vision_model.embed.weight",
        "multi_modal_projector.linear_1.weight",
        "audio_tower.layers.0.weight",
        "model.layers.2.self_attn.q_proj.weight",
        "model.layers.2.mlp.experts.1.up_proj.weight",
        "mtp.layers.0.mlp.up_proj.weight",
        "gpt_neox.embed_in.weight",
        "model.tok_embeddings.weight",
    ],
)
def test_no_decoded_token_reads_what_sees_drafts_or_looks_up(name: str) -> None:
    read = (Tensor("model.layers.1.mlp.up_proj.weight", 500), Tensor("lm_head.weight", 1000))
    facts = model_facts({**_DENSE, "num_experts": 8, "num_experts_per_tok": 2}, (*read, Tensor(name, 77)))
    assert (facts.weight_bytes, facts.read_bytes_per_token) == (1577, 1500)


@pytest.mark.parametrize("name", ["embed_out.weight", "transformer.output_layer.weight", "output.weight"])
def test_an_output_layer_of_another_name_is_one(name: str) -> None:
    facts = model_facts(_DENSE, (Tensor("model.tok_embeddings.weight", 77), Tensor(name, 100)))
    assert facts.read_bytes_per_token == 100


def test_the_type_of_the_weights_is_that_of_most_tensors_where_no_file_names_it() -> None:
    config = {key: value for key, value in _DENSE.items() if key != "torch_dtype"}
    tensors = (Tensor("a", 8, "F32"), Tensor("b", 8, "BF16"), Tensor("c", 8, "BF16"))
    found = model_facts(config, tensors)
    assert (found.dtype, found.kv_bytes_per_token["auto"]) == ("bfloat16", 256)
    for silent in (model_facts(config, None), model_facts(config, (Tensor("a", 8, "U8"),))):
        assert silent.dtype is None
        assert silent.kv_bytes_per_token == {"fp8": 128}
        assert "in its own type" in silent.missing["kv_bytes_per_token"]


def test_layers_with_a_window_are_said_beside_those_that_keep_every_token() -> None:
    kinds = ["full_attention", "sliding_attention"]
    mixed = model_facts({**_DENSE, "sliding_window": 10, "layer_types": kinds}, None)
    assert (mixed.kv_bytes_per_token["auto"], mixed.kv_window_bytes_per_token["auto"]) == (128, 128)
    assert "of each of the last 10 tokens besides: 128 in bfloat16, 64 in fp8" in "\n".join(facts_lines(mixed))
    read = ModelFacts(
        read_bytes_per_token=1000,
        kv_bytes_per_token={"auto": 1},
        kv_window_bytes_per_token={"auto": 100},
        kv_window_tokens=10,
    )
    assert roofline_tokens_per_s(read, 1e6, 5, "auto") == pytest.approx(1e6 / (1000 + 5 + 500))
    assert roofline_tokens_per_s(read, 1e6, 1000, "auto") == pytest.approx(1e6 / (1000 + 1000 + 1000))


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_what_a_model_that_sees_is_made_of_stands_in_its_language_part(part: str) -> None:
    inner = {**_DENSE, "num_experts": 8, "num_experts_per_tok": 2, "mtp_num_hidden_layers": 1}
    facts = model_facts({"architectures": ["Sees"], part: inner}, None)
    assert (facts.dtype, facts.experts, facts.mtp_wanted, facts.max_model_len) == ("bfloat16", 8, 1, 4096)
    assert facts.kv_bytes_per_token["auto"] == 256


@pytest.mark.parametrize(
    ("more", "method"),
    [
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, "compressed-tensors"),
        ({"text_config": {**_DENSE, "quantization_config": {"quant_method": "fp8"}}}, "fp8"),
        ({}, None),
    ],
)
def test_how_it_is_quantised_is_found_wherever_it_is_written(more: dict[str, object], method: str | None) -> None:
    assert model_facts({**_DENSE, **more}, None).quantization == method


def test_the_kv_of_a_token_is_reckoned_by_dtype() -> None:
    assert model_facts(_DENSE, None).kv_bytes_per_token == {"auto": 2 * 2 * 2 * 16 * 2, "fp8": 2 * 2 * 2 * 16}


@pytest.mark.parametrize(
    ("compute", "caught"), [("8.6", True), ("8.9", True), ("9.0", False), ("10.0", False), ("12.0", True), (None, True)]
)
def test_block_fp8_is_a_trap_where_no_kernel_is_tuned_for_it(compute: str | None, caught: bool) -> None:
    config = {**_DENSE, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    assert bool(traps(model_facts(config, None), compute)) == caught
    plain = {**_DENSE, "quantization_config": {"quant_method": "fp8"}}
    assert traps(model_facts(plain, None), compute) == ()


def test_a_draft_head_that_was_stripped_is_named_and_one_that_is_there_is_not() -> None:
    config = {**_DENSE, "mtp_num_hidden_layers": 1}
    assert "stripped" in traps(model_facts(config, [t for t in _TENSORS if "mtp" not in t.name]), None)[0]
    assert traps(model_facts(config, _TENSORS), None) == ()
    assert traps(model_facts(config, None), None) == ()
    assert "not looked into" in "\n".join(facts_lines(model_facts(config, None)))


def test_a_roofline_falls_with_depth_and_rises_with_what_speculation_brings() -> None:
    facts = ModelFacts(read_bytes_per_token=1_000_000, kv_bytes_per_token={"auto": 1000, "fp8": 500})
    assert roofline_tokens_per_s(facts, 1e9, 0, "auto") == pytest.approx(1000.0)
    assert roofline_tokens_per_s(facts, 1e9, 1000, "auto") == pytest.approx(500.0)
    assert roofline_tokens_per_s(facts, 1e9, 1000, "fp8_e4m3") == pytest.approx(666.7, rel=1e-3)
    assert roofline_tokens_per_s(facts, 1e9, 0, "auto", accepted=2.5) == pytest.approx(2500.0)
    assert roofline_tokens_per_s(ModelFacts(), 1e9, 0, "auto") is None


def test_the_model_of_a_command_is_found_where_it_lies_here(tmp_path: Path) -> None:
    known: tuple[tuple[str, ...], ...] = (
        ("vllm", "serve", str(tmp_path), "--port", "1"),
        ("vllm", "serve", "--model", str(tmp_path)),
        ("python", "-m", "vllm.entrypoints.openai.api_server", f"--model={tmp_path}"),
    )
    for words in known:
        assert model_of(words) == tmp_path
    unknown: tuple[tuple[str, ...], ...] = (
        ("vllm", "serve", "--port", "1"),
        ("vllm", "serve", "/nowhere/at/all"),
        (),
        ("python", "-m", "x"),
    )
    for words in unknown:
        assert model_of(words) is None
