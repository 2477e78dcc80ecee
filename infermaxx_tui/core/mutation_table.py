"""The mutations that must flip a verdict, and the changes that must not.

What each stands for: a way in which an instrument once judged a run wrongly, or could (prior-art.md §2).
"""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.histories import sick
from infermaxx_tui.core.histories.bases import BABBLE
from infermaxx_tui.core.histories.edits import Edit, both, each, inserted, reply, said, with_fields, without
from infermaxx_tui.core.lumps import Arrivals
from infermaxx_tui.core.mutations import Mutation
from infermaxx_tui.core.stats import LogHistogram

_replace = msgspec.structs.replace
_REFUSED: Final = "I'm sorry, but I can't share that information."
_FORGOT: Final = "I do not remember that one."
_CUT: Final = sick.fields(outcome="truncated", finish_reason=None)
_CLUMPS: Final = Arrivals(events=60, moments=4, lumped=60, waits=3, torn=3, wait_ms=160.0, lump_bytes=4096)
_ONE_BY_ONE: Final = each(e.RequestEnded, lambda x: _replace(x, arrivals=Arrivals(events=60, moments=60)))
_SHED: Final = sick.fields(outcome="shed", status=503, finish_reason=None, content=None)


def _fails(check: str, *edits: Edit) -> Mutation:
    return Mutation("healthy", "FAIL", check, both(*edits))


def _blinds(check: str, *edits: Edit) -> Mutation:
    return Mutation("healthy", "INCONCLUSIVE", check, both(*edits))


def _lost(how: str, **values: object) -> Edit:
    loss = {"how": how, "session": None, "req": None, "detail": "a mutation", **values}
    return inserted(msgspec.convert(loss, e.ServerLost))


_ANSWERS: Final[dict[str, Mutation]] = {
    "swap two sessions' answers": _fails("isolation", sick.answers_swapped),
    "swap two sessions' tags": _fails("isolation", sick.tags_swapped),
    "another session's tag": _fails("isolation", reply("recall", 5, sick.foreign)),
    "another session's tag, capped": _fails(
        "isolation", reply("recall", 5, sick.foreign), reply("recall", 5, sick.fields(finish_reason="length"))
    ),
    "another session's tag for a label never planted": _fails("isolation", reply("absent", 0, sick.foreign)),
    "another session's tag in a turn": _fails("isolation", reply("turn", 5, sick.hit("content"))),
    "another session's tag in a turn's reasoning": _fails("isolation", reply("turn", 5, sick.hit("reasoning"))),
    "another session's tag in a tool call": _fails("isolation", reply("turn", 5, sick.hit("tool"))),
    "an earlier run's tag": _fails("isolation", sick.stale),
    "delete a tag": _fails("recall", reply("recall", 5, sick.says(_FORGOT))),
    "delete all tags": _fails("recall", reply("recall", None, sick.says(_FORGOT))),
    "change one symbol": _fails("recall", reply("recall", 5, sick.damaged)),
    "answer with another label's tag": _fails("recall", reply("recall", 5, sick.other_own)),
    "cap a reply": _blinds(
        "recall", reply("recall", 5, sick.says("The")), reply("recall", 5, sick.fields(finish_reason="length"))
    ),
    "cap a reply and claim stop": _blinds("budget", reply("recall", 5, sick.fields(completion_tokens=200))),
    "end a reply at the window": _blinds("budget", reply("recall", 5, sick.fields(max_tokens=20))),
    "lose a finish_reason": _blinds("budget", reply("recall", 5, sick.fields(finish_reason=None))),
    "empty a reply": _fails("delivery", reply("recall", 5, sick.says(""))),
    "empty a turn": _fails("delivery", reply("turn", 5, sick.nothing)),
    "put an answer in reasoning": _fails("delivery", reply("recall", 5, sick.in_reasoning)),
    "repeat a token": _fails("degeneration", reply("recall", 5, sick.says(BABBLE))),
    "repeat a token in a turn": _fails("degeneration", reply("turn", 5, sick.fields(degenerate="cycle of 1 token"))),
    "shout": _fails("degeneration", reply("recall", 5, sick.says("!" * 400))),
    "cut a stream": _fails("delivery", reply("turn", 5, _CUT)),
    "cut an answer's stream": _fails("delivery", reply("recall", 5, _CUT)),
    "answer HTML": _fails("delivery", reply("turn", 5, sick.fields(outcome="protocol", finish_reason=None))),
    "shed a question": _blinds("recall", reply("recall", 5, _SHED)),
    "refuse": _blinds("recall", reply("recall", 5, sick.says(_REFUSED))),
    "echo the prompt": _blinds("recall", reply("recall", 5, sick.echoed)),
    "inject a decoy": _blinds("instrument", reply("absent", 1, sick.decoy)),
    "lose the sentinels": _blinds("controls", reply("tail", None, sick.says(_FORGOT))),
    "cap all absent labels": _blinds("controls", reply("absent", None, sick.fields(finish_reason="length"))),
    "ask nothing": _blinds("recall", sick.nothing_asked),
    "ask one after another": _blinds("vacuity", sick.alone),
}

_AROUND: Final[dict[str, Mutation]] = {
    "skew the clock": _blinds("timing", with_fields(e.InstrumentRead, 0, wall_step_ms=-3_600_000.0)),
    "freeze the loop": _blinds("timing", with_fields(e.InstrumentRead, 0, loop_lag_max_ms=3000.0)),
    "lag in every window": _blinds("timing", each(e.InstrumentRead, lambda x: _replace(x, loop_lag_p99_ms=50.0))),
    "do not measure the lag": _blinds("timing", each(e.InstrumentRead, lambda x: _replace(x, loop_lag_p99_ms=None))),
    "put the machine to sleep again and again": _blinds("timing", sick.sleeping(10_000)),
    "send everything late": _blinds(
        "timing",
        each(e.InstrumentRead, lambda x: _replace(x, dispatch_buckets=((LogHistogram.bucket(1500.0), 9),))),
    ),
    "leave the loop no room": _blinds("timing", each(e.InstrumentRead, lambda x: _replace(x, loop_cpu_share=0.99))),
    "buffer the streams": _blinds("timing", each(e.RequestEnded, lambda x: _replace(x, decode_ms=0.0))),
    "hand the streams on in clumps": _blinds("timing", each(e.RequestEnded, lambda x: _replace(x, arrivals=_CLUMPS))),
    "hand whole events on in batches": _blinds(
        "timing", each(e.RequestEnded, lambda x: _replace(x, arrivals=_replace(_CLUMPS, torn=0)))
    ),
    "hand short replies on at once": _blinds(
        "timing", each(e.RequestEnded, lambda x: _replace(x, arrivals=Arrivals(events=12, moments=1, lumped=12)))
    ),
    "make the first tokens late": _fails("timing", each(e.RequestEnded, lambda x: _replace(x, ttft_ms=5000.0))),
    "make the gaps long": _fails("timing", each(e.Beat, lambda x: _replace(x, gap_buckets=((400, 20),)))),
    "kill the server": _fails("availability", _lost("pid_dead")),
    "restart the server": _fails("availability", _lost("restarted")),
    "refuse a connection": _fails("availability", _lost("refused")),
    "hang while /health answers": _fails("availability", _lost("stalled", reachable=True)),
    "hang and nobody knows": _blinds("availability", _lost("stalled", reachable=None)),
    "kill the engine behind the server": _fails("availability", _lost("unhealthy", reachable=True)),
    "leave /health without an answer": _blinds("availability", _lost("unhealthy", reachable=False)),
    "time out": _blinds("availability", _lost("timeout")),
    "use the server beside us": _blinds("instrument", each(e.MetricsRead, lambda x: _replace(x, running=400.0))),
    "let the server count more than we": _blinds(
        "instrument",
        sick.counted(
            e.CountsReconciled(generation_client=10, generation_server=11, prompt_client=10, prompt_server=10)
        ),
    ),
    "speak an unknown dialect": _blinds("instrument", reply("turn", 5, sick.fields(anomalies=("unparsed_delta",)))),
    "lose evidence": _blinds("instrument", inserted(e.EvidenceLost(detail="no space left"))),
    "break the log off": _blinds("instrument", sick.half),
    "lose a line": _blinds("instrument", sick.line_lost),
    "damage a line": _blinds("instrument", sick.line_damaged),
    "write with a newer program": _blinds("instrument", sick.line_of_tomorrow),
    "lose the first line": _blinds("instrument", without(e.RunStarted, 0)),
    "lose the regime": _blinds("instrument", without(e.RegimeNoted)),
    "end by a fault of this program": _blinds("instrument", with_fields(e.RunEnded, 0, reason="internal")),
    "fail a gate": _blinds(
        "gates",
        inserted(e.GateChecked(name="other", when="after", outcome="fail", required=True, said="it does not hold")),
    ),
    "leave a gate open": _blinds(
        "gates", inserted(e.GateChecked(name="other", when="after", outcome="unknown", required=True, said="who knows"))
    ),
}

_TASKS: Final[dict[str, Mutation]] = {
    "answer wrongly under load": Mutation("tasks", "FAIL", "quality", sick.tasks("during", 2, content="Answer: no")),
    "answer wrongly afterwards": Mutation("tasks", "FAIL", "quality", sick.tasks("after", 2, content="Answer: no")),
    "answer wrongly from the start": Mutation(
        "tasks",
        "INCONCLUSIVE",
        "quality",
        both(*(sick.tasks(phase, 1, content="Answer: no") for phase in ("before", "during", "after"))),
    ),
    "cap the tasks": Mutation("tasks", "INCONCLUSIVE", "quality", sick.tasks("during", 2, finish_reason="length")),
    "cut the tasks": Mutation("tasks", "INCONCLUSIVE", "quality", sick.tasks("after", 2, outcome="stalled")),
    "ask no tasks before": Mutation("tasks", "INCONCLUSIVE", "quality", sick.without_requests(sick.of_phase("before"))),
    "ask no tasks under load": Mutation(
        "tasks", "INCONCLUSIVE", "quality", sick.without_requests(sick.of_phase("during"))
    ),
    "ask the tasks alone": Mutation("tasks", "INCONCLUSIVE", "quality", sick.alone),
    "go round in a circle in a task": Mutation(
        "tasks", "FAIL", "degeneration", sick.tasks("after", 24, degenerate="cycle of 1 token")
    ),
}

_DEMANDING: Final[dict[str, Mutation]] = {
    "babble when all is over": Mutation(
        "controlled",
        "FAIL",
        "degeneration",
        both(*(reply("control", n, sick.fields(degenerate="a run of !")) for n in (5, 6))),
    ),
    "fall below the demand": Mutation("demanding", "FAIL", "quality", sick.tasks("during", 2, content="Answer: no")),
}

_SOAK: Final[dict[str, Mutation]] = {
    "slow down": Mutation("soak", "FAIL", "drift", sick.slower),
    "drop usage": Mutation(
        "soak",
        "INCONCLUSIVE",
        "drift",
        each(e.RequestEnded, lambda x: _replace(x, completion_tokens=None, prompt_tokens=None, ids_received=None)),
    ),
    "preempt": Mutation("soak", "INCONCLUSIVE", "drift", sick.preempted),
    "hold the card back": Mutation("soak", "INCONCLUSIVE", "drift", sick.held_back),
    "hand the soak on in clumps": Mutation(
        "soak", "INCONCLUSIVE", "drift", each(e.RequestEnded, lambda x: _replace(x, arrivals=_CLUMPS))
    ),
    "never warm up": Mutation("soak", "INCONCLUSIVE", "drift", without(e.SessionEnded)),
    "lag through the soak": Mutation(
        "soak", "INCONCLUSIVE", "drift", each(e.InstrumentRead, lambda x: _replace(x, loop_lag_max_ms=3000.0))
    ),
    "waver": Mutation("watched", "INCONCLUSIVE", "drift", sick.wavering),
    "leak this program's memory": Mutation("watched", "FAIL", "drift", sick.growing),
}

_REPAIRS: Final[dict[str, Mutation]] = {
    "give the leaked tag's place to the right one": Mutation("leak", "PASS", None, reply("recall", 5, sick.right)),
    "change a symbol of the leaked tag": Mutation("leak", "FAIL", "recall", reply("recall", 5, sick.foreign_damaged)),
    "take the leak out": Mutation("leak", "FAIL", "recall", reply("recall", 5, sick.says(_FORGOT))),
    "give the tag back": Mutation("forgets", "PASS", None, reply("recall", 5, sick.right)),
    "cap the miss": Mutation(
        "forgets", "INCONCLUSIVE", "budget", reply("recall", 5, sick.fields(completion_tokens=200))
    ),
    "refuse instead of forgetting": Mutation(
        "forgets", "INCONCLUSIVE", "recall", reply("recall", 5, sick.says(_REFUSED))
    ),
    "shed instead of forgetting": Mutation("forgets", "INCONCLUSIVE", "recall", reply("recall", 5, _SHED)),
    "end the cut stream": Mutation(
        "cut",
        "PASS",
        None,
        each(
            e.RequestEnded,
            lambda x: _replace(x, outcome="ok", finish_reason="stop") if x.outcome == "truncated" else x,
        ),
    ),
    "bring the server back": Mutation("lost", "PASS", None, without(e.ServerLost)),
    "only wait for the server": Mutation(
        "lost", "INCONCLUSIVE", "availability", with_fields(e.ServerLost, 0, how="timeout")
    ),
    "stop the babble": Mutation("babbles", "PASS", None, reply("recall", 5, sick.right)),
    "give the capped reply room": Mutation(
        "capped",
        "PASS",
        None,
        both(reply("recall", 5, sick.right), reply("recall", 5, sick.fields(finish_reason="stop"))),
    ),
    "claim that the capped reply was whole": Mutation(
        "capped", "FAIL", "recall", reply("recall", 5, sick.fields(finish_reason="stop"))
    ),
}

MUTATIONS: Final[dict[str, Mutation]] = {**_ANSWERS, **_AROUND, **_TASKS, **_DEMANDING, **_SOAK, **_REPAIRS}
"""Each must bring about its verdict, by the check that it names."""

HARMLESS: Final[dict[str, Mutation]] = {
    name: Mutation("healthy", "PASS", None, edit)
    for name, edit in {
        "drop a reply's usage": reply("recall", 5, sick.fields(completion_tokens=None, prompt_tokens=None)),
        "drop all usage": each(e.RequestEnded, lambda x: _replace(x, completion_tokens=None, prompt_tokens=None)),
        "odd but lawful wire": each(e.RequestEnded, lambda x: _replace(x, anomalies=("crlf", "ping", "no_usage"))),
        "say it in other words": reply("recall", None, lambda it: said(f"That would be {it.tag.lower()}, I think.")),
        "think before the answer": reply("recall", None, sick.fields(reasoning="Let me see.", reasoning_chars=11)),
        "set the wall clock before the run": sick.wall_clock_off,
        "do not compare the counts": without(e.CountsReconciled),
        "sleep once": sick.sleeping(1),
        "see each event come by itself": _ONE_BY_ONE,
        "be late in one reply": both(_ONE_BY_ONE, reply("turn", 5, lambda it: {"arrivals": _replace(_CLUMPS, torn=0)})),
        "write a remark": inserted(e.Noted(text="a remark")),
        "a long pause": inserted(e.GapNoted(req=0, session=0, gap_ms=2500.0, at_token=9)),
        "read no metrics": without(e.MetricsRead),
        "own tag for a label never planted": reply(
            "absent", 0, lambda it: said(f"It is {it.known.own[it.ended.session][0]}.")
        ),
    }.items()
}
"""Each must leave a PASS a PASS: a judge that fails them cries wolf."""
