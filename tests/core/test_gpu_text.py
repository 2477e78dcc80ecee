"""Sensors that come as text: what an exporter, nvidia-smi and a user's command say, and all that is no number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.gpu_text import card_of, parse_exporter, parse_pairs, parse_smi, reading_of, smi_query
from infermaxx_tui.core.gpu_text_names import SMI_FIELDS

DCGM = b"""# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aa",pci_bus_id="00000000:01:00.0",modelName="NVIDIA H200"} 1980
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa",modelName="NVIDIA H200"} 612.5
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-aa",DCGM_FI_DRIVER_VERSION="580.1"} 58
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-aa"} 0
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa"} 72000
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa"} 31
DCGM_FI_DEV_POWER_VIOLATION{gpu="0",UUID="GPU-aa"} 2000000000
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-aa"} 5000000
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-aa"} 9223372036854775794
DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-aa"} 2147483632
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-bb"} 345
"""
SMI_EXPORTER = b"""nvidia_smi_gpu_info{driver_version="471.11",name="GeForce RTX 2080",uuid="df6e7a7c-7314",index="0"} 1
nvidia_smi_power_draw_watts{uuid="df6e7a7c-7314"} 28.07
nvidia_smi_clocks_current_sm_clock_hz{uuid="df6e7a7c-7314"} 6e+06
nvidia_smi_clocks_max_sm_clock_hz{uuid="df6e7a7c-7314"} 2.28e+09
nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314"} 0.97
nvidia_smi_memory_used_bytes{uuid="df6e7a7c-7314"} 7.06740224e+08
nvidia_smi_clocks_event_reasons_active{uuid="df6e7a7c-7314"} 4
nvidia_smi_enforced_power_limit_watts{uuid="df6e7a7c-7314"} 250
"""
SMI = (
    "0, GPU-aa, NVIDIA GeForce RTX 3090, 580.10, 274.51, 275.00, 350.00, 1560, 9501, 2100, 9751, 71, [N/A], 98,"
    " 22011, 24576, 0x0000000000000004, 4, 16, [N/A], [N/A]"
)


def test_dcgm_exporter() -> None:
    first, second = parse_exporter(DCGM)
    reading = reading_of(first, 0)
    assert (reading.power_w, reading.sm_mhz, reading.edge_c, reading.vram_used_mib) == (612.5, 1980, 58, 72000.0)
    assert (reading.power_capped_ms, reading.energy_j) == (2000.0, 5000.0)
    card = card_of(first, 0, lambda metric: "not given")
    assert (card.uuid, card.name, card.bus) == ("GPU-aa", "NVIDIA H200", "00000000:01:00.0")
    assert first.card["driver"] == "580.1"
    assert second.key == "GPU-bb"


def test_what_an_exporter_writes_for_nothing_is_none_with_the_reason() -> None:
    row = parse_exporter(DCGM)[0]
    reading = reading_of(row, 0)
    assert reading.vram_c is None
    assert reading.ecc_uncorrected is None
    assert reading.pcie_replays is None
    card = card_of(row, 0, lambda metric: "not given")
    assert card.metrics["vram_c"] == "reads 0 C, which is no temperature"
    assert card.metrics["ecc_uncorrected"] == "the source has no value"
    assert card.metrics["hotspot_c"] == "not given"
    assert card.metrics["xids"] == "ok"


def test_nvidia_gpu_exporter_in_base_units() -> None:
    (row,) = parse_exporter(SMI_EXPORTER)
    reading, card = reading_of(row, 0), card_of(row, 0, lambda metric: "not given")
    assert (reading.power_w, reading.sm_mhz, reading.busy_percent, reading.reasons) == (28.07, 6, 97, 4)
    assert reading.vram_used_mib == 674.0
    assert (reading.limit_w, card.limit_w, card.max_sm_mhz) == (250.0, 250.0, 2280)
    assert (card.uuid, card.name) == ("GPU-df6e7a7c-7314", "GeForce RTX 2080")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"<!DOCTYPE html><html><body>Grafana</body></html>", "a web page"),
        (b"", "no metrics"),
        (b'vllm:num_requests_running{model="m"} 1\n' * 1000, "no metrics"),
        (b'DCGM_FI_DEV_SM_CLOCK{Hostname="x"} 5\n', "no metrics"),
    ],
)
def test_what_is_no_exporter_is_said(text: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_exporter(text)


@given(st.binary(max_size=300))
def test_no_text_of_an_exporter_makes_it_fall(tail: bytes) -> None:
    rows = parse_exporter(DCGM + tail + b"\n")
    assert {row.key for row in rows} >= {"GPU-aa", "GPU-bb"}


def test_nvidia_smi() -> None:
    row = parse_smi(SMI)
    assert row is not None
    reading, card = reading_of(row, 0), card_of(row, 0, lambda metric: "not given")
    assert (reading.power_w, reading.limit_w, reading.sm_mhz, reading.mem_mhz) == (274.51, 275.0, 1560, 9501)
    assert (reading.edge_c, reading.vram_c, reading.reasons, reading.busy_percent) == (71, None, 4, 98)
    assert (card.name, card.default_limit_w, card.max_mem_mhz) == ("NVIDIA GeForce RTX 3090", 350.0, 9751)
    assert card.metrics["vram_c"] == "the source says [N/A]"
    assert row.card["driver"] == "580.10"


@pytest.mark.parametrize("word", ["[N/A]", "[Not Supported]", "[GPU requires reset]", "ERR!", "[Unknown Error]", ""])
def test_a_word_in_a_number_column_is_a_reason(word: str) -> None:
    row = parse_smi(SMI.replace("274.51", word))
    assert row is not None
    assert reading_of(row, 0).power_w is None
    assert row.refused["power_w"] == f"the source says {word}"


def test_lines_that_are_none_of_its_own() -> None:
    assert parse_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.") is None
    assert parse_smi("") is None
    assert len(smi_query().split(",")) == len(SMI_FIELDS)
    assert "clocks_throttle_reasons.active" in smi_query(old_names=True)


def test_pairs_of_a_users_command() -> None:
    rows, odd = parse_pairs('hotspot_c=88 vram_c=92,power_w=310.5\nname="RTX 3090" limit_w=275\n')
    assert odd == ()
    (row,) = rows
    reading = reading_of(row, 0)
    assert (reading.hotspot_c, reading.vram_c, reading.power_w, reading.limit_w) == (88, 92, 310.5, 275.0)
    assert card_of(row, 0, lambda metric: "no").name == "RTX 3090"


def test_pairs_of_several_cards_and_the_newest_value() -> None:
    rows, _ = parse_pairs("gpu=0 edge_c=50\ngpu=1 edge_c=60\nedge_c=61\ngpu=GPU-cc edge_c=70")
    assert {row.key: row.numbers["edge_c"] for row in rows} == {"0": 50, "1": 61, "GPU-cc": 70}


def test_pairs_that_cannot_be_read_are_named_once() -> None:
    rows, odd = parse_pairs("warming up\nfan=3 edge_c=hot hotspot_c=255\nfan=4\n# a remark")
    assert odd == ("not key=value: warming", "not key=value: up", "no such key: fan")
    assert rows[0].refused == {
        "edge_c": "the source says hot",
        "hotspot_c": "reads 255 C, which is no temperature",
    }
    assert reading_of(rows[0], 0).edge_c is None


@given(st.text(max_size=200))
def test_no_text_of_a_command_makes_it_fall(text: str) -> None:
    rows, _ = parse_pairs(text)
    for row in rows:
        reading_of(row, 0)
        card_of(row, 0, lambda metric: "no")
