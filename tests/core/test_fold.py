"""The fold: the same state however a log is cut, and facts that are read from the order of its lines alone."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import Record, Unknown, decode, encode
from infermaxx_tui.core.events_read import Spent
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.gpu import GpuCard, GpuProbe, GpuReading
from infermaxx_tui.core.histories import STEP_US, Ask, Reply, Shape, changed, fluent, history, honest, records, state_of
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.core.startup_traps import Trap
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import judge_run, verdict_bytes


def sick(ask: Ask) -> Reply:
    """A server that forgets, leaks, caps and breaks, so that every part of the state has something in it."""
    if ask.kind == "recall":
        match ask.number % 8:
            case 1:
                return Reply(content="I do not remember that one.")
            case 2:
                return Reply(content=f"It is {ask.foreign[0]}.")
            case 3:
                return Reply(content="The", finish_reason="length", completion_tokens=200)
            case 4:
                return Reply(content="of" + " of" * 300)
            case 5:
                return Reply(outcome="truncated", finish_reason=None)
            case _:
                pass
    return honest(ask)


def stumbling(session: int, turn: int) -> Reply:
    match turn:
        case 3:
            return Reply(outcome="stalled", finish_reason=None, completion_tokens=None, speaks=False)
        case 4:
            return Reply(content="Ses", outcome="protocol", finish_reason=None)
        case 5:
            return Reply(content="odd", anomalies=("crlf",), degenerate="cycle of 1 token")
        case _:
            return fluent(session, turn)


def everything() -> list[e.AnyEvent]:
    """A history with an event of every type in it, and a resume in the middle."""
    events = history(Shape(), sick, stumbling)
    first = events[0]
    assert isinstance(first, e.RunStarted)
    extra: list[e.AnyEvent] = [
        e.GapNoted(req=1, session=1, gap_ms=900.0, at_token=3),
        e.ServerLost(how="restarted", session=None, req=None, detail="a new start time"),
        e.EvidenceLost(detail="no space left"),
        e.StopAsked(by="sigint"),
        e.Noted(text="a remark"),
        e.MetricsRead(running=2.0, waiting=1.0, generation_tokens=5.0, finished=(("length", 1.0), ("stop", 2.0))),
        e.MetricsRead(running=2.0, waiting=0.0, generation_tokens=9.0, finished=(("length", 1.0), ("stop", 4.0))),
        e.CancelSettled(cut=2, ours_open=0, running=1.0, waited_ms=20_000.0, fell=False),
        e.StartupRead(source="file", facts=StartupFacts(version="0.32.0", traps=(Trap("a", "b", "c"),))),
        e.GateChecked(name="slots", when="before", outcome="pass", required=False, said="8 slots for 4 sessions"),
        e.GpuProbed(probe=GpuProbe(source="nvml", cards=(GpuCard(gpu=0, server=True, limit_w=350.0),))),
        e.GpuRead(
            gpus=(GpuReading(gpu=0, power_w=340.0, limit_w=275.0, reasons=0x804),), window_ms=1000.0, fast_ms=0.2
        ),
        e.RequestStarted(req=9000, session=-1, turn=0, kind="quality", prompt_tokens=40, max_tokens=99),
        e.QualityAsked(
            req=9000,
            session=-1,
            phase="before",
            wave=-1,
            task="arithmetic-1",
            question="What is 6 * 7?",
            form="number",
            expected="42",
            tolerance=0.0,
            units=(),
            depth_tokens=0,
        ),
        e.RequestEnded(
            req=9000, session=-1, turn=0, kind="quality", outcome="ok", finish_reason="stop", content="Answer: 42"
        ),
        e.StageBegan(stage="controls"),
        e.RequestStarted(req=9050, session=-1, turn=0, kind="control", prompt_tokens=40, max_tokens=99),
        e.ControlAsked(req=9050, arm="cold", pair=0),
        e.RequestEnded(
            req=9050, session=-1, turn=0, kind="control", outcome="ok", finish_reason="stop", content="Yes."
        ),
        e.ControlAnswered(req=9050, ids_sha256="0" * 64, cached_tokens=0, cached_by="usage"),
        e.RequestStarted(req=9060, session=-1, turn=0, kind="probe", prompt_tokens=40, max_tokens=99),
        e.ProbeAsked(req=9060, probe=0, part="decode", rep=0, streams=1, wanted_tokens=None),
        e.ProbeCached(req=9060, cached_tokens=16),
        e.RequestEnded(req=9060, session=-1, turn=0, kind="probe", outcome="ok", completion_tokens=50, decode_ms=500.0),
        e.AbilityAnswered(
            ability=0,
            kind="vision",
            case="image",
            rep=0,
            place=0,
            question="Which text?",
            expected=(),
            answer="ABCDEF 22",
            status=200,
            error=None,
            finish_reason="stop",
            content="abcdef 22",
            reasoning_chars=0,
            reasoning_tokens=None,
            calls=(),
            completion_tokens=9,
            max_tokens=99,
            total_ms=80.0,
        ),
        e.StageBegan(stage="solo_after", session=99),
        e.RequestStarted(req=9100, session=1, turn=0, kind="turn", prompt_tokens=40, max_tokens=99),
        e.ClockJumped(kind="suspend", by_ms=60_000.0, since_us=0),
        e.ClockJumped(kind="step", by_ms=-3000.0, since_us=0),
        e.Beat(window_ms=1000.0, sessions=(1,), tokens=(9,), depths=(50,), gap_buckets=((40, 9),)),
        e.RequestEnded(req=9100, session=1, turn=0, kind="turn", outcome="ok", finish_reason="stop", ttft_ms=60_000.0),
        e.InstrumentRead(
            window_ms=1000.0,
            loop_lag_p50_ms=0.1,
            loop_lag_p99_ms=0.2,
            loop_lag_max_ms=0.3,
            cpu_share=0.1,
            rss_mib=80.0,
            events_parsed=9,
            wall_step_ms=57_000.0,
            loop_cpu_share=0.1,
            reads=8,
            reads_coalesced=1,
            dispatches=1,
            dispatch_max_ms=3.0,
            dispatch_buckets=((120, 1),),
            dispatch_by=(Spent("turn", 1, 3.0, 3.0),),
            dispatch_parts=(Spent("render", 1, 2.0, 2.0), Spent("connect", 1, 1.0, 1.0)),
            connects_new=1,
            connect_max_ms=1.0,
            connect_buckets=((95, 1),),
            gc_pauses=2,
            gc_total_ms=3.0,
            gc_max_ms=2.0,
            suspend_ms=60_000.0,
            missing=(("reads", "made up"),),
        ),
        e.Calibrated(calibration=None, reason="nobody did"),
        e.SessionStarted(session=8, wave=0, transcripts=("child",), planned_recalls=0, parent=0),
        e.RequestStarted(req=9200, session=8, turn=1, kind="turn", prompt_tokens=900, max_tokens=9, opens="compaction"),
        e.RequestEnded(
            req=9200,
            session=8,
            turn=1,
            kind="turn",
            outcome="ok",
            finish_reason="length",
            prompt_tokens=900,
            cached_tokens=64,
            content_chars=9,
            ttft_ms=90.0,
            forced=True,
            prefix_shared=0.1,
            prefix_tokens=70,
            prefix_missed=630,
        ),
        e.TagPlanted(session=0, label="again", tag="T9UJ-AY7D", how="exchange", depth_tokens=9, turn=9, again=True),
        e.RunEnded(reason="stopped", events=9),
    ]
    again = history(Shape(nonce="f" * 16), sick, stumbling)
    return [
        *events[:2],
        e.TagsKnown(run="earlier", tags=("AAAA-AAAA",)),
        *events[2:200],
        *extra,
        msgspec.structs.replace(first, segment=1),
        e.Resumed(how="stopped", gap_ms=4000.0, last=(0, 9), finished=1, again=2),
        *again[1:],
    ]


LINES: list[Record | Unknown] = [
    *list(records(everything()))[:100],
    Unknown("unknown_event", "newer"),
    *list(records(everything()))[100:],
    Unknown("invalid", "torn"),
]


def folded(lines: list[Record | Unknown]) -> RunState:
    fold = Fold()
    for line in lines:
        fold.add(line)
    return fold.snapshot()


WHOLE = folded(LINES)


def test_the_history_of_everything_has_every_event_in_it() -> None:
    """Without this the properties below would say less than they seem to."""
    assert {type(x) for x in everything()} == set(e.AnyEvent.__args__)
    assert WHOLE.leaks
    assert WHOLE.segments == 2
    assert len(WHOLE.probes.replies) == len(WHOLE.probes.answers) == 1
    assert WHOLE.losses
    assert WHOLE.stalled.count
    assert WHOLE.instrument.unknown_events == 1
    assert WHOLE.instrument.torn_tail


@given(st.sets(st.integers(0, len(LINES)), max_size=6))
@settings(max_examples=40, deadline=None)
def test_looking_anywhere_changes_nothing(cuts: set[int]) -> None:
    fold = Fold()
    seen = []
    for place, line in enumerate(LINES):
        if place in cuts:
            state = fold.snapshot()
            seen.append((place, state, msgspec.json.encode(state)))
        fold.add(line)
    assert fold.snapshot() == WHOLE
    for place, state, before in seen:
        assert msgspec.json.encode(state) == before, "a snapshot changed after it was taken"
        assert state == folded(LINES[:place])


def test_a_log_that_went_through_its_file_folds_to_the_same_state() -> None:
    lines = [decode(encode(record)) for record in records(everything())]
    assert folded(lines) == state_of(everything())


def test_verdict_bytes_are_those_of_the_log() -> None:
    once = verdict_bytes(judge_run(folded(LINES)))
    again = verdict_bytes(judge_run(folded([decode(encode(x)) if isinstance(x, Record) else x for x in LINES])))
    assert once == again


# Overlap and presence, against a plain reading of the same order


@st.composite
def streams(draw: st.DrawFn) -> list[e.AnyEvent]:
    """Streams of three sessions that start, speak and end in any order; each is a question for one tag."""
    steps: list[tuple[int, int]] = []
    count = draw(st.integers(1, 7))
    for req in range(count):
        steps += [(req, 0), (req, 1), (req, 2)]
    order = draw(st.permutations(steps))
    silent = draw(st.sets(st.integers(0, count - 1)))
    step = dict.fromkeys(range(count), 0)
    made: list[e.AnyEvent] = [
        e.TagIssued(kind="own", session=s, label=f"copper kettle{s}", tag=tag)
        for s, tag in enumerate(("AAAA-AAAC", "CCCC-CCCD", "DDDD-DDDE"))
    ]
    planted: set[int] = set()
    for req, _ in order:
        session = req % 3
        match step[req]:
            case 0:
                if session not in planted and draw(st.booleans()):
                    planted.add(session)
                    made.append(
                        e.TagPlanted(session=session, label="x", tag="x", how="exchange", depth_tokens=1, turn=1)
                    )
                ask = e.TagAsked(
                    req=req,
                    session=session,
                    label="copper kettle",
                    tag=("AAAA-AAAC", "CCCC-CCCD", "DDDD-DDDE")[session],
                    kind="recall",
                    asked_at=1.0,
                    planted_depth_tokens=1,
                    depth_tokens=9,
                )
                made.append(ask)
                made.append(
                    e.RequestStarted(req=req, session=session, turn=1, kind="recall", prompt_tokens=9, max_tokens=200)
                )
            case 1:
                if req not in silent:
                    made.append(e.FirstToken(req=req, session=session, ttft_ms=1.0))
            case _:
                made.append(
                    e.RequestEnded(
                        req=req,
                        session=session,
                        turn=1,
                        kind="recall",
                        outcome="ok",
                        finish_reason="stop",
                        content="No idea.",
                        content_chars=8,
                    )
                )
        step[req] += 1
    return made


@given(streams())
@settings(max_examples=300, deadline=None)
def test_overlap_and_presence_are_what_a_plain_reading_says(events: list[e.AnyEvent]) -> None:
    decoding: dict[int, tuple[int, int, int]] = {}
    starts: dict[int, int] = {}
    carried: dict[int, int] = {}
    pending: set[int] = set()
    for place, event in enumerate(events):
        match event:
            case e.TagPlanted(session=session):
                pending.add(session)
            case e.RequestStarted(session=session) if session in pending:
                pending.discard(session)
                carried.setdefault(session, place)
            case e.FirstToken(req=req):
                starts[req] = place
            case e.RequestEnded(req=req, session=session) if req in starts:
                decoding[req] = (starts[req], place, session)
            case _:
                pass
    peak = max(
        (sum(first <= place < last for first, last, _ in decoding.values()) for place in range(len(events))), default=0
    )
    state = state_of(events)
    assert state.decoding_peak == peak
    assert state.decoding == state.in_flight == 0
    for recall in state.recalls:
        if recall.req not in decoding:
            assert not recall.overlapped
            assert not recall.foreign_present
            continue
        first, last, session = decoding[recall.req]
        beside = any(s != session and a < last and b > first for a, b, s in decoding.values())
        assert recall.overlapped == beside
        assert recall.foreign_present == any(s != session and place < first for s, place in carried.items())


@pytest.mark.parametrize("question_first", [True, False])
def test_a_question_may_be_logged_before_or_after_its_request(question_first: bool) -> None:
    ask = e.TagAsked(
        req=5,
        session=0,
        label="copper kettle",
        tag="AAAA-AAAC",
        kind="recall",
        asked_at=0.5,
        planted_depth_tokens=3,
        depth_tokens=9,
    )
    sent = e.RequestStarted(req=5, session=0, turn=2, kind="recall", prompt_tokens=9, max_tokens=200)
    ended = e.RequestEnded(
        req=5, session=0, turn=2, kind="recall", outcome="ok", finish_reason="stop", content="AAAA-AAAC"
    )
    state = state_of([ask, sent, ended] if question_first else [sent, ask, ended])
    (recall,) = state.recalls
    assert (recall.cls, recall.label, recall.planted_depth_tokens, recall.depth_tokens) == (
        "recalled",
        "copper kettle",
        3,
        9,
    )
    assert state.asked_unanswered == 0


def test_a_first_token_counts_once_and_only_for_a_request_that_is_open() -> None:
    sent = e.RequestStarted(req=5, session=0, turn=1, kind="turn", prompt_tokens=9, max_tokens=200)
    spoke = e.FirstToken(req=5, session=0, ttft_ms=1.0)
    stray = e.FirstToken(req=6, session=1, ttft_ms=1.0)
    assert state_of([sent, spoke, spoke, stray]).decoding == 1
    ended = e.RequestEnded(req=5, session=0, turn=1, kind="turn", outcome="ok", finish_reason="stop")
    assert state_of([sent, spoke, spoke, ended, spoke]).decoding == 0
    assert state_of([ended, ended]).decoding == 0


# Sessions and clocks


def test_a_session_as_it_stands_in_the_middle_of_a_turn() -> None:
    events = history()
    cut = next(i for i, x in enumerate(events) if isinstance(x, e.RequestEnded) and x.turn == 3)
    state = state_of(events[:cut])
    one = state.sessions[1]
    assert (one.session, one.phase, one.turn, one.planted, one.ended) == (1, "decoding", 3, 2, None)
    assert one.tokens == 60
    assert one.tokens_per_s == pytest.approx(20.0)
    assert one.ttft_ms == 40.0
    assert one.cached_share == pytest.approx(0.5, abs=0.01)
    assert (state.in_flight, state.decoding) == (4, 4)
    assert state.tokens_per_s == pytest.approx(80.0)
    tokens_us = max(i for i, x in enumerate(events[:cut]) if isinstance(x, e.Beat)) * STEP_US
    assert one.silent_ms == pytest.approx(((cut - 1) * STEP_US - tokens_us) / 1000.0)


def test_a_session_at_its_end() -> None:
    one = state_of(history(Shape(), sick)).sessions[3]
    assert (one.phase, one.ended, one.silent_ms) == ("ended", "finished", None)
    assert (one.planned_recalls, one.asked) == (6, 6)
    every = state_of(history(Shape(), sick)).sessions
    assert sum(s.lost for s in every) == 3
    assert sum(s.capped for s in every) == 3
    assert sum(s.recalled for s in every) == 9


def test_a_request_that_has_not_spoken_is_in_prefill() -> None:
    events = history()
    cut = next(i for i, x in enumerate(events) if isinstance(x, e.FirstToken))
    state = state_of(events[:cut])
    assert state.sessions[0].phase == "prefill"
    assert (state.decoding, state.in_flight) == (0, 1)
    assert state.sessions[1].phase == "between"
    assert state.sessions[0].silent_ms == 0.0


def test_sums_are_of_what_the_server_counted() -> None:
    events = history()
    ended = [x for x in events if isinstance(x, e.RequestEnded)]
    state = state_of(events)
    assert state.generated_tokens == sum(x.completion_tokens or 0 for x in ended)
    assert state.prompt_tokens == sum(x.prompt_tokens or 0 for x in ended)
    assert state.cached_tokens == sum(x.cached_tokens or 0 for x in ended)
    assert state.outcomes["turn"] == {"ok": 48}
    assert state.outcomes["recall"] == {"ok": 24}
    assert state.depth_reached == 2020
    assert state.running_peak == 4.0


def test_what_is_not_known_is_none_and_never_zero() -> None:
    bare = changed(
        history(),
        e.RequestEnded,
        lambda x: msgspec.structs.replace(x, cached_tokens=None, prompt_tokens=None, completion_tokens=None),
    )
    bare = [x for x in bare if not isinstance(x, (e.Beat, e.InstrumentRead, e.MetricsRead))]
    state = state_of(bare)
    assert state.cached_tokens is None
    assert state.depth_reached is None
    assert state.tokens_per_s is None
    assert state.running_peak is None
    assert state.metrics_last is None
    assert state.instrument.loop_lag_p99_ms is None
    assert state.instrument.gap_ms.p50 is None
    assert state.sessions[0].tokens_per_s is None
    assert state.sessions[0].cached_share is None
    empty = state_of([])
    assert (empty.meta, empty.regime, empty.first_token, empty.last_wall_ms) == (None, None, None, None)


def test_a_scrape_that_failed_is_no_reading() -> None:
    events = history()
    state = state_of([*events[:-1], e.MetricsRead(error="connection refused"), events[-1]])
    assert state.metrics_errors == 1
    assert state.metrics_last is not None
    assert state.metrics_last.running == 4.0


def test_a_question_that_was_shed_and_sent_again_was_asked_once() -> None:
    """Else a conversation that the duration ends seems to owe less, or to be owed less, than it does."""
    events = history()
    first = next(x for x in events if isinstance(x, e.TagAsked) and x.session == 0)
    place = next(i for i, x in enumerate(events) if isinstance(x, e.RequestEnded) and x.req == first.req)
    ended = events[place]
    assert isinstance(ended, e.RequestEnded)
    again: list[e.AnyEvent] = [
        msgspec.structs.replace(ended, outcome="shed", status=503, content=None, content_chars=0),
        msgspec.structs.replace(first, req=9000, again_of=first.req),
        e.RequestStarted(req=9000, session=0, turn=ended.turn, kind="recall", prompt_tokens=1, max_tokens=200),
        msgspec.structs.replace(ended, req=9000),
    ]
    state = state_of([*events[:place], *again, *events[place + 1 :]])
    assert len(state.recalls) == 24
    assert (state.sessions[0].asked, state.asked_unanswered) == (6, 0)
    assert (state.sessions[0].recalled, state.planned.recalls) == (6, 24)


# Asking again


def test_replies_asked_again_stand_beside_their_miss() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind in ("recall", "reask_load") and ask.number == 0:
            return Reply(content="I do not remember that one.")
        return honest(ask)

    state = state_of(history(Shape(), answer))
    (miss,) = [recall for recall in state.recalls if recall.miss]
    assert [(again.kind, again.miss) for again in miss.reasks] == [
        ("reask_alone", False),
        ("reask_alone", False),
        ("reask_load", True),
        ("reask_load", False),
        ("reask_load", False),
    ]
    assert len(state.recalls) == 24, "a question asked again is no recall of its own"
    assert all(not recall.reasks for recall in state.recalls if not recall.miss)


def test_a_question_asked_again_of_nothing_is_told() -> None:
    events = changed(
        history(
            Shape(), lambda ask: Reply(content="No idea.") if ask.kind == "recall" and not ask.number else honest(ask)
        ),
        e.TagAsked,
        lambda ask: msgspec.structs.replace(ask, again_of=9999) if ask.again_of is not None else ask,
    )
    assert state_of(events).instrument.unlabelled_asks == 5


# Resume


def resumed(first: list[e.AnyEvent], second: list[e.AnyEvent]) -> RunState:
    """Two segments, the second with request numbers, clocks and tags of its own."""
    start = second[0]
    assert isinstance(start, e.RunStarted)
    later = [msgspec.structs.replace(start, segment=1), *second[1:]]
    fold = Fold()
    for record in records(first):
        fold.add(record)
    for record in records(later, part=1):
        fold.add(record)
    return fold.snapshot()


def test_time_between_segments_is_not_time_of_the_run() -> None:
    one, two = history(), history(Shape(nonce="f" * 16))
    state = resumed(one, two)
    assert state.segments == 2
    assert state.elapsed_ms == pytest.approx(((len(one) - 1) + (len(two) - 1)) * STEP_US / 1000.0)
    assert state.ended == "finished"


def test_of_attempts_that_were_given_up_only_what_failed_counts() -> None:
    one = history(Shape(), lambda ask: Reply(content="No idea.") if ask.number == 3 else honest(ask))
    cut = next(i for i, x in enumerate(one) if isinstance(x, e.TagAsked) and x.asked_at == 1.0)
    state = resumed(one[:cut], history(Shape(nonce="f" * 16)))
    (lost,) = (recall for recall in state.recalls if recall.segment == 0)
    assert lost.cls == "forgotten"
    assert len(state.recalls) == state.planned.recalls == 1 + 24
    assert state.asked_unanswered == 0
    assert (state.planned.tails, len(state.tails)) == (state.planned.absents, len(state.absents)) == (4, 4)
    assert judge_run(state).verdict == "FAIL"


def test_a_resumed_run_passes_on_whole_conversations_alone() -> None:
    one = history()
    cut = next(i for i, x in enumerate(one) if isinstance(x, e.TagAsked) and x.asked_at == 1.0)
    two = history(Shape(nonce="f" * 16))
    two.insert(1, e.Resumed(how="killed", gap_ms=65_000.0, last=(0, cut - 1), again=4))
    state = resumed(one[:cut], two)
    verdict = judge_run(state)
    assert verdict.verdict == "PASS"
    assert "started 2 times" in verdict.scope
    assert "Its runner died, taken up again after 65 s (INCONCLUSIVE until then)." in verdict.scope
    half = resumed(one[:cut], two[: len(two) // 2])
    assert judge_run(half).verdict == "INCONCLUSIVE"


def test_what_the_log_lost_before_a_resume_and_others_in_the_gap_are_not_held_against_it() -> None:
    one = [*history()[:-1], e.EvidenceLost(detail="no space left"), e.RunEnded(reason="evidence_lost", events=9)]
    assert judge_run(state_of(one)).verdict == "INCONCLUSIVE"
    busy = e.MetricsRead(running=0.0, waiting=0.0, generation_tokens=9e6, finished=(("stop", 9e3),))
    two = history(Shape(nonce="f" * 16))
    assert judge_run(resumed(one, [*two[:2], busy, *two[2:]])).verdict == "PASS"


def test_an_own_tag_of_the_attempt_before_is_stale_after_a_resume() -> None:
    old = [x.tag for x in history() if isinstance(x, e.TagIssued) and x.session == 2 and x.kind == "own"]
    second = history(
        Shape(nonce="f" * 16),
        lambda ask: Reply(content=old[0]) if ask.session == 2 and ask.kind == "recall" else honest(ask),
    )
    state = resumed(history(), second)
    assert {(leak.kind, leak.session) for leak in state.leaks} == {("stale", 2)}
    assert {recall.segment for recall in state.recalls} == {1}


def test_a_resume_forgets_how_the_last_segment_ended() -> None:
    state = resumed([*history()[:-1], e.StopAsked(by="sigint"), e.RunEnded(reason="stopped", events=9)], history()[:-1])
    assert state.ended is None
    assert state.stop_by is None


def test_a_further_part_of_the_same_segment_changes_nothing() -> None:
    events = history()
    whole = state_of(events)
    fold = Fold()
    for record in records(events[:200]):
        fold.add(record)
    for record in records([events[0], *events[200:]], part=1):
        fold.add(msgspec.structs.replace(record, mono_us=record.mono_us + 199 * STEP_US))
    state = fold.snapshot()
    assert state.segments == 1
    assert state.recalls == tuple(
        msgspec.structs.replace(recall, at=(1, recall.at[1] - 199) if recall.at[1] >= 200 else recall.at)
        for recall in whole.recalls
    )
    assert (state.planned, state.outcomes, state.leaks) == (whole.planned, whole.outcomes, whole.leaks)


# Evidence is bounded


def test_findings_are_counted_in_full_and_kept_in_part() -> None:
    bad = Reply(content="Ses", outcome="truncated", finish_reason=None, error="reset " * 400)
    state = state_of(history(Shape(turns_between=12), honest, lambda session, turn: bad))
    assert state.delivery.failed.count == 288
    assert len(state.delivery.failed.kept) == 50
    assert all(len(one.said or "") <= 240 for one in state.delivery.failed.kept)


def test_what_a_reply_said_is_cut_around_its_tag() -> None:
    long = history(Shape(), lambda ask: Reply(content=f"{'well ' * 500}It is {ask.foreign[0]}, {'so ' * 500}"))
    for leak in state_of(long).leaks:
        assert leak.tag in (leak.said or "")
        assert len(leak.said or "") <= 240
