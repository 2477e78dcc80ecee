"""A verdict for people: the word first, every check with its n, and nothing that the server chose to put on screen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.histories import Ask, Reply, Shape, history, honest, state_of
from infermaxx_tui.core.judges import JUDGES
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.verdict import judge_run


def hostile(ask: Ask) -> Reply:
    if ask.session == 2:
        return Reply(content=f"\x1b]0;owned\x07It is {ask.foreign[0]}.\n\x9b6n \u202eEvil\u202c")
    return honest(ask)


HOSTILE = judge_run(state_of(history(Shape(), hostile)))
HEALTHY = judge_run(state_of(history()))


def test_the_word_comes_first_and_each_check_has_its_line() -> None:
    lines = verdict_lines(HEALTHY)
    assert lines[0].startswith("PASS  made-up")
    heads = [line.split()[0] for line in lines[1:] if not line.startswith(" ")]
    assert heads[: len(JUDGES)] == list(JUDGES)
    assert any("24/24" in line and "11.73%" in line for line in lines)


def test_a_failure_prints_its_witness_and_its_advice() -> None:
    text = "\n".join(verdict_lines(HOSTILE))
    assert text.startswith("FAIL")
    assert "event 0:" in text
    assert "session 2" in text
    assert "of another conversation seen" in text


def test_marks_of_a_verdict_stand_beside_its_word() -> None:
    simulated = history(Shape(regime=Regime(simulated=True)))
    assert verdict_lines(judge_run(state_of(simulated)))[0].startswith("PASS (simulated)")
    again = judge_run(state_of(simulated), Limits(min_recalls=24))
    assert verdict_lines(again)[0].startswith("PASS (simulated, post hoc)")


@given(st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_no_line_is_wider_than_asked_or_can_steer_a_terminal(width: int) -> None:
    for line in verdict_lines(HOSTILE, width):
        assert len(line) <= max(width, 40)
        assert harmless(line) == line
        assert "\n" not in line


def test_server_text_is_shown_and_not_sent() -> None:
    text = "\n".join(verdict_lines(HOSTILE, 200))
    assert "␛]0;owned" in text
    assert "‹U+202E›Evil" in text


@pytest.mark.parametrize("limit", ["limits.max_lost=3", "limits.max_lost=0"])
def test_thresholds_are_printed_as_they_decided(limit: str) -> None:
    forgetful = history(
        Shape(reask=False), lambda ask: Reply(content="No idea.") if ask.kind == "recall" else honest(ask)
    )
    verdict = judge_run(state_of(forgetful), Limits(max_lost=int(limit[-1])))
    assert limit in "\n".join(verdict_lines(verdict, 200))
