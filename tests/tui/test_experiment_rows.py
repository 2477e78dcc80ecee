"""Rows of experiments: nothing is lost for want of room, nothing withheld is drawn, nothing steers a terminal."""

from __future__ import annotations

import re
import subprocess
import sys

import msgspec
import pytest
from experimentrows import ORDER, arm_row, began, first_row, refused, whole
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.cells import Cell, Table
from infermaxx_tui.core.experiment.curves import Chart, Curve, Point, charts
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.table import arms_table
from infermaxx_tui.core.glyphs import ASCII, UNICODE, Glyphs, cells
from infermaxx_tui.core.panels.experiment_answer import rows_answer
from infermaxx_tui.core.panels.experiment_chart import rows_chart, rows_charts
from infermaxx_tui.core.panels.experiment_starts import live, rows_starts, starts_of
from infermaxx_tui.core.panels.experiment_table import HEAD_LINES, last_first, part_of
from infermaxx_tui.core.panels.experiments import ExperimentLine, FileLine, rows_experiments, tally
from infermaxx_tui.core.panels.row import Row
from infermaxx_tui.tui.arrange import shares
from infermaxx_tui.tui.experiment_places import EXPERIMENT_PANELS, ExperimentPanel, places

HOSTILE = "x\x1b]52;c;aGk=\x07\x1b[31m\x9b6n\u202eevil\u200b\r\n\ttab"
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
GLYPHS = st.sampled_from([UNICODE, ASCII])
TEXTS = st.one_of(st.text(max_size=60), st.just(HOSTILE), st.just("moved +99.5 % (+99.1 % to +99.9 % at 95 %)"))


def said(rows: tuple[Row, ...]) -> str:
    return "\n".join(row.text for row in rows)


def sound(rows: tuple[Row, ...], width: int, glyphs: Glyphs) -> None:
    """What holds of every row of every panel."""
    for row in rows:
        assert cells(row.text) <= width
        assert not STEERING.search(row.text)
        assert glyphs.name == "unicode" or row.text.isascii()
        assert all(0 <= start < end <= len(row.text) for start, end, _ in row.spans)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    columns = draw(st.integers(1, 7))
    made = st.builds(Cell, TEXTS, TEXTS, st.booleans())
    rows = draw(st.lists(st.tuples(*[made] * columns), max_size=5))
    return Table(tuple(draw(st.lists(TEXTS, min_size=columns, max_size=columns))), tuple(rows))


@given(tables(), st.integers(1, 160), GLYPHS, st.integers(-2, 9), st.integers(1, 2))
@settings(max_examples=80, deadline=None)
def test_any_table_is_drawn_at_any_width(table: Table, width: int, glyphs: Glyphs, first: int, stay: int) -> None:
    part = part_of(table, width, glyphs, first, stay)
    sound(part.rows, width, glyphs)
    assert len(part.rows) >= HEAD_LINES
    keys = [row.key for row in part.rows[HEAD_LINES:]]
    assert len(keys) == len(set(keys)), "a key for each line, so that the cursor stays on it"


@given(tables(), st.integers(40, 160))
@settings(max_examples=40, deadline=None)
def test_every_column_can_be_reached(table: Table, width: int) -> None:
    seen: set[int] = set()
    for first in range(last_first(table, width) + 1):
        part = part_of(table, width, first=first)
        seen |= set(range(part.first, part.after))
        assert bool(part.note()) == (part.after - part.first < part.moving)
    assert seen == set(range(len(table.head) - 1))


def test_the_table_at_80_cells_keeps_the_arm_and_moves_the_rest() -> None:
    table = arms_table(answer(whole()))
    left = part_of(table, 80)
    right = part_of(table, 80, first=last_first(table, 80))
    for part in (left, right):
        text = said(part.rows)
        assert all(name in text for name in ("auto", "fp8", "✗ turbo"))
    assert "FAIL (quality)" in said(left.rows)
    assert "pool.tokens" in said(right.rows)
    assert "400,000" in said(right.rows)
    assert "99" not in said(left.rows).replace("199", "")
    struck = {row.text[start:end] for row in left.rows for start, end, role in row.spans if role == "struck"}
    assert "✗ turbo" in struck


def test_a_speed_that_is_withheld_is_nowhere_and_its_arm_is_struck_through() -> None:
    found = answer(whole())
    for width in (50, 80, 140):
        rows = (
            *rows_charts(charts(found), width),
            *rows_answer(answer_lines(found), width),
            *(row for first in range(8) for row in part_of(arms_table(found), width, first=first).rows),
        )
        text = said(rows)
        for speed in ("99 ", "100.98", "79.2", "49.5", "99.99"):
            assert speed not in text
        struck = [row.text[start:end] for row in rows for start, end, role in row.spans if role == "struck"]
        assert any("0 of 24 tasks right" in one for one in struck)
        assert any("withheld" in one for one in struck)


def chart(*curves: Curve, joined: bool = True, struck: tuple[str, ...] = ()) -> Chart:
    return Chart(title="decode against depth", x="tokens", y="tokens/s", curves=curves, joined=joined, struck=struck)


def test_a_curve_falls_from_left_to_right_and_small_letters_were_taken_once() -> None:
    rows = rows_chart(
        chart(
            Curve("none", ((Point(0, 50, 49, 51, 3), Point(8000, 10, 10, 10, 3)),)),
            Curve("A", ((Point(0, 20, 20, 20, 1), Point(8000, 10, 10, 10, 1)),)),
        ),
        80,
    )
    text = said(rows)
    lines = [row.text for row in rows]
    top = next(at for at, line in enumerate(lines) if "B" in line and "│" in line)
    meeting = next(at for at, line in enumerate(lines) if "*" in line)
    assert top < meeting
    assert lines[top].index("B") < lines[meeting].index("*")
    assert " a" in text or "│a" in text
    assert "B none: 50 at 0 (n 3), 10 at 8,000 (n 3)" in text
    assert "A A: 20 at 0 (n 1), 10 at 8,000 (n 1)" in text, (
        "no other arm has the letter of an arm that is called by one"
    )
    assert "taken once" in text
    assert "·" in text
    assert said(rows_chart(chart(Curve("none", ((Point(0, 50, 49, 51, 3),),))), 80, ASCII)).isascii()


def test_figures_of_two_probes_are_not_joined_and_the_legend_says_which_stand_apart() -> None:
    left, right = Point(0, 50, 50, 50, 3), Point(8000, 10, 10, 10, 3)
    apart = rows_chart(chart(Curve("a", ((left,), (right,)))), 80)
    assert not any("·" in row.text for row in apart)
    assert "A a: 50 at 0 (n 3); apart: 10 at 8,000 (n 3)" in said(apart)
    assert "taken by another probe, at another time" in said(apart)
    unknown = said(rows_chart(chart(Curve("a", ((left,), (right,)), known=False)), 80))
    assert "an older version noted these" in unknown
    assert "apart" not in said(rows_chart(chart(Curve("a", ((left, right),))), 80))


def test_an_arm_without_a_speed_is_a_cross_at_its_context_and_sessions_are_lines() -> None:
    found = msgspec.structs.replace(
        chart(Curve("none (18 of 24 right)", ((Point(65_536, 44, 43, 45, 3),),)), joined=False),
        crossed=(("both (0 of 24 right)", 163_840.0),),
        marks=(("largest session", 106_767.0),),
    )
    lines = [row.text for row in rows_chart(found, 80)]
    bottom = next(line for line in lines if line.strip().startswith("0 │"))
    place = next(line for line in lines if "A" in line).index("A")
    assert place < bottom.index("·") < bottom.index("✗")
    assert "✗ both (0 of 24 right): no speed at 163,840" in lines
    assert "· largest session 106,767" in lines
    alone = msgspec.structs.replace(found, curves=())
    assert "✗" in said(rows_chart(alone, 80))
    assert said(rows_chart(found, 80, ASCII)).isascii()


def test_a_chart_without_points_says_so_and_axes_begin_at_nothing() -> None:
    assert "not measured" in said(rows_chart(chart(struck=("A: 0 of 24 right",)), 80))
    assert "✗ A: 0 of 24 right" in said(rows_chart(chart(struck=("A: 0 of 24 right",)), 80))
    assert "nothing was measured" in said(rows_charts((), 80))
    lines = [row.text for row in rows_chart(chart(Curve("a", ((Point(0, 1000, 990, 1010, 2),),))), 60)]
    assert any(line.strip().startswith("0 │") for line in lines)
    assert any("1,200" in line for line in lines)


VALUES = st.one_of(st.floats(-1e300, 1e300), st.sampled_from([0.0, 1e-300, 1e300]))


@given(
    st.lists(
        st.builds(
            Curve,
            TEXTS,
            st.lists(
                st.lists(st.builds(Point, VALUES, VALUES, VALUES, VALUES, st.integers(1, 9)), max_size=4).map(tuple),
                max_size=3,
            ).map(tuple),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.integers(1, 200),
    GLYPHS,
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_any_chart_is_drawn_at_any_width(curves: list[Curve], width: int, glyphs: Glyphs, joined: bool) -> None:
    sound(rows_chart(chart(*curves, joined=joined, struck=(HOSTILE,)), width, glyphs), width, glyphs)


def test_starts_say_what_came_of_them() -> None:
    rows = (first_row(), arm_row("auto", 0, 0), refused("fp8", 0, 1), began("turbo", 0, "20300102-030405-demo-a1b2"))
    going, over = starts_of(rows, True), starts_of(rows, False)
    assert [one.state for one in going] == ["judged", "not judged", "going on", "to come", "to come", "to come"]
    assert over[2].state == "broken off"
    now = live(going)
    assert now is not None
    assert (now.arm, now.word, now.run) == ("turbo", "running", "20300102-030405-demo-a1b2")
    assert live(over) is None
    assert starts_of((first_row(), began("auto", 0, None)), True)[0].word == "starting its server"
    assert starts_of((), True) == ()
    text = said(rows_starts(going, 100))
    for word in ("✓ PASS", "boot failed", "invalid choice", "running", "to come"):
        assert word in text
    assert [row.key for row in rows_starts(going, 80)][1:] == [f"{place}" for place in range(len(ORDER))]


def test_a_start_that_was_done_again_counts_as_it_came_out_last() -> None:
    rows = (
        first_row(),
        arm_row("auto", 0, 0, outcome="interrupted", verdict=None),
        began("auto", 0, None),
        arm_row("auto", 0, 0),
    )
    assert starts_of(rows, False)[0].state == "judged"


def test_the_tally_names_the_gravest_first() -> None:
    assert (
        tally(("PASS", "FAIL", "PASS", "boot_failed", "INCONCLUSIVE"))
        == "1 FAIL, 1 INCONCLUSIVE, 1 boot failed, 2 PASS"
    )
    assert tally(()) == "nothing yet"


@given(TEXTS, TEXTS, st.integers(1, 160), GLYPHS, st.text(max_size=4))
@settings(max_examples=80, deadline=None)
def test_the_list_is_sound_at_any_width(text: str, other: str, width: int, glyphs: Glyphs, match: str) -> None:
    line = ExperimentLine(id=text, when=text, name=other, state="finished", done=1, planned=2, words=(text,))
    broken = msgspec.structs.replace(line, state="unreadable", problem=text)
    files = (
        FileLine(name=text, command=text, question=other, starts=3),
        FileLine(name=text, command=text, problem=other),
    )
    sound(rows_experiments((line, broken), files, width, glyphs, match), width, glyphs)


def test_the_list_keeps_what_matches_and_says_if_nothing_does() -> None:
    line = ExperimentLine(
        id="1-ladder", when="2030", name="ladder", state="finished", words=("PASS",), planned=2, done=2
    )
    file = FileLine(name="identity", command="infermaxx experiment identity", question="Does it repeat itself?")
    assert "1-ladder" in [row.key for row in rows_experiments((line,), (file,), 80, match="PASS")]
    only = rows_experiments((line,), (file,), 80, match="REPEAT")
    assert [row.key for row in only] == [None, None, "infermaxx experiment identity"]
    assert "no experiment matches REPEAT" in said(only)
    assert "no experiments yet" in said(rows_experiments((), (), 80))


@pytest.mark.parametrize("shown", EXPERIMENT_PANELS)
@given(st.integers(1, 250), st.integers(1, 80), st.integers(0, 60), st.integers(0, 60), st.booleans())
@settings(max_examples=40, deadline=None)
def test_panels_have_room_and_do_not_overlap(
    shown: ExperimentPanel, width: int, height: int, arms: int, starts: int, alone: bool
) -> None:
    boxes = places(width, height, {"arms": arms, "starts": starts}, shown, alone)
    assert shown in boxes
    taken: set[tuple[int, int]] = set()
    for box in boxes.values():
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= width
        assert box.y + box.height <= height
        field = {(x, y) for x in range(box.x, box.x + box.width) for y in range(box.y, box.y + box.height)}
        assert not field & taken
        taken |= field
    if alone:
        assert set(boxes) == {shown}


@given(st.integers(1, 100), st.lists(st.integers(3, 60), min_size=1, max_size=4))
def test_lists_share_all_lines_and_none_is_a_stub(height: int, wanted: list[int]) -> None:
    lines = shares(height, wanted)
    assert sum(lines) == height
    assert all(line == 0 or line >= 3 for line in lines[1:])
    if height >= sum(wanted):
        assert all(got >= want for got, want in zip(lines, wanted, strict=True))


@pytest.mark.parametrize(
    ("module", "strangers"),
    [
        ("infermaxx_tui.tui.app", "infermaxx_tui.core.experiment infermaxx_tui.experiment"),
        (
            "infermaxx_tui.tui.screens.experiment",
            "infermaxx_tui.launch infermaxx_tui.follow infermaxx_tui.experiment.conduct infermaxx_tui.runner",
        ),
    ],
)
def test_what_is_not_needed_is_not_loaded(module: str, strangers: str) -> None:
    program = f"import sys, {module}; print(sorted(set('{strangers}'.split()) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
