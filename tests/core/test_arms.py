"""What the controls of a run separate is said of each run, and no more than they do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infermaxx_tui.core.arms import TITLE, separated
from infermaxx_tui.core.histories import Ask, Reply, Shape, history, honest, state_of
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.report import verdict_lines
from infermaxx_tui.core.verdict import Verdict, judge_run


def forgets_under_load(ask: Ask) -> Reply:
    lost = ask.kind in ("recall", "reask_load") and ask.session == 1
    return Reply(content="I do not remember that one.") if lost else honest(ask)


def forgets(ask: Ask) -> Reply:
    return honest(ask) if ask.kind in ("tail", "absent") else Reply(content="I do not remember that one.")


def leaks(ask: Ask) -> Reply:
    return Reply(content=f"It is {ask.foreign[0]}.") if ask.session == 1 and ask.foreign else honest(ask)


def deaf(ask: Ask) -> Reply:
    return Reply(content="I do not remember that one.")


def made(answer: Callable[[Ask], Reply] = honest, *, at_once: int = 4, sessions: int = 4) -> Verdict:
    shape = Shape(at_once=at_once, sessions=sessions, limits=Limits(min_recalls=6))
    return judge_run(state_of(history(shape, answer)))


@pytest.mark.parametrize(
    ("verdict", "word", "said", "unsaid"),
    [
        (made(), "PASS", "not in this run; a pass needs none", "asked again alone"),
        (made(at_once=1), "PASS", "one conversation after another; it passes", "not in this run"),
        (made(at_once=1, sessions=1), "PASS", "one conversation alone", "serial arm"),
        (made(leaks), "FAIL", "open whether isolation needs requests beside one another", "asked again alone"),
        (made(leaks, at_once=1), "FAIL", "what failed here (isolation) needs no concurrency", "not in this run"),
        (made(forgets_under_load), "FAIL", "their failing takes load", "concurrency is cleared"),
        (made(forgets), "FAIL", "concurrency is cleared", "takes load"),
        (made(deaf), "FAIL", "they do not hold", "they hold"),
    ],
    ids=["pass", "serial pass", "solo", "leak", "serial leak", "under load", "alone too", "broken asking"],
)
def test_each_arm_is_said_to_separate_what_it_does(verdict: Verdict, word: str, said: str, unsaid: str) -> None:
    assert verdict.verdict == word
    text = " ".join(separated(verdict))
    assert said in text
    assert unsaid not in text


def test_a_serial_arm_that_is_no_pass_is_no_control() -> None:
    blind = judge_run(state_of(history(Shape(at_once=1, limits=Limits(min_recalls=999)))))
    assert blind.verdict == "INCONCLUSIVE"
    assert "nothing can be held against it" in " ".join(separated(blind))


def test_of_an_empty_log_nothing_is_said() -> None:
    empty = judge_run(state_of([]))
    assert separated(empty) == ()
    assert TITLE not in verdict_lines(empty)


def test_the_report_prints_it_before_what_is_not_shown() -> None:
    lines = verdict_lines(made(leaks), 100)
    place = lines.index(TITLE)
    assert lines[place + 1].startswith("  sentinels")
    assert any(line.startswith("Shown:") for line in lines[place:])
