"""Recall: a miss is a miss only in a whole reply, and asking again says what it is worth."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Ask, Reply, Shape, history, honest, state_of
from infermaxx_tui.core.judges import recall
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.stats import bound95


def check(answer: Callable[[Ask], Reply] = honest, shape: Shape = Shape(), limits: Limits = Limits()) -> Check:  # noqa: B008
    return recall.judge(state_of(history(shape, answer)), limits)


def forgets(*kinds: str, first: int = 0, last: int = 10_000) -> Callable[[Ask], Reply]:
    """A server that forgets questions of these kinds, from number `first` up to before `last` of the kind."""

    def answer(ask: Ask) -> Reply:
        if ask.kind in kinds and first <= ask.number < last:
            return Reply(content="I do not remember that one.")
        return honest(ask)

    return answer


def forgets_for_good(n: int) -> Callable[[Ask], Reply]:
    """A server that forgets the first `n` questions, and again in both replies alone to each of them."""

    def answer(ask: Ask) -> Reply:
        lost = {"recall": n, "reask_alone": 2 * n}.get(ask.kind, 0)
        return Reply(content="I do not remember that one.") if ask.number < lost else honest(ask)

    return answer


def test_healthy_passes_with_its_bounds() -> None:
    got = check()
    assert (got.outcome, got.n_evaluated, got.n_planned, got.excluded) == ("pass", 24, 24, {})
    assert got.bound95 == bound95(0, 24)
    assert got.bound95_sessions == bound95(0, 4)
    assert got.cause is None
    assert got.evidence == ()


@pytest.mark.parametrize(
    ("said", "cls"),
    [
        (lambda ask: "I do not remember that one.", "forgotten"),
        (lambda ask: f"It is {ask.others[0]}.", "mislabelled"),
        (lambda ask: f"It is {ask.tag[:-1]}{'A' if ask.tag[-1] != 'A' else 'C'}.", "corrupted"),
        (lambda ask: f"It is {ask.tag[1:4]}{ask.tag[0]}-{ask.tag[:3:-1][:4]}.", "invented"),
    ],
)
def test_each_kind_of_miss_fails_with_a_witness(said: Callable[[Ask], str], cls: str) -> None:
    def answer(ask: Ask) -> Reply:
        sick = ask.tag and ask.session == 2 and ask.kind != "tail"
        return Reply(content=said(ask)) if sick else honest(ask)

    got = check(answer)
    assert got.outcome == "fail"
    assert got.n_evaluated == 24
    assert got.cause == "alone_too"
    assert {one.what for one in got.evidence} == {cls}
    assert {one.session for one in got.evidence} == {2}
    assert len(got.evidence) == 6
    assert all(one.said and one.tag and one.label for one in got.evidence)


def test_evidence_points_at_the_event_that_it_names() -> None:
    events = history(Shape(), forgets("recall", first=3, last=4))
    (witness,) = recall.judge(state_of(events), Limits()).evidence
    part, seq = witness.event
    pointed = events[seq]
    assert part == 0
    assert isinstance(pointed, e.RequestEnded)
    assert pointed.content == "I do not remember that one."
    assert (pointed.session, pointed.turn) == (witness.session, witness.turn)


def test_alone_it_recalls_and_under_load_it_misses_again() -> None:
    got = check(forgets("recall", "reask_load", last=1))
    assert (got.outcome, got.cause) == ("fail", "under_load")
    assert "limits.max_lost=0" in (got.advice or "")


def test_alone_it_misses_too() -> None:
    got = check(forgets_for_good(2))
    assert (got.outcome, got.cause, len(got.evidence)) == ("fail", "alone_too", 2)
    assert (got.advice or "").startswith("2 of 24 recalls lost, limits.max_lost=0; alone it misses too")


def test_one_recall_of_two_alone_is_enough_to_clear_the_model() -> None:
    """The first reply alone misses and the second recalls: alone it recalls."""
    got = check(forgets("recall", "reask_alone", "reask_load", last=1))
    assert got.cause == "under_load"


def test_a_miss_that_does_not_repeat_is_listed_and_counted_in_the_bound() -> None:
    got = check(forgets("recall", last=1))
    assert got.outcome == "pass"
    assert got.bound95 == bound95(1, 24)
    assert got.bound95_sessions == bound95(1, 4)
    assert got.evidence[0].what == "forgotten, not repeated"
    assert "counted in the bound" in (got.advice or "")


def test_misses_that_do_not_repeat_are_no_pass_when_there_are_many() -> None:
    """If asking again never brings the misses back, it does not show that they were chance."""
    assert check(forgets("recall", last=2)).outcome == "pass"
    got = check(forgets("recall", last=3))
    assert (got.outcome, len(got.evidence)) == ("not_evaluable", 3)
    assert "3 of 24 missed once" in (got.advice or "")
    assert check(forgets("recall", last=3), limits=Limits(max_excluded=0.125)).outcome == "pass"


def test_a_pass_with_misses_says_how_many_of_which_sort() -> None:
    def answer(ask: Ask) -> Reply:
        lost = {"recall": 3, "reask_alone": 2}.get(ask.kind, 0)
        return Reply(content="I do not remember that one.") if ask.number < lost else honest(ask)

    got = check(answer, limits=Limits(max_lost=1))
    assert got.outcome == "pass"
    assert (got.advice or "").startswith("1 lost, allowed by limits.max_lost; 2 missed once")


def test_both_causes_together_are_called_under_load() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.session == 0 and ask.kind in ("recall", "reask_alone"):
            return Reply(content="I do not remember that one.")
        if ask.session == 1 and ask.kind in ("recall", "reask_load"):
            return Reply(content="I do not remember that one.")
        return honest(ask)

    got = check(answer)
    assert got.cause == "under_load"
    assert {one.cause for one in got.evidence} == {"under_load", "alone_too"}


def test_a_miss_that_nobody_asked_again_stands() -> None:
    got = check(forgets("recall", last=1), Shape(reask=False))
    assert (got.outcome, got.cause) == ("fail", None)


def test_a_miss_that_could_not_be_asked_again_under_load_is_no_verdict() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind == "recall" and ask.number == 0:
            return Reply(content="I do not remember that one.")
        if ask.kind == "reask_load":
            return Reply(outcome="shed", status=503, finish_reason=None, completion_tokens=None, speaks=False)
        return honest(ask)

    got = check(answer)
    assert got.outcome == "not_evaluable"
    assert "could not be asked again" in (got.advice or "")


def test_replies_alone_that_could_not_be_judged_leave_the_cause_open() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind == "recall" and ask.number == 0:
            return Reply(content="I do not remember that one.")
        if ask.kind == "reask_alone":
            return Reply(content="It is", finish_reason="length", completion_tokens=200)
        return honest(ask)

    assert (check(answer).outcome, check(answer).cause) == ("fail", None)


def test_max_lost_is_the_number_that_still_passes() -> None:
    assert check(forgets_for_good(2), limits=Limits(max_lost=1)).outcome == "fail"
    assert check(forgets_for_good(2), limits=Limits(max_lost=2)).outcome == "pass"


EXCLUDED: dict[str, Reply] = {
    "capped": Reply(content="The lot", finish_reason="length", completion_tokens=200),
    "truncated": Reply(content="The lot", outcome="truncated", finish_reason=None, error="eof"),
    "empty": Reply(finish_reason="stop"),
    "refused": Reply(content="I'm sorry, but I cannot share that information."),
    "degenerate": Reply(content="of of of", degenerate="cycle of 1 token, 120 times"),
}


@pytest.mark.parametrize("cls", EXCLUDED)
def test_replies_that_are_not_whole_never_enter_n(cls: str) -> None:
    got = check(lambda ask: EXCLUDED[cls] if ask.kind == "recall" else honest(ask))
    assert (got.outcome, got.n_evaluated, got.excluded) == ("not_evaluable", 0, {cls: 24})
    assert got.bound95 is None


@pytest.mark.parametrize("cls", EXCLUDED)
def test_a_few_left_out_are_allowed_and_one_more_is_not(cls: str) -> None:
    def sick(n: int) -> Callable[[Ask], Reply]:
        return lambda ask: EXCLUDED[cls] if ask.kind == "recall" and ask.number < n else honest(ask)

    assert check(sick(2)).outcome == "pass"
    got = check(sick(3))
    assert got.outcome == "not_evaluable"
    assert got.excluded == {cls: 3}
    assert "limits.max_excluded=0.1" in (got.advice or "")


def test_a_capped_reply_never_counts_whichever_tag_it_shows() -> None:
    def answer(ask: Ask) -> Reply:
        whole = honest(ask)
        capped = msgspec.structs.replace(whole, finish_reason="length", completion_tokens=200)
        return capped if ask.kind == "recall" else whole

    assert check(answer).n_evaluated == 0


def test_recalled_in_reasoning_only_is_recalled() -> None:
    got = check(lambda ask: Reply(reasoning=honest(ask).content) if ask.kind == "recall" else honest(ask))
    assert (got.outcome, got.n_evaluated) == ("pass", 24)


def test_too_few_recalls_cannot_pass() -> None:
    small = Shape(tags=2)
    assert check(shape=small).n_evaluated == 12
    assert check(shape=small).outcome == "not_evaluable"
    assert "limits.min_recalls=20" in (check(shape=small).advice or "")
    assert check(shape=small, limits=Limits(min_recalls=12)).outcome == "pass"


def test_nothing_asked_is_no_verdict_even_if_nothing_was_demanded() -> None:
    got = check(shape=Shape(tags=0), limits=Limits(min_recalls=0))
    assert (got.outcome, got.n_evaluated, got.bound95) == ("not_evaluable", 0, None)


def test_a_loss_outlives_too_few_recalls() -> None:
    assert check(forgets("recall", "reask_alone"), Shape(tags=2)).outcome == "fail"


def without_last_questions(events: list[e.AnyEvent], sessions: tuple[int, ...], reason: str) -> list[e.AnyEvent]:
    """The history in which these sessions ended for `reason` before their questions at full depth."""
    dropped = {x.req for x in events if isinstance(x, e.TagAsked) and x.session in sessions and x.asked_at == 1.0}
    kept: list[e.AnyEvent] = []
    for x in events:
        if isinstance(x, (e.TagAsked, e.RequestStarted, e.FirstToken, e.RequestEnded)) and x.req in dropped:
            continue
        if isinstance(x, e.SessionEnded) and x.session in sessions:
            x = msgspec.convert({**msgspec.to_builtins(x), "reason": reason}, e.SessionEnded)
        kept.append(x)
    return kept


def test_questions_that_the_duration_ended_are_not_owed() -> None:
    events = without_last_questions(history(Shape()), (3,), "duration")
    got = recall.judge(state_of(events), Limits())
    assert (got.outcome, got.n_evaluated, got.n_planned, got.excluded) == ("pass", 20, 20, {})


@pytest.mark.parametrize("reason", ["stopped", "window", "failed", "server_lost", "exhausted"])
def test_questions_that_were_not_asked_for_any_other_reason_are_owed(reason: str) -> None:
    events = without_last_questions(history(Shape()), (3,), reason)
    got = recall.judge(state_of(events), Limits())
    assert (got.outcome, got.n_evaluated, got.n_planned) == ("not_evaluable", 20, 24)
    assert got.excluded == {"not_asked": 4}


def test_conversations_that_the_duration_never_let_begin_owe_nothing() -> None:
    events = history(Shape(sessions=8))
    started = {x.session for x in events if isinstance(x, e.SessionStarted) and x.wave == 1}
    cut = next(i for i, x in enumerate(events) if isinstance(x, e.SessionStarted) and x.session in started)
    stopped = [*events[:cut], e.StopAsked(by="duration"), e.RunEnded(reason="duration", events=cut + 2)]
    got = recall.judge(state_of(stopped), Limits())
    assert (got.outcome, got.n_evaluated, got.n_planned) == ("pass", 24, 24)
    by_hand = [*events[:cut], e.StopAsked(by="sigint"), e.RunEnded(reason="stopped", events=cut + 2)]
    owed = recall.judge(state_of(by_hand), Limits())
    assert (owed.outcome, owed.n_planned, owed.excluded) == ("not_evaluable", 48, {"not_asked": 24})


def test_a_question_without_an_end_is_left_out() -> None:
    events = history(Shape())
    ends = [i for i, x in enumerate(events) if isinstance(x, e.RequestEnded) and x.kind == "recall"]
    got = recall.judge(state_of(events[: ends[-1]]), Limits())
    assert (got.n_evaluated, got.excluded) == (23, {"unanswered": 1})


def test_a_question_that_we_cancelled_was_not_asked() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind == "recall" and ask.number == 0:
            return Reply(content="The", outcome="cancelled", finish_reason=None)
        return honest(ask)

    got = check(answer)
    assert (got.outcome, got.n_evaluated, got.excluded) == ("pass", 23, {"not_asked": 1})
