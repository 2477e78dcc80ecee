"""Isolation: one exact foreign tag in any channel of any reply is proof; without one on the server nothing is shown."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.canary import make_tags
from infermaxx_tui.core.histories import Ask, Reply, Shape, changed, fluent, history, honest, state_of
from infermaxx_tui.core.judges import isolation
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.stats import bound95

OLD = make_tags(99, "an earlier run", 3)


def check(events: list[e.AnyEvent], limits: Limits = Limits()) -> Check:  # noqa: B008
    return isolation.judge(state_of(events), limits)


def at(number: int, reply: Callable[[Ask], Reply], kind: str = "recall") -> Callable[[Ask], Reply]:
    """An honest server but for one question."""
    return lambda ask: reply(ask) if ask.kind == kind and ask.number == number else honest(ask)


def test_healthy_passes_with_its_bounds() -> None:
    got = check(history())
    assert (got.outcome, got.required, got.n_evaluated, got.n_planned) == ("pass", True, 24, 24)
    assert (got.bound95, got.bound95_sessions) == (bound95(0, 24), bound95(0, 4))
    assert got.evidence == ()


CHANNELS: dict[str, Callable[[str], Reply]] = {
    "content": lambda tag: Reply(content=f"It is {tag}."),
    "reasoning": lambda tag: Reply(content="Hm.", reasoning=f"Was it {tag}?"),
    "tool": lambda tag: Reply(content="Hm.", tool_args=f'{{"tag": "{tag}"}}'),
}


@pytest.mark.parametrize("channel", CHANNELS)
def test_one_foreign_tag_in_any_channel_fails_and_names_whose_it_was(channel: str) -> None:
    events = history(Shape(), at(9, lambda ask: CHANNELS[channel](ask.foreign[0])))
    got = check(events)
    assert (got.outcome, got.cause, got.bound95) == ("fail", "foreign", None)
    (witness,) = got.evidence
    assert witness.channel == channel
    assert witness.owner is not None
    assert witness.owner != witness.session
    assert witness.planted_depth_tokens is not None
    assert (witness.overlapped, witness.cause) == (True, "foreign")
    assert witness.what == f"session {witness.owner}'s tag in the {channel} of a recall reply"
    assert (got.advice or "").startswith("1 tag of another conversation seen, 1 while its owner was decoding")
    assert (witness.tag or "?") in (witness.said or "")
    pointed = events[witness.event[1]]
    assert isinstance(pointed, e.RequestEnded)
    assert pointed.session == witness.session


@pytest.mark.parametrize(
    "broken",
    [
        {"finish_reason": "length", "completion_tokens": 200},
        {"outcome": "truncated", "finish_reason": None},
        {"outcome": "cancelled", "finish_reason": None},
        {"degenerate": "cycle of 1 token, 120 times"},
    ],
)
def test_a_leak_in_a_reply_that_proves_nothing_else_is_still_a_leak(broken: dict[str, object]) -> None:
    def reply(ask: Ask) -> Reply:
        whole = Reply(content=f"It is {ask.foreign[0]}.")
        return msgspec.convert({**msgspec.to_builtins(whole), **broken}, Reply)

    assert check(history(Shape(), at(9, reply))).outcome == "fail"


def test_the_own_tag_beside_a_foreign_one_does_not_excuse_it() -> None:
    both = at(9, lambda ask: Reply(content=f"It is {ask.tag}, or {ask.foreign[3]}."))
    assert check(history(Shape(), both)).outcome == "fail"


@pytest.mark.parametrize("kind", ["tail", "absent", "reask_alone"])
def test_any_kind_of_question_can_leak(kind: str) -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind == kind:
            return Reply(content=f"It is {ask.foreign[0]}.")
        if ask.kind == "recall" and kind == "reask_alone" and ask.number == 0:
            return Reply(content="I do not remember that one.")
        return honest(ask)

    got = check(history(Shape(), answer))
    assert got.outcome == "fail"
    assert f"{kind} reply" in got.evidence[0].what


def test_a_main_line_reply_leaks_by_what_the_runner_saw() -> None:
    foreign = next(x.tag for x in history() if isinstance(x, e.TagIssued) and x.session == 3)
    hit = e.Hit(tag=foreign, kind="foreign", owner=3, channel="content")

    def turn(session: int, number: int) -> Reply:
        return msgspec.structs.replace(fluent(session, number), hits=(hit,) if (session, number) == (0, 5) else ())

    got = check(history(Shape(), honest, turn))
    assert got.outcome == "fail"
    assert (got.evidence[0].session, got.evidence[0].owner, got.evidence[0].tag) == (0, 3, foreign)


def test_a_leak_counts_once_for_each_session_and_tag() -> None:
    def answer(ask: Ask) -> Reply:
        if ask.kind != "recall" or ask.session not in (1, 2):
            return honest(ask)
        theirs = sorted(ask.foreign)[0]
        return Reply(content=f"It is {ask.tag if theirs in ask.others else theirs}.")

    state = state_of(history(Shape(), answer))
    assert state.leak_counts["foreign"] == len(state.leaks) == len({(x.session, x.tag) for x in state.leaks})
    assert {x.session for x in state.leaks} <= {1, 2}


def known_tags(events: list[e.AnyEvent]) -> list[e.AnyEvent]:
    """The history of a run that knows what an earlier one planted."""
    return [*events[:2], e.TagsKnown(run="earlier", tags=OLD), *events[2:]]


def test_an_earlier_run_s_tag_is_stale() -> None:
    got = check(known_tags(history(Shape(), at(9, lambda ask: Reply(content=f"It is {OLD[1]}.")))))
    assert (got.outcome, got.cause) == ("fail", "stale")
    assert (got.evidence[0].owner, got.evidence[0].cause) == (None, "stale")
    assert got.evidence[0].what == "an earlier run's tag in the content of a recall reply"
    assert "cache outlived" in (got.advice or "")


def test_a_foreign_and_a_stale_tag_are_two_leaks() -> None:
    both = at(9, lambda ask: Reply(content=f"It is {OLD[1]} or {ask.foreign[0]}."))
    got = check(known_tags(history(Shape(), both)))
    assert (got.outcome, got.cause, len(got.evidence)) == ("fail", "foreign", 2)


def test_a_warm_up_may_say_the_tags_that_stand_in_its_own_prompt() -> None:
    hit = e.Hit(tag=OLD[0], kind="stale", owner=None, channel="content")

    def warm(event: e.RequestEnded) -> e.AnyEvent:
        return msgspec.structs.replace(event, kind="warmup", hits=(hit,)) if event.req == 0 else event

    assert check(changed(known_tags(history()), e.RequestEnded, warm)).outcome == "pass"

    def later(event: e.RequestEnded) -> e.AnyEvent:
        return msgspec.structs.replace(event, hits=(hit,)) if event.req == 4 else event

    assert check(changed(known_tags(history()), e.RequestEnded, later)).outcome == "fail"


def test_a_leaked_tag_that_stays_in_the_conversation_does_not_make_later_recalls_leaks() -> None:
    """With live replies the leaked tag stands in every later prompt; the leak itself is counted where it happened."""
    foreign = next(x.tag for x in history() if isinstance(x, e.TagIssued) and x.session == 3)
    hit = e.Hit(tag=foreign, kind="foreign", owner=3, channel="content")

    def turn(session: int, number: int) -> Reply:
        return msgspec.structs.replace(fluent(session, number), hits=(hit,) if (session, number) == (0, 1) else ())

    def answer(ask: Ask) -> Reply:
        if ask.kind == "recall" and ask.session == 0:
            return Reply(content=f"{honest(ask).content} Somebody said {foreign} before.")
        return honest(ask)

    state = state_of(history(Shape(), answer, turn))
    assert state.leak_counts["foreign"] == 1
    assert state.leaks[0].request_kind == "turn"
    assert {recall.cls for recall in state.recalls} == {"recalled"}


def test_a_decoy_is_the_harness_s_fault_and_no_leak() -> None:
    decoy = next(x.tag for x in history() if isinstance(x, e.TagIssued) and x.kind == "decoy")
    got = check(history(Shape(), at(9, lambda ask: Reply(content=f"It is {decoy}."))))
    assert got.outcome == "pass"
    assert got.evidence == ()


def test_one_session_cannot_show_isolation_and_is_not_asked_to() -> None:
    got = check(history(Shape(sessions=1, at_once=1)), Limits(min_recalls=1))
    assert (got.outcome, got.required, got.n_evaluated) == ("not_evaluable", False, 0)
    assert got.excluded == {"no_foreign_tag": 6}


def test_replies_given_before_a_foreign_tag_was_sent_show_nothing() -> None:
    """One at a time: nobody's tag is there to be leaked into the first conversation."""
    got = check(history(Shape(at_once=1)), Limits(min_recalls=18))
    assert (got.outcome, got.required, got.n_evaluated) == ("pass", True, 18)
    assert got.excluded == {"no_foreign_tag": 6}
    assert check(history(Shape(at_once=1)), Limits(min_recalls=19)).outcome == "not_evaluable"


def test_a_leak_between_conversations_that_never_met_says_so() -> None:
    got = check(history(Shape(at_once=1), at(20, lambda ask: Reply(content=ask.foreign[0]))))
    assert got.evidence[0].overlapped is False
    assert (got.advice or "").startswith("1 tag of another conversation seen, 0 while its owner was decoding")


def test_blind_when_no_reply_was_whole() -> None:
    capped = Reply(content="The", finish_reason="length", completion_tokens=200)
    got = check(history(Shape(), lambda ask: capped if ask.kind == "recall" else honest(ask)))
    assert (got.outcome, got.n_evaluated, got.bound95) == ("not_evaluable", 0, None)


def test_a_leak_outlives_too_few_recalls() -> None:
    assert check(history(Shape(tags=2), at(0, lambda ask: Reply(content=ask.foreign[0])))).outcome == "fail"
