"""Every condition of a PASS, and for each a run that differs from a passing one in one event and must not pass.

A condition without such a run may be lost from a judge and nobody would know. What one event cannot break (a share of
many replies, a counter over many readings) stands in core.mutation_table.
"""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.calibration import Calibration, ErrorBars
from infermaxx_tui.core.histories import sick
from infermaxx_tui.core.histories.bases import BABBLE
from infermaxx_tui.core.histories.edits import (
    OLD_TAG,
    Change,
    Edit,
    inserted,
    limits,
    nth,
    regime,
    reply,
    with_fields,
    without,
)
from infermaxx_tui.core.judges import Word
from infermaxx_tui.core.mutations import Base, Mutation
from infermaxx_tui.core.stats import LogHistogram

_FORGOT: Final = "I do not remember that one."


_BESIDE: Final = e.RequestStarted(req=99_999, session=0, turn=0, kind="warmup", prompt_tokens=10, max_tokens=10)
"""A request that is open while others are."""


def _fails(edit: Edit, check: str, base: Base = "healthy") -> Mutation:
    return Mutation(base, "FAIL", check, edit)


def _blinds(edit: Edit, check: str, base: Base = "healthy") -> Mutation:
    return Mutation(base, "INCONCLUSIVE", check, edit)


def _recall(change: Change, wanted: Word, check: str) -> Mutation:
    return Mutation("healthy", wanted, check, reply("recall", 5, change))


def _lost(wanted: Word, how: str, **values: object) -> Mutation:
    loss = msgspec.convert({"how": how, "session": None, "req": None, "detail": "mutation", **values}, e.ServerLost)
    return Mutation("healthy", wanted, "availability", inserted(loss))


_RECALL: Final[dict[str, Mutation]] = {
    "recall: at least min_recalls": _blinds(limits(min_recalls=25), "recall"),
    "recall: at least one": _blinds(reply("recall", 0, sick.fields(finish_reason="length")), "recall", "single"),
    "recall: as many as planned": _blinds(with_fields(e.RunStarted, 0, planned_recalls=25), "recall"),
    "recall: every question answered": _blinds(nth(e.RequestEnded, -20, lambda x: None), "recall"),
    "recall: few capped": _recall(sick.fields(finish_reason="length"), "INCONCLUSIVE", "recall"),
    "recall: few refused": _recall(sick.says("I'm sorry, but I can't share that."), "INCONCLUSIVE", "recall"),
    "recall: few echoes": _recall(sick.echoed, "INCONCLUSIVE", "recall"),
    "recall: few shed": _recall(sick.fields(outcome="shed", status=503, content=None), "INCONCLUSIVE", "recall"),
    "recall: few too long": _recall(
        sick.fields(outcome="too_long", status=400, content=None), "INCONCLUSIVE", "recall"
    ),
    "recall: nothing forgotten": _recall(sick.says(_FORGOT), "FAIL", "recall"),
    "recall: nothing corrupted": _recall(sick.damaged, "FAIL", "recall"),
    "recall: nothing mislabelled": _recall(sick.other_own, "FAIL", "recall"),
    "recall: nothing invented": _recall(sick.says(f"It is {OLD_TAG}."), "FAIL", "recall"),
    "recall: few that do not repeat": _blinds(limits(max_excluded=0.0), "recall", "listed"),
    "recall: asked again under load": _blinds(
        reply("reask_load", 0, sick.fields(finish_reason="length")), "recall", "listed"
    ),
    "recall: not missed again under load": _fails(reply("reask_load", 0, sick.says(_FORGOT)), "recall", "listed"),
}

_CONTENT: Final[dict[str, Mutation]] = {
    "isolation: no foreign tag in an answer": _recall(sick.foreign, "FAIL", "isolation"),
    "isolation: none in a turn": _fails(reply("turn", 5, sick.hit("content")), "isolation"),
    "isolation: none in reasoning": _fails(reply("turn", 5, sick.hit("reasoning")), "isolation"),
    "isolation: none in a tool call": _fails(reply("turn", 5, sick.hit("tool")), "isolation"),
    "isolation: none for an absent label": _fails(reply("absent", 0, sick.foreign), "isolation"),
    "isolation: none for a sentinel": _fails(reply("tail", 0, sick.foreign), "isolation"),
    "isolation: enough beside a foreign tag": _blinds(limits(min_recalls=20), "isolation", "serial"),
    "delivery: no stream cut": _fails(
        reply("turn", 5, sick.fields(outcome="truncated", finish_reason=None)), "delivery"
    ),
    "delivery: no broken protocol": _fails(
        reply("turn", 5, sick.fields(outcome="protocol", finish_reason=None)), "delivery"
    ),
    "delivery: nothing empty": _fails(reply("turn", 5, sick.fields(content_chars=0)), "delivery"),
    "delivery: no answer in reasoning alone": _recall(sick.in_reasoning, "FAIL", "delivery"),
    "degeneration: few replies": _fails(reply("turn", 5, sick.fields(degenerate="cycle of 1 token")), "degeneration"),
    "degeneration: few answers": _recall(sick.says(BABBLE), "FAIL", "degeneration"),
    "quality: asked before": _blinds(
        with_fields(e.RunStarted, 0, quality_when=("during", "after")), "quality", "tasks"
    ),
    "quality: asked during or after": _blinds(
        with_fields(e.RunStarted, 0, quality_when=("before",)), "quality", "tasks"
    ),
    "quality: as many as planned": _blinds(with_fields(e.RunStarted, 0, quality_tasks=25), "quality", "tasks"),
    "quality: few capped": _blinds(reply("quality", 30, sick.fields(finish_reason="length")), "quality", "tasks"),
    "quality: few errors": _blinds(reply("quality", 30, sick.fields(outcome="shed", status=503)), "quality", "tasks"),
    "quality: asked beside others": _blinds(nth(e.FirstToken, -30, lambda x: None), "quality", "tasks"),
    "quality: not below the demand": _blinds(reply("quality", 30, sick.says("Answer: no")), "quality", "demanding"),
}

_CONDITIONS: Final[dict[str, Mutation]] = {
    "availability: process alive": _lost("FAIL", "pid_dead"),
    "availability: process the same": _lost("FAIL", "restarted"),
    "availability: connections accepted": _lost("FAIL", "refused"),
    "availability: tokens come": _lost("FAIL", "stalled", reachable=True),
    "availability: no open stall": _lost("INCONCLUSIVE", "stalled", reachable=None),
    "availability: /health well": _lost("FAIL", "unhealthy", reachable=True),
    "availability: /health answers": _lost("INCONCLUSIVE", "unhealthy", reachable=None),
    "availability: no time-out": _lost("INCONCLUSIVE", "timeout"),
    "availability: no request without an answer": _blinds(
        reply("turn", 5, sick.fields(outcome="timeout", finish_reason=None)), "availability"
    ),
    "budget: few capped": _recall(sick.fields(finish_reason="length"), "INCONCLUSIVE", "budget"),
    "budget: none that claims stop": _recall(sick.fields(completion_tokens=199), "INCONCLUSIVE", "budget"),
    "budget: none at the window": _recall(sick.fields(prompt_tokens=32768 - 21), "INCONCLUSIVE", "budget"),
    "budget: none without finish_reason": _recall(sick.fields(finish_reason=None), "INCONCLUSIVE", "budget"),
    "budget: few tasks capped": _blinds(reply("quality", 30, sick.fields(finish_reason="length")), "budget", "tasks"),
    "budget: any reply": _blinds(
        reply("recall", 0, sick.fields(outcome="shed", status=503, content=None)), "budget", "single"
    ),
    "vacuity: deep recalls": _blinds(regime(target_depth=1_000_000), "vacuity"),
    "vacuity: beside others": _blinds(without(e.FirstToken, -20), "vacuity"),
    "controls: sentinels come back": _blinds(reply("tail", 1, sick.says(_FORGOT)), "controls"),
    "controls: a sentinel answered": _blinds(
        reply("tail", 0, sick.fields(finish_reason="length")), "controls", "single"
    ),
    "controls: an absent label answered": _blinds(
        reply("absent", 0, sick.fields(finish_reason="length")), "controls", "single"
    ),
    "controls: a noise floor": _blinds(
        with_fields(e.ControlAnswered, 0, ids_sha256="f" * 64), "controls", "controlled"
    ),
    "controls: the hit proved": _blinds(with_fields(e.ControlAnswered, 2, cached_tokens=0), "controls", "controlled"),
    "controls: the miss proved": _blinds(
        with_fields(e.ControlAnswered, 1, cached_tokens=960), "controls", "controlled"
    ),
    "controls: at temperature 0": _blinds(regime(temperature=0.7), "controls", "controlled"),
    "controls: whole replies": _blinds(reply("control", 2, sick.fields(outcome="truncated")), "controls", "controlled"),
    "controls: each of them played": _blinds(without(e.ControlAsked, 2), "controls", "controlled"),
    "controls: nothing beside": _blinds(inserted(_BESIDE, before=e.ControlAsked), "controls", "controlled"),
    "controls: the prefix shared": _blinds(
        with_fields(e.ControlAnswered, 3, cached_tokens=0), "controls", "controlled"
    ),
    "controls: answers with room": _blinds(
        reply("control", 4, sick.fields(finish_reason="length")), "controls", "controlled"
    ),
    "controls: no decoy": _blinds(reply("absent", 1, sick.decoy), "controls"),
    "gates: none failed": _blinds(with_fields(e.GateChecked, 0, outcome="fail"), "gates"),
    "gates: all known": _blinds(with_fields(e.GateChecked, 0, outcome="unknown"), "gates"),
}

_COARSE: Final = Calibration(
    version="1",
    python="3",
    host="made up",
    platform="made up",
    at_ms=0,
    took_s=4.0,
    bars=(ErrorBars(streams=64, rate_hz=200.0, ttft_p50_ms=50.0, ttft_p99_ms=101.0, gap_p99_ms=9.0),),
)
"""A host whose error is larger than what is demanded."""
_INSTRUMENT: Final[dict[str, Mutation]] = {
    "instrument: no evidence lost": _blinds(inserted(e.EvidenceLost(detail="no space left")), "instrument"),
    "instrument: no newer event": _blinds(sick.line_of_tomorrow, "instrument"),
    "instrument: no damaged line": _blinds(sick.line_damaged, "instrument"),
    "instrument: no line missing": _blinds(sick.line_lost, "instrument"),
    "instrument: a first line": _blinds(without(e.RunStarted, 0), "instrument"),
    "instrument: a regime": _blinds(without(e.RegimeNoted, 0), "instrument"),
    "instrument: a last line": _blinds(without(e.RunEnded, 0), "instrument"),
    "instrument: no fault of its own": _blinds(with_fields(e.RunEnded, 0, reason="internal"), "instrument"),
    "instrument: not ended by lost evidence": _blinds(with_fields(e.RunEnded, 0, reason="evidence_lost"), "instrument"),
    "instrument: every token read": _blinds(reply("turn", 5, sick.fields(anomalies=("unparsed_delta",))), "instrument"),
    "instrument: every question known": _blinds(without(e.TagAsked, 3), "instrument"),
    "instrument: no decoy": _blinds(reply("absent", 1, sick.decoy), "instrument"),
    "instrument: generated tokens alike": _blinds(
        with_fields(e.CountsReconciled, 0, generation_server=1), "instrument"
    ),
    "instrument: prompt tokens alike": _blinds(with_fields(e.CountsReconciled, 0, prompt_server=1), "instrument"),
    "timing: first tokens in time": _fails(reply("turn", 5, sick.fields(ttft_ms=5000.0)), "timing"),
    "timing: gaps short": _fails(with_fields(e.Beat, 3, gap_buckets=((400, 80),)), "timing"),
    "timing: no lag beside the gaps": _blinds(with_fields(e.InstrumentRead, 3, loop_lag_p99_ms=15.0), "timing"),
    "timing: no long lag": _blinds(with_fields(e.InstrumentRead, 3, loop_lag_max_ms=1001.0), "timing"),
    "timing: no step of the clock": _blinds(with_fields(e.InstrumentRead, 3, wall_step_ms=501.0), "timing"),
    "timing: sent when it was wanted": _blinds(
        with_fields(e.InstrumentRead, 3, dispatch_buckets=((LogHistogram.bucket(1100.0), 9),)), "timing"
    ),
    "timing: a loop with room": _blinds(with_fields(e.InstrumentRead, 3, loop_cpu_share=0.91), "timing"),
    "timing: limits above the instrument's own error": _blinds(
        inserted(e.Calibrated(calibration=_COARSE, age_s=60.0), before=e.SessionStarted), "timing"
    ),
    "drift: long enough": _blinds(limits(min_drift_hours=10.0), "drift", "soak"),
    "drift: long enough for memory too": _blinds(limits(min_drift_hours=10.0), "drift", "watched"),
    "drift: what was demanded was read": _blinds(limits(max_vram_mib_per_hour=1.0), "drift", "soak"),
    "drift: a client that could see": _blinds(
        with_fields(e.InstrumentRead, 3, loop_lag_max_ms=3000.0), "drift", "soak"
    ),
}

PASS_RULES: Final[dict[str, Mutation]] = {**_RECALL, **_CONTENT, **_CONDITIONS, **_INSTRUMENT}
"""`judge: what must hold`."""
