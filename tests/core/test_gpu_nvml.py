"""NVML's raw answers: each value type, each kind of failure, and what is refused as no reading."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.gpu import OK
from infermaxx_tui.core.gpu_nvml import (
    FAST_FIELDS,
    SLOW_FIELDS,
    SLOWDOWN_MARGIN,
    checked,
    decode_field,
    field_reading,
    start_failed,
    status_of,
)
from infermaxx_tui.core.gpu_reasons import REASONS, at_power_cap, is_idle, reason_names

FIELDS = {field.metric: field for field in (*FAST_FIELDS, *SLOW_FIELDS, SLOWDOWN_MARGIN)}


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (1, 41, 41),
        (1, 0xDEADBEEF_00000029, 41),
        (5, 4294967288, -8),
        (5, 0xDEADBEEF_FFFFFFFE, -2),
        (3, 22695418, 22695418),
        (2, 2**40, 2**40),
        (4, 2**64 - 1, -1),
        (6, 0xFFFF_0007, 7),
        (0, struct.unpack("<Q", struct.pack("<d", 1.5))[0], 1.5),
        (9, 5, None),
    ],
)
def test_a_field_is_read_by_its_value_type(kind: int, raw: int, value: float | None) -> None:
    """The raw numbers of the margins are those of a real card, which are signed offsets."""
    assert decode_field(kind, raw) == value


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1))
def test_a_signed_field_survives_whatever_lies_in_the_upper_bytes(value: int, above: int) -> None:
    raw = (above << 32) | (value & 0xFFFF_FFFF)
    assert decode_field(5, raw) == value
    assert decode_field(1, raw) == value & 0xFFFF_FFFF


def test_a_success_of_the_call_is_not_a_value_of_the_field() -> None:
    assert field_reading(FIELDS["vram_c"], 3, 1, 0) == (None, "not supported")
    assert field_reading(FIELDS["vram_c"], 0, 1, 41) == (41, OK)
    assert field_reading(FIELDS["vram_c"], 0, 7, 41) == (None, "error: value type 7 is not known")
    assert field_reading(FIELDS["vram_c"], 999, 1, 41) == (None, "error: Unknown Error")


def test_units_of_the_fields() -> None:
    assert field_reading(FIELDS["energy_j"], 0, 3, 22695418) == (22695.418, OK)
    assert field_reading(FIELDS["power_capped_ms"], 0, 3, 26780157824) == (26780.158, OK)
    assert field_reading(FIELDS["power_instant_w"], 0, 1, 79153) == (79.153, OK)
    assert field_reading(FIELDS["slowdown_margin_c"], 0, 5, 4294967294) == (-2, OK)
    assert field_reading(FIELDS["recovery"], 0, 1, 0) == ("none", OK)
    assert field_reading(FIELDS["recovery"], 0, 1, 2) == ("reboot the node", OK)
    assert field_reading(FIELDS["recovery"], 0, 1, 77) == ("unknown action 77", OK)


@pytest.mark.parametrize("value", [0, -1, 255, 300])
@pytest.mark.parametrize("metric", ["edge_c", "hotspot_c", "vram_c"])
def test_what_is_no_temperature_is_no_reading(metric: str, value: int) -> None:
    assert checked(metric, value)[0] is None
    assert checked("margin_c", value)[0] == value


@pytest.mark.parametrize(
    ("code", "needs", "driver", "said"),
    [
        (3, 0, 580, "not supported"),
        (2, 615, 580, "needs driver 615 (this is 580)"),
        (2, 615, 620, "error: Invalid Argument"),
        (2, 615, None, "error: Invalid Argument"),
        (13, 0, 580, "the installed driver has no such function"),
        (4, 0, 580, "error: Insufficient Permissions"),
        (4711, 0, 580, "error: NVML code 4711"),
    ],
)
def test_why_a_call_gave_nothing(code: int, needs: int, driver: int | None, said: str) -> None:
    assert status_of(code, needs, driver) == said


def test_a_start_that_failed_says_what_to_do_in_one_line() -> None:
    for code in (4, 9, 12, 18, 999, 4711):
        assert "\n" not in start_failed(code)
        assert start_failed(code)


class TestReasons:
    """Names of the bits that hold the clocks."""

    def test_each_known_bit_has_a_name_of_its_own(self) -> None:
        assert len(set(REASONS.values())) == len(REASONS) == 11
        for bit, name in REASONS.items():
            assert reason_names(bit) == (name,)

    def test_no_bit_is_no_reason(self) -> None:
        assert reason_names(0) == ()

    @given(st.integers(0, 2**64 - 1))
    def test_no_bit_is_ever_dropped(self, bits: int) -> None:
        names = reason_names(bits)
        known = sum(bit for bit, name in REASONS.items() if name in names)
        unknown = next((int(name.split()[1], 16) for name in names if name.startswith("unknown")), 0)
        assert known | unknown == bits
        assert known & unknown == 0

    def test_idle_and_capped(self) -> None:
        assert (is_idle(1), is_idle(4), at_power_cap(4), at_power_cap(0x20)) == (True, False, True, False)
