"""Text that fits its cells exactly, and drawings on fixed axes: measured by the library that draws the terminal."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from infermaxx_tui.core.glyphs import ASCII, UNICODE, Glyphs, bar, cells, fit, nice_ceiling, pad, settle, sparkline

SETS = [UNICODE, ASCII]
HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[31mred",
    "\x9b6n",
    "\u202eevil\u202c",
    "\u2066iso\u2069",
    "[/",
    "[@click=app.quit]go[/]",
    "漢字かな交じり文",
    "👩\u200d💻 👍🏽 🇩🇪 ❤\ufe0f",
    "e\u0301 Z\u0301\u0302\u0303\u0304\u0305algo",
    "\u0301lonely",
    "tab\there\nand\r\nthere\u2028line",
    "ᄒ\u1161\u11ab 한",
    "\ud800 lone",
    "\ufff9interlinear\ufffb \ufeff",
    "a\u00adb\u200bc",
    "\u2630\u4dc0\U0001d300",
]
ANY = st.text(st.characters(blacklist_categories=())) | st.sampled_from(HOSTILE)
STEERING = frozenset(map(chr, [*range(0x20), 0x7F, *range(0x80, 0xA0), 0xAD, 0x200B, 0x200D, 0x2028, 0x202E, 0xFEFF]))


@pytest.mark.parametrize("start", [*range(0, 0x20000, 0x4000), 0x2A600, 0x30000, 0xE0000, 0xF0000, 0x10C000])
def test_every_character_is_as_wide_as_the_terminal_library_says(start: int) -> None:
    for code in range(start, start + 0x4000):
        settled = settle(f"a{chr(code)}b")
        assert cells(settled) == cell_len(settled), hex(code)


@given(ANY)
def test_settled_text_is_one_harmless_line_and_stays_as_it_is(text: str) -> None:
    settled = settle(text)
    assert not STEERING & set(settled)
    assert settle(settled) == settled
    assert cells(settled) == cell_len(settled)
    settled.encode()


@given(ANY)
def test_with_ascii_signs_everything_is_ascii(text: str) -> None:
    settled = settle(text, ASCII)
    assert settled.isascii()
    assert settled.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_not_swallowed(text: str) -> None:
    assert settle(text).strip()


def test_what_terminals_measure_differently_is_shown_by_its_number() -> None:
    assert settle("👍🏽") == "👍‹U+1F3FD›"
    assert settle("\u0301x") == "‹U+0301›x"
    assert settle("❤\ufe0f") == "❤"
    assert settle("o\u0301\u0302\u0303\u0304") == "o\u0301\u0302"


@given(ANY, st.integers(-2, 40), st.sampled_from(SETS))
def test_fit_never_exceeds_its_width_and_marks_what_it_cut(text: str, width: int, glyphs: Glyphs) -> None:
    settled = settle(text, glyphs)
    cut = fit(settled, width, glyphs)
    assert cell_len(cut) <= max(width, 0)
    if cell_len(settled) <= width:
        assert cut == settled
    elif width > 0:
        assert cut.endswith(glyphs.ellipsis)


@given(ANY, st.integers(0, 40), st.booleans(), st.sampled_from(SETS))
def test_pad_is_exact(text: str, width: int, right: bool, glyphs: Glyphs) -> None:
    assert cell_len(pad(settle(text, glyphs), width, glyphs, right)) == width


@given(
    st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=False, width=32), max_size=40),
    st.integers(0, 30),
    st.sampled_from(SETS),
)
def test_a_sparkline_is_exact_and_a_gap_is_no_level(values: list[float | None], width: int, glyphs: Glyphs) -> None:
    line = sparkline(values, width, 0.0, 10.0, glyphs)
    assert len(line) == cell_len(line) == width
    shown = values[-width:] if width else []
    for value, cell in zip(reversed(shown), reversed(line), strict=False):
        missing = value is None or math.isnan(value)
        assert (cell == glyphs.gap) is missing
    assert glyphs.gap not in glyphs.levels


@pytest.mark.parametrize("glyphs", SETS)
def test_the_axis_of_a_sparkline_is_fixed(glyphs: Glyphs) -> None:
    low, high = glyphs.levels[0], glyphs.levels[-1]
    assert sparkline([0.0, 10.0, -5.0, 99.0], 4, 0.0, 10.0, glyphs) == low + high + low + high
    assert sparkline([5.0], 1, 0.0, 100.0, glyphs) == low
    assert sparkline([5.0], 1, 0.0, 5.0, glyphs) == high
    assert sparkline([1.0], 3, 0.0, 2.0, glyphs)[:2] == glyphs.gap * 2


@pytest.mark.parametrize(("lo", "hi"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.nan)])
def test_an_axis_goes_up(lo: float, hi: float) -> None:
    with pytest.raises(ValueError, match="axis"):
        sparkline([1.0], 3, lo, hi, UNICODE)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 40), st.sampled_from(SETS))
def test_a_bar_is_exact_and_grows_with_its_value(value: float, of: float, width: int, glyphs: Glyphs) -> None:
    line = bar(value, of, width, glyphs)
    assert cell_len(line) == width
    assert line.count(glyphs.full) <= bar(value * 2, of, width, glyphs).count(glyphs.full)


@pytest.mark.parametrize("glyphs", SETS)
def test_bars(glyphs: Glyphs) -> None:
    full, empty = glyphs.full, glyphs.empty
    assert bar(None, 10, 4, glyphs) == bar(3, None, 4, glyphs) == bar(3, 0, 4, glyphs) == " " * 4
    assert bar(0, 10, 4, glyphs) == empty * 4
    assert bar(10, 10, 4, glyphs) == bar(99, 10, 4, glyphs) == full * 4
    assert bar(5, 10, 4, glyphs) == full * 2 + empty * 2
    assert bar(5, 10, 4, glyphs, target=7.5) == full * 2 + empty + glyphs.target
    assert bar(5, 10, 4, glyphs, target=10) == bar(5, 10, 4, glyphs, target=0) == full * 2 + empty * 2


@pytest.mark.parametrize(
    ("value", "ceiling"), [(None, 1.0), (0.0, 1.0), (-3.0, 1.0), (0.3, 0.5), (1.0, 1.0), (3, 5), (51, 100), (200, 200)]
)
def test_nice_ceilings(value: float | None, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


@given(st.floats(1e-6, 1e12))
def test_a_ceiling_is_above_and_not_far_above(value: float) -> None:
    assert value <= nice_ceiling(value) * (1 + 1e-12)
    assert nice_ceiling(value) <= value * 2.5 * (1 + 1e-9)


@pytest.mark.parametrize("glyphs", SETS)
def test_every_sign_is_one_cell(glyphs: Glyphs) -> None:
    signs = [*glyphs.levels, glyphs.gap, glyphs.full, glyphs.empty, *glyphs.parts, glyphs.target, glyphs.horizontal]
    signs += [glyphs.vertical, glyphs.cursor, glyphs.ok, glyphs.bad, glyphs.unsure, glyphs.event, glyphs.unread]
    signs += [glyphs.ellipsis, glyphs.dot, glyphs.arrow, *glyphs.phases.values()]
    assert all(len(sign) == 1 and cell_len(sign) == 1 for sign in signs)
    assert (glyphs.name == "ascii") is all(sign.isascii() for sign in signs)
