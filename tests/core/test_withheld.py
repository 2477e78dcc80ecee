"""No view and no file shows the speed of a run whose gate failed, and each shows it where the gate passed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from paneltools import Seen

from infermaxx_tui.core import events as e
from infermaxx_tui.core.comparison import comparison_text
from infermaxx_tui.core.glyphs import UNICODE
from infermaxx_tui.core.histories.bases import BASES
from infermaxx_tui.core.histories.edits import Lines, each, limits, without
from infermaxx_tui.core.mutation_table import MUTATIONS
from infermaxx_tui.core.panels.compare import comparison_lines
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.rows import status_line
from infermaxx_tui.core.stats import LogHistogram
from infermaxx_tui.core.verdict import verdict_bytes

_replace = msgspec.structs.replace
_GAP_MS = 77.7
_SPEED = re.compile(
    r"\b4,?321\b|\b17,?284\b|\b17\.[23]\d*k\b"  # tokens a second of one stream and of all four
    r"|\b0-(?:5000|20000)\b"  # the scales of their curves
    r"|\b7[78]\.\d+|\b7[78] ms"  # the gap
    r"|\b26/s\b|\b38\.\d+ ms"  # a turn's own
)
"""What the speeds of the run below look like in any view."""


def _run(*, fails: bool, over: bool) -> Lines:
    """A run with conspicuous speeds, which answers its tasks rightly or wrongly under load."""
    lines = limits(max_ttft_p99_ms=None, max_gap_p99_ms=None)(BASES["tasks"]())
    for edit in (
        each(e.Beat, lambda x: _replace(x, tokens=(4321,) * 4, gap_buckets=((LogHistogram.bucket(_GAP_MS), 80),))),
        each(e.RequestEnded, lambda x: _replace(x, decode_ms=731.0) if x.kind == "turn" else x),
        *([MUTATIONS["answer wrongly under load"].edit] if fails else []),
        *([] if over else [without(e.RunEnded)]),
    ):
        lines = edit(lines)
    return lines


def _views(lines: Lines) -> Iterator[tuple[str, str]]:
    seen = Seen(lines)
    for width in (100, 300):
        for name, rows in seen.panels(width, UNICODE):
            yield f"panel {name}", "\n".join(one.text for one in rows)
    yield "follow line", status_line(seen.state, 400)
    yield "verdict lines", "\n".join(verdict_lines(seen.verdict))
    yield "verdict.json", verdict_bytes(seen.verdict).decode()
    yield "compare", "\n".join(comparison_lines([seen.verdict, seen.verdict], 200))
    yield "compare --json", "\n".join(comparison_text([seen.verdict, seen.verdict]))


def _speaking(lines: Lines) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in _views(lines):
        found.setdefault(name, []).extend(_SPEED.findall(text))
    return {name: some for name, some in found.items() if some}


@pytest.mark.parametrize("over", [False, True], ids=["live", "over"])
def test_no_view_shows_a_withheld_speed(over: bool) -> None:
    assert Seen(_run(fails=True, over=over)).verdict.speed_withheld == "the quality gate failed"
    assert _speaking(_run(fails=True, over=over)) == {}


def test_the_same_views_show_it_where_the_gate_passed() -> None:
    live, over = (set(_speaking(_run(fails=False, over=one))) for one in (False, True))
    drawn = {"panel summary", "panel streams", "panel axis", "panel session", "panel verdict"}
    assert {*drawn, "follow line", "verdict lines", "verdict.json", "compare"} <= live
    assert {*drawn, "verdict lines", "verdict.json", "compare"} <= over
