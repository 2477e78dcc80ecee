"""Panels share the screen without gap or overlap, and what was asked for is always there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.tui.arrange import NARROW, PANELS, SHORT, WIDE, Panel, arrange, summary_lines, tiny

sizes = st.tuples(st.integers(41, 250), st.integers(1, 90))
wants = st.dictionaries(st.sampled_from(PANELS), st.integers(0, 100))


@given(sizes, wants, st.sampled_from(PANELS), st.booleans(), st.integers(9, 90))
def test_panels_fill_their_columns_without_overlap(
    size: tuple[int, int], wanted: dict[Panel, int], shown: Panel, alone: bool, screen: int
) -> None:
    width, height = size
    boxes = arrange(width, height, wanted, shown, alone, screen)
    assert shown in boxes
    columns: dict[int, list[tuple[int, int, int]]] = {}
    for box in boxes.values():
        assert box.x >= 0
        assert box.x + box.width <= width
        columns.setdefault(box.x, []).append((box.y, box.height, box.width))
    for column in columns.values():
        at = 0
        for y, lines, _ in sorted(column):
            assert y == at
            assert lines > 0
            at += lines
        assert at == height
        assert len({wide for _, _, wide in column}) == 1
    assert sum(column[0][2] for column in columns.values()) + len(columns) - 1 == width


def test_narrow_shows_one_panel_and_wide_two_columns() -> None:
    assert set(arrange(NARROW - 1, 20, {}, "feed")) == {"feed"}
    assert {box.x for box in arrange(NARROW, 20, {}, "streams").values()} == {0}
    assert len({box.x for box in arrange(WIDE, 40, {}, "streams").values()}) == 2
    assert set(arrange(200, 60, {}, "axis", alone=True)) == {"axis"}


def test_the_promised_size_shows_streams_axis_and_events() -> None:
    boxes = arrange(80, 24 - 2 - summary_lines(80, 24), {"streams": 5, "axis": 9}, "streams", screen_height=24)
    assert list(boxes) == ["streams", "axis", "feed"]


def test_on_a_short_screen_the_chart_goes_first_then_the_sensors() -> None:
    shown = [set(arrange(80, height, {}, "streams", screen_height=SHORT - 1)) for height in (22, 17, 12, 8)]
    assert shown[0] == set(PANELS)
    assert "axis" not in shown[1]
    assert "machine" in shown[1]
    assert shown[3] == {"streams", "feed"}


def test_tiny_is_a_status_line_alone() -> None:
    assert tiny(40, 8)
    assert tiny(200, 8)
    assert tiny(40, 50)
    assert not tiny(41, 9)
    assert summary_lines(40, 8) == 0
