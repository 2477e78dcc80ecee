"""Pages of experiments: whole by themselves, hostile text stays text, and no withheld speed stands anywhere."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import msgspec
import pytest
from experimenttools import LADDER, arm_row, first_row, parsed, speed
from phases import marks

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.cells import markdown_table
from infermaxx_tui.core.experiment.curves import charts
from infermaxx_tui.core.experiment.fleet import fleet_table
from infermaxx_tui.core.experiment.holds import holds_table
from infermaxx_tui.core.experiment.page import fleet_html, html_text, markdown_text
from infermaxx_tui.core.experiment.svg import chart_svg, svg_text
from infermaxx_tui.core.experiment.table import arms_table
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.probe_fit import REFUSED, SERVED
from infermaxx_tui.core.reached import RegimeReached

_HOSTILE = '<script>alert(1)</script>\x1b[31m|`"&'


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
        quality=(marks(18),),
    )
    bad = arm_row(
        experiment,
        "fp8",
        0,
        speed(102.66, 103.1),
        speed(99.9, depth_tokens=63000),
        _pool(163840),
        quality=(marks(0),),
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
    text = markdown_text(found, _HOSTILE)
    assert "\x1b" not in text
    prose = "".join(text.split("```")[::2])
    assert "script" in prose
    assert "<script" not in prose, "outside of the block of code a reader of Markdown may take it for markup"


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


def _two_probes(first: int | None, second: int | None) -> Answer:
    """Two depths by one probe, and the second one and a third by another, in two starts."""
    experiment = parsed()

    def taken(*values: float, depth_tokens: int, probe: int | None) -> Measure:
        return msgspec.structs.replace(speed(*values, depth_tokens=depth_tokens), probe=probe)

    rows = [
        arm_row(
            experiment,
            "auto",
            boot,
            taken(40 + boot, 41 + boot, depth_tokens=0, probe=first),
            taken(30 + boot, 31 + boot, depth_tokens=16384, probe=first),
            taken(20 + boot, 21 + boot, depth_tokens=16384, probe=second),
            taken(10 + boot, 11 + boot, depth_tokens=63000, probe=second),
        )
        for boot in range(2)
    ]
    return answer((first_row(experiment), *rows))


def _joined(svg: str) -> list[int]:
    """Points of each line that is drawn."""
    return sorted(len(part.split('"')[0].split()) for part in svg.split('points="')[1:])


def test_only_what_one_probe_took_turn_by_turn_is_joined_and_the_rest_is_said_to_stand_apart() -> None:
    found = _two_probes(0, 1)
    why = "taken by another probe, at another time of the run"
    listed = "41 at 0 (n 4), 31 at 16,384 (n 4); apart: 21 at 16,384 (n 4), 11 at 63,000 (n 4)"
    assert _joined(svg_text(found)) == [2, 2]
    for text in (svg_text(found), html_text(found, "f"), markdown_text(found, "f")):
        assert why in text
    assert listed in markdown_text(found, "f")
    together = _two_probes(0, 0)
    assert _joined(svg_text(together)) == [3]
    assert why not in svg_text(together) + html_text(together, "f") + markdown_text(together, "f")


def test_where_nobody_knows_which_probe_took_a_figure_nothing_is_joined() -> None:
    found = _two_probes(None, None)
    assert _joined(svg_text(found)) == []
    for text in (svg_text(found), html_text(found, "f"), markdown_text(found, "f")):
        assert "an older version noted these" in text


def test_a_figure_that_was_taken_once_has_a_badge_and_each_table_its_regime() -> None:
    found = _answer()
    page = html_text(found, "f")
    assert '65,536 <span class="badge">n 1</span>' in page
    assert "44.50 <span" not in page
    assert "measured on no start gave a regime" in page
    assert "65,536 **n 1**" in markdown_text(found, "f")
    assert "decode.tokens_per_s @0, tokens/s" in page
    assert "taken once (n 1), so nobody knows its spread" in svg_text(found)


def test_a_difference_of_one_start_a_side_says_so_in_the_table_too() -> None:
    experiment = parsed()
    rows = [arm_row(experiment, arm, 0, speed(rate, rate + 0.1)) for arm, rate in (("auto", 44.0), ("fp8", 50.0))]
    table = [
        line
        for line in markdown_text(answer((first_row(experiment), *rows)), "f").splitlines()
        if line.startswith("| fp8")
    ]
    assert "moved +13.6 %, one start (" in table[0]


def test_what_no_arm_has_a_value_of_has_no_column_and_a_reason_is_no_wall_of_text() -> None:
    experiment = parsed()
    why = "the client lagged: " + "x" * 100
    void, only = speed(name="turns.gap_p50_ms", depth_tokens=None), speed(name="ttft.cold_ms", depth_tokens=None)
    nothing = msgspec.structs.replace(void, reason=why)
    rows = [
        arm_row(experiment, "auto", 0, speed(44, 45), nothing, msgspec.structs.replace(only, values=(9.0,))),
        arm_row(experiment, "fp8", 0, speed(44, 45), nothing, msgspec.structs.replace(only, reason=why)),
    ]
    found = answer((first_row(experiment), *rows))
    table = arms_table(found)
    assert table.head[4] == "decode.tokens_per_s @0, tokens/s", "first what most look for"
    assert [head.partition(" ")[0] for head in table.head[4:]] == ["decode.tokens_per_s", "ttft.cold_ms,"]
    assert (table.rows[1][5].text, table.rows[1][5].below[-2:]) == ("n/a", "x…")
    assert why in markdown_text(found, "f")


def test_replies_that_were_cut_stand_beside_the_right_ones_and_are_not_wrong() -> None:
    cut = msgspec.structs.replace(marks(6), wrong=0, capped=18)
    experiment = parsed()
    found = answer((first_row(experiment), arm_row(experiment, "auto", 0, speed(44, 45), quality=(cut,))))
    assert "6 of 24 right, 18 cut" in html_text(found, "f")
    assert "6 of 24 right, 18 cut" in markdown_text(found, "f")


def test_names_beside_a_picture_have_room_and_an_arm_without_a_speed_is_a_cross_at_its_context() -> None:
    found = _answer()
    worth = charts(found)[-1]
    assert worth.y == "tokens/s at 0 tokens"
    assert worth.crossed == (("fp8 (0 of 24 right)", 163840.0),)
    svg = chart_svg(worth)
    assert "auto (18 of 24 right)</text>" in svg
    assert svg.count('<path class="mark"') == 2
    long = msgspec.structs.replace(worth.curves[0], name="turboquant_k3v4_nc (48 of 48 right)")
    drawn = chart_svg(msgspec.structs.replace(worth, curves=(long,)))
    x = float(next(part for part in drawn.split("<text") if long.name in part).split('x="')[1].split('"')[0])
    assert x + 7 * len(long.name) <= 960


def _ladder(served: Measure, refused: Measure) -> Answer:
    experiment = parsed()
    first = msgspec.structs.replace(
        first_row(experiment),
        peaks_tokens=(106_767, 12_000, 105_794, 49_867),
        peaks_names=("deepest", "small", "near", "middle"),
        peaks_by="shipped",
    )
    regime = RegimeReached(pool_tokens=65_536, max_model_len=65_536)
    wide = RegimeReached(pool_tokens=163_840, max_model_len=131_072)
    whole = Measure(name=SERVED, unit="tokens", values=(106_760.0,))
    return answer(
        (
            first,
            arm_row(experiment, "auto", 0, _pool(65536), served, refused, regime=regime),
            arm_row(experiment, "fp8", 0, _pool(163840), whole, regime=wide),
        )
    )


def test_each_rung_says_session_by_session_what_its_pool_holds_and_what_was_really_served() -> None:
    found = _ladder(
        Measure(name=SERVED, unit="tokens", values=(49_860.0,)),
        Measure(name=REFUSED, unit="tokens", values=(105_794.0,)),
    )
    table = holds_table(found)
    assert table is not None
    rows = {row[0].text: [(cell.text, cell.below) for cell in row[1:]] for row in table.rows}
    assert list(rows)[2:6] == ["deepest", "near", "middle", "small"]
    assert rows["deepest"] == [("exceeds, x 1.63", ""), ("clears", "served: 106,760 tokens, 1 of 1 starts")]
    assert rows["near"] == [("exceeds, x 1.61", "refused: 105,794 tokens, 1 of 1 starts"), ("clears", "")]
    assert rows["middle"] == [("clears", "served: 49,860 tokens, 1 of 1 starts"), ("clears", "")]
    assert rows["clear it alone"] == [("2 of 4", ""), ("4 of 4", "")]
    assert rows["fit together"] == [("2 of 4", ""), ("2 of 4", "")]
    said = markdown_text(found, "f")
    assert "2 of 4 real sessions clear a pool of 65,536 tokens alone" in said
    assert "over it: deepest 106,767, near 105,794" in said
    assert "served: a request of 49,860 tokens, as long as middle (1 of 1 starts)" in said
    assert "Sessions that the pools hold" in html_text(found, "f")
    _read(html_text(found, "f"))


def test_a_prompt_that_was_not_served_proves_nothing_and_the_table_says_so() -> None:
    why = "a session of 49,867 tokens should fit, and ended too_long: HTTP 400"
    found = _ladder(
        Measure(name=SERVED, unit="tokens", reason=why), Measure(name=REFUSED, unit="tokens", reason="not sent")
    )
    assert f"not proved by a served prompt: {why}" in markdown_text(found, "f")
    assert f"not proved: {why}" in html_text(found, "f")


def test_a_prompt_of_another_size_proves_nothing_of_a_session() -> None:
    """A probe may have sizes of its own, and a start another pool; the middle of two prompts was sent by nobody."""
    found = _ladder(
        Measure(name=SERVED, unit="tokens", values=(49_860.0, 12_000.0), planned=2),
        Measure(name=REFUSED, unit="tokens", values=(106_767.0,)),
    )
    said = markdown_text(found, "f")
    assert "served: a request of 49,860 tokens, as long as middle (1 of 2 starts)" in said
    assert "not proved by a refused prompt: the prompt that was refused had 106,767 tokens" in said
    small = _ladder(
        Measure(name=SERVED, unit="tokens", values=(12_000.0,)),
        Measure(name=REFUSED, unit="tokens", reason="a session of 105,794 tokens ended shed: HTTP 503"),
    )
    assert "not proved by a served prompt: the prompt that was served had 12,000 tokens" in markdown_text(small, "f")
    assert "not proved by a refused prompt: a session of 105,794 tokens ended shed" in markdown_text(small, "f")
    assert "not proved: the prompt that was served had 12,000 tokens" in html_text(small, "f")


def test_the_fleet_has_no_empty_columns_and_names_each_experiment_once() -> None:
    found = _answer()
    table = fleet_table((("20261202-x", found), ("20261201-x", found)))
    assert [head for head in table.head if "TTFT" in head] == []
    assert len(table.rows) == 2
    auto = dict(zip(table.head, table.rows[0], strict=True))
    assert auto["decode, tokens/s"].text == "44.5 @0 (44 to 45, n 2); 17.45 @63,000 (17.4 to 17.5, n 2)"
    assert (auto["pool, tokens"].text, auto["pool, tokens"].badge) == ("65,536", "n 1")
    assert auto["when"].text == "2026-12-02"
    rows = tuple(msgspec.structs.replace(row, simulated=True) for row in found.arms[0].rows)
    played = msgspec.structs.replace(found, arms=(msgspec.structs.replace(found.arms[0], rows=rows), *found.arms[1:]))
    assert '<div class="banner">SIMULATED: ladder</div>' in fleet_html((("a", played), ("b", played)))


@pytest.mark.parametrize("rows", [0, 1])
def test_an_experiment_without_figures_says_so(rows: int) -> None:
    experiment = parsed()
    failed = [arm_row(experiment, "auto", 0, outcome="boot_failed", verdict=None, reason="no such model")][:rows]
    found = answer((first_row(experiment), *failed))
    assert "nothing was measured that a picture could show" in svg_text(found)
    _read(html_text(found, "f"))
    assert "not finished" in html_text(found, "f")
    assert ("no such model" in markdown_text(found, "f")) == bool(rows)


def test_a_table_that_is_read_alone_says_what_takes_a_figure_or_a_lever_its_meaning() -> None:
    experiment = parsed()
    forced = msgspec.structs.replace(speed(44.0, 45.0), note="replies of 12 tokens, of 256 wanted")
    seen = RegimeReached(kv_cache_dtype="auto")
    rows = [
        arm_row(experiment, "auto", 0, speed(44.0, 45.0), regime=seen),
        arm_row(experiment, "fp8", 0, forced, regime=msgspec.structs.replace(seen, engine="other", dtype="half")),
    ]
    found = answer((first_row(experiment), *rows))
    fleet = fleet_html((("20261201-x", found),))
    for text in (html_text(found, "f").split("Each arm in words")[0], "\n".join(markdown_table(arms_table(found)))):
        assert "CONFOUNDED, LEVER NOT SEEN" in text
        assert "replies of 12 tokens, of 256 wanted" in text
    assert "replies of 12 tokens, of 256 wanted" in fleet
    plain = answer((first_row(experiment), rows[0], msgspec.structs.replace(rows[0], arm="fp8", regime=None)))
    assert "CONFOUNDED" not in "\n".join(markdown_table(arms_table(plain)))
