"""Controls: what they compare, when they may, and that none of them ever fails a run by itself."""

from __future__ import annotations

import msgspec
import pytest
from controltools import REGIME, SHAPE, TAG, Side, cached, cold_pair, seen, with_controls

from infermaxx_tui.core import events as e
from infermaxx_tui.core.arms import separated
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.histories import state_of
from infermaxx_tui.core.judges.control_base import ControlFinding
from infermaxx_tui.core.judges.control_findings import findings
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import judge_run

BOTH = Controls(repeat=1, cache=1)
OTHER = "It is the loader that runs twice."
ANSWER = f"The lot tag for the paper lantern is {TAG}."


def found(state: RunState, control: str) -> ControlFinding:
    return next(one for one in findings(state) if one.control == control)


def outcome(state: RunState, check: str = "controls") -> str:
    return next(one.outcome for one in judge_run(state).checks if one.name == check)


def test_the_same_answers_are_the_noise_floor() -> None:
    state = seen([*cold_pair(), cached()], BOTH)
    repeat, cache = found(state, "repeat"), found(state, "cache")
    assert (repeat.outcome, repeat.n, repeat.differing, repeat.method) == ("same", 1, 0, "all token ids")
    assert (cache.outcome, cache.n, cache.differing) == ("same", 1, 0)
    assert judge_run(state).verdict == "PASS"


def test_another_answer_from_the_cache_is_a_lead_with_both_texts_as_witness_and_no_failure() -> None:
    state = seen([*cold_pair(), cached(text=OTHER, ids="c")], BOTH)
    cache = found(state, "cache")
    assert (cache.outcome, cache.differing) == ("differs", 1)
    assert [one.said for one in cache.evidence] == ["It is the parser that runs twice.", OTHER]
    verdict = judge_run(state)
    assert verdict.verdict == "PASS"
    check = next(one for one in verdict.checks if one.name == "controls")
    assert "a lead on the prefix cache" in str(check.advice)
    assert {one.said for one in check.evidence} >= {OTHER}
    assert "A control found" in verdict.scope
    assert any("a lead on the prefix cache" in line and OTHER in line for line in separated(verdict))
    assert OTHER not in verdict.scope + str(check.advice) + "".join(one.said for one in verdict.controls)


def test_where_nothing_repeats_nothing_can_be_said_of_the_cache() -> None:
    state = seen([*cold_pair(again=OTHER), cached()], BOTH)
    assert found(state, "repeat").outcome == "differs"
    assert "they hold, so a lost tag" in " ".join(separated(judge_run(state)))
    cache = found(state, "cache")
    assert cache.outcome == "not_evaluable"
    assert "nothing can be said of the cache" in cache.said
    assert judge_run(state).verdict == "INCONCLUSIVE"
    assert outcome(state) == "not_evaluable"


def test_a_difference_without_a_noise_floor_says_nothing() -> None:
    sides = [Side(arm="cold_again"), cached(text=OTHER, ids="c")]
    cache = found(seen(sides, Controls(cache=1)), "cache")
    assert cache.outcome == "not_evaluable"
    assert "set controls.repeat" in cache.said
    assert found(seen([Side(arm="cold_again"), cached()], Controls(cache=1)), "cache").outcome == "same"


BLIND = {
    "no hit": ([*cold_pair(), cached(cached=100)], "did not come from the cache"),
    "hit unknown": ([*cold_pair(), cached(cached=None)], "does not say what it took"),
    "cold was not": ([Side(arm="cold"), Side(arm="cold_again", cached=900), cached()], "came from the cache"),
    "not sent": (cold_pair(), "not sent"),
    "broken": ([*cold_pair(), cached(outcome="truncated")], "did not come whole"),
    "silent": ([*cold_pair(), cached(text=None, ids=None)], "nothing was said"),
    "not alone": ([*cold_pair(), cached(beside=True)], "another request of ours was open"),
    "others there": ([*cold_pair(), cached(running=3.0)], "requests of others meanwhile"),
}


@pytest.mark.parametrize("name", BLIND)
def test_a_cache_that_was_not_exercised_is_not_judged(name: str) -> None:
    sides, why = BLIND[name]
    state = seen(sides, BOTH)
    cache = found(state, "cache")
    assert cache.outcome == "not_evaluable"
    assert why in cache.said
    assert outcome(state) == "not_evaluable"


@pytest.mark.parametrize("temperature", [0.7, None])
def test_texts_are_compared_at_temperature_0_alone(temperature: float | None) -> None:
    shape = msgspec.structs.replace(SHAPE, regime=msgspec.structs.replace(REGIME, temperature=temperature))
    state = seen([*cold_pair(again=OTHER), cached()], BOTH, shape=shape)
    assert [one.outcome for one in findings(state)] == ["not_evaluable"] * 2
    assert all("temperature" in one.said for one in findings(state))


def test_a_server_without_a_prefix_cache_owes_no_comparison_with_one() -> None:
    shape = msgspec.structs.replace(SHAPE, regime=msgspec.structs.replace(REGIME, prefix_caching=False))
    state = seen(cold_pair(), Controls(repeat=1, cache=1, salt=1), shape=shape)
    assert [one.outcome for one in findings(state)] == ["same", "not_applicable", "not_applicable"]
    assert judge_run(state).verdict == "PASS"


def test_the_method_says_what_was_compared() -> None:
    sides = [msgspec.structs.replace(side, ids=None) for side in cold_pair()]
    repeat = found(seen(sides, Controls(repeat=1)), "repeat")
    assert (repeat.outcome, repeat.method) == ("same", "the full text")
    unlike = [Side(arm="cold", ids=None), Side(arm="cold_again", ids=None, text=OTHER)]
    assert found(seen(unlike, Controls(repeat=1)), "repeat").outcome == "differs"


def test_a_repeat_that_came_from_the_cache_is_no_repeat() -> None:
    sides = [Side(arm="cold"), Side(arm="cold_again", cached=900)]
    assert found(seen(sides, Controls(repeat=1)), "repeat").outcome == "not_evaluable"


def salt(shared: str, salted: str, **fields: object) -> list[Side]:
    sides = [
        Side(arm="shared", text=shared, tag=TAG, cached=960),
        Side(arm="salted", text=salted, tag=TAG, cached=0),
    ]
    return [msgspec.structs.replace(sides[0], **fields), sides[1]]


def test_sharing_a_prefix_must_not_change_what_is_recalled() -> None:
    planned = Controls(salt=1)
    same = found(seen(salt(ANSWER, f"It is {TAG}."), planned), "salt")
    assert (same.outcome, same.n, same.differing) == ("same", 1, 0)
    lost = found(seen(salt("I was not told.", ANSWER), planned), "salt")
    assert (lost.outcome, lost.differing) == ("differs", 1)
    assert "0 right with the prefix shared, 1 with a salt each" in lost.said
    for fields in ({"cached": 0}, {"cached": None}, {"finish": "length"}):
        assert found(seen(salt(ANSWER, ANSWER, **fields), planned), "salt").outcome == "not_evaluable"
    assert judge_run(seen(salt("I was not told.", ANSWER), planned)).verdict == "PASS"


def test_identical_prompts_need_two_whole_answers_at_temperature_0() -> None:
    planned = Controls(alike=2)
    sides = [Side(arm="alike", pair=n) for n in range(2)]
    assert found(seen(sides, planned), "alike").outcome == "same"
    other = [sides[0], msgspec.structs.replace(sides[1], text=OTHER)]
    lead = found(seen(other, planned), "alike")
    assert (lead.outcome, lead.differing, len(lead.evidence)) == ("differs", 1, 2)
    assert judge_run(seen(other, planned)).verdict == "PASS"
    assert found(seen(sides[:1], planned), "alike").outcome == "not_evaluable"
    warm = msgspec.structs.replace(SHAPE, regime=msgspec.structs.replace(REGIME, temperature=1.0))
    assert found(seen(sides, planned, shape=warm), "alike").outcome == "not_evaluable"


def test_babble_after_the_run_fails_degeneration() -> None:
    planned = Controls(after=5)
    sound = [Side(arm="after", pair=n) for n in range(5)]
    sick = [Side(arm="after", pair=n, text="!" * 64, degenerate="a run of !") for n in range(5)]
    well = seen([], planned, sound)
    assert found(well, "after").outcome == "healthy"
    assert judge_run(well).verdict == "PASS"
    ill = seen([], planned, sick)
    assert found(ill, "after").outcome == "sick"
    verdict = judge_run(ill)
    failed = [check.name for check in verdict.checks if check.outcome == "fail"]
    assert failed == ["degeneration"]
    assert "did not come out of it sound" in str(next(c.advice for c in verdict.checks if c.name == "degeneration"))
    assert outcome(ill) == "pass"
    assert found(seen([], planned), "after").outcome == "not_evaluable"
    assert outcome(seen([], planned)) == "not_evaluable"


def test_one_odd_reply_after_the_run_is_named_and_fails_nobody() -> None:
    sides = [Side(arm="after", pair=n, degenerate="a run of !" if n == 2 else None) for n in range(5)]
    state = seen([], Controls(after=5), sides)
    assert found(state, "after").outcome == "sick"
    assert judge_run(state).verdict == "PASS"


def test_a_run_without_controls_finds_nothing() -> None:
    state = state_of(with_controls([], Controls())[1:])
    assert findings(state) == ()
    assert judge_run(seen([], Controls())).verdict == "PASS"


@pytest.mark.parametrize("control", ["repeat", "cache", "alike", "salt", "solo", "after"])
def test_a_control_that_was_planned_and_not_played_is_not_judged(control: str) -> None:
    planned = msgspec.convert({control: True if control == "solo" else 2}, Controls)
    state = seen([], planned)
    assert [one.outcome for one in findings(state)] == ["not_evaluable"]
    assert judge_run(state).verdict == "INCONCLUSIVE"
    assert any("does not tell" in line for line in separated(judge_run(state)))


def test_a_request_that_is_sent_while_a_control_is_open_spoils_it_whoevers_it_is() -> None:
    """Numbers differ with the batch, so that a comparison beside anything else is none."""
    events = with_controls(cold_pair(), Controls(repeat=1))
    asked = next(n for n, x in enumerate(events) if isinstance(x, e.ControlAsked))
    own = e.RequestStarted(req=1_000_000, session=-1, turn=0, kind="warmup", prompt_tokens=10, max_tokens=4)
    state = state_of([*events[: asked + 1], own, *events[asked + 1 :]])
    assert found(state, "repeat").outcome == "not_evaluable"
