"""The real nvidia-ml-py over a small C library in place of the driver's: its structs, its errors, its odd bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui.core.gpu import GpuProbe, GpuReading

_STUB = Path(__file__).parent / "stub_nvml.c"
_READ = """
import msgspec, sys
from infermaxx_tui.sensors.choose import local_source
source = local_source(None, None)
probe = source.probe(0)
readings = [*source.read(True), *source.read(False), *source.read(True)]
source.close()
sys.stdout.buffer.write(msgspec.json.encode((probe, readings)))
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> tuple[GpuProbe, list[GpuReading]]:
    """What the binding reads of the stub, in a process of its own, which finds the stub first."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("stub")
    command = [compiler, "-shared", "-fPIC", "-w", "-o", str(folder / "libnvidia-ml.so.1"), str(_STUB)]
    subprocess.run(command, check=True, timeout=60)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", _READ], env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout, type=tuple[GpuProbe, list[GpuReading]])


def test_values_come_through_the_real_structs(read: tuple[GpuProbe, list[GpuReading]]) -> None:
    probe, readings = read
    assert (probe.driver, probe.library, probe.error) == ("580.159.04", "13.580.159.04", None)
    assert (probe.binding or "").startswith("nvidia-ml-py ")
    first = readings[0]
    assert (first.power_w, first.limit_w, first.sm_mhz, first.mem_mhz) == (123.456, 275.0, 1560, 9501)
    assert (first.edge_c, first.vram_c, first.busy_percent, first.reasons) == (71, 41, 98, 0x8004)
    assert (first.vram_used_mib, first.vram_reserved_mib) == (22011.0, 400.0)
    assert (first.power_capped_ms, first.power_brake_ms, first.energy_j) == (74.0, 271.0, 83000.0)
    assert probe.cards[0].slowdown_margin_c == -2


def test_what_the_library_lacks_or_refuses_is_a_reason(read: tuple[GpuProbe, list[GpuReading]]) -> None:
    (card,) = read[0].cards
    assert card.metrics["margin_c"] == "the installed driver has no such function"
    assert card.metrics["pcie_replays"] == "not supported"
    assert card.metrics["hotspot_c"] == "needs driver 615 (this is 580)"
    assert card.metrics["ecc_uncorrected"] != "ok"
    assert all(one.margin_c is None and one.pcie_replays is None for one in read[1])


def test_a_name_that_is_no_utf8_ends_nothing(read: tuple[GpuProbe, list[GpuReading]]) -> None:
    (card,) = read[0].cards
    assert (card.name, card.uuid) == (None, "GPU-stub")


def test_memory_of_a_process_that_the_driver_hides_is_none(read: tuple[GpuProbe, list[GpuReading]]) -> None:
    processes = read[1][0].processes
    assert processes is not None
    assert (processes[0].pid, processes[0].vram_mib) == (1, None)


def test_an_xid_is_told_once(read: tuple[GpuProbe, list[GpuReading]]) -> None:
    assert [one.xids for one in read[1]] == [(31,), (), ()]
