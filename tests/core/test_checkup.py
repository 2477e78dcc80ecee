"""The page of `doctor`: lines keep their width and steer no terminal; each sensor has its state or its reason."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.checkup import Checkup, Item, State, checkup_lines, checkup_text, of_cards
from infermaxx_tui.core.gpu import FAST, OK, SLOW, GpuCard, GpuProbe


def page(*items: Item) -> Checkup:
    return Checkup(program="infermaxx 1 doctor", url=None, usable=None, items=items, type_next=("infermaxx demo",))


_items = st.builds(
    Item,
    section=st.sampled_from(["host", "server"]),
    name=st.text(max_size=30),
    state=st.sampled_from(get_args(State)),
    said=st.text(max_size=200),
    advice=st.none() | st.text(max_size=200),
)


@given(st.lists(_items, max_size=6), st.integers(10, 200))
def test_lines_steer_no_terminal(items: list[Item], width: int) -> None:
    for line in checkup_lines(page(*items), width):
        assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in line)


@given(st.lists(_items, max_size=6))
def test_the_json_says_the_same(items: list[Item]) -> None:
    made = page(*items)
    assert msgspec.json.decode("\n".join(checkup_text(made)), type=Checkup) == made


def test_words_are_wrapped_under_one_another() -> None:
    lines = checkup_lines(page(Item("host", "thing", "warn", "word " * 40, "do this " * 20)), 80)
    assert max(len(line) for line in lines) <= 80
    assert sum("warn" in line for line in lines) == 1
    assert any("-> do this" in line for line in lines)
    assert lines[-1] == "  infermaxx demo"


def test_a_card_has_each_sensor_or_the_reason() -> None:
    metrics = dict.fromkeys(FAST[:3], OK) | {"hotspot_c": "needs driver 615"}
    card = GpuCard(gpu=0, name="NVIDIA H200", server=None, server_why="no URL was named", metrics=metrics)
    items = of_cards(GpuProbe(source="nvml", driver="580.1", cards=(card,)))
    said = " ".join(item.said for item in items)
    for name in (*FAST, *SLOW):
        assert name in said
    assert "hotspot_c: needs driver 615" in said
    assert "no URL was named" in said


@pytest.mark.parametrize("server", [True, False, None])
def test_whose_a_card_is_stands_there(server: bool | None) -> None:
    items = of_cards(GpuProbe(source="nvml", cards=(GpuCard(gpu=0, server=server),)))
    whose = next(item for item in items if item.name.strip() == "whose")
    assert whose.state == {True: "ok", False: "note", None: "unknown"}[server]


def test_without_a_card_the_reason_and_what_to_do_stand_there() -> None:
    (item,) = of_cards(GpuProbe(source="none", error="no NVIDIA driver here"))
    assert (item.state, item.said) == ("note", "no NVIDIA driver here")
    assert "--gpu-metrics" in (item.advice or "")
