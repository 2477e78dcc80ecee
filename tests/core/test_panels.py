"""Panels as text: those on record, and what holds for every line at every width whatever the log says."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paneltools import GOLDEN, NAMES, RUNS, SCENARIOS, Seen, golden_texts, log
from rich.cells import cell_len
from test_panels_glyphs import HOSTILE, SETS, STEERING

from infermaxx_tui.core.events import Record, Unknown, decode, encode
from infermaxx_tui.core.glyphs import ASCII, UNICODE, Glyphs
from infermaxx_tui.core.panels import (
    Row,
    RunLine,
    ScenarioLine,
    rows_axis,
    rows_compare,
    rows_feed,
    rows_runs,
    rows_scenarios,
    rows_streams,
    rows_summary,
)
from infermaxx_tui.core.panels.axis import axis_columns

SEEN = {name: Seen(log(name)) for name in NAMES}
_FREE = {
    "label", "content", "reasoning", "tool_args", "error", "detail", "text", "model", "engine", "scenario", "run",
    "degenerate", "finish_reason", "stop_reason", "model_root", "program", "server_id", "gpu",
}  # fmt: skip
"""Fields that a server, a scenario or a stranger fills in."""


_LOGGED = [text for text in HOSTILE if not any("\ud800" <= char <= "\udfff" for char in text)]
"""A log cannot hold half of a character."""


def hostile_log() -> Iterator[Record | Unknown]:
    """The leak's log with every free text replaced, each time by another piece of hostility."""
    for number, record in enumerate(log("leak")):
        assert isinstance(record, Record)
        raw = msgspec.to_builtins(record)
        poison(raw, number)
        made = msgspec.convert(raw, Record)
        yield made


def poison(raw: object, number: int) -> None:
    """Replaces free texts in a parsed line."""
    evil = _LOGGED[number % len(_LOGGED)]
    if isinstance(raw, list):
        for one in raw:
            poison(one, number)
    if not isinstance(raw, dict):
        return
    for key, value in raw.items():
        if key in _FREE and (value or (key in ("error", "degenerate") and number % 7 == 0)):
            raw[key] = f"{evil} {value or ''} {evil}"
        elif key == "missing":
            raw[key] = {f"{name}{evil}": f"{evil}{why}" for name, why in value.items()} | {"gpu": evil}
        elif key == "transcripts" and isinstance(value, list):
            raw[key] = [evil for _ in value]
        else:
            poison(value, number)


EVIL = Seen(hostile_log())


def check(rows: tuple[Row, ...], width: int, glyphs: Glyphs) -> None:
    """What holds for every line of every panel."""
    assert rows
    for row in rows:
        assert cell_len(row.text) <= width, row
        assert row.text == row.text.rstrip()
        assert not STEERING & set(row.text), row
        assert "\ud800" not in row.text
        if glyphs is ASCII:
            assert row.text.isascii(), row
        at = 0
        for start, end, _ in row.spans:
            assert at <= start < end <= len(row.text), row
            at = end


TEXTS = dict(golden_texts())


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_text_is_that_on_record(name: str) -> None:
    """After a change that was meant: `python tests/core/paneltools.py`, and read the difference."""
    assert TEXTS[name] == (GOLDEN / name).read_text(encoding="utf-8")


def test_nothing_is_on_record_that_no_panel_makes() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(TEXTS)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([*SEEN.values(), EVIL]), st.integers(1, 220), st.sampled_from(SETS), st.integers(0, 4_000_000))
def test_every_line_of_every_panel_fits_and_is_harmless(seen: Seen, width: int, glyphs: Glyphs, cursor: int) -> None:
    for _, rows in seen.panels(width, glyphs, cursor):
        check(rows, width, glyphs)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 200), st.sampled_from(SETS), st.sampled_from(HOSTILE))
def test_lists_of_runs_and_scenarios_fit_and_are_harmless(width: int, glyphs: Glyphs, evil: str) -> None:
    runs = (*RUNS, RunLine(evil, evil, evil, evil, evil, False))
    scenarios = (
        *SCENARIOS,
        ScenarioLine(evil, evil, 1, 1, 1, 1, evil),
        ScenarioLine(evil, "", None, None, None, None, None, evil),
    )
    check(rows_runs(runs, width, glyphs), width, glyphs)
    check(rows_runs(runs, width, glyphs, match=f"{evil} nowhere"), width, glyphs)
    check(rows_scenarios(scenarios, width, glyphs), width, glyphs)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 200), st.sampled_from(SETS), st.sampled_from(HOSTILE))
def test_a_comparison_fits_and_is_harmless(width: int, glyphs: Glyphs, evil: str) -> None:
    left = SEEN["healthy"].verdict
    right = msgspec.structs.replace(
        EVIL.verdict, scenario=evil, run=evil, regime=msgspec.structs.replace(left.regime, model=evil, gpu=evil)
    )
    check(rows_compare(left, right, width, glyphs), width, glyphs)
    check(rows_compare(right, right, width, glyphs), width, glyphs)


def test_the_poisoned_log_really_is_hostile() -> None:
    """The tests above prove nothing unless the hostility is in the state that the panels look at."""
    assert any(STEERING & set(entry.text) for entry in EVIL.watch.feed.entries())
    assert any(STEERING & set(recall.label) for recall in EVIL.state.recalls)
    assert EVIL.state.regime is not None
    assert any(STEERING & set(why) for why in EVIL.state.regime.missing.values())
    lines = [encode(record) for record in hostile_log() if isinstance(record, Record)]
    assert all(isinstance(decode(line), Record) for line in lines)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_meaning_stays_without_any_colour(width: int) -> None:
    """A failure is said by a word and a sign wherever a line is marked as bad."""
    for _, rows in SEEN["leak"].panels(width, UNICODE):
        for row in rows:
            bad = [row.text[start:end] for start, end, role in row.spans if role == "bad"]
            for text in bad:
                signs = (UNICODE.bad, "FAIL", "leak", "L", "foreign")
                assert any(sign in row.text for sign in signs), (text, row.text)


def test_an_empty_log_says_what_is_waited_for() -> None:
    seen = Seen([])
    assert [row.text for row in rows_summary(seen.state, None, 80)] == ["waiting for the run's first line"]
    assert [row.text for row in rows_axis(seen.state, None, 80)] == ["no time axis yet"]
    assert [row.text for row in rows_feed(seen.state, (), 80)] == ["nothing has happened yet"]
    assert len(rows_streams(seen.state, None, 80)) == 1
    for _, rows in seen.panels(80, UNICODE):
        check(rows, 80, UNICODE)


@pytest.mark.parametrize("until_us", range(0, 2_400_000, 200_000))
def test_a_run_that_goes_on_can_be_drawn_at_any_moment(until_us: int) -> None:
    seen = Seen(log("leak"), until_us=until_us)
    for width in (40, 80, 130):
        for _, rows in seen.panels(width, UNICODE, until_us):
            check(rows, width, UNICODE)


def test_the_axis_is_asked_for_as_many_buckets_as_it_draws() -> None:
    for width in range(40, 200):
        seen = SEEN["healthy"]
        view = seen.timeline.snapshot(0, 10_000_000, axis_columns(width))
        for row in rows_axis(seen.state, view, width):
            assert cell_len(row.text) <= width
            assert UNICODE.ellipsis not in row.text, row.text
