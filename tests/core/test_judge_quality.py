"""The quality gate passes the healthy, fails the sick and refuses the blind; speeds of the sick are withheld."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qualitytools import SET, Answer, ended, honest, quality_run, wrong

from infermaxx_tui.core import events as e
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.fold_parts import FoldParts
from infermaxx_tui.core.histories import history, records, state_of
from infermaxx_tui.core.judges import JUDGES, judge_all, overall
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.kept import Blocks, put_away, taken
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.panels import rows_axis, rows_compare, rows_session, rows_streams, rows_summary
from infermaxx_tui.core.quality.compare import ALPHA, below_by_chance, fall_by_chance
from infermaxx_tui.core.quality.task import Task
from infermaxx_tui.core.rows import status_line
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stories import SessionStory
from infermaxx_tui.core.timeline import Timeline
from infermaxx_tui.core.verdict import judge_run


def judged(events: list[e.AnyEvent], limits: Limits | None = None) -> Check:
    return JUDGES["quality"](state_of(events), limits or Limits())


def failing(phases: tuple[str, ...], places: range | list[int], reply: str | e.RequestEnded | None = None) -> Answer:
    """Wrong answers to these tasks in these phases."""

    def answer(phase: str, place: int, task: Task) -> str | e.RequestEnded | None:
        if phase in phases and place in places:
            return reply or wrong(task)
        return honest(phase, place, task)

    return answer


# The healthy


def test_a_server_that_answers_as_before_passes_and_each_phase_is_named() -> None:
    check = judged(quality_run())
    assert (check.outcome, check.required, check.n_evaluated, check.n_planned) == ("pass", True, 72, 72)
    assert check.advice == "right before 24/24, during wave 0 24/24, after 24/24"
    assert check.bound95 is not None
    assert check.bound95 == pytest.approx(1 - 0.05 ** (1 / 48))
    assert not check.evidence


def test_a_few_wrong_answers_are_no_fall_and_are_shown() -> None:
    check = judged(quality_run(failing(("during",), [3, 7])))
    assert check.outcome == "pass"
    assert [(one.what, one.label, one.expected) for one in check.evidence] == [
        ("wrong during wave 0", SET[3].task, SET[3].expected),
        ("wrong during wave 0", SET[7].task, SET[7].expected),
    ]


def test_what_was_wrong_before_and_stays_wrong_is_no_fall() -> None:
    check = judged(quality_run(failing(("before", "during", "after"), range(6))))
    assert check.outcome == "pass"
    assert check.bound95 == pytest.approx(1 - 0.05 ** (1 / 36))


def test_as_many_that_rise_as_fall_are_no_fall() -> None:
    def answer(phase: str, place: int, task: Task) -> str:
        bad = place < 7 if phase == "before" else 7 <= place < 14 if phase == "after" else False
        return wrong(task) if bad else honest(phase, place, task)

    assert judged(quality_run(answer, when=("before", "after"))).outcome != "fail"


def test_a_scenario_without_tasks_does_not_require_the_gate() -> None:
    check = judged(history())
    assert (check.outcome, check.required, check.n_evaluated) == ("not_evaluable", False, 0)
    assert overall(judge_all(state_of(history()), Limits())) == "PASS"


# The sick


@pytest.mark.parametrize("phase", ["during", "after"])
def test_a_fall_fails_from_the_number_at_which_chance_is_ruled_out(phase: str) -> None:
    """Two comparisons share 5 %: six of the tasks that were right must be wrong, five may be chance."""
    assert judged(quality_run(failing((phase,), range(5)))).outcome == "pass"
    check = judged(quality_run(failing((phase,), range(6))))
    assert check.outcome == "fail"
    assert "6 of 24 tasks that were right before are wrong" in str(check.advice)
    assert "withheld" in str(check.advice)
    witness = check.evidence[0]
    assert (witness.question, witness.expected) == (SET[0].question, SET[0].expected)
    assert witness.said == f"not {SET[0].expected}"


@pytest.mark.parametrize(("alone", "cause"), [("during", "under_load"), ("during alone", "alone_too")])
def test_asking_again_alone_tells_load_from_depth(alone: str, cause: str) -> None:
    check = judged(quality_run(failing(tuple(alone.split()), range(10)), alone=True))
    assert (check.outcome, check.cause) == ("fail", cause)


def test_a_fall_stays_a_fail_when_the_server_dies_before_after() -> None:
    check = judged(quality_run(failing(("during",), range(9)), when=("before", "during")))
    assert check.outcome == "fail"


def test_each_wave_is_compared_by_itself() -> None:
    calls = {"n": 0}

    def answer(phase: str, place: int, task: Task) -> str:
        calls["n"] += phase == "during"
        return wrong(task) if phase == "during" and calls["n"] > 24 and place < 8 else honest(phase, place, task)

    check = judged(quality_run(answer, waves=2))
    assert check.outcome == "fail"
    assert "during wave 1: 8 of 24" in str(check.advice)
    assert "during wave 0: " not in str(check.advice)


def test_a_demand_fails_what_is_bad_from_the_start() -> None:
    bad = quality_run(failing(("before", "during", "after"), range(18)))
    assert judged(bad).outcome == "not_evaluable"
    check = judged(bad, Limits(min_quality=0.75))
    assert check.outcome == "fail"
    assert "limits.min_quality=0.75" in str(check.advice)


# The blind


def test_a_server_that_is_bad_before_cannot_be_seen_to_fall() -> None:
    check = judged(quality_run(failing(("before",), range(14))))
    assert check.outcome == "not_evaluable"
    assert "limits.min_quality" in str(check.advice)


def test_a_little_below_a_demand_may_be_chance() -> None:
    check = judged(quality_run(failing(("before", "during", "after"), range(8))), Limits(min_quality=0.75))
    assert check.outcome == "not_evaluable"
    assert "raise quality.tasks" in str(check.advice)


def test_nothing_to_compare_with_is_not_evaluable() -> None:
    check = judged(quality_run(when=("during", "after")))
    assert check.outcome == "not_evaluable"
    assert "no before" in str(check.advice)
    assert judged(quality_run(when=("during", "after")), Limits(min_quality=0.9)).outcome == "pass"


def test_before_alone_shows_no_fall() -> None:
    assert judged(quality_run(when=("before",))).outcome == "not_evaluable"


OUT: dict[str, tuple[e.RequestEnded | None, str]] = {
    "capped": (ended("Let me think", finish_reason="length", completion_tokens=2048), "capped"),
    "capped though it stops": (ended("Answer: 1", completion_tokens=2047), "capped"),
    "no finish": (ended("Answer: 1", finish_reason=None), "capped"),
    "shed": (ended(None, "shed", completion_tokens=None), "error"),
    "cut": (ended("Ans", "truncated"), "error"),
    "cancelled": (ended(None, "cancelled"), "error"),
    "empty": (ended(""), "error"),
    "only reasoning": (ended("", reasoning_chars=50), "error"),
    "only a think block": (ended("<think>well</think>"), "error"),
    "stopped for repetition": (ended("no no no no", finish_reason="repetition"), "error"),
}


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("phase", ["before", "during", "after"])
def test_what_is_capped_or_in_error_is_left_out_and_never_wrong(name: str, phase: str) -> None:
    reply, mark = OUT[name]
    few = judged(quality_run(failing((phase,), range(6), reply)))
    assert (few.outcome, few.excluded, few.n_evaluated) == ("pass", {mark: 6}, 66)
    many = judged(quality_run(failing((phase,), range(7), reply)))
    assert (many.outcome, many.excluded) == ("not_evaluable", {mark: 7})
    assert ("quality.max_tokens" in str(many.advice)) is (mark == "capped")
    assert not many.evidence


def test_tasks_that_were_never_asked_are_left_out() -> None:
    def answer(phase: str, place: int, task: Task) -> str | None:
        return None if phase == "after" else honest(phase, place, task)

    check = judged(quality_run(answer))
    assert (check.outcome, check.excluded) == ("not_evaluable", {"not_asked": 24})


def test_a_last_wave_that_was_cut_short_takes_nothing_from_the_others() -> None:
    calls = {"n": 0}

    def answer(phase: str, place: int, task: Task) -> str | None:
        calls["n"] += phase == "during"
        return None if phase == "during" and calls["n"] > 30 else honest(phase, place, task)

    assert judged(quality_run(answer, waves=2)).outcome == "pass"


def test_answers_without_load_say_nothing_about_load() -> None:
    check = judged(quality_run(at_once=1))
    assert check.outcome == "not_evaluable"
    assert "0 of 24 answers overlapped" in str(check.advice)


# Withheld speed


def test_the_speed_of_a_failed_gate_is_withheld_in_each_view() -> None:
    beat = e.Beat(window_ms=1000.0, sessions=(0, 1), tokens=(4321, 4321), depths=(100, 100))
    good, bad = ([*events[:-1], beat] for events in (quality_run(), quality_run(failing(("during",), range(20)))))
    for events, shown in ((good, True), (bad, False)):
        state = state_of(events)
        timeline = Timeline()
        for record in records(events):
            timeline.add(record)
        view = timeline.snapshot(0, timeline.end_us, 40)
        text = "\n".join(
            [
                status_line(state, 400),
                *(one.text for one in rows_summary(state, view, 300)),
                *(one.text for one in rows_streams(state, view, 300, everyone=True)),
                *(one.text for one in rows_axis(state, view, 300)),
            ]
        )
        assert ("4321" in text or "8,642" in text or "8642" in text) is shown
        assert ("withheld" in text) is not shown
        assert (state.tokens_per_s is None) is not shown
        verdict = judge_run(state)
        assert (verdict.speed_withheld is None) is shown
        assert ("Speeds are withheld" in verdict.scope) is not shown


def test_one_degenerate_quality_reply_withholds_the_speed() -> None:
    loop = ended("of" + " of" * 300, degenerate="cycle of 1 token")
    state = state_of(quality_run(failing(("after",), [4], loop)))
    assert state.speed_withheld == "1 of 72 quality replies degenerate"


def test_times_of_a_failed_gate_are_not_judged() -> None:
    state = state_of(quality_run(failing(("during",), range(20))))
    assert "say nothing" in str(JUDGES["timing"](state, Limits()).advice)


# The parts


def test_a_fold_can_be_cut_anywhere() -> None:
    lines = list(records(quality_run(failing(("during",), range(9)), alone=True)))
    whole = Fold()
    looked = Fold()
    state: RunState | None = None
    for line in lines:
        whole.add(line)
        looked.add(line)
        state = looked.snapshot()
    assert state == whole.snapshot()


def test_a_fold_can_be_put_away_and_goes_on() -> None:
    lines = list(records(quality_run(failing(("during",), range(9)), alone=True)))
    whole, half = Fold(), Fold()
    for line in lines:
        whole.add(line)
    for line in lines[: len(lines) // 2]:
        half.add(line)
    blocks = Blocks()
    data, _ = put_away(half.parts, blocks)
    again = Fold(taken(data, FoldParts, blocks))
    for line in lines[len(lines) // 2 :]:
        again.add(line)
    assert again.snapshot() == whole.snapshot()


def test_capped_quality_replies_are_the_budgets_too() -> None:
    reply = ended("Let me think", finish_reason="length", completion_tokens=2048)
    few = JUDGES["budget"](state_of(quality_run(failing(("after",), range(6), reply))), Limits())
    many = JUDGES["budget"](state_of(quality_run(failing(("before", "after"), range(20), reply))), Limits())
    assert (few.outcome, many.outcome) == ("pass", "not_evaluable")
    assert (few.n_evaluated, few.n_planned, few.excluded) == (96, 96, {"capped": 6})
    assert JUDGES["budget"](state_of(quality_run(alone=True)), Limits()).n_evaluated == 96
    assert few.advice == "6 of 72 quality replies hit quality.max_tokens=2048: raise it"


def test_side_by_side_the_times_of_a_failed_gate_are_withheld() -> None:
    good, bad = (judge_run(state_of(quality_run(failing(phases, range(20))))) for phases in ((), ("during",)))
    lines = {one.key: one.text for one in rows_compare(good, bad, 120)}
    assert "withheld" in lines["  ttft p50 ms"]
    assert "withheld" not in lines["  depth_reached"]


def test_an_answer_that_is_given_again_takes_the_place_of_the_first() -> None:
    events = quality_run(failing(("after",), range(9), ended(None, "shed")))
    last = next(n for n, event in enumerate(events) if isinstance(event, e.RunEnded))
    again = [event for event in quality_run(when=("after",)) if isinstance(event, (e.QualityAsked, e.RequestEnded))]
    again = [event for event in again if isinstance(event, e.QualityAsked) or event.kind == "quality"]
    assert judged(events).outcome == "not_evaluable"
    assert judged([*events[:last], *again, *events[last:]]).outcome == "pass"


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_sign_test_counts_what_it_says(fell: int, rose: int) -> None:
    n = fell + rose
    exact = Fraction(sum(math.comb(n, k) for k in range(fell, n + 1)), 2**n)
    assert fall_by_chance(fell, rose) == pytest.approx(float(exact))
    assert (fell == 0) <= (fall_by_chance(fell, rose) == 1.0)


@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_binomial_test_is_a_distribution(n: int, demanded: float) -> None:
    chances = [below_by_chance(right, n, demanded) for right in range(n + 1)]
    assert chances == sorted(chances)
    assert chances[-1] == pytest.approx(1.0)
    assert chances[0] == pytest.approx((1 - demanded) ** n)


def test_known_values() -> None:
    """5 and 6 of as many: 1/32 and 1/64, either side of half of 5 %. Binom(24, 0.75): P(X <= 12) = 0.00721."""
    assert fall_by_chance(5, 0) > ALPHA / 2 > fall_by_chance(6, 0) == 1 / 64
    assert below_by_chance(12, 24, 0.75) == pytest.approx(0.00721, abs=5e-5)


def test_a_conversation_shows_what_it_was_asked_and_how_it_did() -> None:
    events = quality_run(failing(("during",), [0]))
    state, story = state_of(events), SessionStory(0)
    for record in records(events):
        story.add(record.mono_us, record)
    text = "\n".join(one.text for one in rows_session(state, story, 160))
    assert "✗ wrong" in text
    assert "✓ right" in text
    assert f"({SET[0].task}: {SET[0].expected})" in text
