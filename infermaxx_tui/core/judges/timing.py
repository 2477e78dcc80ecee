"""Were the times good, where a time was demanded? A slow client voids timing, and never content."""

from __future__ import annotations

from infermaxx_tui.core.judges.check import Check, plural
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Distribution, RunState

WALL_STEP_MS = 500.0
"""A step of the wall clock against the monotonic one above this spoils the times around it (gpu-and-verdicts §2.9)."""
MOST_BUFFERED = 0.5
"""Share of replies that came in one clump from which gaps between tokens are the proxy's, not the server's."""


def judge(state: RunState, limits: Limits) -> Check:
    """Fails when a demanded percentile is exceeded; cannot say when the client lagged or the stream was buffered."""
    demanded = limits.max_ttft_p99_ms is not None or limits.max_gap_p99_ms is not None
    ttft, gap = state.instrument.ttft_ms, state.instrument.gap_ms
    unseen = blind(state, limits)
    exceeded = [] if unseen else _exceeded(ttft, gap, limits)
    figures = "; ".join(_figure(name, one) for name, one in (("TTFT", ttft), ("gap", gap)) if one.n)
    return Check(
        name="timing",
        outcome="not_evaluable" if unseen else "fail" if exceeded else "pass",
        required=demanded,
        n_evaluated=0 if unseen else ttft.n,
        n_planned=ttft.n,
        advice="; ".join([*unseen, *exceeded]) or figures or None,
    )


def _figure(name: str, one: Distribution) -> str:
    return f"{name} p50 {one.p50:.4g} ms, p99 {one.p99:.4g} ms (n {one.n})"


def blind(state: RunState, limits: Limits, what: str = "the median gap", of_ms: float | None = None) -> list[str]:
    """Why no time of this run can be judged; empty if it can.

    `what` and `of_ms`: the time that is to be judged, whose share a lag must not exceed; the median gap if left out.
    """
    seen, reasons = state.instrument, []
    if not seen.ttft_ms.n:
        reasons.append("no turn had a first token")
    elif limits.max_gap_p99_ms is not None and not seen.gap_ms.n:
        reasons.append("no gap between tokens was recorded")
    lag, worst = seen.loop_lag_p99_ms, seen.loop_lag_max_ms
    if lag is None:
        reasons.append("the client's own lag was not measured")
    elif (span_ms := of_ms or seen.gap_ms.p50) is not None and lag > limits.max_loop_lag_share * span_ms:
        reasons.append(
            f"the client lagged {lag:.3g} ms (p99 of its worst window), more than"
            f" limits.max_loop_lag_share={limits.max_loop_lag_share:g} of {what} of {span_ms:.3g} ms"
        )
    if worst is not None and worst > limits.max_loop_lag_ms:
        reasons.append(f"the client once lagged {worst:.4g} ms, limits.max_loop_lag_ms={limits.max_loop_lag_ms:g}")
    if seen.streams_timed and seen.streams_buffered > MOST_BUFFERED * seen.streams_timed:
        reasons.append(
            f"{seen.streams_buffered} of {plural(seen.streams_timed, 'reply', 'replies')} came in one clump:"
            " something between server and client buffers"
        )
    if state.server.foreign is not None:
        reasons.append(f"others used the server: {state.server.foreign}")
    if state.speed_withheld is not None:
        reasons.append(f"times of answers that are wrong say nothing: {state.speed_withheld}")
    if abs(seen.wall_step_ms) > WALL_STEP_MS:
        reasons.append(f"the wall clock stepped by {seen.wall_step_ms:.4g} ms")
    return reasons


def _exceeded(ttft: Distribution, gap: Distribution, limits: Limits) -> list[str]:
    return [
        f"{name} p99 {one.p99:.4g} ms, limits.{key}={most:g}"
        for name, key, one, most in (
            ("TTFT", "max_ttft_p99_ms", ttft, limits.max_ttft_p99_ms),
            ("gap", "max_gap_p99_ms", gap, limits.max_gap_p99_ms),
        )
        if most is not None and one.p99 is not None and one.p99 > most
    ]
