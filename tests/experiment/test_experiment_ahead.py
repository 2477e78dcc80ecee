"""What is known of an arm before its start stands in its row, whether it comes up or not."""

from __future__ import annotations

import json
from pathlib import Path

from experimenttools import parsed

from infermaxx_tui.core.experiment.levers import settings
from infermaxx_tui.core.experiment.order import steps
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


def _model(folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps(_CONFIG), encoding="utf-8")
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
