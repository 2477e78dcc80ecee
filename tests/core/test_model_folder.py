"""Bytes of a checkpoint's folder: exact, or none and why; what is missing, cut short or there twice is not summed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infermaxx_tui.core.model_facts import ModelFacts, facts_lines
from infermaxx_tui.model_folder import config_of, facts_of

_CONFIG: dict[str, object] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "torch_dtype": "bfloat16",
    "mtp_num_hidden_layers": 1,
}
_INDEX = "model.safetensors.index.json"


def _write(file: Path, tensors: dict[str, int], cut: int = 0) -> None:
    offset = 0
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    for name, size in tensors.items():
        entries[name] = {"dtype": "U8", "shape": [size], "data_offsets": [offset, offset + size]}
        offset += size
    data = json.dumps(entries).encode()
    file.write_bytes((len(data).to_bytes(8, "little") + data + bytes(offset))[: -cut or None])


def _folder(path: Path, files: dict[str, dict[str, int]], index: dict[str, str] | None = None) -> Path:
    (path / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
    for name, tensors in files.items():
        _write(path / name, tensors)
    if index is not None:
        (path / _INDEX).write_text(json.dumps({"metadata": {}, "weight_map": index}), encoding="utf-8")
    return path


def _facts(folder: Path) -> ModelFacts:
    found = facts_of(folder)
    assert isinstance(found, ModelFacts)
    return found


@pytest.mark.parametrize(
    ("files", "index", "n_bytes"),
    [
        ({"model.safetensors": {"lm_head.weight": 100, "norm": 28}}, None, 128),
        ({"a-1-of-2.safetensors": {"x": 1}, "a-2-of-2.safetensors": {"y": 2}}, None, 3),
        ({"m1.safetensors": {"x": 1}, "m2.safetensors": {"y": 2}}, {"x": "m1.safetensors", "y": "m2.safetensors"}, 3),
        ({"m1.safetensors": {"x": 1}, "consolidated.safetensors": {"x": 1, "z": 5}}, {"x": "m1.safetensors"}, 1),
        ({"m1.safetensors": {"x": 1, "left": 9}}, {"x": "m1.safetensors"}, 1),
    ],
)
def test_each_tensor_that_is_loaded_counts_once(
    tmp_path: Path, files: dict[str, dict[str, int]], index: dict[str, str] | None, n_bytes: int
) -> None:
    facts = _facts(_folder(tmp_path, files, index))
    assert (facts.weight_bytes, facts.mtp_tensors) == (n_bytes, 0)


@pytest.mark.parametrize(
    ("files", "index", "why"),
    [
        ({}, None, "no safetensors files to look into"),
        ({"m1.safetensors": {"x": 1}}, {"x": "m1.safetensors", "y": "m2.safetensors"}, "1 of its files are missing"),
        ({"m1.safetensors": {"x": 1}}, {"x": "m1.safetensors", "y": "m1.safetensors"}, "1 tensors of"),
        ({"a-00001-of-00002.safetensors": {"x": 1}}, None, "missing: a-00002-of-00002.safetensors"),
        ({"model.safetensors": {"x": 1}, "consolidated.safetensors": {"y": 1}}, None, "which belong together"),
        ({"a-1-of-2.safetensors": {"x": 1}, "a-2-of-2.safetensors": {"x": 2}}, None, "x lies in two files"),
    ],
)
def test_what_is_not_there_whole_has_no_bytes_and_no_trap_but_a_reason(
    tmp_path: Path, files: dict[str, dict[str, int]], index: dict[str, str] | None, why: str
) -> None:
    facts = _facts(_folder(tmp_path, files, index))
    assert (facts.weight_bytes, facts.read_bytes_per_token, facts.mtp_tensors) == (None, None, None)
    assert why in facts.missing["weight_bytes"]
    assert facts.kv_bytes_per_token["auto"] == 256, "what the configuration says is known all the same"
    assert "stripped" not in "\n".join(facts_lines(facts))


@pytest.mark.parametrize("bad", [b"\x05\x00\x00\x00\x00\x00\x00\x00{{{{{", b"", b"\xff" * 20])
def test_a_file_that_is_none_and_one_that_is_cut_short_are_named(tmp_path: Path, bad: bytes) -> None:
    _folder(tmp_path, {})
    (tmp_path / "model.safetensors").write_bytes(bad)
    why = _facts(tmp_path).missing["weight_bytes"]
    assert "model.safetensors cannot be read" in why
    assert "\n" not in why
    _write(tmp_path / "model.safetensors", {"x": 100}, cut=40)
    assert "model.safetensors is cut short" in _facts(tmp_path).missing["weight_bytes"]
    (tmp_path / _INDEX).write_text("{", encoding="utf-8")
    assert f"{_INDEX} cannot be read" in _facts(tmp_path).missing["weight_bytes"]


@pytest.mark.parametrize(
    ("config", "said"),
    [(None, "config.json: No such file"), ("{", "config.json: not JSON"), ("[]", "config.json: holds no object")],
)
def test_a_configuration_that_is_none_is_said_in_one_line(tmp_path: Path, config: str | None, said: str) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config, encoding="utf-8")
    found = facts_of(tmp_path)
    assert isinstance(found, str)
    assert said in found
    assert "\n" not in found


def test_infinity_is_read_and_what_modelopt_writes_beside_the_configuration_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}', encoding="utf-8")
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    config = config_of(tmp_path)
    assert isinstance(config, dict)
    assert config["quantization_config"] == {"quant_method": "modelopt", **beside["quantization"]}
    assert _facts(tmp_path).quantization == "modelopt"
