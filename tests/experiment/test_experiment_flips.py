"""Answers that change between arms: none on the same arm, planted ones are found, and what is cut is no pair."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from experimenttools import LADDER, arm_row, first_row, parsed

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.flips import Flips, flips, flips_text
from infermaxx_tui.core.experiment.lines import answer_lines

Answers = dict[str, str]


def _tasks(*said: str, phase: str = "before") -> Answers:
    return {f"{phase}/-1/task-{number}": one for number, one in enumerate(said)}


def _found(control: Sequence[Answers], arm: Sequence[Answers]) -> Flips | None:
    experiment = parsed()
    return flips(
        [arm_row(experiment, "auto", boot, answers=one) for boot, one in enumerate(control)],
        [arm_row(experiment, "fp8", boot, answers=one) for boot, one in enumerate(arm)],
    )


def _known(control: Sequence[Answers], arm: Sequence[Answers]) -> Flips:
    found = _found(control, arm)
    assert found is not None
    return found


def _close(interval: tuple[float, float] | None, low: float, high: float) -> bool:
    return interval is not None and list(interval) == pytest.approx([low, high], abs=5e-5)


@pytest.mark.parametrize(
    ("flipped", "n", "low", "high"),
    [
        # Wilson's score interval with 95 %, as tables give it
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (1, 24, 0.0074, 0.2024),
        (0, 24, 0.0, 0.1380),
    ],
)
def test_the_interval_is_wilsons(flipped: int, n: int, low: float, high: float) -> None:
    control = _tasks(*["right: 1"] * n)
    found = _known([control], [control | _tasks(*["wrong: 2"] * flipped)])
    assert (found.pairs, found.tasks, found.flipped, found.to_wrong) == (n, n, flipped, flipped)
    assert _close(found.interval, low, high)


def test_the_same_arm_flips_nothing_and_says_what_that_excludes() -> None:
    same = _tasks("right: 4", "wrong: 7", "right: x", "wrong: y")
    found = _known([same, same], [same, same])
    assert (found.pairs, found.flipped, found.noise_pairs, found.noise_flipped) == (8, 0, 4, 0)
    assert _close(found.interval, 0.0, 0.4899)
    said = flips_text(found)
    assert said.startswith("answers that changed: 0 of 8 (0 to 49 % at 95 %, by task), 4 tasks; between starts")


def test_planted_flips_are_found_each_in_its_direction() -> None:
    control = _tasks("right: 4", "wrong: 7", "wrong: a", "right: b", "wrong: c")
    arm = _tasks("wrong: 5", "right: 8", "wrong: z", "right: b", "wrong: c")
    found = _known([control], [arm])
    assert (found.pairs, found.flipped) == (5, 3)
    assert (found.to_wrong, found.to_right, found.to_other) == (1, 1, 1)
    said = flips_text(found)
    assert "3 of 5 (23 to 88 % at 95 %, by task), 5 tasks, 1 to wrong, 1 to right, 1 to another wrong one" in said
    assert "how many change by themselves is not known" in said


@pytest.mark.parametrize(
    ("left", "right", "flipped"),
    [
        ("right: 42", "right: **42.0**", 0),
        ("right: Paris", "right: The answer is Paris", 0),
        ("wrong: 7", "wrong: 7.0", 0),
        ("wrong: 1,024", "wrong: 1024", 0),
        ("wrong: Blue  Whale", "wrong: *blue whale*.", 0),
        ("wrong: 7", "wrong: 8", 1),
        ("wrong: 7", "wrong: -7", 1),
        ("wrong: a: b", "wrong: a: c", 1),
        ("right: 42", "wrong: 42", 1),
    ],
)
def test_the_same_answer_in_other_words_is_no_flip(left: str, right: str, flipped: int) -> None:
    assert _known([_tasks(left)], [_tasks(right)]).flipped == flipped


@pytest.mark.parametrize("broken", ["capped: 4", "capped", "error", "error: only reasoning", ""])
def test_what_is_cut_or_missing_makes_no_pair_and_is_counted(broken: str) -> None:
    control = _tasks("right: 4", "right: 5", "wrong: 6")
    missing = {key: said for key, said in control.items() if not key.endswith("-1")}
    arm = missing if not broken else control | {"before/-1/task-1": broken}
    for found in (_known([control], [arm]), _known([arm], [control])):
        assert (found.pairs, found.flipped, found.left_out) == (2, 0, 1)
        assert "1 left out, not answered whole by both" in flips_text(found)


def test_an_arm_whose_answers_are_all_cut_is_compared_with_nothing() -> None:
    control = _tasks("right: 4", "right: 5")
    found = _known([control], [_tasks("capped", "error")])
    assert (found.pairs, found.interval, found.left_out) == (0, None, 2)
    assert flips_text(found) == "answers that changed: not compared: none of 2 tasks was answered whole by both"


def test_starts_that_have_none_beside_them_are_compared_with_nothing() -> None:
    experiment = parsed()
    tasks = _tasks("right: 4")
    found = flips(
        [arm_row(experiment, "auto", 0, answers=tasks)],
        [arm_row(experiment, "fp8", 1, answers=tasks)],
    )
    assert found is not None
    assert (found.pairs, found.reason) == (0, "no start of the arm has one of the control's beside it")


def test_an_experiment_without_tasks_says_nothing_of_answers() -> None:
    assert _found([{}], [{}]) is None
    experiment = parsed()
    rows = [arm_row(experiment, name, 0) for name in ("auto", "fp8")]
    assert "answers that changed" not in "\n".join(answer_lines(answer((first_row(experiment, LADDER), *rows))))


def test_starts_and_phases_repeat_a_task_and_draw_no_new_one() -> None:
    once = _known([_tasks(*["right: 1"] * 10)], [_tasks("wrong: 2", *["right: 1"] * 9)])
    control = _tasks(*["right: 1"] * 10) | _tasks(*["right: 1"] * 10, phase="after")
    arm = _tasks("wrong: 2", *["right: 1"] * 9) | _tasks("wrong: 2", *["right: 1"] * 9, phase="after")
    often = _known([control] * 3, [arm] * 3)
    assert (often.pairs, often.tasks, often.flipped) == (60, 10, 6)
    assert often.interval == once.interval
    half = _known([_tasks(*["right: 1"] * 10)] * 2, [arm, _tasks(*["right: 1"] * 10)])
    assert half.interval is not None
    assert half.interval[0] < 0.0179 < half.interval[1]


def test_how_many_change_by_themselves_has_an_interval_too() -> None:
    steady = _tasks("right: 1", "right: 1", "wrong: 2", "wrong: 3")
    found = _known([steady, steady | _tasks("wrong: 9")], [steady])
    assert (found.noise_pairs, found.noise_flipped) == (4, 1)
    assert _close(found.noise_interval, 0.0456, 0.6994)
    assert "between starts of the control 1 of 4 (4.6 to 70 % at 95 %, by task)" in flips_text(found)
