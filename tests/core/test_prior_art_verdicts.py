"""False verdicts that other tools gave, by their numbers in the reference notes: ours must not give them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Ask, Reply, Shape, fluent, history, honest, state_of
from infermaxx_tui.core.verdict import Verdict, exit_code, judge_run

SMALL = Shape(sessions=1, at_once=1, tags=4, turns_between=2)
"""12 turns, 6 recalls, a sentinel and an absent label."""
EMPTY = Reply(finish_reason="stop", completion_tokens=0)
HTTP_500 = Reply(outcome="rejected", status=500, finish_reason=None, completion_tokens=None, speaks=False)
TIMEOUT = Reply(outcome="timeout", status=None, finish_reason=None, completion_tokens=None, speaks=False)
TOO_LONG = Reply(outcome="too_long", status=400, finish_reason=None, completion_tokens=None, speaks=False)
CAPPED_THINKING = Reply(reasoning="Let me think about it", finish_reason="length", completion_tokens=200)


def judged(
    answer: Callable[[Ask], Reply] = honest,
    turn: Callable[[int, int], Reply] = fluent,
    shape: Shape = Shape(),  # noqa: B008
) -> Verdict:
    return judge_run(state_of(history(shape, answer, turn)))


def outcome(verdict: Verdict, name: str) -> str:
    return next(check.outcome for check in verdict.checks if check.name == name)


def test_d2_two_of_a_score_of_turns_that_returned_nothing_are_a_failure() -> None:
    """HTTP 200 with zero output is never counted as success."""
    verdict = judged(honest, lambda session, turn: EMPTY if turn in (4, 9) else fluent(session, turn), SMALL)
    assert outcome(verdict, "delivery") == "fail"


def test_d3_a_tool_call_without_text_is_not_empty() -> None:
    call = Reply(tool_args='{"path": "a.py"}', finish_reason="tool_calls", completion_tokens=3)
    assert outcome(judged(honest, lambda session, turn: call), "delivery") == "pass"


def test_d4_when_every_step_was_refused_as_too_long_nothing_passed() -> None:
    verdict = judged(lambda ask: TOO_LONG, lambda session, turn: TOO_LONG)
    assert verdict.verdict == "INCONCLUSIVE"
    assert {outcome(verdict, name) for name in ("recall", "isolation", "delivery", "availability")} == {"not_evaluable"}


def test_d7_the_exit_code_is_the_worst_inner_verdict() -> None:
    one_leak = judged(
        lambda ask: Reply(content=ask.foreign[0]) if ask.kind == "tail" and ask.session == 3 else honest(ask)
    )
    assert [check.name for check in one_leak.checks if check.outcome == "fail"] == ["isolation"]
    assert exit_code(one_leak) == 1


def test_d15_tokens_of_an_unknown_field_are_a_fault_of_the_reader() -> None:
    unread = Reply(finish_reason="stop", completion_tokens=40, anomalies=("unparsed_delta",))
    verdict = judged(honest, lambda session, turn: unread)
    assert verdict.verdict == "INCONCLUSIVE"
    assert outcome(verdict, "instrument") == "not_evaluable"


def test_d30_a_run_that_another_client_disturbed_is_no_verdict() -> None:
    events = history()
    foreign = e.CountsReconciled(generation_client=1600, generation_server=1900, prompt_client=900, prompt_server=4000)
    verdict = judge_run(state_of([*events[:-1], foreign, events[-1]]))
    assert verdict.verdict == "INCONCLUSIVE"


def test_d33_a_cap_is_counted_apart_from_a_wrong_answer() -> None:
    verdict = judged(lambda ask: CAPPED_THINKING if ask.kind == "recall" else honest(ask))
    recall = verdict.checks[0]
    assert (verdict.verdict, recall.excluded["capped"], recall.n_evaluated) == ("INCONCLUSIVE", 24, 0)


@pytest.mark.parametrize("kind", ["recall", "tail"])
def test_d35_a_time_out_is_no_failure(kind: str) -> None:
    verdict = judged(lambda ask: TIMEOUT if ask.kind == kind else honest(ask))
    assert verdict.verdict == "INCONCLUSIVE"


def test_d56_failures_of_the_way_there_leave_the_denominator() -> None:
    shed = Reply(outcome="shed", status=503, finish_reason=None, completion_tokens=None, speaks=False)
    verdict = judged(lambda ask: shed if ask.kind == "recall" and ask.number < 12 else honest(ask))
    recall = verdict.checks[0]
    assert (recall.n_evaluated, recall.n_planned, recall.excluded) == (12, 24, {"shed": 12})
    assert recall.bound95 == pytest.approx(1 - 0.05 ** (1 / 12))


def test_v2_when_every_reply_is_capped_nothing_passed() -> None:
    capped = Reply(content="It", finish_reason="length", completion_tokens=200)
    assert judged(lambda ask: capped, lambda session, turn: capped).verdict == "INCONCLUSIVE"


def test_v3_no_sample_is_no_speed() -> None:
    events = [x for x in history() if not isinstance(x, e.Beat)]
    silent = judge_run(state_of(events))
    assert silent.instrument.gap_p99_ms is None


@pytest.mark.parametrize("every", [1, 2])
def test_v5_v6_empty_replies_fail_however_fast_they_came(every: int) -> None:
    verdict = judged(honest, lambda session, turn: EMPTY if turn % every == 0 else fluent(session, turn))
    assert outcome(verdict, "delivery") == "fail"


def test_v7_failures_are_not_hidden_by_the_time_out_that_follows() -> None:
    """40 answers of 500 and then silence: the failure stays."""
    verdict = judged(lambda ask: TIMEOUT, lambda session, turn: HTTP_500 if turn > 2 else fluent(session, turn))
    assert verdict.verdict == "FAIL"
    assert outcome(verdict, "delivery") == "fail"
    assert outcome(verdict, "availability") == "not_evaluable"


def test_a1_the_field_note_s_two_hundred_tokens_are_not_amnesia() -> None:
    """Every recall reply was exactly 200 tokens, the tags that came late were missing, and it was called amnesia."""

    def answer(ask: Ask) -> Reply:
        return Reply(content="Let me list what I know:", finish_reason="stop", completion_tokens=200)

    verdict = judged(lambda ask: answer(ask) if ask.kind == "recall" else honest(ask))
    assert verdict.verdict == "INCONCLUSIVE"
    assert "canaries.max_tokens=200: raise it" in (
        next(check.advice for check in verdict.checks if check.name == "budget") or ""
    )


def test_a2_a_gate_that_evaluated_nothing_does_not_pass() -> None:
    assert judged(shape=Shape(tags=0)).verdict == "INCONCLUSIVE"


def test_a3_a_typo_is_not_a_leak() -> None:
    def typo(ask: Ask) -> Reply:
        if not ask.tag or ask.session != 1:
            return honest(ask)
        return Reply(content=f"It is {ask.tag[:-1]}{'A' if ask.tag[-1] != 'A' else 'C'}.")

    verdict = judged(typo)
    assert outcome(verdict, "isolation") == "pass"
    assert outcome(verdict, "recall") == "fail"
    assert {one.what for one in verdict.checks[0].evidence} == {"corrupted"}


def test_peers_40_a_stream_that_ends_in_an_error_is_a_failure() -> None:
    error = Reply(content="Ses", outcome="protocol", finish_reason=None, error='{"error": "engine died"}')
    verdict = judged(honest, lambda session, turn: error if turn > 2 else fluent(session, turn))
    assert outcome(verdict, "delivery") == "fail"


def test_peers_46_nothing_measured_is_null_and_no_success() -> None:
    verdict = judge_run(state_of([]))
    assert exit_code(verdict) == 3
    assert (verdict.instrument.ttft_p50_ms, verdict.regime.depth_reached, verdict.checks[0].bound95) == (
        None,
        None,
        None,
    )


def test_peers_48_conversations_that_did_not_finish_are_told() -> None:
    events = history()
    cut = next(i for i, x in enumerate(events) if isinstance(x, e.TagAsked) and x.asked_at == 1.0)
    died = judge_run(state_of([*events[:cut], e.RunEnded(reason="finished", events=cut + 1)]))
    assert died.verdict == "INCONCLUSIVE"
    assert died.checks[0].excluded == {"not_asked": 16}


def test_peers_49_what_was_sent_adds_up() -> None:
    mixed = [HTTP_500, TIMEOUT, TOO_LONG, EMPTY]
    events = history(Shape(), honest, lambda session, turn: mixed[turn % 4] if turn > 2 else fluent(session, turn))
    state = state_of(events)
    sent = sum(isinstance(x, e.RequestStarted) for x in events)
    assert sum(n for by in state.outcomes.values() for n in by.values()) == sent
    delivery = judge_run(state).checks[2]
    assert delivery.n_planned == delivery.n_evaluated + sum(delivery.excluded.values())


def test_peers_72_a_tag_in_thinking_that_leaked_into_a_capped_answer_is_no_recall() -> None:
    leaked = judged(
        lambda ask: (
            Reply(content=f"Hm, the tag, {ask.tag}, or", finish_reason="length", completion_tokens=200)
            if ask.kind == "recall"
            else honest(ask)
        )
    )
    assert leaked.checks[0].n_evaluated == 0


def test_peers_73_thinking_alone_is_a_class_of_its_own_even_with_stop() -> None:
    state = state_of(history(Shape(), lambda ask: Reply(reasoning=honest(ask).content)))
    assert {recall.cls for recall in state.recalls} == {"reasoning_only"}
    assert judge_run(state).checks[0].outcome == "pass"
    assert judge_run(state).checks[2].outcome == "fail"
