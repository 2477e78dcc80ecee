"""What the controls of a run separate, in words: which cause each of them rules out, and which no arm of it could.

A recall that fails under load may be the model's, the load's, or another conversation's. Asking again alone tells the
first from the others, and only the same conversations one at a time tell the last two apart (gpu-and-verdicts §2.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.control_base import WITNESSES, ControlFinding
from infermaxx_tui.core.verdict import Verdict

TITLE: Final = "what the controls of this run separate:"
OF_CONVERSATIONS: Final = ("recall", "isolation", "degeneration", "quality")
"""Checks whose failure may come from what conversations share."""
_SEPARATES: Final = {
    "repeat": "a cause from noise",
    "cache": "the prefix cache from the model",
    "alike": "what neighbours in a batch share from what each is sent",
    "salt": "sharing a prefix from the model",
    "solo": "what the load did from what the server is, and speed from depth",
    "after": "a server that is sick from one that is busy",
}


def separated(verdict: Verdict) -> tuple[str, ...]:
    """A sentence for each control; none for a run of which nobody knows how it was played."""
    if verdict.regime.at_once is None:
        return ()
    checks = {check.name: check for check in verdict.checks}
    return (
        *_asking(checks["controls"], verdict.controls),
        *_again(checks),
        *(_of_control(one, checks["controls"]) for one in verdict.controls),
        *_serial(verdict, checks),
    )


def _asking(controls: Check, found: Sequence[ControlFinding]) -> list[str]:
    if not controls.n_planned:
        return ["sentinels and absent labels: none were planned, so a lost tag is not told from a question that fails"]
    others = "; ".join(one.said for one in found if one.outcome == "not_evaluable")
    if controls.outcome != "pass" and controls.advice != others:
        return ["sentinels, absent labels and decoys: they do not hold, so a lost tag says nothing about the server"]
    return ["sentinels, absent labels and decoys: they hold, so a lost tag is not the fault of the asking"]


def _again(checks: dict[str, Check]) -> list[str]:
    said = []
    for name, what in (("recall", "tags"), ("quality", "tasks")):
        match checks[name].cause:
            case "under_load":
                said.append(
                    f"{what} asked again alone: right there, so their failing takes load and is no limit of the model"
                )
            case "unsalted":
                said.append(
                    f"{what} asked again with a salt of their own: right there, so their failing takes the prefix cache"
                    " and is no limit of the model"
                )
            case "alone_too":
                said.append(
                    f"{what} asked again alone: wrong there too, so concurrency is cleared; model, KV dtype and"
                    " quantisation are told apart by an arm in which one of them is another"
                )
            case _:
                pass
    return said


def _of_control(one: ControlFinding, check: Check) -> str:
    own = [ev for ev in check.evidence if ev.note == f"controls.{one.control}" and ev.said]
    told = "; ".join(f"{ev.what} (event {ev.event[0]}:{ev.event[1]}): {ev.said}" for ev in own[:WITNESSES])
    match one.outcome:
        case "not_evaluable":
            return f"{one.said}; so it does not tell {_SEPARATES[one.control]}"
        case "not_applicable":
            return one.said
        case _:
            return f"{one.said}; it tells {_SEPARATES[one.control]}" + (f"; {told}" if told else "")


def _serial(verdict: Verdict, checks: dict[str, Check]) -> list[str]:
    failed = [name for name in OF_CONVERSATIONS if checks[name].outcome == "fail"]
    at_once, sessions, turns = verdict.regime.at_once, verdict.regime.sessions, verdict.regime.interleaved
    if at_once == 1 and sessions == 1:
        return ["one conversation alone: it separates nothing that conversations share"]
    if at_once == 1:
        how = "one conversation after another"
        if turns is not None:
            how = f"{turns} conversations in turns, one request at a time over the whole run"
        if failed:
            return [f"serial arm: {how}, so what failed here ({', '.join(failed)}) needs no concurrency"]
        if verdict.verdict != "PASS":
            return [f"serial arm: {how}; it is no PASS, so nothing can be held against it"]
        return [
            f"serial arm: {how}; it passes, so what fails with several requests at once needs them"
            " (`infermaxx compare RUN THIS_RUN` says which)"
        ]
    if failed:
        return [
            f"serial arm: not in this run, so it is open whether {' and '.join(failed)} needs requests beside one"
            " another: run the same with --set sessions.control=serial and `infermaxx compare` the two"
        ]
    return [
        "serial arm: not in this run; a pass needs none, and a failure would be traced with sessions.control=serial"
    ]
