"""Budget, vacuity and controls: whether the questions were fair. None of them can fail a server."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Ask, Reply, Shape, changed, history, honest, state_of
from infermaxx_tui.core.judges import budget, controls, vacuity
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime

LIMITS = Limits()
CUT = Reply(content="The lot", finish_reason="length", completion_tokens=200)


def recalls(n: int, reply: Reply) -> Callable[[Ask], Reply]:
    return lambda ask: reply if ask.kind == "recall" and ask.number < n else honest(ask)


def of_kind(kind: str, reply: Callable[[Ask], Reply]) -> Callable[[Ask], Reply]:
    return lambda ask: reply(ask) if ask.kind == kind else honest(ask)


# Budget


def test_budget_is_fine_when_nothing_was_capped() -> None:
    got = budget.judge(state_of(history()), LIMITS)
    assert (got.outcome, got.n_evaluated, got.n_planned, got.advice) == ("pass", 24, 24, None)


def test_budget_names_the_key_to_raise() -> None:
    got = budget.judge(state_of(history(Shape(), recalls(22, CUT))), LIMITS)
    assert got.outcome == "not_evaluable"
    assert got.advice == "22 of 24 recall replies hit canaries.max_tokens=200: raise it"
    assert len(got.evidence) == 20


def test_budget_bears_as_many_caps_as_the_limit_says() -> None:
    two, three = (state_of(history(Shape(), recalls(n, CUT))) for n in (2, 3))
    assert budget.judge(two, LIMITS).outcome == "pass"
    assert budget.judge(three, LIMITS).outcome == "not_evaluable"
    assert budget.judge(three, Limits(max_excluded=3 / 24)).outcome == "pass"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(content="The", finish_reason="stop", completion_tokens=199), "canaries.max_tokens=200"),
        (Reply(content="The", finish_reason="tool_calls", completion_tokens=199), "canaries.max_tokens=200"),
        (Reply(content="The", finish_reason="length", completion_tokens=None), "canaries.max_tokens=200"),
        (Reply(finish_reason="length", completion_tokens=200), "canaries.max_tokens=200"),
        (Reply(content="The", finish_reason=None), "without a finish_reason"),
        (Reply(content="The", finish_reason="length", completion_tokens=50), "max_model_len"),
    ],
)
def test_budget_tells_the_ways_of_being_capped_apart(reply: Reply, words: str) -> None:
    got = budget.judge(state_of(history(Shape(), recalls(24, reply))), LIMITS)
    assert got.outcome == "not_evaluable"
    assert words in (got.advice or "")


def test_main_line_turns_may_be_capped() -> None:
    capped = Reply(content="Ses", finish_reason="length", completion_tokens=400)
    state = state_of(history(Shape(), honest, lambda session, turn: capped))
    assert budget.judge(state, LIMITS).outcome == "pass"


def test_budget_cannot_say_without_a_reply() -> None:
    shed = Reply(outcome="shed", status=503, finish_reason=None, completion_tokens=None, speaks=False)
    got = budget.judge(state_of(history(Shape(), recalls(24, shed))), LIMITS)
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)


# Vacuity


def test_streams_that_met_at_the_deepest_ask_pass() -> None:
    got = vacuity.judge(state_of(history()), LIMITS)
    assert (got.outcome, got.required, got.n_evaluated, got.excluded) == ("pass", True, 16, {"shallow": 8})


def test_recalls_that_decoded_alone_show_nothing_about_load() -> None:
    got = vacuity.judge(state_of(history(Shape(meet=False))), LIMITS)
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 16)
    assert {one.overlapped for one in got.evidence} == {False}
    assert "0 of 16 recalls" in (got.advice or "")


def silenced(share: float) -> list[e.AnyEvent]:
    """The healthy history in which this share of the deep recalls decodes beside nobody: no first token came."""
    meeting = history()
    deep = [x.req for x in meeting if isinstance(x, e.TagAsked) and x.kind == "recall" and x.asked_at == 1.0]
    groups = [deep[i : i + 4] for i in range(0, len(deep), 4)]
    alone = {req for group in groups[: round(share * len(groups))] for req in group}
    return changed(meeting, e.FirstToken, lambda event: None if event.req in alone else event)


@pytest.mark.parametrize(("share", "outcome"), [(0.5, "pass"), (0.75, "not_evaluable")])
def test_half_of_the_deep_recalls_must_overlap(share: float, outcome: str) -> None:
    got = vacuity.judge(state_of(silenced(share)), LIMITS)
    assert got.outcome == outcome


def test_the_limits_of_overlap_and_depth_decide() -> None:
    state = state_of(silenced(0.75))
    assert vacuity.judge(state, Limits(min_overlap=0.25)).outcome == "pass"
    shallow = vacuity.judge(state, Limits(deep=0.5))
    assert (shallow.n_evaluated, shallow.excluded) == (24, {})


def test_depth_is_what_was_reached_not_what_was_planned() -> None:
    deeper = Regime(target_depth=4000)
    got = vacuity.judge(state_of(changed(history(), e.RegimeNoted, lambda _: e.RegimeNoted(regime=deeper))), LIMITS)
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)
    unknown = Regime()
    state = state_of(changed(history(), e.RegimeNoted, lambda _: e.RegimeNoted(regime=unknown)))
    assert vacuity.judge(state, LIMITS).n_evaluated == 16


def test_capped_deep_recalls_do_not_count() -> None:
    state = state_of(history(Shape(), lambda ask: CUT if ask.kind == "recall" and ask.number >= 8 else honest(ask)))
    assert (vacuity.judge(state, LIMITS).outcome, vacuity.judge(state, LIMITS).n_evaluated) == ("not_evaluable", 0)


@pytest.mark.parametrize(("sessions", "at_once"), [(1, 1), (4, 1)])
def test_one_at_a_time_is_not_asked_to_overlap(sessions: int, at_once: int) -> None:
    got = vacuity.judge(state_of(history(Shape(sessions=sessions, at_once=at_once))), LIMITS)
    assert (got.outcome, got.required) == ("not_evaluable", False)
    assert (got.advice or "").startswith("one request at a time was asked for")


def test_two_at_once_are_asked_to_overlap() -> None:
    got = vacuity.judge(state_of(history(Shape(sessions=2, at_once=2))), LIMITS)
    assert (got.outcome, got.required) == ("pass", True)


# Controls


def test_controls_that_work_pass_and_tell_the_base_rate() -> None:
    got = controls.judge(state_of(history()), LIMITS)
    assert (got.outcome, got.n_evaluated, got.n_planned) == ("pass", 8, 8)
    assert got.advice == "0 of 4 absent labels answered with a tag"


def test_sentinels_that_do_not_come_back_break_the_asking() -> None:
    lost = of_kind("tail", lambda ask: Reply(content="No idea.") if ask.session == 0 else honest(ask))
    got = controls.judge(state_of(history(Shape(), lost)), LIMITS)
    assert got.outcome == "not_evaluable"
    assert [one.session for one in got.evidence] == [0]
    assert "3 of 4 tail sentinels came back, limits.min_tail_recalled=0.8" in (got.advice or "")
    assert controls.judge(state_of(history(Shape(), lost)), Limits(min_tail_recalled=0.75)).outcome == "pass"


@pytest.mark.parametrize("kind", ["tail", "absent"])
def test_controls_that_were_not_answered_in_full_control_nothing(kind: str) -> None:
    got = controls.judge(state_of(history(Shape(), of_kind(kind, lambda ask: CUT))), LIMITS)
    assert (got.outcome, got.n_evaluated, got.excluded) == ("not_evaluable", 4, {"capped": 4})


def test_a_few_controls_that_were_cut_leave_the_others() -> None:
    got = controls.judge(
        state_of(history(Shape(), of_kind("tail", lambda ask: CUT if ask.session else honest(ask)))), LIMITS
    )
    assert (got.outcome, got.excluded) == ("pass", {"capped": 3})


@pytest.mark.parametrize(("kind", "advice"), [("tail", "0 of 4 absent labels answered with a tag"), ("absent", None)])
def test_one_sort_of_control_is_judged_where_the_other_was_not_planned(kind: str, advice: str | None) -> None:
    events = history()
    gone = {x.req for x in events if isinstance(x, e.TagAsked) and x.kind == kind}
    kept = [x for x in events if getattr(x, "req", None) not in gone]
    kept = changed(kept, e.TagIssued, lambda event: None if event.kind == kind else event)
    got = controls.judge(state_of(kept), LIMITS)
    assert (got.outcome, got.n_evaluated, got.n_planned, got.advice) == ("pass", 4, 4, advice)


@pytest.mark.parametrize("kind", ["tail", "absent"])
def test_controls_that_were_planned_and_not_asked_are_missing(kind: str) -> None:
    events = history()
    gone = {x.req for x in events if isinstance(x, e.TagAsked) and x.kind == kind}
    kept = [x for x in events if getattr(x, "req", None) not in gone]
    got = controls.judge(state_of(kept), LIMITS)
    assert (got.outcome, got.excluded) == ("not_evaluable", {"not_asked": 4})


def test_controls_that_were_not_planned_are_not_demanded() -> None:
    events = history()
    gone = {x.req for x in events if isinstance(x, e.TagAsked) and x.kind in ("tail", "absent")}
    kept = [x for x in events if getattr(x, "req", None) not in gone]
    kept = changed(kept, e.TagIssued, lambda event: None if event.kind in ("tail", "absent") else event)
    got = controls.judge(state_of(kept), LIMITS)
    assert (got.outcome, got.n_planned) == ("pass", 0)
    assert "no controls were planned" in (got.advice or "")


def test_invention_is_told_and_not_judged() -> None:
    invents = of_kind("absent", lambda ask: Reply(content=f"It is {ask.others[0]}."))
    got = controls.judge(state_of(history(Shape(), invents)), LIMITS)
    assert (got.outcome, got.advice) == ("pass", "4 of 4 absent labels answered with a tag")


def test_a_decoy_breaks_the_controls() -> None:
    events = history()
    decoy = next(x.tag for x in events if isinstance(x, e.TagIssued) and x.kind == "decoy")
    hit = e.Hit(tag=decoy, kind="decoy", owner=None, channel="content")
    first = changed(events, e.RequestEnded, lambda x: msgspec.structs.replace(x, hits=(hit,)) if x.req == 0 else x)
    got = controls.judge(state_of(first), LIMITS)
    assert (got.outcome, got.evidence[0].tag) == ("not_evaluable", decoy)
