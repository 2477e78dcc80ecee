"""What was drafted: a quotient of sums with its coverage, in words, table and pages; a reason where there is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from experimenttools import arm_row, first_row, parsed

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.drafted import drafting
from infermaxx_tui.core.experiment.figures import figures
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.page import html_text, markdown_text
from infermaxx_tui.core.experiment.rows import AnyRow, decode_rows, encode_row
from infermaxx_tui.core.experiment.table import arms_table
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.server_seen import ServerSeen
from infermaxx_tui.core.verdict import Verdict, read_verdict

_PASS = Path(__file__).parents[1] / "golden" / "verdict-pass.json"
_ARMS = """
name = "spec"
question = "What does drafting bring?"
[server]
launch = ["vllm", "serve", "m", "--port", "8000"]
[[arms]]
name = "off"
[[arms]]
name = "on"
parent = "off"
flags = { "speculative-config" = '{"method": "ngram"}' }
"""


def _verdict(speculative: str | None = None, **server: object) -> Verdict:
    verdict = read_verdict(_PASS.read_bytes())
    regime = msgspec.structs.replace(verdict.regime, speculative=speculative)
    seen = msgspec.structs.replace(ServerSeen(readings=9), **server)
    return msgspec.structs.replace(verdict, regime=regime, server=seen)


def _drafts(drafts: int, drafted: int, accepted: int, generated: int, *at: int) -> Verdict:
    return _verdict(
        "ngram, 3 tokens",
        drafts=drafts,
        draft_tokens=drafted,
        accepted_tokens=accepted,
        generation_tokens=generated,
        accepted_at=at,
        acceptance=accepted / drafted,
    )


_SMALL, _LARGE = _drafts(100, 300, 270, 400, 95, 90, 85), _drafts(900, 2700, 270, 9000, 200, 50, 20)
"""Two starts: 90 % of few drafts over most of the output, and 10 % of many over little of it."""
_NONE = _verdict("none", acceptance_reason="the server counts no drafts", generation_tokens=400)


def _answer(*on: Verdict, off: Verdict = _NONE) -> Answer:
    experiment = parsed(_ARMS)
    rows: list[AnyRow] = [first_row(experiment, _ARMS)]
    rows += [arm_row(experiment, "off", boot, *figures(off)) for boot in range(len(on))]
    rows += [arm_row(experiment, "on", boot, *figures(one)) for boot, one in enumerate(on)]
    return answer(decode_rows([encode_row(row) for row in rows]))


def _of(found: Answer, arm: int, name: str = "draft.acceptance") -> Measure:
    return next(one for one in found.arms[arm].measures if one.name == name)


def test_a_run_gives_acceptance_length_and_the_share_at_each_place() -> None:
    found = {one.name: one for one in drafting(_SMALL)}
    assert {name: one.values for name, one in found.items()} == {
        "draft.acceptance": (0.9,),
        "draft.mean_length": (3.7,),
        "draft.acceptance_at_1": (0.95,),
        "draft.acceptance_at_2": (0.90,),
        "draft.acceptance_at_3": (0.85,),
    }
    assert {one.coverage for one in found.values()} == {370 / 400}
    assert all(one.planned == 1 and one.reason is None for one in found.values())


def test_starts_are_put_together_by_what_they_drafted_and_never_averaged() -> None:
    one = _of(_answer(_SMALL, _LARGE), 1)
    assert one.values == (0.9, 0.1)
    assert one.median == 540 / 3000
    assert one.coverage == (370 + 1170) / 9400
    length = _of(_answer(_SMALL, _LARGE), 1, "draft.mean_length")
    assert length.median == (370 + 1170) / 1000


def test_coverage_stands_beside_it_in_words_table_and_pages() -> None:
    found = _answer(_SMALL, _LARGE)
    said = "\n".join(answer_lines(found))
    line = "draft.acceptance: 0.18 share (0.1 to 0.9, n 2); 540 of 3,000, from 16.4 % of the output tokens"
    assert line in said
    assert "draft.mean_length: 1.54 tokens (1.3 to 3.7, n 2); 1,540 in 1,000, from 16.4 % of" in said
    assert "draft.acceptance_at_1: 0.295 share (0.2222 to 0.95, n 2); 295 of 1,000, from 16.4 % of" in said
    table = arms_table(found)
    at = next(place for place, title in enumerate(table.head) if title.startswith("draft.acceptance"))
    assert not any(title.startswith("draft.acceptance_at") for title in table.head)
    assert "from 16.4 % of the output tokens" in table.rows[1][at].text
    for page in (html_text(found, "x"), markdown_text(found, "x")):
        assert page.count("from 16.4 % of the output tokens") >= 2


def test_an_arm_without_speculation_has_a_reason_and_no_0() -> None:
    found = _answer(_SMALL)
    off = _of(found, 0)
    assert (off.values, off.median, off.planned, off.reason) == ((), None, 0, "this server does not draft")
    assert "draft.acceptance: n/a (this server does not draft)" in "\n".join(answer_lines(found))
    table = arms_table(found)
    at = next(place for place, title in enumerate(table.head) if title.startswith("draft.acceptance"))
    assert (table.rows[0][at].text, table.rows[0][at].below) == ("n/a", "this server does not draft")
    on = next(pair.movement for pair in found.arms[1].compared if pair.measure.name == "draft.acceptance")
    assert (on.outcome, on.ratio) == ("missing", None)


def test_nobody_is_told_of_drafts_where_no_arm_drafts() -> None:
    found = _answer(_NONE)
    assert not [one for arm in found.arms for one in arm.measures if one.name.startswith("draft.")]
    assert "draft" not in " ".join(arms_table(found).head)


@pytest.mark.parametrize(
    ("verdict", "planned", "reason"),
    [
        (_verdict(acceptance_reason="the server's counters were not read"), 0, "the server's counters were not read"),
        (_verdict(acceptance_reason="the server counts no drafts"), 0, "the server counts no drafts"),
        (
            _verdict("ngram, 3 tokens", acceptance_reason="the server counts no drafts"),
            1,
            "the server counts no drafts, although it was started with ngram, 3 tokens",
        ),
        (
            _verdict("ngram, 3 tokens", drafts=0, draft_tokens=0, acceptance_reason="nothing was drafted"),
            1,
            "nothing was drafted",
        ),
        (
            _verdict("ngram, 3 tokens", drafts=7, draft_tokens=21, accepted_tokens=21, acceptance_reason="too few"),
            1,
            "too few",
        ),
    ],
)
def test_what_nobody_can_say_has_a_reason(verdict: Verdict, planned: int, reason: str) -> None:
    (one,) = drafting(verdict)
    assert (one.name, one.values, one.planned, one.reason) == ("draft.acceptance", (), planned, reason)


def test_an_arm_that_should_draft_and_does_not_is_shown_although_no_other_drafts() -> None:
    mute = _verdict("ngram, 3 tokens", drafts=0, draft_tokens=0, acceptance_reason="nothing was drafted")
    assert "draft.acceptance: n/a (nothing was drafted)" in "\n".join(answer_lines(_answer(mute)))


def test_requests_of_others_are_named_beside_it() -> None:
    shared = msgspec.structs.replace(_SMALL, server=msgspec.structs.replace(_SMALL.server, foreign_requests=3))
    said = "\n".join(answer_lines(_answer(_LARGE, shared)))
    assert "requests of others are in it: it finished 3 more than we sent" in said


def test_a_matrix_shows_no_share_without_what_it_speaks_for() -> None:
    text = (
        _ARMS
        + """
[[arms]]
name = "b"
parent = "off"
flags = { "kv-cache-dtype" = "fp8" }
[[arms]]
name = "both"
parent = "on"
flags = { "kv-cache-dtype" = "fp8" }
[matrix]
none = "off"
a = "on"
b = "b"
both = "both"
"""
    )
    experiment = parsed(text)
    for drafting_arms in (("on", "both"), ("off", "on", "b", "both"), ("on", "b", "both")):
        rows = [
            arm_row(experiment, arm, 0, *figures(_SMALL if arm in drafting_arms else _NONE))
            for arm in ("off", "on", "b", "both")
        ]
        found = answer((first_row(experiment, text), *rows))
        assert found.matrix
        assert not [one for one in found.matrix if one.measure.name.startswith("draft.")]
