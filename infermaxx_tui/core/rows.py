"""A run's state as lines of text: what the headless line shows, and what panels show."""

from __future__ import annotations

from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.stats import bound95


def duration_text(ms: float) -> str:
    """`45s`, `12m05s`, `3h07m`."""
    seconds = int(ms // 1000)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"


def tokens_text(tokens: int | None) -> str:
    """`812`, `36.1k`, or `n/a`."""
    if tokens is None:
        return "n/a"
    return str(tokens) if tokens < 10_000 else f"{tokens / 1000:.1f}k"


def status_line(state: RunState, width: int) -> str:
    """One line that says how a run goes: time, streams, speed with its depth, recalls with their bound, what went wrong."""
    if state.meta is None:
        return "waiting for the run's first line"[:width]
    recalled = sum(recall.cls in RECALLED for recall in state.recalls)
    complete = sum(recall.complete for recall in state.recalls)
    lost = sum(recall.miss for recall in state.recalls)
    bound = bound95(lost, complete)
    open_sessions = sum(session.ended is None for session in state.sessions)
    speed = "n/a" if state.tokens_per_s is None else f"{state.tokens_per_s:.0f}"
    parts = [
        state.meta.scenario,
        duration_text(state.elapsed_ms),
        state.ended or f"{open_sessions} open, {state.decoding} decoding",
        f"{speed} tok/s at {tokens_text(state.depth_reached)}",
        f"recalls {recalled}/{complete} of {state.planned.recalls}" + ("" if bound is None else f", miss rate < {bound:.1%}"),
    ]
    for count, what in (
        (sum(state.leak_counts.get(kind, 0) for kind in ("foreign", "stale")), "LEAKED"),
        (lost, "missed"),
        (sum(recall.capped for recall in state.recalls), "capped"),
        (state.delivery.failed.count, "undelivered"),
        (state.degenerate.found.count, "degenerate"),
    ):
        if count:
            parts.append(f"{count} {what}")
    return harmless(" · ".join(parts))[:width]
