"""The isolation matrix: a planted interaction is seen, none is seen where there is none, and a hole is no number."""

from __future__ import annotations

import pytest
from experimenttools import arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.matrix import Interaction
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.scenario import ScenarioError

_TEXT = """
name = "matrix"
question = "Do they compose?"
boots = 1
[server]
sim = ["clean"]
[[arms]]
name = "none"
[[arms]]
name = "A"
parent = "none"
sim = ["small-kv"]
[[arms]]
name = "B"
parent = "none"
sim = ["drafting"]
[[arms]]
name = "AB"
parent = "none"
sim = ["small-kv", "drafting"]
[matrix]
none = "none"
a = "A"
b = "B"
both = "AB"
"""


def _right(count: float) -> Measure:
    return Measure(name="quality.before.right", unit="of 24", values=(count,), better="more")


def _matrix(rates: tuple[float, ...], right: tuple[float, ...], withheld: str | None = None) -> dict[str, Interaction]:
    experiment = parsed(_TEXT)
    rows: list[ArmRow] = []
    for arm, rate, count in zip(("none", "A", "B", "AB"), rates, right, strict=False):
        sick = {"speed_withheld": withheld, "verdict": "FAIL"} if withheld and arm == "AB" else {}
        rows.append(arm_row(experiment, arm, 0, speed(rate), _right(count), **sick))
    found = answer((first_row(experiment, _TEXT), *rows))
    assert list(answer_lines(found))
    return {one.measure.name: one for one in found.matrix}


def test_levers_that_know_nothing_of_one_another_multiply() -> None:
    found = _matrix((100, 97, 145, 140.65), (18, 18, 17, 17))
    assert found["decode.tokens_per_s"].ratio == pytest.approx(1.0)
    assert found["quality.before.right"].surplus == 0


def test_an_arm_that_is_ruined_is_seen_in_the_answers_and_its_speed_is_no_speed() -> None:
    found = _matrix((44, 43, 65, 102.66), (18, 18, 17, 0), withheld="0 of 24 tasks right")
    assert found["quality.before.right"].expected == 17
    assert found["quality.before.right"].surplus == -17
    assert found["decode.tokens_per_s"].both is None
    assert found["decode.tokens_per_s"].ratio is None
    assert found["decode.tokens_per_s"].reason == "withheld in AB: 0 of 24 tasks right"


def test_a_missing_corner_leaves_no_interaction() -> None:
    found = _matrix((100, 97, 145), (18, 18, 17))
    assert found["decode.tokens_per_s"].both is None
    assert found["decode.tokens_per_s"].expected == pytest.approx(140.65)
    assert found["decode.tokens_per_s"].ratio is None
    assert found["decode.tokens_per_s"].reason == "an arm has no value"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('both = "AB"', 'both = "gone"'), "matrix.both: 'gone' is no arm"),
        (('both = "AB"', 'both = "A"'), "matrix: needs four different arms"),
    ],
)
def test_a_matrix_of_other_arms_is_refused(change: tuple[str, str], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        parsed(_TEXT.replace(*change))
