"""Display text: whatever a server sends, nothing of it steers a terminal, and what was there can still be seen."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.display import excerpt, harmless, one_line

HOSTILE = {
    "\x1b[31m": "␛[31m",
    "\x00": "␀",
    "\x07": "␇",
    "\r": "␍",
    "\x7f": "␡",
    "\x9b6n": "‹U+009B›6n",
    "\x85": "‹U+0085›",
    "\u202e": "‹U+202E›",
    "\u2066": "‹U+2066›",
    "\u2069": "‹U+2069›",
    "\u200b": "‹U+200B›",
    "\u200d": "‹U+200D›",
    "\ufeff": "‹U+FEFF›",
    "\u2028": "‹U+2028›",
    "\ud83d": "‹U+D83D›",
    "\U000e0041": "‹U+E0041›",
}
any_text = st.text(st.characters(codec=None, categories=None))


@pytest.mark.parametrize("raw", HOSTILE)
def test_each_hostile_character_is_shown(raw: str) -> None:
    assert harmless(f"a{raw}z") == f"a{HOSTILE[raw]}z"


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines\tand a tab", "漢字 ümlaut é", "🎉", "[red]not markup[/red]", "↯ ─ █"]
)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == text


@given(any_text)
def test_nothing_that_steers_is_left_and_nothing_is_lost(text: str) -> None:
    shown = harmless(text)
    for char in shown:
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(char) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    assert harmless(shown) == shown
    assert shown.encode("utf-8").decode("utf-8") == shown
    kept = [c for c in text if harmless(c) == c]
    rest = iter(shown)
    assert all(c in rest for c in kept)


@given(any_text, st.integers(1, 60))
def test_one_line_is_one_line_of_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line
    assert "\t" not in line
    if len(" ".join(harmless(text).split())) > width:
        assert line.endswith("…")


@given(st.text(max_size=600), st.integers(0, 560), st.integers(40, 240))
def test_an_excerpt_holds_what_it_is_around(text: str, at: int, width: int) -> None:
    around = text[at : at + 9]
    cut = excerpt(text, around, width)
    assert len(cut) <= width
    assert around in cut
    if len(text) <= width:
        assert cut == text


def test_an_excerpt_marks_what_was_cut() -> None:
    text = "a" * 100 + "KEY" + "b" * 100
    assert excerpt(text, "KEY", 43).startswith("…")
    assert excerpt(text, "KEY", 43).endswith("…")
    assert excerpt(text, "", 43) == "a" * 41 + "…"
    assert excerpt(text, "not there", 43) == "a" * 41 + "…"
