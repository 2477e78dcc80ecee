"""What single panels say: sorting, columns that go, evidence to jump to, the cursor, refused comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest
from paneltools import RUNS, SCENARIOS, Seen, log

from infermaxx_tui.core import events as e
from infermaxx_tui.core.comparison import difference
from infermaxx_tui.core.events import AnyEvent, Record
from infermaxx_tui.core.glyphs import ASCII, UNICODE
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.panels import (
    STREAM_ORDERS,
    Row,
    StreamOrder,
    rows_axis,
    rows_compare,
    rows_feed,
    rows_gpu,
    rows_runs,
    rows_scenarios,
    rows_server,
    rows_session,
    rows_streams,
    rows_summary,
    rows_verdict,
)
from infermaxx_tui.core.panels.axis import axis_columns
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.verdict import Verdict

HEALTHY, LEAK, CAPPED = (Seen(log(name)) for name in ("healthy", "leak", "capped"))
HALF = Seen(log("leak"), until_us=1_500_000)
HOST = e.Host(name="h", system="s", python="3", cpus=1)


def started(at_once: int = 2, **facts: object) -> e.RunStarted:
    event = e.RunStarted(
        schema=1,
        program="p",
        run="r",
        scenario="s",
        scenario_text='name = "s"\n[stop]\nduration = "20m"\n',
        scenario_sha256="",
        seed=0,
        nonce="00",
        host=HOST,
        limits=Limits(),
        sessions=3,
        at_once=at_once,
        planned_recalls=4,
    )
    return msgspec.structs.replace(event, **facts)


def seen(*timed: tuple[float, AnyEvent]) -> Seen:
    """A log of (seconds, event), with the story of session 0."""
    records = [Record(0, seq, int(at * 1000), int(at * 1e6), event) for seq, (at, event) in enumerate(timed)]
    return Seen(records, session=0)


def request(req: int, session: int, kind: e.RequestKind = "turn") -> e.RequestStarted:
    return e.RequestStarted(req=req, session=session, turn=1, kind=kind, prompt_tokens=100, max_tokens=10)


def ended(req: int, session: int, **facts: object) -> e.RequestEnded:
    event = e.RequestEnded(
        req=req, session=session, turn=1, kind="turn", outcome="ok", finish_reason="stop", content_chars=4
    )
    return msgspec.structs.replace(event, **facts)


def session(number: int, wave: int = 0) -> e.SessionStarted:
    return e.SessionStarted(session=number, wave=wave, transcripts=("t",), planned_recalls=2)


LIVE = seen(
    (0, started()),
    (0, e.RegimeNoted(regime=Regime(max_model_len=8000, target_depth=6000, missing={"gpu": "no card here"}))),
    (0, session(0)),
    (0, session(1)),
    (0, session(2)),
    (1, request(1, 0)),
    (1, request(2, 1)),
    (1.5, e.FirstToken(req=1, session=0, ttft_ms=500.0)),
    (2, e.Beat(window_ms=1000.0, sessions=(0, 1), tokens=(40, 0), depths=(3000, 200))),
    (3, e.Beat(window_ms=1000.0, sessions=(0, 1), tokens=(20, 0), depths=(3020, 200))),
    (20, e.SessionEnded(session=2, reason="failed", depth_tokens=0, turns=0, detail="no answer")),
    (20, e.Beat(window_ms=1000.0, sessions=(0, 1), tokens=(20, 0), depths=(3040, 200))),
)


def texts(rows: Sequence[Row]) -> list[str]:
    return [row.text for row in rows]


def line_of(rows: Sequence[Row], number: int) -> str:
    return next(row.text for row in rows if row.session == number)


class TestStreams:
    def test_a_stream_says_state_depth_speed_and_age(self) -> None:
        rows = rows_streams(LIVE.state, None, 100, everyone=True)
        assert {"▶", "decoding", "3040", "20", "500ms", "0/0/0", "0ms"} <= set(line_of(rows, 0).split())
        assert {"◌", "prefill", "200", "19.0s!"} <= set(line_of(rows, 1).split())
        assert {"✗", "failed"} <= set(line_of(rows, 2).split())

    def test_ended_ones_are_counted_and_not_shown(self) -> None:
        rows = rows_streams(LIVE.state, None, 100)
        assert [row.session for row in rows] == [None, 0, 1, None]
        assert rows[-1].text == "1 ended ones are not shown"

    def test_once_none_is_open_the_last_wave_is_shown(self) -> None:
        rows = rows_streams(LEAK.state, None, 100)
        assert [row.session for row in rows[1:-1]] == [3, 4, 5]
        assert [row.session for row in rows_streams(LEAK.state, None, 100, everyone=True)[1:]] == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("order", STREAM_ORDERS)
    @pytest.mark.parametrize("reverse", [False, True])
    def test_missing_values_come_last_whichever_way_round(self, order: StreamOrder, reverse: bool) -> None:
        rows = rows_streams(LIVE.state, None, 120, UNICODE, order, reverse, everyone=True)
        numbers = [row.session for row in rows[1:]]
        assert sorted(numbers, key=lambda number: number or 0) == [0, 1, 2]
        if order in ("ttft", "rate", "age"):
            assert numbers[-1] == 2 or order != "age"
        if order == "ttft":
            assert numbers[0] == 0

    def test_sorting(self) -> None:
        deepest = rows_streams(LIVE.state, None, 100, order="depth", reverse=True, everyone=True)
        assert [row.session for row in deepest[1:]] == [0, 1, 2]
        oldest = rows_streams(LIVE.state, None, 100, order="age", reverse=True, everyone=True)
        assert [row.session for row in oldest[1:]] == [1, 0, 2]

    def test_filter_keeps_what_contains_the_text(self) -> None:
        assert [row.session for row in rows_streams(LIVE.state, None, 100, match="PREFILL")] == [None, 1]

    def test_columns_go_by_priority_as_the_width_shrinks(self) -> None:
        heads = [rows_streams(LIVE.state, None, width)[0].text for width in range(140, 20, -1)]
        assert "cap" in heads[0]
        seen_columns = [set(head.split()) & {"cap", "cache", "ttft", "tok/s", "depth"} for head in heads]
        assert all(later <= earlier for earlier, later in pairwise(seen_columns))
        assert "depth" in heads[-1]
        assert "cap" not in heads[-1]

    def test_a_far_limit_gives_way_to_the_target(self) -> None:
        assert "of 8000" in rows_streams(LIVE.state, None, 100)[0].text
        assert "to 2500" in rows_streams(HEALTHY.state, None, 100)[0].text

    def test_the_sparkline_has_one_axis_for_all(self) -> None:
        timeline = LIVE.timeline.snapshot(0, 20_000_000, 20)
        rows = rows_streams(LIVE.state, timeline, 140)
        assert "0-50" in rows[0].text
        assert "▇" in line_of(rows, 0)
        assert "▁▁" in line_of(rows, 1)


class TestSummary:
    def test_elapsed_against_planned_from_the_scenario_in_the_log(self) -> None:
        first = texts(rows_summary(LIVE.state, None, 120, verdict=LIVE.verdict))[0]
        assert "20s of 20m00s" in first
        assert "2 open, 2 in flight, 1 decoding" in first
        assert "of 1m00s" in texts(rows_summary(LIVE.state, None, 120, duration_s=60.0))[0]

    def test_the_deciding_check_is_named(self) -> None:
        assert (
            "verdict PASS ✓  recall n 30/30"
            in texts(rows_summary(HEALTHY.state, None, 200, verdict=HEALTHY.verdict))[3]
        )
        assert "verdict FAIL ✗  isolation" in texts(rows_summary(LEAK.state, None, 200, verdict=LEAK.verdict))[3]
        assert "INCONCLUSIVE ?  recall" in texts(rows_summary(CAPPED.state, None, 200, verdict=CAPPED.verdict))[3]
        assert texts(rows_summary(HALF.state, None, 200, verdict=HALF.verdict))[3].startswith("so far FAIL ✗")

    def test_without_a_judgement_no_word_is_made_up(self) -> None:
        assert texts(rows_summary(HEALTHY.state, None, 120))[3] == "verdict: not judged yet"

    def test_bad_things_are_said_with_a_sign(self) -> None:
        assert "✗ 8 LEAKED" in texts(rows_summary(LEAK.state, None, 200))[2]
        assert "30 capped" in texts(rows_summary(CAPPED.state, None, 200))[2]
        assert "no bound yet" in texts(rows_summary(CAPPED.state, None, 200))[2]


class TestReadings:
    def test_without_a_reading_there_is_a_reason_and_no_number(self) -> None:
        assert texts(rows_server(LIVE.state, None, 80)) == ["server n/a: no reading of /metrics yet"]
        failing = seen((0, started()), (1, e.MetricsRead(error="refused")), (2, e.MetricsRead(error="refused")))
        assert texts(rows_server(failing.state, None, 80)) == ["server n/a: 2 readings of /metrics failed"]

    def test_counters_that_a_server_lacks_are_not_zero(self) -> None:
        some = seen((0, started()), (1, e.MetricsRead(running=2.0)))
        said = {row.text.split("  ")[0]: row.text for row in rows_server(some.state, None, 80)}
        assert said["running"].endswith("2 of 2")
        assert said["waiting"].endswith("n/a")
        assert said["KV use"].endswith("n/a")
        assert said["prefix hits"].endswith("n/a")
        assert said["acceptance"].endswith("n/a: no drafts")

    @pytest.mark.parametrize(
        ("drafts", "accepted", "generated", "said"),
        [
            (100.0, 150.0, 500.0, "50% cover 50%"),
            (100.0, 300.0, 400.0, "100% cover 100%"),
            (12.0, 36.0, 48.0, "n/a: 12 drafts"),
            (60.0, 60.0, 9000.0, "n/a: cover 1%"),
            (0.0, 0.0, 500.0, "n/a: no drafts"),
        ],
    )
    def test_an_acceptance_stands_with_its_coverage_or_not_at_all(
        self, drafts: float, accepted: float, generated: float, said: str
    ) -> None:
        none = e.MetricsRead(drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0, generation_tokens=0.0)
        last = e.MetricsRead(
            drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=accepted, generation_tokens=generated
        )
        some = seen((0, started()), (1, none), (2, last))
        rows = texts(rows_server(some.state, None, 80))
        assert next(row for row in rows if row.startswith("acceptance")).endswith(said)

    def test_prefix_hits_are_of_this_run(self) -> None:
        first = e.MetricsRead(prefix_hits=900.0, prefix_queries=1000.0)
        last = e.MetricsRead(prefix_hits=950.0, prefix_queries=1200.0)
        some = seen((0, started()), (1, first), (2, last))
        assert any("25%" in row.text for row in rows_server(some.state, None, 80))

    def test_gpu_says_why_nothing_is_known(self) -> None:
        said = " ".join(texts(rows_gpu(LIVE.state, None, 60)))
        assert "n/a (no card here)" in said
        assert "power" in said
        assert "0 W" not in said


class TestAxis:
    def test_the_value_at_the_cursor_is_that_of_its_moment(self) -> None:
        timeline = LIVE.timeline.snapshot(0, 20_000_000, 40)
        at_two = rows_axis(LIVE.state, timeline, 100, cursor_us=1_600_000)
        assert at_two[0].text.endswith(" 40")
        assert line_of(at_two, 0).endswith(" 40@3k")
        at_ten = rows_axis(LIVE.state, timeline, 100, cursor_us=10_000_000)
        assert at_ten[0].text.endswith(" -")
        assert rows_axis(LIVE.state, timeline, 100)[0].text.endswith(" 20")

    def test_the_cursor_is_one_column_through_all_lines(self) -> None:
        timeline = LIVE.timeline.snapshot(0, 20_000_000, 40)
        rows = rows_axis(LIVE.state, timeline, 100, cursor_us=10_000_000)
        places = {start for row in rows for start, _, role in row.spans if role == "cursor"}
        assert len(places) == 1
        assert rows[-1].text[places.pop()] == UNICODE.cursor
        assert "0:00:10" in rows[-1].text

    def test_a_gap_is_blank_and_nothing_is_drawn_for_it(self) -> None:
        timeline = LIVE.timeline.snapshot(0, 20_000_000, 20)
        assert timeline.tokens_per_s[5] is None
        assert "  " in rows_axis(LIVE.state, timeline, 100)[0].text[20:60]

    def test_with_little_height_the_whole_speed_the_marks_and_the_ruler_stay(self) -> None:
        timeline = LEAK.timeline.snapshot(0, LEAK.timeline.end_us, axis_columns(100))
        for height in range(3, 20):
            rows = rows_axis(LEAK.state, timeline, 100, height=height)
            assert len(rows) <= height
            assert rows[0].text.startswith("all tok/s")
            assert rows[-2].text.startswith("marks")
            assert UNICODE.horizontal in rows[-1].text

    def test_a_mark_under_the_cursor_is_said_in_words(self) -> None:
        timeline = LEAK.timeline.snapshot(0, LEAK.timeline.end_us, axis_columns(100))
        mark = next(mark for mark in timeline.marks if mark.kind == "leak")
        rows = rows_axis(LEAK.state, timeline, 100, cursor_us=mark.at_us)
        assert rows[-2].ref == mark.ref
        assert "leak session" in rows[-2].text

    def test_chosen_sessions_instead_of_lanes(self) -> None:
        timeline = LEAK.timeline.snapshot(0, LEAK.timeline.end_us, axis_columns(100))
        rows = rows_axis(LEAK.state, timeline, 100, sessions=(1, 99))
        assert {row.session for row in rows} == {None, 1}

    def test_lanes_name_the_conversation_of_the_moment(self) -> None:
        timeline = LEAK.timeline.snapshot(0, LEAK.timeline.end_us, axis_columns(100))
        first = {row.session for row in rows_axis(LEAK.state, timeline, 100, cursor_us=0)}
        last = {row.session for row in rows_axis(LEAK.state, timeline, 100)}
        assert {0, 1, 2} <= first
        assert {3, 4, 5} <= last


class TestFeed:
    def test_failures_carry_the_sign_and_the_event(self) -> None:
        rows = rows_feed(LEAK.state, LEAK.watch.feed.entries(), 120)
        leaks = [row for row in rows if " leaked " in row.text]
        assert len(leaks) == 8
        assert all("✗" in row.text and row.ref is not None and row.session is not None for row in leaks)
        assert all(
            "x" in row.text for row in rows_feed(LEAK.state, LEAK.watch.feed.entries(), 120, ASCII) if row in leaks
        )

    def test_limit_and_filter(self) -> None:
        entries = LEAK.watch.feed.entries()
        assert texts(rows_feed(LEAK.state, entries, 90, limit=3)) == texts(rows_feed(LEAK.state, entries, 90))[-3:]
        assert all("leaked" in text for text in texts(rows_feed(LEAK.state, entries, 90, match="LEAKED")))
        assert rows_feed(LEAK.state, entries, 90, match="no such thing") == ()


class TestVerdict:
    def test_each_witness_can_be_jumped_to(self) -> None:
        rows = rows_verdict(LEAK.verdict, 100)
        isolation = next(check for check in LEAK.verdict.checks if check.name == "isolation")
        pointing = [row for row in rows if row.ref is not None and row.key == "isolation"]
        assert [row.ref for row in pointing] == [one.event for one in isolation.evidence]
        assert [row.session for row in pointing] == [one.session for one in isolation.evidence]

    def test_all_parts_are_there(self) -> None:
        said = "\n".join(texts(rows_verdict(CAPPED.verdict, 100)))
        for check in CAPPED.verdict.checks:
            assert f"\n{check.name}" in said
        for part in ("scope", "regime", "limits", "instrument", "left out: 30 capped", "SIMULATED", "min_recalls"):
            assert part in said
        assert "n/a: no GPU sensors in this version" in said

    def test_a_run_that_goes_on_is_judged_so_far(self) -> None:
        assert "so far" in rows_verdict(HALF.verdict, 100, state=HALF.state)[0].text
        assert "so far" not in rows_verdict(LEAK.verdict, 100, state=LEAK.state)[0].text


class TestSession:
    def test_turns_recalls_and_where_they_stand(self) -> None:
        rows = rows_session(LEAK.state, LEAK.story, 120)
        said = texts(rows)
        assert said[0].startswith("session 1  ■ finished")
        assert any("planted" in text and " as " in text for text in said)
        asked = next(at for at, text in enumerate(said) if "✗ leaked" in text)
        assert said[asked + 1].strip().startswith("asked: What is the lot tag for the ")
        assert said[asked + 2].strip().startswith("reply: The lot tag for the ")
        assert "✗ foreign: " in said[asked + 3]
        assert all(row.ref is not None and row.session == 1 for row in rows[2:])
        assert any("(no such tag)" in text for text in said)

    def test_growth_is_against_the_turn_before(self) -> None:
        said = texts(rows_session(LEAK.state, LEAK.story, 120))
        prompts = [text for text in said if " turn " in text and "(+" in text]
        assert len(prompts) >= 2

    def test_a_session_that_is_not_there(self) -> None:
        nobody = Seen(log("healthy"), session=99)
        assert texts(rows_session(nobody.state, nobody.story, 80)) == ["session 99 is not in the log up to this moment"]

    def test_a_miss_and_its_asking_again(self) -> None:
        ask = e.TagAsked(
            req=1,
            session=0,
            label="red box",
            tag="H6WM-HVW4",
            kind="recall",
            asked_at=1.0,
            planted_depth_tokens=10,
            depth_tokens=100,
        )
        again = msgspec.structs.replace(ask, req=2, kind="reask_alone", again_of=1)
        miss = seen(
            (0, started(at_once=1)),
            (0, e.TagIssued(kind="own", session=0, label="red box", tag="H6WM-HVW4")),
            (0, session(0)),
            (1, request(1, 0, "recall")),
            (1, ask),
            (2, ended(1, 0, kind="recall", content="I have no idea at all about that.", prompt_tokens=100)),
            (3, request(2, 0, "reask_alone")),
            (3, again),
            (4, ended(2, 0, kind="reask_alone", content="It is H6WM-HVW4.", prompt_tokens=100)),
            (5, request(3, 0)),
        )
        said = texts(rows_session(miss.state, miss.story, 120))
        assert any("✗ forgotten" in text for text in said)
        assert any("again alone" in text and "✓ recalled" in text for text in said)
        assert any("turn 1" in text and text.endswith("open") for text in said)


class TestHome:
    def test_unread_verdicts_are_marked_until_they_were_opened(self) -> None:
        rows = rows_runs(RUNS, 120)
        assert [row.key for row in rows[1:]] == [run.run for run in RUNS]
        assert [row.text[0] for row in rows[1:]] == [UNICODE.unread, " ", " ", " "]
        assert "PASS ✓" in rows[1].text
        assert "INCONCLUSIVE ?" in rows[3].text
        assert "FAIL ✗" in rows[4].text

    def test_filters(self) -> None:
        assert [row.key for row in rows_runs(RUNS, 120, match="SOAK")[1:]] == [RUNS[1].run, RUNS[2].run]
        assert rows_runs(RUNS, 120, match="nothing")[1].text == "no run matches nothing"
        assert rows_runs((), 80)[1].text == "no runs yet: start one from the scenarios"
        assert [row.key for row in rows_scenarios(SCENARIOS, 120, match="lot tags")[1:]] == ["soak-4x36k"]

    def test_a_scenario_that_cannot_be_read_says_why(self) -> None:
        broken = rows_scenarios(SCENARIOS, 120)[-1]
        assert "✗ broken.toml: not TOML" in broken.text

    def test_a_verdict_of_a_newer_program_is_shown_as_it_is(self) -> None:
        strange = msgspec.structs.replace(RUNS[0], verdict="MAYBE")
        assert "MAYBE" in rows_runs([strange], 120)[1].text


def with_regime(verdict: Verdict, **facts: object) -> Verdict:
    return msgspec.structs.replace(verdict, regime=msgspec.structs.replace(verdict.regime, **facts))


class TestCompare:
    def test_the_same_regime_shows_figures(self) -> None:
        said = "\n".join(texts(rows_compare(HEALTHY.verdict, LEAK.verdict, 100)))
        assert "no key differs" in said
        assert "ttft p50 ms" in said
        assert "refused" not in said

    def test_one_lever_is_named_and_figures_are_refused(self) -> None:
        other = with_regime(LEAK.verdict, kv_cache_dtype="fp8")
        assert difference(HEALTHY.verdict, other).levers == ("kv_cache_dtype",)
        said = "\n".join(texts(rows_compare(HEALTHY.verdict, other, 100)))
        assert "refused: the regimes differ in kv_cache_dtype" in said
        assert "ttft" not in said
        assert "bound" not in said
        assert "CONFOUNDED" not in said

    def test_two_levers_are_confounded(self) -> None:
        other = with_regime(LEAK.verdict, kv_cache_dtype="fp8", concurrency_requested=9)
        assert "CONFOUNDED" in "\n".join(texts(rows_compare(HEALTHY.verdict, other, 100)))

    def test_how_many_at_once_is_one_lever(self) -> None:
        other = with_regime(LEAK.verdict, concurrency_requested=1, at_once=1)
        found = difference(HEALTHY.verdict, other)
        assert (found.levers, found.follows) == (("concurrency_requested",), ("at_once",))
        assert not found.confounded

    def test_what_only_one_side_knows_is_a_difference_and_what_neither_knows_is_said(self) -> None:
        other = with_regime(LEAK.verdict, gpu="a card")
        found = difference(HEALTHY.verdict, other)
        assert found.levers == ("gpu",)
        assert "power_limit_w" in found.unknown
        said = " ".join(" ".join(texts(rows_compare(HEALTHY.verdict, other, 100))).split())
        assert f"known on neither side: {', '.join(found.unknown)}" in said

    def test_other_limits_are_named(self) -> None:
        other = msgspec.structs.replace(LEAK.verdict, limits=Limits(max_lost=7))
        assert "judged by different limits: " in "\n".join(texts(rows_compare(HEALTHY.verdict, other, 100)))

    def test_outcomes_stand_side_by_side(self) -> None:
        rows = {row.key: row.text for row in rows_compare(HEALTHY.verdict, CAPPED.verdict, 100)}
        assert rows["verdict"].split() == ["verdict", "PASS", "✓", "INCONCLUSIVE", "?"]
        assert "✓ pass" in rows["  recall"]
        assert "? cannot say" in rows["  recall"]
