"""Did the run take place under the conditions that its scenario names? A gate accuses no server; it voids a pass."""

from __future__ import annotations

from infermaxx_tui.core.events import GateChecked
from infermaxx_tui.core.gates import standing
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState


def judge(state: RunState, limits: Limits) -> Check:
    """Cannot say while a gate that was asked for failed or is not known; required only if one was asked for."""
    stands = standing(state.gates)
    deciding = [gate for gate in stands if gate.required]
    bad = [gate for gate in deciding if gate.outcome != "pass"]
    known = sum(gate.outcome != "unknown" for gate in stands)
    noted = [gate for gate in stands if gate.outcome == "fail" and not gate.required]
    said = [_sentence(gate) for gate in (*bad, *noted)]
    return Check(
        name="gates",
        outcome="pass" if known and not bad else "not_evaluable",
        required=bool(deciding),
        n_evaluated=known,
        n_planned=len(stands),
        excluded={"unknown": len(stands) - known} if len(stands) > known else {},
        advice="; ".join(said) or None,
    )


def _sentence(gate: GateChecked) -> str:
    asked = "" if gate.required else " (not asked for)"
    what = "is not known" if gate.outcome == "unknown" else "failed"
    advice = f"; {gate.advice}" if gate.advice else ""
    return f"{gate.name}{asked} {what} {gate.when} the run: {gate.said}{advice}"
