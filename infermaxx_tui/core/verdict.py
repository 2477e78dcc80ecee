"""verdict.json: what a run earned, on what it ran, and what that is worth. The same log gives the same bytes."""

from __future__ import annotations

import json
import math

import msgspec

from infermaxx_tui.core.judges import Word, judge_all, overall
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.scope import scope
from infermaxx_tui.core.state import RunState
from infermaxx_tui.exitcodes import ExitCode

SCHEMA = 1
DIGITS = 6
"""Significant digits of every number that is not a count."""
_EXIT = {"PASS": ExitCode.PASS, "FAIL": ExitCode.FAIL, "INCONCLUSIVE": ExitCode.INCONCLUSIVE}


class RegimeReached(Regime, frozen=True, kw_only=True):
    """The regime as asked for, and what the run came to."""

    concurrency_admitted_peak: int | None = None
    """Most streams that decoded beside one another, or that the server ran of ours at once."""
    depth_reached: int | None = None
    """Tokens of the deepest prompt and reply that the server processed."""
    sessions: int | None = None
    at_once: int | None = None
    segments: int = 1
    duration_s: float = 0.0
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    """Prompt tokens that the server took from its cache, by its own count."""


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


def judge_run(state: RunState, limits: Limits | None = None) -> Verdict:
    """The verdict on what a log says, by the run's own limits, or post hoc by others."""
    meta = state.meta
    demanded = limits if limits is not None else meta.limits if meta is not None else Limits()
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
        regime=_reached(state),
        limits=demanded,
        instrument=_report(state),
    )


def exit_code(verdict: Verdict) -> ExitCode:
    """What a process says that ends with this verdict."""
    return _EXIT[verdict.verdict]


def verdict_bytes(verdict: Verdict) -> bytes:
    """The file: every key always there, null where a reading is missing, ASCII only, a newline at the end."""
    return json.dumps(_rounded(msgspec.to_builtins(verdict)), indent=2, allow_nan=False).encode("ascii") + b"\n"


def read_verdict(data: bytes) -> Verdict:
    """A verdict from its file. Raises msgspec.ValidationError or msgspec.DecodeError if it is not one."""
    return msgspec.json.decode(data, type=Verdict)


def _rounded(value: object) -> object:
    """The same with numbers of 6 significant digits; what JSON cannot say is null."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
        case dict():
            return {str(key): _rounded(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_rounded(inner) for inner in value]
        case _:
            return value


def _reached(state: RunState) -> RegimeReached:
    regime = state.regime if state.regime is not None else Regime(missing={"regime": "the log does not say"})
    missing = dict(regime.missing)
    if state.depth_reached is None:
        missing["depth_reached"] = "no prompt with a known length was answered"
    if state.cached_tokens is None:
        missing["cached_tokens"] = "the server does not say"
    noted = {name: getattr(regime, name) for name in Regime.__struct_fields__}
    meta = state.meta
    if meta is not None and regime.concurrency_requested is None:
        noted["concurrency_requested"] = meta.at_once
        missing.pop("concurrency_requested", None)
    for name, value in noted.items():
        if value is None:
            missing.setdefault(name, "not noted")
    noted["missing"] = dict(sorted(missing.items()))
    return RegimeReached(
        **noted,
        concurrency_admitted_peak=_admitted(state),
        depth_reached=state.depth_reached,
        sessions=meta.sessions if meta is not None else None,
        at_once=meta.at_once if meta is not None else None,
        segments=state.segments,
        duration_s=state.elapsed_ms / 1000.0,
        generated_tokens=state.generated_tokens,
        prompt_tokens=state.prompt_tokens,
        cached_tokens=state.cached_tokens,
    )


def _admitted(state: RunState) -> int | None:
    """What the server says it ran may include others' requests, so it counts up to the number that we had open."""
    if state.first_token is None:
        return None
    running = 0 if state.running_peak is None else min(int(state.running_peak), state.in_flight_peak)
    return max(state.decoding_peak, running)


def _report(state: RunState) -> InstrumentReport:
    seen, counts = state.instrument, state.counts
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
    )
