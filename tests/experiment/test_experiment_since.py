"""The same experiment twice: a drift is flagged, none is said to be none, and unlike runs are not compared."""

from __future__ import annotations

import msgspec
from experimenttools import arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import Answer, answer
from infermaxx_tui.core.experiment.since import Since, same_question, since, since_lines
from infermaxx_tui.core.reached import RegimeReached


def _answer(*rates: float, **regime: object) -> Answer:
    experiment = parsed()
    seen = msgspec.structs.replace(RegimeReached(engine="vllm 0.32.0"), **regime)
    rows = [
        arm_row(experiment, arm, boot, speed(rate, rate * 1.001, rate * 0.999), regime=seen)
        for boot, rate in enumerate(rates)
        for arm in ("auto", "fp8")
    ]
    return answer((first_row(experiment), *rows))


def _since(now: Answer, last: Answer) -> Since:
    return since("now", now, "last", last)


def test_a_fleet_that_became_slower_is_flagged_by_arm_and_figure() -> None:
    found = _since(_answer(90.0, 90.2), _answer(100.0, 100.2))
    assert found.moved
    assert [change.outcome for _, change in found.arms[0].moved] == ["down"]
    said = "\n".join(since_lines(found))
    assert "now against last: MOVED" in said
    assert "auto: decode.tokens_per_s at 0 tokens: " in said


def test_no_movement_is_written_as_an_answer() -> None:
    found = _since(_answer(100.0, 100.1), _answer(100.0, 100.2))
    assert not found.moved
    assert found.arms[0].same == 1
    assert "no movement" in next(iter(since_lines(found)))


def test_another_engine_is_not_like_for_like() -> None:
    found = _since(_answer(50.0, 50.1, engine="vllm 0.33.0"), _answer(100.0, 100.1))
    assert not found.moved
    assert found.arms[0].unlike == ("engine",)
    assert "not like for like: engine" in "\n".join(since_lines(found))


def test_the_first_of_its_kind_and_other_arms_have_nothing_beside_them() -> None:
    one = _answer(100.0, 100.1)
    assert "the first of its kind" in next(iter(since_lines(since("now", one, None, None))))
    other = msgspec.structs.replace(
        one, registered=msgspec.structs.replace(one.registered, arms=one.registered.arms[:1])
    )
    assert same_question(one, one)
    assert not same_question(one, other)
