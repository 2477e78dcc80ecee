"""What is known of an arm before its start stands in its row, whether it comes up or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from experimenttools import parsed

from infermaxx_tui.core.experiment.levers import settings
from infermaxx_tui.core.experiment.order import steps
from infermaxx_tui.core.gpu import GpuCard, GpuProbe
from infermaxx_tui.experiment import forecasting
from infermaxx_tui.experiment.ahead import ahead_lines
from infermaxx_tui.experiment.conduct import Asked
from infermaxx_tui.experiment.step import Conditions, blank_row

_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "dtype": "bfloat16",
    "max_position_embeddings": 4096,
}


def _model(folder: Path, **more: object) -> Path:
    (folder / "config.json").write_text(json.dumps({**_CONFIG, **more}), encoding="utf-8")
    head = json.dumps({"lm_head.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}}).encode()
    (folder / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + bytes(128))
    return folder


def test_facts_and_pool_are_in_the_row_before_anything_is_started(tmp_path: Path) -> None:
    experiment = parsed(MODEL=str(_model(tmp_path)))
    auto, fp8 = settings(experiment)
    conditions = Conditions(experiment, "probes", str(tmp_path), "KEY", no_gpu=True)
    rows = [blank_row(conditions, one, step) for one, step in zip((auto, fp8), steps(experiment), strict=False)]
    assert [row.facts.weight_bytes for row in rows if row.facts is not None] == [128, 128]
    kept = [row.forecast for row in rows if row.forecast is not None]
    assert [(one.kv_dtype, one.kv_bytes_per_token) for one in kept] == [("bfloat16", 256), ("fp8_e4m3", 128)]
    assert all(one.pool_tokens is None and "how much memory" in one.missing["pool_tokens"] for one in kept)


def test_of_a_server_elsewhere_nothing_is_foreseen(tmp_path: Path) -> None:
    experiment = parsed()
    conditions = Conditions(experiment, "probes", str(tmp_path), "KEY", no_gpu=True)
    row = blank_row(conditions, settings(experiment)[0], steps(experiment)[0])
    assert (row.facts, row.forecast) == (None, None)


_ADA = GpuCard(gpu=0, name="RTX 4090", compute="8.9", max_mem_mhz=10_501, bus_bits=384, vram_total_mib=24_564.0)
_HOPPER = GpuCard(gpu=1, name="H200", compute="9.0", max_mem_mhz=3_201, bus_bits=6_144, vram_total_mib=143_771.0)


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """The card of this machine is remembered; each test has its own."""
    forecasting.local_card.cache_clear()
    yield
    forecasting.local_card.cache_clear()


def _ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *cards: GpuCard, no_gpu: bool = False) -> str:
    monkeypatch.setattr("infermaxx_tui.sensors.probe_local", lambda: GpuProbe(source="nvml", cards=cards))
    folder = _model(tmp_path, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    experiment = parsed(MODEL=str(folder))
    return "\n".join(ahead_lines(Asked(experiment=experiment, text="", source=tmp_path), tmp_path, no_gpu))


def test_a_dry_run_reckons_with_the_card_that_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = _ahead(monkeypatch, tmp_path, _ADA)
    assert "block-FP8 has no tuned kernels for compute 8.9" in said
    assert "pool: at most " in said
    assert f"roofline: {2 * 10_501e6 * 384 / 8 / 128:,.0f} tokens/s" in said
    assert "block-FP8" not in _ahead_of_another(monkeypatch, tmp_path, _HOPPER)


def _ahead_of_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: GpuCard) -> str:
    forecasting.local_card.cache_clear()
    return _ahead(monkeypatch, tmp_path, card)


@pytest.mark.parametrize(("cards", "no_gpu"), [((), False), ((_ADA, _HOPPER), False), ((_ADA,), True)])
def test_without_one_known_card_nothing_is_reckoned_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cards: tuple[GpuCard, ...], no_gpu: bool
) -> None:
    said = _ahead(monkeypatch, tmp_path, *cards, no_gpu=no_gpu)
    assert "roofline: n/a" in said
    assert "pool: n/a" in said
    assert "block-FP8 is slow on cards without tuned kernels" in said


def test_a_program_that_is_not_here_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _ahead(monkeypatch, tmp_path).count("WILL NOT START: there is no vllm here") == 2
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    assert "WILL NOT START" not in _ahead(monkeypatch, tmp_path)


def test_what_arms_share_is_said_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = _ahead(monkeypatch, tmp_path, _ADA)
    assert said.count("LlamaForCausalLM") == 1
    assert "    checkpoint: as of auto" in said
