"""Were the times good, where a time was demanded? A slow client voids timing, and never content."""

from __future__ import annotations

from infermaxx_tui.core.calibration import ErrorBars, short
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.held_back import held_back, unseen_way
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Distribution, RunState

WALL_STEP_MS = 500.0
"""A step of the wall clock against the monotonic one above this spoils the times around it (gpu-and-verdicts §2.9)."""
MOST_JUMPED = 0.5
"""Share of first tokens or of gaps that jumps of a clock spanned from which the rest is no picture of the run."""


def judge(state: RunState, limits: Limits) -> Check:
    """Fails when a demanded percentile is exceeded; cannot say when the client lagged or the stream was buffered."""
    demanded = limits.max_ttft_p99_ms is not None or limits.max_gap_p99_ms is not None
    ttft, gap = state.instrument.ttft_ms, state.instrument.gap_ms
    sight = state.instrument.sight
    unseen = [*blind(state, limits), *_blind_to_load(state, limits), *_below_error(state, limits)]
    exceeded = [] if unseen else _exceeded(ttft, gap, limits)
    jumped = {"clock_jumped": sight.ttft_excluded} if sight.ttft_excluded else {}
    return Check(
        name="timing",
        outcome="not_evaluable" if unseen else "fail" if exceeded else "pass",
        required=demanded,
        n_evaluated=0 if unseen else ttft.n,
        n_planned=ttft.n + sight.ttft_excluded,
        excluded=jumped,
        advice="; ".join(unseen or [*(exceeded or _figures(state)), *_unseen_way(state)]) or None,
    )


def _figures(state: RunState) -> list[str]:
    """What was seen, what of it is connecting, and how far off this host is known to measure."""
    seen = state.instrument
    said = [_figure(name, one) for name, one in (("TTFT", seen.ttft_ms), ("gap", seen.gap_ms)) if one.n]
    connect, bar = seen.sight.connect, bars(state)
    if connect.n:
        said.append(f"connecting is part of TTFT: p50 {connect.p50_ms:.3g} ms, p99 {connect.p99_ms:.3g} ms")
    if bar is not None:
        said.append(
            f"this host's own error at {bar.load}: TTFT +{short(bar.ttft_p50_ms)} to +{short(bar.ttft_p99_ms)} ms,"
            f" gap {short(bar.gap_p99_ms)} ms (p99)"
        )
    return said


def _unseen_way(state: RunState) -> list[str]:
    """What goes with a figure whose way here nobody saw."""
    unseen = unseen_way(state.instrument) if state.instrument.ttft_ms.n else None
    return [] if unseen is None else [unseen]


def _figure(name: str, one: Distribution) -> str:
    return f"{name} p50 {one.p50:.4g} ms, p99 {one.p99:.4g} ms (n {one.n})"


def bars(state: RunState) -> ErrorBars | None:
    """The error bars that this host had at the load of the run or the next one above; None if nobody calibrated."""
    calibration, gap_ms = state.instrument.sight.calibration, state.instrument.gap_ms.p50
    if calibration is None:
        return None
    return calibration.at_load(max(state.decoding_peak, 1), 1000 / gap_ms if gap_ms else 0.0)


def blind(state: RunState, limits: Limits, what: str = "the median gap", of_ms: float | None = None) -> list[str]:
    """Why no time of this run can be judged; empty if it can.

    `what` and `of_ms`: the time that is to be judged, whose share a lag must not exceed; the median gap if left out.
    """
    seen, reasons = state.instrument, []
    if not seen.ttft_ms.n:
        reasons.append("no turn had a first token" + (" that counts" if seen.sight.ttft_excluded else ""))
    elif limits.max_gap_p99_ms is not None and not seen.gap_ms.n:
        reasons.append("no gap between tokens was recorded")
    return [*reasons, *untimely(state, limits, what, of_ms or seen.gap_ms.p50), *_of_no_worth(state)]


def _of_no_worth(state: RunState) -> list[str]:
    if state.speed_withheld is None:
        return []
    return [f"times of answers that are wrong say nothing: {state.speed_withheld}"]


def untimely(state: RunState, limits: Limits, what: str, of_ms: float | None, lag_ms: float | None = None) -> list[str]:
    """Why this client, or what stands between it and the server, could not see times of the length of `of_ms`.

    `lag_ms`: the client's longest lag while that time lasted; where it was not watched the worst of the run stands in.
    """
    seen = state.instrument
    held = held_back(seen)
    if held:  # a gap inside a clump is no measure of anything, and a lag beside it neither
        of_ms = None
    late = _late(state, limits, what, of_ms) if lag_ms is None else _late_then(lag_ms, limits, what, of_ms)
    reasons = [*late, *held]
    if state.server.foreign is not None:
        reasons.append(f"others used the server: {state.server.foreign}")
    if abs(seen.sight.unseen_step_ms) > WALL_STEP_MS:
        reasons.append(f"the wall clock stepped by {seen.sight.unseen_step_ms:.4g} ms, and nobody saw when")
    return reasons


def _late_then(lag_ms: float, limits: Limits, what: str, span_ms: float | None) -> list[str]:
    """Why the client was too slow while the one time that is asked about lasted."""
    if span_ms is None or lag_ms <= limits.max_loop_lag_share * span_ms:
        return []
    return [
        f"the client lagged {lag_ms:.3g} ms while it waited, more than"
        f" limits.max_loop_lag_share={limits.max_loop_lag_share:g} of {what} of {span_ms:.3g} ms"
    ]


def _late(state: RunState, limits: Limits, what: str, span_ms: float | None) -> list[str]:
    """Why the client itself was too slow to see."""
    seen, reasons = state.instrument, []
    lag, worst, busy = seen.loop_lag_p99_ms, seen.loop_lag_max_ms, seen.sight.loop_cpu_share_max
    if lag is None:
        reasons.append("the client's own lag was not measured")
    elif span_ms is not None and lag > limits.max_loop_lag_share * span_ms:
        reasons.append(
            f"the client lagged {lag:.3g} ms (p99 of its worst window), more than"
            f" limits.max_loop_lag_share={limits.max_loop_lag_share:g} of {what}"
            + (f" of {span_ms:.3g} ms" if state.speed_withheld is None else "")
        )
    if worst is not None and worst > limits.max_loop_lag_ms:
        reasons.append(f"the client once lagged {worst:.4g} ms, limits.max_loop_lag_ms={limits.max_loop_lag_ms:g}")
    if busy is not None and busy > limits.max_loop_cpu_share:
        reasons.append(
            f"the client was saturated: its loop took {busy:.0%} of a core in one window,"
            f" limits.max_loop_cpu_share={limits.max_loop_cpu_share:g}; measure fewer sessions from one client"
        )
    return reasons


def _blind_to_load(state: RunState, limits: Limits) -> list[str]:
    """Why the load was not the one that was planned, or why too much of the run has no times."""
    seen, sight, reasons = state.instrument, state.instrument.sight, []
    late_ms = sight.dispatch.p99_ms
    if late_ms is not None and late_ms > limits.max_dispatch_delay_ms:
        most = max(sight.dispatch_parts.items(), key=lambda part: part[1], default=("", 0.0))[0]
        reasons.append(
            f"requests went out {late_ms:.4g} ms (p99) after the schedule wanted them,"
            f" limits.max_dispatch_delay_ms={limits.max_dispatch_delay_ms:g}"
            + (f"; most of it went to: {most}" if most else "")
        )
    for name, left_out, n in (
        ("first tokens", sight.ttft_excluded, seen.ttft_ms.n),
        ("gaps", sight.gaps_excluded, seen.gap_ms.n),
    ):
        if left_out > MOST_JUMPED * (left_out + n):
            what = " and ".join(
                words
                for words, times in (
                    (f"the machine slept {sight.suspends} times", sight.suspends),
                    (f"the clock was set {sight.steps} times", sight.steps),
                )
                if times
            )
            reasons.append(f"{what}, which spoilt {left_out} of {left_out + n} {name}")
    return reasons


def _below_error(state: RunState, limits: Limits) -> list[str]:
    """Limits that this host cannot measure against."""
    bar = bars(state)
    if bar is None:
        return []
    return [
        f"limits.{key}={most:g} is smaller than this host's own error of {error:.3g} ms (p99 at {bar.load})"
        for key, most, error in (
            ("max_ttft_p99_ms", limits.max_ttft_p99_ms, bar.ttft_p99_ms),
            ("max_gap_p99_ms", limits.max_gap_p99_ms, bar.gap_p99_ms),
        )
        if most is not None and error is not None and most < error
    ]


def _exceeded(ttft: Distribution, gap: Distribution, limits: Limits) -> list[str]:
    return [
        f"{name} p99 {one.p99:.4g} ms, limits.{key}={most:g}"
        for name, key, one, most in (
            ("TTFT", "max_ttft_p99_ms", ttft, limits.max_ttft_p99_ms),
            ("gap", "max_gap_p99_ms", gap, limits.max_gap_p99_ms),
        )
        if most is not None and one.p99 is not None and one.p99 > most
    ]
