"""What became of one conversation alone after the load, and of trivial prompts when all was over."""

from __future__ import annotations

from typing import Final, Literal

from infermaxx_tui.core.controls_seen import ControlsSeen
from infermaxx_tui.core.events_controls import Stage
from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.core.judges.check import of_finding, of_recall, plural
from infermaxx_tui.core.judges.control_base import TITLES, WITNESSES, ControlFinding, blind
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import RunState


def judge_solo(state: RunState) -> ControlFinding:
    seen = state.controls
    by_time = {time: _answers(state, time) for time in ("before", "after")}
    before, after = by_time["before"], by_time["after"]
    if not seen.played.get("solo_before") or not seen.played.get("solo_after"):
        return blind("solo", 2, "it was not played both times")
    babble = {stage: found.count for stage, found in seen.degenerate.items()}
    ill = babble.get("solo_after", 0) if not babble.get("solo_before") else 0
    lost = [answer for label, answer in after.items() if answer.miss and label in before and not before[label].miss]
    faults = [f"{plural(len(lost), 'tag')} that came back before lost after it"] if lost else []
    faults += [f"{plural(ill, 'reply', 'replies')} degenerate after it and none before"] if ill else []
    tags = ", ".join(
        f"{sum(not one.miss for one in answers.values())} of {len(answers)} tags {time}"
        for time, answers in by_time.items()
    )
    verdict = f"{' and '.join(faults)}: the load made the server sick" if faults else tags
    figures = speeds_said(seen) if state.speed_withheld is None else None
    if figures is not None and _lagged(state):
        figures += "; this program itself lagged meanwhile, so do not quote them"
    return ControlFinding(
        control="solo",
        outcome="sick" if faults else "healthy",
        n=2,
        n_planned=2,
        differing=len(lost) + ill,
        said=f"{TITLES['solo']}: " + "; ".join(one for one in (verdict, figures) if one),
        evidence=tuple(of_recall(one, what=f"{one.cls}, alone after the load") for one in lost[:WITNESSES]),
    )


def _answers(state: RunState, time: Literal["before", "after"]) -> dict[str, Recall]:
    """The deepest whole answer of each label."""
    return {one.label: one for one in state.alone if one.solo == time and one.complete and one.kind != "absent"}


def _lagged(state: RunState) -> bool:
    lag, limits = state.instrument.loop_lag_max_ms, state.meta.limits if state.meta is not None else Limits()
    return lag is None or lag > limits.max_loop_lag_ms


def speeds_said(seen: ControlsSeen) -> str | None:
    """Speed at equal depth of one conversation alone, before, after and with the others; None if it is not known."""
    arms = {name: seen.speeds[stage] for stage, name in _STAGES.items() if stage in seen.speeds}
    common = set.intersection(*(set(speed.bands) for speed in arms.values())) if len(arms) > 1 else set()
    if "before" not in arms or not common:
        return None
    weights = {band: arms["before"].bands[band][0] for band in common}
    said = []
    for name, speed in arms.items():
        ms = sum(weights[band] * speed.bands[band][1] / speed.bands[band][0] for band in common) / sum(weights.values())
        ttft = "" if speed.ttft_ms is None else f" (median TTFT {speed.ttft_ms:.0f} ms)"
        said.append(f"{ms:.2f} {name}{ttft}")
    return f"ms per token at equal depth: {', '.join(said)}"


_STAGES: Final[dict[Stage, str]] = {"solo_before": "before", "solo_after": "after", "waves": "with the load"}


def judge_after(state: RunState) -> ControlFinding:
    seen = state.controls
    planned, n = seen.planned.after, seen.played.get("after", 0)
    if not n:
        return blind("after", planned, "none was answered")
    degenerate, failed = seen.degenerate.get("after"), seen.failed.get("after", 0)
    count = degenerate.count if degenerate is not None else 0
    sick = count or failed
    said = f"{count} of {n} answered with babble, {failed} not at all"
    if not sick:
        said = f"{n} of {max(n, planned)} answered soundly"
    return ControlFinding(
        control="after",
        outcome="sick" if sick else "healthy",
        n=n,
        n_planned=planned,
        differing=count + failed,
        said=f"{TITLES['after']}: {said}" + (": the server did not come out of the run as it went in" if sick else ""),
        evidence=tuple(map(of_finding, degenerate.kept[:WITNESSES])) if degenerate is not None else (),
    )
