"""How transcripts are played again: forced lengths, contexts that begin anew, subagents, changing heads, salts."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from runnertools import Played, Setting, play_small, renderer, transcript

from infermaxx_tui.core.events import (
    Noted,
    RequestEnded,
    RequestStarted,
    SessionEnded,
    SessionStarted,
    TagAsked,
    TagPlanted,
)
from infermaxx_tui.core.panels.session import rows_session
from infermaxx_tui.core.plan import Lengths
from infermaxx_tui.core.replaying import spawns
from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.core.stories import SessionStory
from infermaxx_tui.core.transcript import BlockIds, Message, Request, Session, Usage, Window
from infermaxx_tui.core.verdict import Verdict

BLOCK = 64
NO_TAGS = (
    "canaries.per_session=0",
    "canaries.plant_at=[]",
    "canaries.tail=false",
    "canaries.absent=false",
    "limits.min_recalls=0",
)


def trace(name: str, *requests: tuple[int, int, tuple[int, ...]], at_s: tuple[float, ...] = ()) -> Session:
    """A trace of one context: prompt and reply in tokens, and the ids of the prompt's blocks."""
    made = []
    before: tuple[int, ...] = ()
    for number, (prompt, reply, ids) in enumerate(requests):
        kept = next((n for n, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b), len(before))
        blocks = BlockIds(kept, ids[kept:])
        at = at_s[number] if at_s else None
        made.append(Request((), Message("assistant"), Usage(prompt, None, reply), blocks=blocks, at_s=at))
        before = ids
    windows = (Window("start", tuple(made)),)
    return Session(name, "mooncake", "trace.jsonl", windows, content_free=True, block_tokens=BLOCK)


TALK = trace("talk", (130, 20, (1, 2, 30)), (330, 15, (1, 2, 3, 4, 5, 60)), (420, 9, (1, 2, 3, 4, 5, 6, 7)))
FORK = trace("fork", (400, 12, (1, 2, 3, 4, 5, 8, 9)), (470, 11, (1, 2, 3, 4, 5, 8, 9, 10)))


def of_traces(*overrides: str, traces: tuple[Session, ...] = (TALK, FORK)) -> Played:
    """Two conversations that play the traces."""
    played = play_small(Setting(transcripts=traces, overrides=("sessions.target_depth=900", *overrides)))
    assert played.fault is None
    return played


def by_trace(played: Played, name: str) -> list[tuple[RequestEnded, tuple[int, ...]]]:
    """The main line of the conversation that plays a trace."""
    session = next(event.session for event in played.of(SessionStarted) if event.transcripts == (name,))
    return [(ended, sent.ids) for ended, sent in played.main_line(session)]


def shared(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """How many ids two prompts share from the start."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def check(verdict: Verdict, name: str) -> tuple[str, int, dict[str, int]]:
    """What a check says, on how many, and what it left out."""
    found = next(one for one in verdict.checks if one.name == name)
    return found.outcome, found.n_evaluated, found.excluded


@pytest.mark.parametrize("replies", ["live", "recorded"])
def test_a_trace_is_played_in_its_own_lengths(replies: str) -> None:
    played = of_traces(f"sessions.replies={replies}", *NO_TAGS)
    for session in (TALK, FORK):
        line = by_trace(played, session.id)
        assert [(len(ids), ended.completion_tokens) for ended, ids in line] == [
            (request.usage.prompt_tokens, request.usage.output_tokens) for request in session.requests
        ]
        assert all(ended.forced and ended.finish_reason == "length" for ended, _ in line)
    for call in played.asks_for_tokens:
        assert (call.sent.min_tokens, call.sent.ignore_eos) == (call.sent.max_tokens, True)


def test_live_replies_stand_in_the_next_prompt_of_a_trace() -> None:
    played = of_traces(*NO_TAGS)
    for session in (TALK, FORK):
        line = by_trace(played, session.id)
        assert [ended.prefix_shared for ended, _ in line] == [None] + [1.0] * (len(line) - 1)
    first, second = by_trace(played, "talk")[0][1], by_trace(played, "fork")[0][1]
    # the two share their first two blocks, and what of the third is there before the prompt's end
    assert 2 * BLOCK - 16 <= shared(first, second) < len(first)


def test_with_recorded_replies_traces_share_all_that_their_blocks_say() -> None:
    played = of_traces("sessions.replies=recorded", *NO_TAGS)
    talk, fork = by_trace(played, "talk"), by_trace(played, "fork")
    ends = renderer().render((Message("user", "d"),), "", True)
    tail = len(ends) - len(renderer().render((Message("user", "d"),), "", False)) + 2
    for (_, ids), common in zip(talk, (130, 320, 320), strict=True):
        assert shared(ids, fork[0][1]) >= min(common, len(ids)) - tail - 1
    assert shared(talk[2][1], fork[0][1]) == 5 * BLOCK
    assert played.verdict.regime.replies_mode == "length_matched_recorded"


def test_a_prompt_without_room_for_the_last_reply_comes_out_longer_and_that_is_said() -> None:
    tight = trace("tight", (130, 60, (1, 2, 3)), (150, 9, (1, 2, 4)), (400, 9, (1, 2, 4, 5, 6, 7, 8)))
    played = of_traces(*NO_TAGS, traces=(tight,))
    sent = [len(ids) for _, ids in by_trace(played, "tight")]
    assert sent[0] == 130
    assert 190 < sent[1] < 220
    assert sent[2] == 400
    assert any("1 of 3 recorded prompts are shorter" in event.text for event in played.of(Noted))
    exact = of_traces("sessions.replies=recorded", *NO_TAGS, traces=(tight,))
    assert [len(ids) for _, ids in by_trace(exact, "tight")] == [130, 150, 400]


def test_another_run_has_other_text_of_the_same_lengths() -> None:
    one = of_traces(*NO_TAGS)
    other = play_small(
        Setting(transcripts=(TALK, FORK), overrides=("sessions.target_depth=900", *NO_TAGS), nonce="bead")
    )
    assert len(by_trace(one, "talk")[0][1]) == len(by_trace(other, "talk")[0][1])
    assert shared(by_trace(one, "talk")[0][1], by_trace(other, "talk")[0][1]) < 16


@pytest.mark.parametrize("replies", ["live", "recorded"])
def test_tags_in_a_trace_are_asked_freely_and_displace_text(replies: str) -> None:
    tag = ("canaries.per_session=1", "canaries.plant_at=[]", "limits.min_recalls=4")
    played = of_traces(f"sessions.replies={replies}", *tag)
    outcome, n, left_out = check(played.verdict, "degeneration")
    turns = [ended for ended in played.ended.values() if ended.kind == "turn"]
    assert (outcome, left_out) == ("pass", {"forced_length": len(turns)})
    assert n == len(played.ended) - len(turns)
    assert not any(ended.forced for ended in played.ended.values() if ended.kind != "turn")
    assert check(played.verdict, "recall")[:2] == ("pass", 4)
    assert "blind to degeneration" in played.verdict.scope
    assert played.verdict.forced_lengths
    assert played.verdict.regime.output_lengths == "forced"
    lengths = [request.usage.prompt_tokens for request in TALK.requests]
    sent = [len(ids) for _, ids in by_trace(played, "talk")]
    assert sent == lengths[: len(sent)]


def test_nothing_but_forced_replies_is_blind_to_degeneration() -> None:
    played = of_traces(*NO_TAGS)
    assert check(played.verdict, "degeneration")[0] == "not_evaluable"
    advice = next(one.advice for one in played.verdict.checks if one.name == "degeneration")
    assert advice is not None
    assert advice.startswith("blind to degeneration")


def test_babble_in_forced_replies_fails_nobody_and_in_free_ones_does() -> None:
    deep = "sessions.target_depth=900"
    asks = (deep, "canaries.per_session=1", "canaries.plant_at=[]", "limits.min_recalls=1")
    made = [
        play_small(Setting(faults=("babble",), healthy_turns=0, transcripts=(TALK, FORK), overrides=overrides))
        for overrides in (asks, (deep, *NO_TAGS))
    ]
    assert [check(played.verdict, "degeneration")[0] for played in made] == ["fail", "not_evaluable"]


def test_traces_by_messages_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"sessions\.prompt: traces without text"):
        of_traces("sessions.prompt=chat", *NO_TAGS)


def test_recorded_lengths_are_forced_on_transcripts_with_text_too() -> None:
    played = play_small(Setting(overrides=("sessions.output=recorded",)))
    turns = [(ended, sent) for session in (0, 1) for ended, sent in played.main_line(session)]
    assert turns
    for ended, sent in turns:
        assert ended.forced
        assert sent.sent.min_tokens == sent.sent.max_tokens == ended.completion_tokens
        assert sent.sent.ignore_eos
    for req in played.asked:
        assert played.by_req()[req].sent.min_tokens is None
    assert played.verdict.verdict == "PASS"
    assert played.verdict.regime.output_lengths == "forced"
    assert any("forced to their recorded lengths" in event.text for event in played.of(Noted))


def test_nothing_is_forced_unless_asked_for() -> None:
    played = play_small()
    assert not any(ended.forced for ended in played.ended.values())
    assert all(call.sent.min_tokens is None and not call.sent.ignore_eos for call in played.asks_for_tokens)
    assert played.verdict.regime.output_lengths == "natural"


def compacted(number: int) -> Session:
    """A session whose context is rewritten to a summary half way."""
    whole = transcript(number)
    (window,) = whole.windows
    before, after = window.requests[:4], window.requests[4:]
    summary = Message("user", f"The work so far: part {number} was read, and its limit is off by one. " * 4)
    opening = msgspec.structs.replace(after[0], delta=(summary,))
    return msgspec.structs.replace(
        whole, windows=(Window("start", before), Window("compaction", (opening, *after[1:])))
    )


def test_a_compaction_begins_the_prompt_anew_and_tags_are_planted_again() -> None:
    sessions = tuple(compacted(number) for number in range(3))
    played = play_small(Setting(transcripts=sessions, overrides=("sessions.target_depth=900",)))
    assert played.verdict.verdict == "PASS"
    opened = {event.req: event for event in played.of(RequestStarted) if event.opens}
    assert opened
    assert {event.opens for event in opened.values()} == {"compaction"}
    decode, calls = renderer().decode, played.by_req()
    for req, event in opened.items():
        line = played.main_line(event.session)
        place = next(n for n, (ended, _) in enumerate(line) if ended.req == req)
        assert len(calls[req].ids) < len(line[place - 1][1].ids)
        assert "The work so far" in decode(calls[req].ids)
        assert "You keep repository" in decode(calls[req].ids)
        assert line[place - 1][1].ids != calls[req].ids[: len(line[place - 1][1].ids)]
        assert line[place][0].prefix_missed is None
    again = [event for event in played.of(TagPlanted) if event.again]
    assert again
    assert len(played.of(TagPlanted)) - len(again) == len({event.tag for event in played.of(TagPlanted)})
    for req, asked in played.asked.items():
        if asked.kind == "recall":
            assert asked.tag in decode(calls[req].ids)
            assert asked.planted_depth_tokens is not None
            assert asked.tag in decode(calls[req].ids[asked.planted_depth_tokens :])[:16]


def test_a_compaction_begins_anew_by_messages_too() -> None:
    sessions = tuple(compacted(number) for number in range(3))
    chat = ("sessions.target_depth=900", "sessions.prompt=chat", "limits.min_recalls=4")
    played = play_small(Setting(transcripts=sessions, overrides=chat))
    assert played.fault is None
    opened = [event for event in played.of(RequestStarted) if event.opens]
    assert opened
    calls = played.by_req()
    for event in opened:
        line = played.main_line(event.session)
        place = next(n for n, (ended, _) in enumerate(line) if ended.req == event.req)
        texts = calls[event.req].sent.texts
        assert [role for role, _ in texts] == ["system", "user"]
        assert "The work so far" in texts[1][1]
        assert len(line[place - 1][1].sent.texts) > 2
    for req, asked in played.asked.items():
        if asked.kind == "recall":
            assert any(asked.tag in text for _, text in calls[req].sent.texts)


def test_a_context_that_is_given_up_does_not_count_as_depth() -> None:
    lengths = Lengths((100, 50, 30, 40), (9, 9, 9, 9), opens=(2,))
    assert lengths.depths(0, with_replies=False) == (150, 70)
    assert lengths.depths(200, with_replies=True) == (368, 88)


def family(waits: bool) -> tuple[Session, ...]:
    """A parent whose second reply starts a subagent, and the subagent."""
    parent = msgspec.structs.replace(transcript(0), id="parent")
    requests = list(parent.requests)
    if not waits:
        requests[2] = msgspec.structs.replace(requests[2], delta=(Message("user", "Meanwhile, go on with the rest."),))
    parent = msgspec.structs.replace(parent, windows=(Window("start", tuple(requests)),))
    child = msgspec.structs.replace(transcript(1, turns=3), id="child", parent="parent", spawned_after=2)
    return parent, child


@pytest.mark.parametrize("waits", [True, False])
def test_a_subagent_runs_beside_its_parent(waits: bool) -> None:
    one = ("sessions.count=1", "limits.min_recalls=3", "sessions.think_time=recorded")
    played = play_small(Setting(transcripts=family(waits), overrides=one))
    assert played.fault is None
    assert [(event.session, event.parent) for event in played.of(SessionStarted)] == [(0, None), (1, 0)]
    assert {event.session: event.reason for event in played.of(SessionEnded)} == {0: "finished", 1: "exhausted"}
    assert [ended.prefix_shared for ended, _ in played.main_line(1)] == [None, 1.0, 1.0]
    parent, child = played.main_line(0), played.main_line(1)
    spawned_at_s = parent[1][1].at_s + parent[1][0].total_ms / 1000
    assert child[0][1].at_s == pytest.approx(spawned_at_s, abs=1e-3)
    ended_at_s = child[-1][1].at_s + child[-1][0].total_ms / 1000
    assert (parent[2][1].at_s >= ended_at_s) == waits
    if waits:  # the tools' delay of that request was the subagent's run; the person's is kept
        assert parent[2][1].at_s - ended_at_s == pytest.approx(0.5, abs=1e-2)
    assert not [event for event in played.of(TagAsked) if event.session == 1]
    assert played.verdict.regime.subagents == "1 in parallel"
    assert played.verdict.regime.sessions == 1


def test_a_subagent_takes_its_turn_where_one_request_runs_at_once() -> None:
    serial = ("sessions.count=2", "sessions.control=serial", "limits.min_recalls=6")
    played = play_small(Setting(transcripts=(*family(waits=True), transcript(2)), overrides=serial))
    assert played.fault is None
    spans = sorted((sent.at_s, sent.at_s + ended.total_ms / 1000) for ended, sent in played.pairs())
    assert all(end <= start + 1e-6 for (_, end), (start, _) in itertools.pairwise(spans))
    assert 2 in {event.session for event in played.of(SessionStarted)}


def test_subagents_alone_are_transcripts_like_any_other() -> None:
    played = play_small(Setting(transcripts=family(waits=True), overrides=("sessions.subagents=alone",)))
    assert {event.parent for event in played.of(SessionStarted)} == {None}
    assert played.verdict.regime.subagents == "alone"


@pytest.mark.parametrize("prompt", ["tokens", "chat"])
def test_a_nonce_in_each_request_takes_the_cache_away(prompt: str) -> None:
    plain = play_small(Setting(overrides=(f"sessions.prompt={prompt}",)))
    noisy = play_small(Setting(overrides=(f"sessions.prompt={prompt}", "sessions.request_nonce=true")))
    assert noisy.verdict.verdict == plain.verdict.verdict
    assert noisy.verdict.regime.request_nonce
    cached = [sum(ended.cached_tokens or 0 for ended in played.ended.values()) for played in (plain, noisy)]
    assert cached[1] < cached[0] / 10
    if prompt == "tokens":
        nonces = [renderer().decode(call.ids).split("x-request-nonce: ")[1][:16] for call in noisy.asks_for_tokens]
        assert len(set(nonces)) == len(nonces)
        assert all(
            renderer().decode(call.ids).startswith("<|im_start|>system\nx-request") for call in noisy.asks_for_tokens
        )
    worst = noisy.verdict.prefix.worst
    assert worst is not None
    assert worst.missed_tokens > 0.9 * worst.of_tokens
    assert "did not begin with all of the last prompt" in noisy.verdict.scope
    assert plain.verdict.prefix.turns > 0
    if prompt == "tokens":
        assert plain.verdict.prefix.worst is None


def test_the_panel_of_a_session_shows_its_worst_miss_beside_what_was_cached_and_forced_speeds_as_such() -> None:
    noisy = play_small(Setting(overrides=("sessions.request_nonce=true", "sessions.output=recorded")))
    said = panel_of(noisy, 0)
    lost = [ended for ended, _ in noisy.main_line(0) if ended.prefix_missed]
    worst = max(lost, key=lambda ended: ended.prefix_missed or 0)
    assert f"worst prefix miss: turn {worst.turn} lost " in said
    assert said.count("prefix lost ") == len(lost)
    assert "/s forced" in said
    plain = panel_of(play_small(), 0)
    assert "prefix" not in plain
    assert "forced" not in plain


def panel_of(played: Played, session: int) -> str:
    """The lines of a session's panel."""
    story = SessionStory(session)
    for record in played.records:
        story.add(record.mono_us, record)
    return "\n".join(row.text for row in rows_session(played.state, story, 160))


def test_a_time_stamp_costs_the_cache_when_it_changes() -> None:
    stamped = play_small(Setting(overrides=("sessions.timestamp=minute", "sessions.think_time=20.0")))
    line = stamped.main_line(0)
    times = [renderer().decode(sent.ids).split("Current time: ")[1][:16] for _, sent in line]
    assert 1 < len(set(times)) < len(times)
    for (before, after), (ended, _) in zip(itertools.pairwise(times), line[1:], strict=True):
        assert (ended.prefix_shared == 1.0) == (before == after)
    assert stamped.verdict.regime.timestamp == "minute"


def test_salts_keep_conversations_apart_that_play_one_transcript_at_once() -> None:
    one = (transcript(0),)
    plain = play_small(Setting(transcripts=one))
    salted = play_small(Setting(transcripts=one, overrides=("sessions.cache_salt=auto",)))
    several = play_small(Setting(overrides=("sessions.cache_salt=auto",)))
    assert any("share its prefix" in event.text for event in plain.of(Noted))
    assert not any("share its prefix" in event.text for event in salted.of(Noted))
    salts = {call.sent.cache_salt for call in salted.asks_for_tokens}
    assert None not in salts
    assert len(salts) == 2
    assert {call.sent.cache_salt for call in several.asks_for_tokens} == {None}
    regimes = [played.verdict.regime.cache_salt for played in (plain, salted, several)]
    assert regimes == ["none", "auto: session", "auto: none"]


def test_whether_a_parent_waited_is_told_by_a_traces_times_or_by_the_results_it_carries() -> None:
    parent = trace("p", (130, 9, (1, 2, 3)), (200, 9, (1, 2, 4, 5)), at_s=(0.0, 30.0))
    early, late = (
        msgspec.structs.replace(trace(name, (70, 9, (6, 7)), at_s=(at_s,)), parent="p", spawned_after=1)
        for name, at_s in (("early", 10.0), ("late", 40.0))
    )
    nobody = msgspec.structs.replace(trace("n", (70, 9, (6, 7))), parent="somebody else", spawned_after=1)
    unlinked = msgspec.structs.replace(trace("u", (70, 9, (6, 7))), parent="p")
    found = spawns((parent, early, late, nobody, unlinked))
    assert [(one.transcript, one.parent, one.after, one.waits) for one in found] == [(1, 0, 1, True), (2, 0, 1, False)]
    with_text = family(waits=True), family(waits=False)
    assert [spawns(one)[0].waits for one in with_text] == [True, False]
