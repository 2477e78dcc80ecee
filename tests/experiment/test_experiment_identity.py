"""Whole texts of arms: the same ones pass, another one is found, and what does not repeat is not judged."""

from __future__ import annotations

import pytest
from experimenttools import arm_row, first_row, parsed

from infermaxx_tui.core.experiment.answer import answer
from infermaxx_tui.core.experiment.identity import Identity, blind_texts, identity, identity_text
from infermaxx_tui.core.experiment.lines import answer_lines
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.server_seen import ServerSeen

Texts = dict[str, tuple[str, ...]]
_SAME: Texts = {"0/0": ("a", "a"), "0/1": ("b", "b")}


def _asked(prompts: int) -> Measure:
    return Measure(name="identity.reproduced", unit="of 1", depth_tokens=0, streams=1, planned=prompts)


def _found(control: Texts, arm: Texts, prompts: int = 2, **more: object) -> Identity:
    experiment = parsed()
    rows = (
        arm_row(experiment, "auto", 0, _asked(prompts), texts=control),
        arm_row(experiment, "fp8", 0, _asked(prompts), texts=arm, **more),
    )
    found = answer((first_row(experiment), *rows)).arms[1].identity
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("control", "arm", "same", "different", "reason"),
    [
        (_SAME, _SAME, 2, 0, None),
        (_SAME, {"0/0": ("a", "a"), "0/1": ("x", "x")}, 1, 1, None),
        (_SAME, {"0/0": ("a", "a"), "0/1": ("x", "y")}, 1, 0, None),
        ({"0/0": ("a", "a"), "0/1": ("b", "c")}, _SAME, 1, 0, None),
        (
            {"0/0": ("a", "b"), "0/1": ("c", "d")},
            _SAME,
            0,
            0,
            "the control does not repeat itself: nothing can be held against it",
        ),
    ],
)
def test_texts_are_compared_where_the_control_repeats_itself(
    control: Texts, arm: Texts, same: int, different: int, reason: str | None
) -> None:
    found = _found(control, arm)
    assert (found.prompts, found.same, found.different, found.reason) == (2, same, different, reason)


@pytest.mark.parametrize("blind", [{"0/0": ("a",), "0/1": ("b",)}, {}])
def test_texts_that_came_once_or_never_are_asked_for_and_not_judged(blind: Texts) -> None:
    for found in (_found(_SAME, blind), _found(blind, _SAME)):
        assert (found.asked, found.prompts, found.same, found.different) == (2, 0, 0, 0)
        said = identity_text(found, alone=False)
        assert said == ("whole texts of 2 prompts: not compared: no prompt was answered whole at least twice by both")


def test_prompts_of_which_a_side_has_no_text_are_counted() -> None:
    found = _found(_SAME, {"0/0": ("a", "a")}, prompts=3)
    assert (found.asked, found.prompts, found.same) == (3, 1, 1)
    assert "; 2 of 3 not answered whole twice by both)" in identity_text(found, alone=False)


def test_texts_that_were_cut_are_the_same_only_so_far() -> None:
    found = _found(_SAME, _SAME, texts_cut=("0/1", "0/9"))
    assert (found.same, found.cut) == (2, 1)
    assert "1 cut at their budget, the same only so far" in identity_text(found, alone=False)


def test_starts_of_the_control_are_held_against_one_another_first() -> None:
    experiment = parsed()
    other: Texts = {"0/0": ("z", "z"), "0/1": ("b", "b")}
    rows = [
        arm_row(experiment, arm, boot, _asked(2), texts=texts)
        for arm, boot, texts in (("auto", 0, _SAME), ("auto", 1, other), ("fp8", 0, _SAME), ("fp8", 1, _SAME))
    ]
    control, arm = answer((first_row(experiment), *rows)).arms
    assert control.identity is not None
    assert arm.identity is not None
    assert (control.identity.control_same, arm.identity.same, arm.identity.starts) == (1, 1, (2, 2))
    said = "\n".join(answer_lines(answer((first_row(experiment), *rows))))
    assert "off against off: 1 of 2 prompts give one text in all repetitions (whole texts, by hash; 2 starts)" in said
    assert (
        "off against off: 1 of 2 prompts give one text; this arm repeats itself in 2 of 2; against the control 1 are"
        " the same text and 0 another (whole texts, by hash; 2 starts against 2)"
    ) in said


def test_a_start_beside_others_requests_is_held_against_nobody() -> None:
    said = "others used the server: it finished 3 more than we sent"
    found = _found(_SAME, {"0/0": ("x", "x"), "0/1": ("y", "y")}, texts_blind=said)
    assert (found.prompts, found.same, found.different, found.reason) == (0, 0, 0, said)
    experiment = parsed()
    control = [arm_row(experiment, "auto", boot, texts=_SAME) for boot in range(2)]
    disturbed = arm_row(experiment, "fp8", 0, texts={"0/0": ("z", "z")}, texts_blind=said)
    one = identity(control, (disturbed, arm_row(experiment, "fp8", 1, texts=_SAME)))
    assert one is not None
    assert (one.same, one.different, one.starts, one.reason) == (2, 0, (2, 1), None)


def test_one_start_says_that_it_is_one() -> None:
    said = identity_text(_found(_SAME, _SAME), alone=True)
    assert "one start, so what another start changes is not known" in said


def test_nobody_is_told_of_texts_where_none_were_asked_for() -> None:
    experiment = parsed()
    left, right = arm_row(experiment, "auto", 0), arm_row(experiment, "fp8", 0)
    assert identity((left,), (right,)) is None
    assert identity((arm_row(experiment, "auto", 0, texts=_SAME),), ()) is None


def test_texts_are_blind_where_others_ran_or_nobody_could_have_seen_them() -> None:
    quiet = ServerSeen(readings=3)
    assert blind_texts(quiet, own=False) is None
    assert "finished 2 more than we sent" in (blind_texts(ServerSeen(readings=3, foreign_requests=2), own=True) or "")
    assert "counters were not read" in (blind_texts(ServerSeen(), own=False) or "")
    assert blind_texts(ServerSeen(), own=True) is None


def test_a_start_that_is_left_out_is_counted_where_others_are_compared() -> None:
    experiment = parsed()
    rows = (
        arm_row(experiment, "auto", 0, texts=_SAME),
        arm_row(experiment, "fp8", 0, texts=_SAME),
        arm_row(experiment, "fp8", 1, texts={"0/0": ("z", "z")}, texts_blind="others used the server"),
    )
    found = identity(rows[:1], rows[1:])
    assert found is not None
    assert (found.same, found.different, found.blind) == (2, 0, 1)
    assert "; 1 start left out, where others may have run beside" in identity_text(found, alone=False)
    assert "left out" not in identity_text(_found(_SAME, _SAME), alone=False)
