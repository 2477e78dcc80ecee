"""The isolation matrix: a planted interaction is seen, none is seen where there is none, and a hole is no number."""

from __future__ import annotations

import pytest
from experimenttools import arm_row, first_row, parsed, speed

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.experiment.matrix import Interaction
from infermaxx_tui.core.experiment.moved import Movement
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
confounded = "the corner"
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


def _speed(found: dict[str, Interaction]) -> Movement:
    movement = found["decode.tokens_per_s"].movement
    assert movement is not None
    return movement


def _starts(*arms: tuple[float, ...]) -> tuple[Movement, str]:
    """The movement of the speed beside what was expected, and its line; two starts an arm, three values each."""
    text = _TEXT.replace("boots = 1", "boots = 2")
    experiment = parsed(text)
    rows = [
        arm_row(experiment, arm, boot, speed(rate, rate * 1.001, rate * 0.999))
        for arm, rates in zip(("none", "A", "B", "AB"), arms, strict=True)
        for boot, rate in enumerate(rates)
    ]
    found = answer((first_row(experiment, text), *rows))
    line = next(line for line in answer_lines(found) if "expected" in line)
    return _speed({one.measure.name: one for one in found.matrix}), line


def test_an_interaction_of_speeds_has_an_interval_and_none_is_said_to_be_none() -> None:
    """100, 97 and 145 let 140.65 be expected: it comes, less comes, and starts that differ leave it open."""
    none, said = _starts((100, 100.1), (97, 97.1), (145, 145.2), (140.6, 140.9))
    assert none.outcome == "no_movement"
    assert "; no interaction (" in said
    less, said = _starts((100, 100.1), (97, 97.1), (145, 145.2), (70, 70.1))
    assert less.outcome == "down"
    assert less.ratio == pytest.approx(0.4977, rel=0.005)
    assert "came x 0.498 (" in said
    open_, said = _starts((100, 100.1), (97, 97.1), (120, 170), (140, 141))
    assert open_.outcome == "unresolved"
    assert "; not resolved: came x " in said


def test_what_is_only_noted_composes_nothing() -> None:
    experiment = parsed(_TEXT)
    held = Measure(name="pool.held_tokens", unit="tokens", values=(300.0,))
    drafted = Measure(name="draft.acceptance", unit="share", values=(0.7,), better="more")
    rows = [
        arm_row(experiment, arm, 0, held, speed(100), *((drafted,) if "B" in arm else ()))
        for arm in ("none", "A", "B", "AB")
    ]
    found = answer((first_row(experiment, _TEXT), *rows)).matrix
    assert [one.measure.name for one in found] == ["decode.tokens_per_s"]


def test_levers_that_know_nothing_of_one_another_multiply() -> None:
    found = _matrix((100, 97, 145, 140.65), (18, 18, 17, 17))
    assert _speed(found).ratio == pytest.approx(1.0)
    assert _speed(found).outcome == "single"
    assert found["quality.before.right"].surplus == 0


def test_an_arm_that_is_ruined_is_seen_in_the_answers_and_its_speed_is_no_speed() -> None:
    found = _matrix((44, 43, 65, 102.66), (18, 18, 17, 0), withheld="0 of 24 tasks right")
    assert found["quality.before.right"].expected == 17
    assert found["quality.before.right"].surplus == -17
    assert found["decode.tokens_per_s"].both is None
    assert found["decode.tokens_per_s"].movement is None
    assert found["decode.tokens_per_s"].reason == "withheld in AB: 0 of 24 tasks right"


def test_a_missing_corner_leaves_no_interaction() -> None:
    found = _matrix((100, 97, 145), (18, 18, 17))
    assert found["decode.tokens_per_s"].both is None
    assert found["decode.tokens_per_s"].expected == pytest.approx(140.65)
    assert found["decode.tokens_per_s"].movement is None
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
