"""verdict.json: what a run earned, on what it ran, and what that is worth. The same log gives the same bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.ability_figures import ability_measures
from infermaxx_tui.core.calibration import Calibration
from infermaxx_tui.core.gpu_verdict import SensorReport, sensor_report
from infermaxx_tui.core.inflation import PaceSeen
from infermaxx_tui.core.judges import Word, judge_all, overall
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.control_base import ControlFinding
from infermaxx_tui.core.judges.control_findings import findings
from infermaxx_tui.core.judges.timing import untimely
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.predictions import Prediction, Scored
from infermaxx_tui.core.prefix_seen import PrefixSeen
from infermaxx_tui.core.probe_fit import NOWHERE, Room
from infermaxx_tui.core.probe_measures import probe_measures
from infermaxx_tui.core.quality.gate import gate, withheld
from infermaxx_tui.core.reached import RegimeReached, reached
from infermaxx_tui.core.register import score
from infermaxx_tui.core.scope import scope
from infermaxx_tui.core.server_seen import ServerSeen
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.withholding import withheld_speed
from infermaxx_tui.exitcodes import ExitCode

SCHEMA = 1
DIGITS = 6
"""Significant digits of every number that is not a count."""
_EXIT = {"PASS": ExitCode.PASS, "FAIL": ExitCode.FAIL, "INCONCLUSIVE": ExitCode.INCONCLUSIVE}


class InstrumentReport(msgspec.Struct, frozen=True, kw_only=True):
    """How well the client could see; printed in every verdict."""

    loop_lag_p50_ms: float | None
    loop_lag_p99_ms: float | None
    loop_lag_max_ms: float | None
    cpu_share_max: float | None
    rss_first_mib: float | None
    rss_last_mib: float | None
    rss_max_mib: float | None
    wall_step_ms: float
    events_parsed: int
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    gap_p50_ms: float | None
    gap_p99_ms: float | None
    streams_timed: int
    streams_buffered: int
    anomalies: dict[str, int]
    generation_client: int | None
    generation_server: int | None
    prompt_client: int | None
    prompt_server: int | None
    counts_reason: str | None
    metrics_errors: int
    log_events: int
    unknown_events: int
    invalid_lines: int
    lines_missing: int
    torn_tail: bool
    loop_cpu_share_max: float | None = None
    """Of the event loop's thread, in the worst window."""
    rss_growth_mib: float | None = None
    dispatch_n: int = 0
    dispatch_p50_ms: float | None = None
    """From when the schedule wanted a request until its bytes went out; no TTFT counts it."""
    dispatch_p99_ms: float | None = None
    dispatch_max_ms: float | None = None
    dispatch_max_ms_by: dict[str, float] = {}
    """By why the moment came: wave, turn, pause, meeting."""
    dispatch_ms_spent: dict[str, float] = {}
    """All of it by what it went to: render, connect, other."""
    connect_p50_ms: float | None = None
    """Waiting for a connection, which is part of every TTFT."""
    connect_p99_ms: float | None = None
    connect_max_ms: float | None = None
    connections_new: int = 0
    connections_reused: int = 0
    reads: int = 0
    events_per_read: float | None = None
    coalesced_share: float | None = None
    """Share of socket reads that held more than one event."""
    streams_seen_coming: int = 0
    """Replies with enough events to show whether these came one by one."""
    streams_clumped: int = 0
    """Those of them that came in clumps, whoever made them."""
    clump_bytes: int | None = None
    """The clumps' most frequent size."""
    clump_wait_ms: float | None = None
    """The median silence between them."""
    gc_pauses: int | None = None
    gc_total_ms: float | None = None
    gc_max_ms: float | None = None
    clock_steps: int = 0
    clock_step_ms: float = 0.0
    """The largest that was seen as it happened."""
    suspends: int = 0
    suspend_ms: float | None = None
    ttft_excluded: int = 0
    """First tokens that a jump of a clock came before; they are in no percentile."""
    gaps_excluded: int = 0
    missing: dict[str, str] = {}
    """What of this could not be measured, and why."""
    calibration: Calibration | None = None
    """This host's own error bars."""
    calibration_age_s: float | None = None
    calibration_reason: str | None = "the log does not say"


class QualityPhase(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of one phase."""

    phase: str
    wave: int | None
    planned: int
    right: int
    wrong: int
    capped: int
    error: int
    not_asked: int
    fell: int
    """Tasks right before and wrong here."""
    rose: int


class GateSeen(msgspec.Struct, frozen=True):
    """A condition of the run, and how it stood."""

    name: str
    when: str
    outcome: str
    required: bool
    said: str
    advice: str | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A whole verdict.json."""

    schema: int = SCHEMA
    verdict: Word
    scenario: str | None
    run: str | None
    simulated: bool
    post_hoc: bool = False
    """Whether other limits than the run's own were asked for afterwards."""
    ended: str | None
    """Why the run ended; None if the log has no last line."""
    checks: tuple[Check, ...]
    scope: str
    regime: RegimeReached
    limits: Limits
    instrument: InstrumentReport
    quality: tuple[QualityPhase, ...] = ()
    """Marks of each phase in which tasks with one right answer were asked."""
    speed_withheld: str | None = None
    """Why no throughput of this run may be quoted, nor gaps, which are its inverse; None if it may."""
    server: ServerSeen = ServerSeen()
    """What the server's own counters said over the run."""
    sensors: SensorReport = SensorReport()
    """What the cards did over the run."""
    startup: StartupFacts | None = None
    """What its start-up log says; None without one."""
    startup_reason: str | None = None
    """Why there is none."""
    gates: tuple[GateSeen, ...] = ()
    measures: tuple[Measure, ...] = ()
    """What the probes measured; no speed where speeds are withheld."""
    predictions: tuple[Scored, ...] = ()
    """What was claimed before the run, and what became of it."""
    predictions_sha256: str | None = None
    """Hash of the claims in the log's first line; None without claims."""
    prefix: PrefixSeen = PrefixSeen()
    """How far prompts went on with the ones before them, and what the server's cache gave of that."""
    forced_lengths: bool = False
    """Whether main-line replies had forced lengths: their speed is no headline."""
    controls: tuple[ControlFinding, ...] = ()
    """What was played with nothing beside, and what it says; its evidence stands in the check of that name."""
    pace: PaceSeen | None = None
    """Sums of all main-line turns by depth, for a comparison with a control run; None where speeds are withheld."""

    @property
    def timing_void(self) -> str | None:
        """Why no time of this run may be quoted; None if they may."""
        void = (one for one in self.checks if one.name == "timing" and one.outcome == "not_evaluable")
        return next((one.advice or "timing is void" for one in void), None)


_NO_TIMES: Final = dict.fromkeys(("ttft_p50_ms", "ttft_p99_ms", "gap_p50_ms", "gap_p99_ms"))
"""Speeds among what the client reports, as they stand where speeds are withheld."""


def judge_run(state: RunState, limits: Limits | None = None, later: Sequence[Prediction] | None = None) -> Verdict:
    """The verdict on what a log says, by the run's own limits, or post hoc by others.

    `later`: the claims that the run's scenario file makes now, None if it cannot be read.
    """
    meta = state.meta
    demanded = limits if limits is not None else meta.limits if meta is not None else Limits()
    hidden = withheld_speed(withheld(state.quality, demanded), state.degenerate, state.inflation, demanded)
    state = _as_hidden(state, hidden)
    checks = judge_all(state, demanded)
    return Verdict(
        verdict=overall(checks),
        scenario=meta.scenario if meta is not None else None,
        run=meta.run if meta is not None else None,
        simulated=state.regime is not None and state.regime.simulated,
        post_hoc=limits is not None,
        ended=state.ended,
        checks=checks,
        scope=scope(state, {check.name: check for check in checks}, demanded),
        regime=reached(state),
        limits=demanded,
        instrument=_report(state) if hidden is None else msgspec.structs.replace(_report(state), **_NO_TIMES),
        quality=_quality(state, demanded),
        speed_withheld=hidden,
        server=state.server,
        sensors=sensor_report(state.gpus, hidden),
        startup=state.startup.facts if state.startup is not None else None,
        startup_reason=state.startup.reason if state.startup is not None else "the log does not say",
        gates=tuple(GateSeen(g.name, g.when, g.outcome, g.required, g.said, g.advice) for g in state.gates),
        measures=_measures(state, demanded, hidden),
        predictions=score(state, checks, demanded, later),
        predictions_sha256=(meta.predictions_sha256 or None) if meta is not None else None,
        prefix=state.prefix,
        forced_lengths=state.degenerate.forced > 0,
        controls=tuple(msgspec.structs.replace(one, evidence=()) for one in findings(state)),
        pace=state.pace if hidden is None else None,
    )


def _as_hidden(state: RunState, hidden: str | None) -> RunState:
    """The state as these limits have it, which may be others than the run's own: without the speed of prefill too."""
    prefix = state.prefix
    if hidden is not None:
        prefix = msgspec.structs.replace(prefix, prefill_tokens_per_s=None, missed_s=None)
    return msgspec.structs.replace(state, speed_withheld=hidden, prefix=prefix)


def exit_code(verdict: Verdict) -> ExitCode:
    """What a process says that ends with this verdict."""
    return _EXIT[verdict.verdict]


def verdict_bytes(verdict: Verdict) -> bytes:
    """The file: every key always there, null where a reading is missing, ASCII only, a newline at the end."""
    return json.dumps(rounded(msgspec.to_builtins(verdict)), indent=2, allow_nan=False).encode("ascii") + b"\n"


def read_verdict(data: bytes) -> Verdict:
    """A verdict from its file. Raises msgspec.ValidationError or msgspec.DecodeError if it is not one."""
    return msgspec.json.decode(data, type=Verdict)


def rounded(value: object) -> object:
    """The same with numbers of 6 significant digits; what JSON cannot say is null."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
        case dict():
            return {str(key): rounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [rounded(inner) for inner in value]
        case _:
            return value


def _measures(state: RunState, limits: Limits, hidden: str | None) -> tuple[Measure, ...]:
    """No speed where speeds are withheld; else each is held against the client's lag by the time that it is made of."""

    def blind(time_ms: float, lag_ms: float | None) -> list[str]:
        if hidden is not None:
            return [f"withheld: {hidden}"]
        return untimely(state, limits, "a time", time_ms, lag_ms)

    seen = state.probes
    said = state.regime
    room = NOWHERE if said is None else Room(said.pool_tokens, said.max_model_len)
    measured = probe_measures(seen.planned, seen.replies, blind, room) if seen.planned else ()
    return (*measured, *ability_measures(seen.abilities, seen.answers, hidden))


def _quality(state: RunState, limits: Limits) -> tuple[QualityPhase, ...]:
    if not state.quality.tasks:
        return ()
    return tuple(
        QualityPhase(
            phase=phase.phase,
            wave=phase.wave if phase.phase == "during" else None,
            planned=phase.planned,
            right=phase.right,
            wrong=phase.wrong,
            capped=phase.excluded.get("capped", 0),
            error=phase.excluded.get("error", 0),
            not_asked=phase.excluded.get("not_asked", 0),
            fell=phase.fell,
            rose=phase.rose,
        )
        for phase in gate(state.quality, limits).phases
    )


def _report(state: RunState) -> InstrumentReport:
    seen, counts, sight = state.instrument, state.counts, state.instrument.sight
    first, last = seen.rss_first_mib, seen.rss_last_mib
    return InstrumentReport(
        loop_lag_p50_ms=seen.loop_lag_p50_ms,
        loop_lag_p99_ms=seen.loop_lag_p99_ms,
        loop_lag_max_ms=seen.loop_lag_max_ms,
        cpu_share_max=seen.cpu_share_max,
        rss_first_mib=seen.rss_first_mib,
        rss_last_mib=seen.rss_last_mib,
        rss_max_mib=seen.rss_max_mib,
        wall_step_ms=seen.wall_step_ms,
        events_parsed=seen.events_parsed,
        ttft_p50_ms=seen.ttft_ms.p50,
        ttft_p99_ms=seen.ttft_ms.p99,
        gap_p50_ms=seen.gap_ms.p50,
        gap_p99_ms=seen.gap_ms.p99,
        streams_timed=seen.streams_timed,
        streams_buffered=seen.streams_buffered,
        anomalies=dict(seen.anomalies),
        generation_client=counts.generation_client if counts is not None else None,
        generation_server=counts.generation_server if counts is not None else None,
        prompt_client=counts.prompt_client if counts is not None else None,
        prompt_server=counts.prompt_server if counts is not None else None,
        counts_reason=counts.reason if counts is not None else "no comparison was logged",
        metrics_errors=state.metrics_errors,
        log_events=state.events,
        unknown_events=seen.unknown_events,
        invalid_lines=seen.invalid_lines,
        lines_missing=seen.lines_missing,
        torn_tail=seen.torn_tail,
        loop_cpu_share_max=sight.loop_cpu_share_max,
        rss_growth_mib=last - first if first is not None and last is not None else None,
        dispatch_n=sight.dispatch.n,
        dispatch_p50_ms=sight.dispatch.p50_ms,
        dispatch_p99_ms=sight.dispatch.p99_ms,
        dispatch_max_ms=sight.dispatch.max_ms,
        dispatch_max_ms_by=sight.dispatch_by,
        dispatch_ms_spent=sight.dispatch_parts,
        connect_p50_ms=sight.connect.p50_ms,
        connect_p99_ms=sight.connect.p99_ms,
        connect_max_ms=sight.connect.max_ms,
        connections_new=sight.connects_new,
        connections_reused=sight.connects_reused,
        reads=sight.reads,
        events_per_read=seen.events_parsed / sight.reads if sight.reads else None,
        coalesced_share=sight.coalesced_share,
        streams_seen_coming=sight.travel.replies,
        streams_clumped=sight.travel.held,
        clump_bytes=sight.travel.lump_bytes,
        clump_wait_ms=sight.travel.wait_ms,
        gc_pauses=sight.gc_pauses,
        gc_total_ms=sight.gc_total_ms,
        gc_max_ms=sight.gc_max_ms,
        clock_steps=sight.steps,
        clock_step_ms=sight.step_ms,
        suspends=sight.suspends,
        suspend_ms=sight.suspend_ms,
        ttft_excluded=sight.ttft_excluded,
        gaps_excluded=sight.gaps_excluded,
        missing=sight.missing,
        calibration=sight.calibration,
        calibration_age_s=sight.calibration_age_s,
        calibration_reason=sight.calibration_reason,
    )
