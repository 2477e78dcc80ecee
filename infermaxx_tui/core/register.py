"""Scores the claims of the register: which figures a run has, and what became of what was said about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from infermaxx_tui.core import drift
from infermaxx_tui.core.drift import Trend
from infermaxx_tui.core.judges import timing
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.drift import blind_to_times
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.predictions import Figure, Prediction, Scored, result_of, sha256_of, with_later, wrong_with
from infermaxx_tui.core.state import Distribution, RunState

Checks = Mapping[str, Check]
Measure = Callable[[RunState, Checks], Figure]


def score(
    state: RunState, checks: Sequence[Check], limits: Limits, later: Sequence[Prediction] | None = None
) -> tuple[Scored, ...]:
    """What became of each claim. `later`: what the run's scenario file says now, if it can be read.

    A run that goes on scores nothing: looking again and again until a figure fits is no test.
    """
    meta = state.meta
    if meta is None:
        return ()
    by_name = {check.name: check for check in checks}
    intact = sha256_of(meta.predictions) == meta.predictions_sha256
    scored = []
    for one, origin, retracted in with_later(meta.predictions, later):
        figure = _figure(one.measure, state, by_name, limits)
        wrong = wrong_with(one)
        result, why = result_of(one, figure) if wrong is None else ("UNTESTED", f"{wrong[0]}: {wrong[1]}")
        if origin == "registered" and not intact:
            result, why = "UNTESTED", "the register is not what its hash says: it was changed in the log"
        scored.append(
            Scored(
                claim=one.claim,
                measure=one.measure,
                band=one.band,
                refuted_if=one.refuted_if,
                result=result,
                value=figure.value,
                n=figure.n,
                why=why,
                origin=origin,
                retracted=retracted,
            )
        )
    return tuple(scored)


def _figure(measure: str, state: RunState, checks: Checks, limits: Limits) -> Figure:
    if state.ended is None:
        return Figure(None, 0, "the run goes on, or has no last line")
    kind = measure.partition(".")[0]
    if kind in _TIMES:
        blind = timing.blind(state, limits) if kind == "gap" else blind_to_times(kind, state, limits)
        if blind:
            return Figure(None, 0, "; ".join(blind))
    find = MEASURES.get(measure)
    return Figure(None, 0, f"{measure!r} is not measured by this program") if find is None else find(state, checks)


def _known(value: float | None, n: int, why: str) -> Figure:
    return Figure(None, n, why) if value is None else Figure(float(value), n)


def _share(of: int, n: int, why: str) -> Figure:
    return Figure(of / n, n) if n else Figure(None, 0, why)


def _miss_rate(state: RunState, checks: Checks) -> Figure:
    complete = [recall for recall in state.recalls if recall.complete]
    return _share(sum(recall.miss for recall in complete), len(complete), "no complete recall reply")


def _leaks(state: RunState, checks: Checks) -> Figure:
    n = checks["isolation"].n_evaluated
    found = state.leak_counts["foreign"] + state.leak_counts["stale"]
    return Figure(float(found), max(n, found)) if n or found else Figure(None, 0, "no reply beside a foreign tag")


def _trend(name: str, of: Callable[[Trend], float | None]) -> Measure:
    def find(state: RunState, checks: Checks) -> Figure:
        series = next((one for one in state.drift.series if one.name == name), None)
        if series is None:
            return Figure(None, 0, "nothing was counted after the warm-up")
        found = drift.trend(series)
        if not isinstance(found, Trend):
            return Figure(None, series.n, found.said)
        return _known(of(found), found.n, "it did not vary")

    return find


def _per_1k(found: Trend) -> float | None:
    return dict(found.effects).get("depth in 1,000 tokens")


def _quantile(of: Callable[[RunState], Distribution], q: str) -> Measure:
    def find(state: RunState, checks: Checks) -> Figure:
        one = of(state)
        return _known(one.p50 if q == "p50" else one.p99, one.n, "never measured")

    return find


def _throughput(state: RunState, checks: Checks) -> Figure:
    if state.speed_withheld is not None:
        return Figure(None, 0, f"withheld: {state.speed_withheld}")
    if state.degenerate.forced:
        return Figure(None, 0, "replies had forced lengths, whose speed is no headline")
    seconds = state.elapsed_ms / 1000
    return (
        Figure(state.generated_tokens / seconds, state.generated_tokens) if seconds > 0 else Figure(None, 0, "no time")
    )


def _of_cards(of: Callable[[RunState], float | None]) -> Measure:
    def find(state: RunState, checks: Checks) -> Figure:
        rounds = min((card.readings for card in state.gpus.of_server), default=0)
        return _known(of(state), rounds, state.gpus.reason or "no card of the server gives it")

    return find


def _vram_max(state: RunState) -> float | None:
    return max((card.vram_max_mib for card in state.gpus.of_server if card.vram_max_mib is not None), default=None)


def _power_mean(state: RunState) -> float | None:
    known = [card.power_mean_w for card in state.gpus.of_server]
    return None if not known or None in known else sum(watts for watts in known if watts is not None)


def _counter(name: str) -> Measure:
    def find(state: RunState, checks: Checks) -> Figure:
        return _known(getattr(state.server, name), state.server.readings, "the server does not say")

    return find


def _acceptance(state: RunState, checks: Checks) -> Figure:
    seen = state.server
    return _known(seen.acceptance, seen.draft_tokens or 0, seen.acceptance_reason or "the server does not say")


MEASURES: Final[dict[str, Measure]] = {
    "recall.miss_rate": _miss_rate,
    "isolation.leaks": _leaks,
    "delivery.failed_share": lambda state, checks: _share(
        state.delivery.failed.count, state.delivery.judged, "no turn could be judged"
    ),
    "degeneration.share": lambda state, checks: _share(
        state.degenerate.found.count, state.degenerate.replies, "no reply with text"
    ),
    "decode.ms_per_token": _trend("decode", lambda found: found.level),
    "decode.ms_per_1k_depth": _trend("decode", _per_1k),
    "decode.drift_share_per_hour": _trend("decode", lambda found: found.slope.middle / found.level),
    "ttft.p50_ms": _quantile(lambda state: state.instrument.ttft_ms, "p50"),
    "ttft.p99_ms": _quantile(lambda state: state.instrument.ttft_ms, "p99"),
    "gap.p50_ms": _quantile(lambda state: state.instrument.gap_ms, "p50"),
    "gap.p99_ms": _quantile(lambda state: state.instrument.gap_ms, "p99"),
    "throughput.tokens_per_s": _throughput,
    "depth.reached_tokens": lambda state, checks: _known(state.depth_reached, 1, "no prompt of a known length"),
    "concurrency.decoding_peak": lambda state, checks: Figure(float(state.decoding_peak), 1),
    "cache.share": lambda state, checks: _known(
        state.cached_tokens / state.prompt_tokens if state.cached_tokens is not None and state.prompt_tokens else None,
        state.prompt_tokens,
        "the server does not say",
    ),
    "server.preemptions": _counter("preemptions"),
    "server.acceptance": _acceptance,
    "server.kv_usage_peak": _counter("kv_usage_peak"),
    "vram.max_mib": _of_cards(_vram_max),
    "power.mean_w": _of_cards(_power_mean),
    "energy.j_per_output_token": _of_cards(lambda state: state.gpus.energy.per_output_token),
}
"""What a claim can be about."""
_TIMES: Final = frozenset({"decode", "ttft", "gap", "throughput"})
