"""The figures of a run that every experiment compares, whatever its probes asked: taken from the verdict alone."""

from __future__ import annotations

from collections.abc import Iterator

from infermaxx_tui.core.experiment.drafted import drafting
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.judges.recall import confirmed
from infermaxx_tui.core.measures import Better, Measure
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict


def figures(verdict: Verdict) -> tuple[Measure, ...]:
    """Sizes the server named, counts of the judges, times of the run's own turns; None is left out, never 0.

    What was drafted alone stands there with a reason too, since an arm without it is compared with one that has it.
    """
    return tuple(
        one
        for one in (*_sizes(verdict), *drafting(verdict), *_counts(verdict), *_times(verdict), *verdict.measures)
        if one is not None
    )


def losses(verdict: Verdict, state: RunState) -> tuple[Measure, ...]:
    """Tags that came from another conversation, and recalls that were lost for sure; left out where nobody looked."""
    checks = {check.name: check.n_evaluated for check in verdict.checks}
    leaked = state.leak_counts["foreign"] + state.leak_counts["stale"] if checks.get("isolation") else None
    lost = confirmed(state) if checks.get("recall") else None
    found = (_one("isolation.leaked", "tags", leaked, "less"), _one("recall.lost", "recalls", lost, "less"))
    return tuple(one for one in found if one is not None)


def _one(
    name: str, unit: str, value: float | None, better: Better = "neither", is_speed: bool = False
) -> Measure | None:
    if value is None:
        return None
    return Measure(name=name, unit=unit, values=(float(value),), better=better, is_speed=is_speed)


def _sizes(verdict: Verdict) -> Iterator[Measure | None]:
    regime, startup = verdict.regime, verdict.startup
    yield _one("pool.tokens", "tokens", regime.pool_tokens, "more")
    yield _one("pool.memory_gib", "GiB", startup.kv_gib if startup is not None else None, "more")
    used_share = verdict.server.kv_usage_peak  # read once a second, so a 0 was taken between requests
    held = None if not used_share or regime.pool_tokens is None else round(used_share * regime.pool_tokens)
    yield _one("pool.held_tokens", "tokens", held)
    yield _one("weights.memory_gib", "GiB", startup.model_gib if startup is not None else None, "less")
    yield _one("depth.reached_tokens", "tokens", regime.depth_reached)
    used = [card.vram_max_mib for card in verdict.sensors.cards if card.server and card.vram_max_mib is not None]
    yield _one("vram.max_mib", "MiB", sum(used) if used else None, "less")
    yield _one("power.mean_w", "W", regime.gpu_power_mean_w, "less")
    yield _one("server.preemptions", "preemptions", verdict.server.preemptions, "less")


def _counts(verdict: Verdict) -> Iterator[Measure | None]:
    checks = {check.name: check for check in verdict.checks}
    yield _one("recall.counted", "recalls", _counted(checks.get("recall")), "more")
    for phase in verdict.quality:
        where = phase.phase if phase.wave is None else f"{phase.phase}.{phase.wave}"
        if phase.right + phase.wrong:
            yield _one(f"quality.{where}.right_share", "share", phase.right / (phase.right + phase.wrong), "more")
        if phase.planned:
            yield _one(f"quality.{where}.right", f"of {phase.planned}", phase.right, "more")
            yield _one(f"quality.{where}.cut", f"of {phase.planned}", phase.capped, "less")


def _counted(check: Check | None) -> int | None:
    return None if check is None or not check.n_planned else check.n_evaluated


def _times(verdict: Verdict) -> Iterator[Measure | None]:
    """Void ones with the reason: an arm whose client was slow must not look like one that was not asked."""
    seen, void = verdict.instrument, verdict.timing_void
    for name, value in (("turns.ttft_p50_ms", seen.ttft_p50_ms), ("turns.gap_p50_ms", seen.gap_p50_ms)):
        if void is None:
            yield _one(name, "ms", value, "less", is_speed=True)
        else:
            yield Measure(name=name, unit="ms", better="less", is_speed=True, reason=void)


def answers(state: RunState) -> dict[str, str]:
    """Mark and answer of each task with one right answer, by phase and task; what was not whole has its mark alone."""
    return {
        f"{one.phase}/{one.wave}/{one.task}": f"{one.mark}: {one.said or ''}".rstrip(": ")
        for one in state.quality.answers
    }


def bandwidth(state: RunState) -> float | None:
    """Bytes a second that the memory of the server's cards can bring together; None where one is not known."""
    cards = [card for probe in state.gpus.probes for card in probe.of_server]
    known = [one for card in cards if (one := card.bandwidth_bytes_per_s) is not None]
    return sum(known) if cards and len(known) == len(cards) else None
