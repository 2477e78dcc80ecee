"""The block-FP8 trap of a checkpoint, before a slow run says so, and the lines that name traps."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core.events import StartupRead
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.traps import checkpoint_trap, read_config, trap_lines, tuned_devices, with_traps

BLOCK = '{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}'
CONFIGS = "lib/python3.12/site-packages/vllm/model_executor/layers/quantization/utils/configs"


def checkpoint(folder: Path, config: str = BLOCK) -> Regime:
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(config)
    return Regime(server_local=True, gpu="NVIDIA H100", model_root=str(folder / "model"))


def vllm_with(folder: Path, *devices: str) -> tuple[str, ...]:
    """The command of a vLLM that brings kernels for these devices."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    script = folder / "bin" / "vllm"
    script.write_text(f"#!{folder}/bin/python\n")
    script.chmod(0o755)
    (folder / CONFIGS).mkdir(parents=True)
    for device in devices:
        name = f"N=1,K=2,device_name={device},dtype=fp8_w8a8,block_shape=[128,128].json"
        (folder / CONFIGS / name).write_text("{}")
    return (str(script), "serve", "m")


def test_a_card_with_tuned_kernels_is_no_trap(tmp_path: Path) -> None:
    command = vllm_with(tmp_path, "NVIDIA_H100", "NVIDIA_L40S")
    assert checkpoint_trap(checkpoint(tmp_path), command, {}) is None


def test_a_card_without_them_is_one(tmp_path: Path) -> None:
    trap = checkpoint_trap(checkpoint(tmp_path), vllm_with(tmp_path, "NVIDIA_L40S"), {})
    assert trap is not None
    assert "brings no tuned kernels for NVIDIA H100" in trap.detail


def test_where_the_server_s_vllm_is_not_seen_it_may_be_one(tmp_path: Path) -> None:
    trap = checkpoint_trap(checkpoint(tmp_path), (), {})
    assert trap is not None
    assert "not known here" in trap.detail


@pytest.mark.parametrize("change", [{"server_local": False}, {"simulated": True}, {"gpu": None}, {"model_root": None}])
def test_what_is_not_seen_is_not_judged(tmp_path: Path, change: dict[str, object]) -> None:
    assert checkpoint_trap(msgspec.structs.replace(checkpoint(tmp_path), **change), (), {}) is None


def test_other_weights_are_no_trap(tmp_path: Path) -> None:
    assert checkpoint_trap(checkpoint(tmp_path, "{}"), (), {}) is None


@pytest.mark.parametrize("config", ["", "{", "[]"])
def test_a_config_that_is_none_is_no_trap(tmp_path: Path, config: str) -> None:
    regime = checkpoint(tmp_path, config)
    assert read_config(tmp_path / "model") in (None, [])
    assert checkpoint_trap(regime, (), {}) is None


def test_a_python_without_vllm_knows_no_devices(tmp_path: Path) -> None:
    assert tuned_devices(tmp_path / "bin" / "python") is None


def test_traps_join_the_facts_and_are_said(tmp_path: Path) -> None:
    read = StartupRead(source="file", facts=StartupFacts(version="0.32.0"))
    joined = with_traps(read, checkpoint(tmp_path), (), {})
    assert joined.facts is not None
    assert [trap.name for trap in joined.facts.traps] == ["weight_block_size"]
    (line,) = trap_lines(joined)
    assert line.startswith("trap weight_block_size: config.json has weight_block_size [128, 128]")
    none = StartupRead(source="none", reason="no log")
    assert with_traps(none, Regime(), (), {}) is none
    assert trap_lines(none) == ()
