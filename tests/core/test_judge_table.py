"""The whole gate: each fault earns the contract's verdict by the one check it names, and each pass can be lost."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.canary import make_tags
from infermaxx_tui.core.histories import Ask, Reply, Shape, fluent, history, honest, state_of
from infermaxx_tui.core.histories.bases import STRICT
from infermaxx_tui.core.judges import JUDGES, Word, judge_all, overall
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits

OLD = make_tags(99, "an earlier run", 2)
BABBLE = "It is fine" + " of" * 300

Answer = Callable[[Ask], Reply]
Turn = Callable[[int, int], Reply]


def judged(events: list[e.AnyEvent], limits: Limits | None = None) -> tuple[Word, dict[str, Check]]:
    checks = judge_all(state_of(events), limits or Limits())
    return overall(checks), {check.name: check for check in checks}


def asked(reply: Answer) -> Answer:
    """A server that answers every question for a planted tag like this, asked again or not."""
    return lambda ask: reply(ask) if ask.kind in ("recall", "reask_alone", "reask_load") else honest(ask)


def everywhere(reply: Reply) -> tuple[Answer, Turn]:
    """A server that goes wrong after a few healthy turns."""
    return lambda ask: reply, lambda session, turn: reply if turn > 2 else fluent(session, turn)


def typo(ask: Ask) -> Reply:
    last = "A" if ask.tag[-1] != "A" else "C"
    return Reply(content=f"The lot tag for the {ask.label} is {ask.tag[:-1]}{last}.")


def echo(ask: Ask) -> Reply:
    planted = f"For the record: the lot tag for the {ask.label} is {ask.tag}. Please repeat it."
    return Reply(content=f"{planted} What is the lot tag for the {ask.label}?")


def nothing(ask: Ask) -> Reply:
    return Reply(content="I do not remember that one.")


ANSWERS: dict[str, tuple[Word, str | None, Answer]] = {
    "clean": ("PASS", None, honest),
    "wire oddities": ("PASS", None, lambda ask: msgspec.structs.replace(honest(ask), anomalies=("crlf", "ping"))),
    "no usage": ("PASS", None, lambda ask: msgspec.structs.replace(honest(ask), completion_tokens=None)),
    "leak": (
        "FAIL",
        "isolation",
        lambda ask: Reply(content=f"It is {ask.foreign[0]}.") if ask.session == 1 else honest(ask),
    ),
    "stale": ("FAIL", "isolation", lambda ask: Reply(content=f"It is {OLD[0]}.") if ask.session == 1 else honest(ask)),
    "forget-oldest": ("FAIL", "recall", asked(lambda ask: nothing(ask) if ask.number < 4 else honest(ask))),
    "forget-random": ("FAIL", "recall", asked(lambda ask: nothing(ask) if ask.number % 3 == 1 else honest(ask))),
    "typo": ("FAIL", "recall", asked(typo)),
    "wrong-question": ("FAIL", "recall", asked(lambda ask: Reply(content=f"It is {ask.others[0]}."))),
    "needle-loop": ("FAIL", "degeneration", lambda ask: Reply(content=f"{ask.label} {ask.tag} " * 100)),
    "capped": ("INCONCLUSIVE", None, lambda ask: Reply(content="The", finish_reason="length", completion_tokens=200)),
    "suffix-cut": (
        "INCONCLUSIVE",
        None,
        asked(lambda ask: Reply(content="The lot", finish_reason="stop", completion_tokens=200)),
    ),
    "empty-length": ("INCONCLUSIVE", None, lambda ask: Reply(finish_reason="length", completion_tokens=200)),
    "refuse": ("INCONCLUSIVE", None, lambda ask: Reply(content="I'm sorry, but I can't share that information.")),
    "echo": ("INCONCLUSIVE", None, asked(echo)),
    "reason-only": ("FAIL", "delivery", lambda ask: Reply(reasoning=honest(ask).content)),
}


@pytest.mark.parametrize("fault", ANSWERS)
def test_each_fault_of_answering_earns_its_verdict(fault: str) -> None:
    word, name, answer = ANSWERS[fault]
    events = history(Shape(), answer)
    got, checks = judged([*events[:2], e.TagsKnown(run="earlier", tags=OLD), *events[2:]])
    assert got == word, {check.name: check.advice for check in checks.values()}
    assert [check.name for check in checks.values() if check.outcome == "fail"] == ([name] if name else [])


REPLIES: dict[str, tuple[Word, str | None, Reply]] = {
    "babble": ("FAIL", "degeneration", Reply(content=BABBLE, degenerate="cycle of 1 token, 300 times")),
    "bang": ("FAIL", "degeneration", Reply(content="!" * 400, degenerate="run of !")),
    "reason-loop": ("FAIL", "degeneration", Reply(content="Yes.", reasoning=BABBLE, degenerate="cycle of 1 token")),
    "null-stop": ("FAIL", "delivery", Reply(finish_reason="stop", completion_tokens=1)),
    "error-done": ("FAIL", "delivery", Reply(content="Ses", outcome="protocol", finish_reason=None)),
    "eof": ("FAIL", "delivery", Reply(content="Ses", outcome="truncated", finish_reason=None)),
    "html-200": ("FAIL", "delivery", Reply(outcome="protocol", finish_reason=None, completion_tokens=None)),
    "no-finish": ("INCONCLUSIVE", None, Reply(content="Yes, it is so.", finish_reason=None)),
    "busy-503": ("INCONCLUSIVE", None, Reply(outcome="shed", status=503, finish_reason=None, speaks=False)),
    "shed-429": ("INCONCLUSIVE", None, Reply(outcome="shed", status=429, finish_reason=None, speaks=False)),
    "too-long": ("INCONCLUSIVE", None, Reply(outcome="too_long", status=400, finish_reason=None, speaks=False)),
    "slow network": ("INCONCLUSIVE", None, Reply(outcome="timeout", status=None, finish_reason=None, speaks=False)),
}


@pytest.mark.parametrize("fault", REPLIES)
def test_each_fault_of_replying_earns_its_verdict(fault: str) -> None:
    word, name, reply = REPLIES[fault]
    got, checks = judged(history(Shape(), *everywhere(reply)))
    assert got == word, {check.name: check.advice for check in checks.values()}
    assert [check.name for check in checks.values() if check.outcome == "fail"] == ([name] if name else [])


LOSSES: dict[str, tuple[e.Outcome, e.ServerLost]] = {
    "hang": ("stalled", e.ServerLost(how="stalled", session=0, req=0, detail="/health answers", reachable=True)),
    "dies": ("truncated", e.ServerLost(how="pid_dead", session=None, req=None, detail="exit code 1")),
    "restarts": ("truncated", e.ServerLost(how="restarted", session=None, req=None, detail="a new start time")),
}


@pytest.mark.parametrize("fault", LOSSES)
def test_a_server_that_goes_away_is_one_cause_and_one_line(fault: str) -> None:
    outcome, loss = LOSSES[fault]
    events = history()
    cut = next(i for i, x in enumerate(events) if isinstance(x, e.RequestEnded) and x.turn == 9)
    began = [x for x in events[:cut] if isinstance(x, e.RequestStarted)][-4:]
    broken = [
        e.RequestEnded(req=x.req, session=x.session, turn=x.turn, kind=x.kind, outcome=outcome, ttft_ms=40.0)
        for x in began
    ]
    got, checks = judged([*events[:cut], *broken, loss, e.RunEnded(reason="server_lost", events=cut + 6)])
    assert got == "FAIL"
    assert [check.name for check in checks.values() if check.outcome == "fail"] == ["availability"]


def test_a_tag_of_a_conversation_that_is_over_can_leak_too() -> None:
    shape = Shape(sessions=8)
    retired = [x.tag for x in history(shape) if isinstance(x, e.TagIssued) and x.session == 0]
    leaky = history(shape, lambda ask: Reply(content=retired[0]) if ask.session == 6 else honest(ask))
    got, checks = judged(leaky)
    assert got == "FAIL"
    assert [check.name for check in checks.values() if check.outcome == "fail"] == ["isolation"]
    assert checks["isolation"].evidence[0].overlapped is False


def test_the_healthy_history_passes_the_strictest_limits() -> None:
    got, checks = judged(history(), STRICT)
    assert got == "PASS", {check.name: check.advice for check in checks.values()}


def the(
    kind: e.RequestKind, number: int, change: Callable[[e.RequestEnded], dict[str, object]]
) -> Callable[[], list[e.AnyEvent]]:
    """The healthy history in which one reply of this kind is changed in these fields."""

    def make() -> list[e.AnyEvent]:
        events = history(Shape(reask=False))
        ended = [x for x in events if isinstance(x, e.RequestEnded) and x.kind == kind][number]
        other = msgspec.convert({**msgspec.to_builtins(ended), **change(ended)}, e.RequestEnded)
        return [other if x is ended else x for x in events]

    return make


def said(text: str) -> dict[str, object]:
    return {"content": text, "content_chars": len(text)}


def _tag(kind: str, nth: int) -> str:
    return [x.tag for x in history() if isinstance(x, e.TagIssued) and x.kind == kind][nth]


def _without(kind: type[e.AnyEvent], nth: int) -> Callable[[], list[e.AnyEvent]]:
    def make() -> list[e.AnyEvent]:
        events = history()
        gone = [x for x in events if isinstance(x, kind)][nth]
        return [x for x in events if x is not gone]

    return make


def _frozen() -> list[e.AnyEvent]:
    first = next(x for x in history() if isinstance(x, e.InstrumentRead))
    frozen = msgspec.structs.replace(first, loop_lag_p99_ms=3000.0, loop_lag_max_ms=3000.0)
    return [*history()[:-1], frozen, history()[-1]]


ONE_EVENT: dict[str, tuple[Word, Callable[[], list[e.AnyEvent]]]] = {
    "another session's tag": ("FAIL", the("recall", 5, lambda x: said(f"It is {_tag('own', 15)}."))),
    "one symbol changed": ("FAIL", the("recall", 5, lambda x: said((x.content or "")[:-2] + "?."))),
    "tag deleted": ("FAIL", the("recall", 5, lambda x: said("It is"))),
    "reply capped": ("INCONCLUSIVE", the("recall", 5, lambda x: {"finish_reason": "length"})),
    "cap hidden": ("INCONCLUSIVE", the("recall", 5, lambda x: {"completion_tokens": 199})),
    "window reached": ("INCONCLUSIVE", the("recall", 5, lambda x: {"prompt_tokens": 32768 - 21})),
    "reply emptied": ("FAIL", the("recall", 5, lambda x: {"content": "", "content_chars": 0})),
    "only in reasoning": (
        "FAIL",
        the("recall", 5, lambda x: {"content": None, "content_chars": 0, "reasoning": x.content, "reasoning_chars": 9}),
    ),
    "a token repeated": ("FAIL", the("turn", 5, lambda x: {"degenerate": "cycle of 1 token"})),
    "stream killed": ("FAIL", the("turn", 5, lambda x: {"outcome": "truncated", "finish_reason": None})),
    "finish_reason lost": ("INCONCLUSIVE", the("recall", 5, lambda x: {"finish_reason": None})),
    "a decoy": ("INCONCLUSIVE", the("absent", 1, lambda x: said(_tag("decoy", 0)))),
    "a sentinel lost": ("INCONCLUSIVE", the("tail", 1, lambda x: said("No idea."))),
    "a refusal": ("INCONCLUSIVE", the("recall", 5, lambda x: said("I'm sorry, but I can't share that information."))),
    "usage dropped": ("PASS", the("recall", 5, lambda x: {"completion_tokens": None, "prompt_tokens": None})),
    "no last line": ("INCONCLUSIVE", _without(e.RunEnded, 0)),
    "a question lost": ("INCONCLUSIVE", _without(e.TagAsked, 3)),
    "loop frozen": ("INCONCLUSIVE", _frozen),
    "first token lost": ("INCONCLUSIVE", _without(e.FirstToken, -20)),
}


@pytest.mark.parametrize("mutation", ONE_EVENT)
def test_one_changed_event_flips_the_verdict(mutation: str) -> None:
    word, make = ONE_EVENT[mutation]
    got, checks = judged(make(), STRICT)
    assert got == word, {check.name: (check.outcome, check.advice) for check in checks.values()}


def test_a_run_in_which_nobody_was_asked_anything_shows_nothing() -> None:
    got, checks = judged(history(Shape(tags=0)), Limits(min_recalls=0))
    assert got == "INCONCLUSIVE"
    assert {check.outcome for check in checks.values() if check.name in ("recall", "isolation", "vacuity")} == {
        "not_evaluable"
    }


def test_an_empty_log_is_no_verdict() -> None:
    assert judged([])[0] == "INCONCLUSIVE"


def test_a_failure_of_the_first_second_outlives_the_runner() -> None:
    """The log breaks off after the first leak; what it saw stays true."""
    leaky = history(Shape(), lambda ask: Reply(content=ask.foreign[0]))
    cut = next(i for i, x in enumerate(leaky) if isinstance(x, e.RequestEnded) and x.kind == "recall")
    assert judged(leaky[: cut + 1])[0] == "FAIL"
    assert judged(history()[:-1])[0] == "INCONCLUSIVE"


def _check(outcome: str, required: bool = True) -> Check:
    return msgspec.convert({"name": "x", "outcome": outcome, "required": required, "n_evaluated": 1}, Check)


@pytest.mark.parametrize(
    ("checks", "word"),
    [
        ([("pass", True)], "PASS"),
        ([("pass", True), ("not_evaluable", False)], "PASS"),
        ([("pass", True), ("not_evaluable", True)], "INCONCLUSIVE"),
        ([("not_evaluable", True), ("fail", True)], "FAIL"),
        ([("pass", True), ("fail", False)], "FAIL"),
        ([("pass", False)], "INCONCLUSIVE"),
        ([], "INCONCLUSIVE"),
    ],
)
def test_overall(checks: list[tuple[str, bool]], word: Word) -> None:
    assert overall(_check(*one) for one in checks) == word


def test_the_table_names_each_check_as_it_names_itself() -> None:
    state = state_of(history())
    assert {name: judge(state, Limits()).name for name, judge in JUDGES.items()} == {name: name for name in JUDGES}
    assert list(JUDGES) == [
        "recall",
        "isolation",
        "delivery",
        "availability",
        "degeneration",
        "quality",
        "budget",
        "vacuity",
        "controls",
        "instrument",
        "gates",
        "timing",
        "drift",
    ]


@pytest.mark.parametrize("name", ["budget", "vacuity", "controls", "instrument"])
def test_conditions_never_fail_a_server(name: str) -> None:
    """Whatever goes wrong, these say `pass` or `not_evaluable`."""
    outcomes = set()
    for _, _, answer in ANSWERS.values():
        outcomes.add(JUDGES[name](state_of(history(Shape(reask=False), answer)), STRICT).outcome)
    for _, _, reply in REPLIES.values():
        outcomes.add(JUDGES[name](state_of(history(Shape(reask=False), *everywhere(reply))[:-1]), STRICT).outcome)
    assert outcomes <= {"pass", "not_evaluable"}
