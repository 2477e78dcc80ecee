"""Facts of a checkpoint before a boot: exact bytes, traps that are there and none that are not, and the roofline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infermaxx_tui.core.model_facts import ModelFacts, Tensor, facts_lines, model_facts, roofline_tokens_per_s, traps
from infermaxx_tui.model_folder import facts_of, model_of

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
    facts = model_facts(_DENSE, _TENSORS)
    assert facts.weight_bytes == 3350
    assert facts.read_bytes_per_token == 500 + 800 + 1000
    moe = model_facts({**_DENSE, "num_experts": 8, "num_experts_per_tok": 2}, _TENSORS)
    assert moe.read_bytes_per_token == 500 + 200 + 1000
    assert (moe.experts, moe.experts_active) == (8, 2)
    tied = model_facts({**_DENSE, "tie_word_embeddings": True}, [t for t in _TENSORS if t.name != "lm_head.weight"])
    assert tied.read_bytes_per_token == 1000 + 500 + 800


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


def _write(folder: Path, tensors: dict[str, int]) -> None:
    offset, head = 0, {"__metadata__": {"format": "pt"}}
    entries: dict[str, object] = dict(head)
    for name, size in tensors.items():
        entries[name] = {"dtype": "U8", "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    data = json.dumps(entries).encode()
    (folder / "model.safetensors").write_bytes(len(data).to_bytes(8, "little") + data + bytes(offset))


def test_facts_are_read_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_DENSE), encoding="utf-8")
    _write(tmp_path, {"lm_head.weight": 100, "model.norm.weight": 28})
    facts = facts_of(tmp_path)
    assert isinstance(facts, ModelFacts)
    assert facts.weight_bytes == 128


@pytest.mark.parametrize(
    ("config", "weights", "said"),
    [
        (None, None, "config.json: No such file"),
        ("{", None, "config.json: not JSON"),
        ("[]", None, "config.json: holds no object"),
        ("{}", b"\x05\x00\x00\x00\x00\x00\x00\x00{{{{{", "a safetensors file cannot be read"),
        ("{}", b"", "a safetensors file cannot be read"),
    ],
)
def test_a_folder_that_cannot_be_read_is_said_in_one_line(
    tmp_path: Path, config: str | None, weights: bytes | None, said: str
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config, encoding="utf-8")
    if weights is not None:
        (tmp_path / "model.safetensors").write_bytes(weights)
    found = facts_of(tmp_path)
    assert isinstance(found, str)
    assert said in found
    assert "\n" not in found


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
