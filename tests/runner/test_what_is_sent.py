"""What the server receives under each option of a scenario, read off the wire and held against the log."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from runnertools import Played, Setting, play_small, renderer, thinking_vocabulary, transcript

from infermaxx_tui.core.events import (
    Record,
    RequestStarted,
    RunStarted,
    SessionStarted,
    TagAsked,
    TagIssued,
    TagPlanted,
    decode,
)
from infermaxx_tui.core.segments import closed_think_suffix, end_of_turn
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.core.wording import QUESTION, recall_question, tag_line, tag_repeat, tag_statement
from infermaxx_tui.selftest import play_in_memory


@pytest.fixture(scope="module")
def plain() -> Played:
    """The small scenario as it is."""
    return play_small()


def test_the_small_scenario_passes(plain: Played) -> None:
    assert plain.fault is None
    assert plain.verdict.verdict == "PASS"
    assert all(event.outcome == "ok" for event in plain.ended.values())


def test_prompts_by_ids_extend_the_last_prompt_and_reply_exactly(plain: Played) -> None:
    end = end_of_turn(renderer())
    for session in (0, 1):
        line = plain.main_line(session)
        assert len(line) >= 5
        for (before, sent), (after, next_sent) in itertools.pairwise(line):
            assert after.prefix_shared == 1.0
            assert len(next_sent.ids) > len(sent.ids)
            assert next_sent.ids[: len(sent.ids)] == sent.ids
            assert before.completion_tokens is not None
            reply_end = len(sent.ids) + before.completion_tokens
            assert before.finish_reason == "length"  # 24 tokens cap every turn, so that the end must be the template's
            assert next_sent.ids[reply_end : reply_end + len(end)] == end


def test_an_uncapped_reply_is_closed_by_what_its_end_of_turn_lacks() -> None:
    played = play_small(Setting(overrides=("reply.max_tokens=200",)))
    end = end_of_turn(renderer())
    stopped = 0
    for session in (0, 1):
        line = played.main_line(session)
        for (before, sent), (_, next_sent) in itertools.pairwise(line):
            if before.finish_reason != "stop":
                continue
            stopped += 1
            assert before.completion_tokens is not None
            reply_end = len(sent.ids) + before.completion_tokens
            assert next_sent.ids[reply_end - 1 : reply_end - 1 + len(end)] == end
            assert next_sent.ids[reply_end : reply_end + len(end)] != end
    assert stopped >= 4


def test_the_question_and_its_answer_never_enter_the_main_line(plain: Played) -> None:
    decode, calls = renderer().decode, plain.by_req()
    assert {plain.ended[req].kind for req in plain.asked} == {"recall", "tail", "absent"}
    for req, asked in plain.asked.items():
        assert decode(calls[req].ids).count(recall_question(asked.label)) == 1
    for session in (0, 1):
        for _, sent in plain.main_line(session):
            assert not QUESTION.search(decode(sent.ids))


def test_a_branch_is_the_main_line_and_the_question(plain: Played) -> None:
    calls, decode = plain.by_req(), renderer().decode
    for req, asked in plain.asked.items():
        turn = plain.ended[req].turn
        (newest,) = [sent for ended, sent in plain.main_line(asked.session) if ended.turn == turn]
        branch = calls[req].ids
        assert branch[: len(newest.ids)] == newest.ids
        assert decode(branch[asked.depth_tokens :]).startswith("<|im_start|>user\n")
        if asked.kind == "recall":
            question = f"<|im_start|>user\n{recall_question(asked.label)}<|im_end|>\n<|im_start|>assistant\n"
            assert decode(branch[asked.depth_tokens :]) == question


def test_logged_depths_are_those_of_usage_and_closing(plain: Played) -> None:
    for asked in plain.asked.values():
        newest = max(
            (e for e in plain.ended.values() if e.kind == "turn" and e.session == asked.session and e.req < asked.req),
            key=lambda event: event.req,
        )
        assert newest.prompt_tokens is not None
        assert newest.completion_tokens is not None
        assert asked.depth_tokens == newest.prompt_tokens + newest.completion_tokens + len(end_of_turn(renderer()))


@pytest.mark.parametrize("how", ["exchange", "inline"])
def test_every_planted_tag_stands_in_all_later_prompts_at_its_logged_depth(how: str) -> None:
    played = play_small(Setting(overrides=(f"canaries.plant={how}", "canaries.head=true")))
    assert played.verdict.verdict == "PASS"
    decode = renderer().decode
    planted = played.of(TagPlanted)
    assert [event.how for event in planted].count("head") == 2
    assert [event.how for event in planted].count(how) == 4  # type: ignore[arg-type]  # a literal, from the parameters
    for event in planted:
        said = tag_statement(event.label, event.tag) if event.how == "exchange" else tag_line(event.label, event.tag)
        for ended, sent in played.main_line(event.session):
            before, rest = decode(sent.ids[: event.depth_tokens]), decode(sent.ids[event.depth_tokens :])
            assert event.tag not in before
            assert (event.tag in rest[:16]) == (ended.turn >= event.turn)
            assert (said in before + rest) == (ended.turn >= event.turn)
    for req, asked in played.asked.items():
        if asked.kind == "recall":
            assert asked.tag in decode(played.by_req()[req].ids)


def test_an_inline_tag_stands_inside_a_tool_result() -> None:
    played = play_small(Setting(overrides=("canaries.plant=inline",)))
    decode = renderer().decode
    for event in played.of(TagPlanted):
        _, sent = played.main_line(event.session)[-1]
        before, _, after = decode(sent.ids).partition(tag_line(event.label, event.tag))
        assert before.count("<tool_response>") == before.count("</tool_response>") + 1
        assert after.index("</tool_response>") < after.index("<|im_start|>")


def test_a_tag_in_a_result_that_is_cut_to_fit_is_still_there() -> None:
    long = tuple(transcript(n, turns=3) for n in range(2))
    wide = tuple(_with_long_results(session) for session in long)
    overrides = ("canaries.plant=inline", "canaries.plant_at=[0.5]", "canaries.per_session=1", "limits.min_recalls=2")
    played = play_small(Setting(overrides=overrides, transcripts=wide))
    decode = renderer().decode
    assert len(played.of(TagPlanted)) == 2
    for event in played.of(TagPlanted):
        _, sent = played.main_line(event.session)[-1]
        assert "[… cut to fit]" in decode(sent.ids)
        assert event.tag in decode(sent.ids)
        assert len(sent.ids) <= 900
    assert played.outcome("recall") == "pass"


def _with_long_results(session: Session) -> Session:
    """The same with tool results of some 2,000 tokens."""
    replace = msgspec.structs.replace
    windows = []
    for window in session.windows:
        requests = [
            replace(r, delta=tuple(replace(m, content=m.content * (30 if m.role == "tool" else 1)) for m in r.delta))
            for r in window.requests
        ]
        windows.append(replace(window, requests=tuple(requests)))
    return replace(session, windows=tuple(windows))


def test_tags_left_over_are_planted_before_the_last_turn() -> None:
    """A delta that leaps over a tag's place must not take the tag's question with it."""
    overrides = ("canaries.plant_at=[0.3, 0.9]", "canaries.ask_at=[1.0]", "limits.min_recalls=4")
    played = play_small(Setting(overrides=overrides, transcripts=tuple(transcript(n, turns=8) for n in range(4))))
    assert len(played.of(TagPlanted)) == 4
    for event in played.of(TagPlanted):
        (asked,) = [ask for ask in played.of(TagAsked) if ask.tag == event.tag]
        assert asked.planted_depth_tokens == event.depth_tokens
        assert asked.depth_tokens > event.depth_tokens
    assert played.outcome("recall") == "pass"


def test_the_sentinel_is_told_in_its_branch_alone(plain: Played) -> None:
    decode, calls = renderer().decode, plain.by_req()
    tails = [event for event in plain.of(TagIssued) if event.kind == "tail"]
    assert len(tails) == 2
    for tail in tails:
        holders = [req for req, call in calls.items() if tail.tag in decode(call.ids)]
        assert [plain.ended[req].kind for req in holders] == ["tail"]
        text = decode(calls[holders[0]].ids)
        assert tag_statement(tail.label, tail.tag) in text
        assert tag_repeat(tail.label, tail.tag) in text


def test_decoys_and_absent_tags_are_never_sent(plain: Played) -> None:
    sent = "\n".join(renderer().decode(call.ids) for call in plain.asks_for_tokens)
    decoys = [event for event in plain.of(TagIssued) if event.kind == "decoy"]
    assert decoys
    assert not any(event.tag in sent for event in decoys)
    for event in plain.of(TagIssued):
        if event.kind == "absent":
            assert tag_statement(event.label, "") not in sent
            assert recall_question(event.label) in sent


def test_a_label_a_question(plain: Played) -> None:
    assert all(len(QUESTION.findall(renderer().decode(plain.by_req()[req].ids))) == 1 for req in plain.asked)


def test_recorded_replies_go_back_as_the_transcript_has_them() -> None:
    overrides = ("sessions.replies=recorded", "sessions.target_depth=1100")
    played = play_small(Setting(overrides=overrides))
    assert played.verdict.verdict == "PASS"
    decode = renderer().decode
    chains = {event.session: event.transcripts[0] for event in played.of(SessionStarted)}
    for session in (0, 1):
        number = int(chains[session].removeprefix("t"))
        replies = [request.reply for request in transcript(number).requests]
        line = played.main_line(session)
        assert all(ended.prefix_shared == 1.0 for ended, _ in line[1:])
        text = decode(line[-1][1].ids)
        for reply in replies[: len(line) - 1]:
            assert f"{reply.content}\n<tool_call>" in text
            assert reply.tool_calls[0].arguments in text


def test_recorded_depths_come_from_the_ids_that_were_sent() -> None:
    played = play_small(Setting(overrides=("sessions.replies=recorded", "sessions.target_depth=1100")))
    for req, asked in played.asked.items():
        branch = renderer().decode(played.by_req()[req].ids[asked.depth_tokens :])
        assert branch.startswith("<|im_start|>user\n")


def test_chat_replay_sends_messages_and_takes_depth_from_usage() -> None:
    played = play_small(Setting(overrides=("sessions.prompt=chat",)))
    assert played.verdict.verdict == "PASS"
    assert {call.path for call in played.asks_for_tokens} == {"/v1/chat/completions"}
    for session in (0, 1):
        line = played.main_line(session)
        for (before, sent), (after, next_sent) in itertools.pairwise(line):
            texts, more = sent.sent.texts, next_sent.sent.texts
            assert more[: len(texts)] == texts
            assert more[len(texts)] == ("assistant", before.content) or before.content is None
            assert after.prefix_shared is not None
    for asked in played.asked.values():
        newest = max(
            (e for e in played.ended.values() if e.kind == "turn" and e.session == asked.session and e.req < asked.req),
            key=lambda event: event.req,
        )
        assert newest.prompt_tokens is not None
        assert newest.completion_tokens is not None
        assert asked.depth_tokens == newest.prompt_tokens + newest.completion_tokens
    starts = played.of(RequestStarted)
    assert all(start.prompt_tokens is None for start in starts)


def test_chat_replay_of_live_replies_offers_no_tools_and_tells_results_as_a_user() -> None:
    played = play_small(Setting(overrides=("sessions.prompt=chat",)))
    for call in played.asks_for_tokens:
        assert not bytes(call.sent.tools)
        assert {role for role, _ in call.sent.texts} <= {"system", "user", "assistant"}
    assert any(text.startswith("Tool result:\n") for call in played.asks_for_tokens for _, text in call.sent.texts)


def test_chat_replay_of_recorded_replies_keeps_calls_and_results_and_still_plants_and_asks() -> None:
    played = play_small(Setting(overrides=("sessions.prompt=chat", "sessions.replies=recorded")))
    assert played.verdict.verdict == "PASS"
    assert len(played.of(TagPlanted)) == 4
    turns = [sent for session in (0, 1) for _, sent in played.main_line(session)]
    assert all(bytes(call.sent.tools) for call in turns)
    assert any(role == "tool" for call in turns for role, _ in call.sent.texts)
    for ended, _ in (turn for session in (0, 1) for turn in played.main_line(session)[1:]):
        assert ended.prompt_tokens is not None


def test_chat_replay_without_a_tokenizer_takes_all_depths_from_usage() -> None:
    played = play_small(Setting(overrides=("sessions.prompt=chat",), without_renderer=True))
    assert played.verdict.verdict == "PASS"
    assert len(played.of(TagPlanted)) == 4
    depths = {session: [e.prompt_tokens for e, _ in played.main_line(session)] for session in (0, 1)}
    for event in played.of(TagPlanted):
        assert any(depth is not None and depth >= event.depth_tokens for depth in depths[event.session])


def test_a_salt_for_each_session() -> None:
    played = play_small(Setting(overrides=("sessions.cache_salt=session",)))
    assert played.verdict.verdict == "PASS"
    salts = {
        session: {
            played.by_req()[req].sent.cache_salt for req, ended in played.ended.items() if ended.session == session
        }
        for session in (0, 1)
    }
    assert all(len(of_session) == 1 and None not in of_session for of_session in salts.values())
    assert salts[0] != salts[1]
    assert all(start.salted for start in played.of(RequestStarted))


def test_an_ask_waits_for_a_tag_that_a_large_turn_leapt_over() -> None:
    overrides = ("sessions.prompt=chat",)  # without a tokenizer nobody knows how large a turn will be
    played = play_small(Setting(overrides=overrides, without_renderer=True))
    planted = {(event.session, event.label): event.turn for event in played.of(TagPlanted)}
    recalls = [asked for asked in played.asked.values() if asked.kind == "recall"]
    assert len(recalls) == 8
    assert all(played.ended[a.req].turn >= planted[a.session, a.label] for a in recalls)


def test_no_salt_unless_asked_for(plain: Played) -> None:
    assert all(call.sent.cache_salt is None for call in plain.asks_for_tokens)


def test_think_times_are_kept_and_cut() -> None:
    recorded = play_small(Setting(overrides=("sessions.think_time=recorded",)))
    cut = play_small(Setting(overrides=("sessions.think_time=recorded", "sessions.max_think_s=0.4")))
    apart = ("sessions.think_time=recorded", "sessions.max_think_s=0.3", "sessions.max_tool_s=0.2")
    both = play_small(Setting(overrides=apart))
    fixed = play_small(Setting(overrides=("sessions.think_time=2.0",)))
    for played, pauses in (
        (recorded, (0.5, 0.75, 0.75)),
        (cut, (0.4, 0.65, 0.65)),
        (both, (0.3, 0.5, 0.5)),
        (fixed, (2.0, 2.0, 2.0)),
    ):
        line = played.main_line(0)[:4]
        for (before, sent), (_, next_sent), pause_s in zip(line, line[1:], pauses, strict=False):
            waited_s = next_sent.at_s - sent.at_s - before.total_ms / 1000
            assert waited_s == pytest.approx(pause_s, abs=1e-3)


def test_a_ramp_puts_the_starts_apart() -> None:
    played = play_small(Setting(overrides=("sessions.ramp_s=1.5",)))
    first, second = played.main_line(0)[0][1].at_s, played.main_line(1)[0][1].at_s
    assert second - first == pytest.approx(1.5, abs=1e-3)


def test_the_serial_control_never_has_two_requests_at_once() -> None:
    played = play_small(Setting(overrides=("sessions.control=serial",)))
    spans = [
        (call.at_s, call.at_s + played.ended[req].total_ms / 1000) for req, call in sorted(played.by_req().items())
    ]
    assert all(end <= begin + 1e-6 for (_, end), (begin, _) in itertools.pairwise(spans))
    assert {event.session for event in played.ended.values()} == {0, 1}
    assert played.outcome("recall") == "pass"


def test_rounds_and_waves() -> None:
    played = play_small(Setting(overrides=("sessions.count=4", "sessions.at_once=2", "sessions.rounds=2")))
    starts = played.of(SessionStarted)
    assert [(start.session, start.wave) for start in sorted(starts, key=lambda s: s.session)] == [
        (session, session // 2) for session in range(8)
    ]
    assert played.verdict.verdict == "PASS"


def test_budgets_and_temperature_are_the_scenarios() -> None:
    played = play_small(Setting(overrides=("reply.max_tokens=20", "canaries.max_tokens=80", "reply.temperature=0.5")))
    for req, call in played.by_req().items():
        assert call.sent.max_tokens == (20 if played.ended[req].kind == "turn" else 80)
        assert call.sent.temperature == 0.5


def test_a_prompt_that_closes_thinking_is_not_answered_inside_it() -> None:
    vocabulary = thinking_vocabulary()
    played = play_small(Setting(overrides=("canaries.thinking=off",), vocabulary=vocabulary))
    suffix = closed_think_suffix(vocabulary)
    assert suffix
    for req in played.asked:
        assert played.by_req()[req].ids[-len(suffix) :] == suffix
        ended = played.ended[req]
        assert ended.content_chars > 0
        assert ended.reasoning_chars == 0
    assert {recall.cls for recall in played.state.recalls} == {"recalled"}


def test_a_prompt_that_opens_thinking_is_answered_inside_it() -> None:
    played = play_small(Setting(vocabulary=thinking_vocabulary()))
    assert {recall.cls for recall in played.state.recalls} == {"reasoning_only"}
    assert all(ended.reasoning_chars > 0 for ended, _ in played.main_line(0))


def test_thinking_off_in_chat_replay_is_asked_for_in_questions_only() -> None:
    played = play_small(Setting(overrides=("sessions.prompt=chat", "canaries.thinking=off")))
    for req, call in played.by_req().items():
        wanted = {} if played.ended[req].kind == "turn" else {"enable_thinking": False}
        assert call.sent.chat_template_kwargs == wanted
    assert not any("thought_anyway" in event.anomalies for event in played.ended.values())


def test_every_request_has_its_id_in_log_and_wire(plain: Played) -> None:
    assert sorted(plain.by_req()) == sorted(plain.ended) == sorted(start.req for start in plain.of(RequestStarted))
    for req, event in plain.ended.items():
        assert event.server_id is not None
        assert event.server_id.endswith(plain.by_req()[req].server_id)


def test_token_counts_are_the_wires(plain: Played) -> None:
    for req, event in plain.ended.items():
        assert event.prompt_tokens == len(plain.by_req()[req].ids)
        assert event.completion_tokens == event.ids_received
    counts = plain.state.counts
    assert counts is not None
    assert counts.reason is None
    assert (counts.generation_client, counts.prompt_client) == (counts.generation_server, counts.prompt_server)


def test_the_asked_tag_is_that_of_its_label(plain: Played) -> None:
    issued = {(event.session, event.label): event.tag for event in plain.of(TagIssued)}
    for asked in plain.of(TagAsked):
        assert issued[asked.session, asked.label] == asked.tag


def test_a_tag_whose_place_the_last_reply_leapt_over_is_planted_and_asked_all_the_same() -> None:
    """A turn may end the conversation before the last tag's place was looked at; nothing planned may go unasked."""
    events = [
        record.event
        for line in play_in_memory(("clean",), ("sessions.rounds=8",))
        if isinstance(record := decode(line), Record)
    ]
    planned = [event.planned_recalls for event in events if isinstance(event, RunStarted)]
    assert planned == [120]
    assert sum(isinstance(event, TagPlanted) for event in events) == 72
    assert sum(isinstance(event, TagAsked) and event.kind == "recall" for event in events) == 120
