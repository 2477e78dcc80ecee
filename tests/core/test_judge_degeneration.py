"""Degeneration: babble in any channel, by the reply and by the share; prose, tables and echoes are not babble."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import Ask, Reply, Shape, fluent, history, honest, state_of
from infermaxx_tui.core.judges import degeneration
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits

RULE = "cycle of 1 token, 120 times"
BABBLE = "It is fine" + " of" * 300
BANGS = "!" * 400


def check(events: list[e.AnyEvent], limits: Limits = Limits()) -> Check:  # noqa: B008
    return degeneration.judge(state_of(events), limits)


def turns(n: int, reply: Reply) -> Callable[[int, int], Reply]:
    """A server whose first `n` turns of session 0 are this; there are 80 replies in all."""
    return lambda session, turn: reply if session == 0 and turn <= n else fluent(session, turn)


def recalls(n: int, reply: Callable[[Ask], Reply]) -> Callable[[Ask], Reply]:
    return lambda ask: reply(ask) if ask.kind == "recall" and ask.number < n else honest(ask)


def test_healthy_passes() -> None:
    got = check(history())
    assert (got.outcome, got.n_evaluated, got.evidence) == ("pass", 80, ())


def test_turns_fail_from_five_in_a_hundred() -> None:
    sick = Reply(content="of of of", degenerate=RULE)
    assert check(history(Shape(), honest, turns(3, sick))).outcome == "pass"
    got = check(history(Shape(), honest, turns(4, sick)))
    assert got.outcome == "fail"
    assert [one.what for one in got.evidence] == [RULE] * 4
    assert "limits.max_degenerate_share=0.05" in (got.advice or "")


def test_the_limits_decide() -> None:
    events = history(Shape(), honest, turns(4, Reply(content="of of of", degenerate=RULE)))
    assert check(events, Limits(max_degenerate_share=0.06)).outcome == "pass"
    two = history(Shape(reask=False), recalls(2, lambda ask: Reply(content=BABBLE)))
    assert check(two, Limits(max_degenerate_recalls=2)).outcome == "pass"
    assert check(history(), Limits(max_degenerate_share=0.0)).outcome == "pass"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content=BABBLE),
        Reply(content=BANGS),
        Reply(reasoning=BABBLE),
        Reply(tool_args=BABBLE),
        Reply(content="fine", degenerate=RULE),
        Reply(content="fine", finish_reason="repetition"),
    ],
)
def test_two_recall_replies_are_enough(reply: Reply) -> None:
    one = check(history(Shape(reask=False), recalls(1, lambda ask: reply)))
    two = check(history(Shape(reask=False), recalls(2, lambda ask: reply)))
    assert (one.outcome, len(one.evidence)) == ("pass", 1)
    assert (two.outcome, len(two.evidence)) == ("fail", 2)


def test_a_server_that_stops_a_turn_for_repetition_says_so_itself() -> None:
    stopped = Reply(content="and so on", finish_reason="repetition")
    assert check(history(Shape(), honest, turns(4, stopped))).outcome == "fail"


def test_a_leak_in_babble_is_babble_as_well() -> None:
    leaky = recalls(2, lambda ask: Reply(content=f"{ask.foreign[0]}{BABBLE}"))
    assert check(history(Shape(reask=False), leaky)).outcome == "fail"


def test_an_echo_of_the_prompt_is_not_babble_whatever_the_prompt_holds() -> None:
    """A prompt is full of control tokens, and who repeats it has not degenerated."""

    def echo(ask: Ask) -> Reply:
        planted = f"For the record: the lot tag for the {ask.label} is {ask.tag}. Please repeat it."
        question = f"What is the lot tag for the {ask.label}?"
        return Reply(content=f"{planted}{'<|im_end|>' * 6}{question}", degenerate="special tokens as text, 6 times")

    state = state_of(history(Shape(reask=False), recalls(24, echo)))
    assert {recall.cls for recall in state.recalls} == {"prompt_echo"}
    assert degeneration.judge(state, Limits()).outcome == "pass"


def test_nothing_said_is_no_verdict() -> None:
    silent = Reply(finish_reason="length", completion_tokens=399)
    got = check(history(Shape(reask=False), lambda ask: silent, lambda session, turn: silent))
    assert (got.outcome, got.n_evaluated) == ("not_evaluable", 0)


def test_replies_without_text_do_not_dilute_the_share() -> None:
    silent = Reply(finish_reason="length", completion_tokens=399)
    sick = Reply(content="of of of", degenerate=RULE)

    def turn(session: int, number: int) -> Reply:
        return sick if (session, number) in ((0, 1), (0, 2)) else silent

    got = check(history(Shape(), honest, turn))
    assert (got.n_evaluated, got.outcome) == (34, "fail")
