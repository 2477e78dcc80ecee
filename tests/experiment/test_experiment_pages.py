"""Pages of experiments: whole by themselves, hostile text stays text, and no withheld speed stands anywhere."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import msgspec
import pytest
from experimenttools import LADDER, arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.curves import charts, svg_text
from infermaxx_tui.core.experiment.page import fleet_html, html_text, markdown_text
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.verdict import QualityPhase

_HOSTILE = '<script>alert(1)</script>\x1b[31m|`"&'


def _phase(right: int) -> QualityPhase:
    return QualityPhase(
        phase="before",
        wave=None,
        planned=24,
        right=right,
        wrong=24 - right,
        capped=0,
        error=0,
        not_asked=0,
        fell=0,
        rose=0,
    )


def _pool(tokens: float) -> Measure:
    return Measure(name="pool.tokens", unit="tokens", values=(tokens,))


def _answer(reason: str = "0 of 24 tasks right", question: str = "Which?") -> Answer:
    experiment = parsed()
    good = arm_row(
        experiment,
        "auto",
        0,
        speed(44.0, 45.0),
        speed(17.4, 17.5, depth_tokens=63000),
        speed(300.0, name="aggregate.tokens_per_s"),
        msgspec.structs.replace(speed(900.0, name="aggregate.tokens_per_s"), streams=8),
        _pool(65536),
        quality=(_phase(18),),
    )
    bad = arm_row(
        experiment,
        "fp8",
        0,
        speed(102.66, 103.1),
        speed(99.9, depth_tokens=63000),
        _pool(163840),
        quality=(_phase(0),),
        verdict="FAIL",
        checks={"degeneration": "fail"},
        speed_withheld=reason,
    )
    first = msgspec.structs.replace(first_row(experiment, LADDER), question=question)
    return answer((first, good, bad))


class _Strict(HTMLParser):
    """Which tags there are, and whether all are closed."""

    _VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.urls += [value for name, value in attrs if name in ("src", "href", "xlink:href") and value]
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _read(page: str) -> _Strict:
    parser = _Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_a_page_is_whole_and_fetches_nothing() -> None:
    found = _answer()
    for page in (html_text(found, "folder"), fleet_html((("20261201-x", found),))):
        seen = _read(page)
        assert seen.urls == []
        assert "script" not in seen.seen
        assert "default-src 'none'" in page


def test_a_speed_that_is_withheld_stands_on_no_page_and_its_arm_is_struck_through() -> None:
    found = _answer()
    for text in (
        html_text(found, "f"),
        markdown_text(found, "f"),
        svg_text(found),
        fleet_html((("20261201-x", found),)),
    ):
        assert "102.6" not in text
        assert "102.7" not in text
        assert "99.9" not in text
        assert "0 of 24" in text
    assert 'text-decoration="line-through"' in svg_text(found)
    assert "~~fp8~~" in markdown_text(found, "f")
    assert '<span class="struck">fp8</span>' in html_text(found, "f")


def test_text_that_others_chose_stays_text() -> None:
    found = _answer(reason=_HOSTILE, question=_HOSTILE)
    for text in (html_text(found, _HOSTILE), svg_text(found), fleet_html(((_HOSTILE, found),))):
        assert "<script" not in text
        assert "\x1b" not in text
    _read(html_text(found, _HOSTILE))
    ET.fromstring(svg_text(found))
    rows = [line for line in markdown_text(found, "f").splitlines() if line.startswith("|")]
    cells = {line.replace("\\|", "").count("|") for line in rows}
    assert len(cells) == 1
    assert "\x1b" not in markdown_text(found, _HOSTILE)


def test_each_question_has_its_picture_and_axes_begin_at_zero() -> None:
    titles = {chart.title: chart for chart in charts(_answer())}
    depth = titles["decode of one stream against depth"]
    assert [(point.x, point.y, point.n) for point in depth.curves[0].points] == [(0.0, 44.5, 2), (63000.0, 17.45, 2)]
    assert [curve.name for curve in depth.curves] == ["auto"]
    assert depth.struck == ("fp8: 0 of 24 tasks right",)
    assert [curve.name for curve in titles["speed beside context, with the answers that were right"].curves] == [
        "auto (18 of 24 right)"
    ]
    together = titles["all streams together against how many"]
    assert [point.y for point in together.curves[0].points] == [300.0, 900.0]


@pytest.mark.parametrize("rows", [0, 1])
def test_an_experiment_without_figures_says_so(rows: int) -> None:
    experiment = parsed()
    failed = [arm_row(experiment, "auto", 0, outcome="boot_failed", verdict=None, reason="no such model")][:rows]
    found = answer((first_row(experiment), *failed))
    assert "nothing was measured that a picture could show" in svg_text(found)
    _read(html_text(found, "f"))
    assert "not finished" in html_text(found, "f")
    assert ("no such model" in markdown_text(found, "f")) == bool(rows)
