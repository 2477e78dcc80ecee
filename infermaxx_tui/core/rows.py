"""A run's state as lines of text: what the headless line shows, and what panels show."""

from __future__ import annotations

from collections import Counter
from typing import Final

from infermaxx_tui.core import power
from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.display import harmless
from infermaxx_tui.core.state import RunState

_ASCII = str.maketrans({"·": "|", "…": "...", "‹": "<", "›": ">", "–": "-", "’": "'", "‘": "'", "“": '"', "”": '"'})

_SILENT_SHARE: Final = 0.25
"""Of the stall limit: a stream that is silent for longer is worth a word."""
_AWAY: Final = {
    "refused": "connections refused",
    "pid_dead": "times server dead",
    "restarted": "times server restarted",
    "stalled": "stalled",
    "timeout": "timed out",
    "unhealthy": "times server unwell",
}


def plain(text: str) -> str:
    """The text in ASCII: our own typography has plain stand-ins, and anything else is shown as a question mark."""
    return text.translate(_ASCII).encode("ascii", "replace").decode("ascii")


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
    """One line of at most `width` characters that says how a run goes.

    Time, streams, speed and depth, recalls, what went wrong, and last, since a narrow line is cut, the 95 % bounds.
    """
    if state.meta is None:
        return "waiting for the run's first line"[:width]
    complete = sum(recall.complete for recall in state.recalls)
    lost = sum(recall.miss for recall in state.recalls)
    recalled = sum(recall.cls in RECALLED for recall in state.recalls)
    parts = [
        state.meta.scenario,
        duration_text(state.elapsed_ms),
        *_activity(state),
        f"recalls {recalled}/{complete} of {state.planned.recalls}",
        *_silence(state),
        *_troubles(state, lost),
        *((worth_of(state),) if complete else ()),
    ]
    return harmless(" · ".join(parts))[: max(width, 0)]


def worth_of(state: RunState) -> str:
    """What the recalls so far exclude with 95 % confidence, by recall and by session."""
    complete = [recall for recall in state.recalls if recall.complete]
    missed = [recall for recall in complete if recall.miss]
    sessions = {recall.session for recall in complete}
    return power.worth(len(missed), len(complete), len({recall.session for recall in missed}), len(sessions))


def more_of(state: RunState) -> str | None:
    """How far it is to the recalls that the limits want; None once they are there, once one is lost, or at the end."""
    if state.meta is None or state.ended is not None:
        return None
    complete = [recall for recall in state.recalls if recall.complete]
    lost = sum(recall.miss for recall in complete)
    return power.to_go(lost, len(complete), state.meta.limits.min_recalls, state.elapsed_ms)


def away_of(state: RunState) -> list[tuple[int, str]]:
    """How often it was seen that the server is away, by how it was seen, the first of them first."""
    return [(count, _AWAY[how]) for how, count in Counter(loss.how for loss in state.losses).items()]


def _silence(state: RunState) -> tuple[str, ...]:
    """How long the stream that waits longest has been silent, once that is long beside the stall limit."""
    silent_s = max((one.silent_ms or 0.0 for one in state.sessions if one.ended is None), default=0.0) / 1000.0
    if state.meta is None or state.ended is not None or silent_s < state.meta.limits.stall_s * _SILENT_SHARE:
        return ()
    return (f"no token for {silent_s:.0f} s of {state.meta.limits.stall_s:g}",)


def _activity(state: RunState) -> tuple[str, ...]:
    """What the streams do; of a run that is over, how it ended and what it came to, for a speed has no meaning then."""
    depth = tokens_text(state.depth_reached)
    if state.ended is not None:
        return state.ended, f"{state.generated_tokens} tokens at up to {depth}"
    open_sessions = sum(session.ended is None for session in state.sessions)
    active = f"{open_sessions} open, {state.decoding} decoding"
    if state.speed_withheld is not None:
        return active, f"speed withheld ({state.speed_withheld}) at {depth}"
    speed = "n/a" if state.tokens_per_s is None else f"{state.tokens_per_s:.0f}"
    return active, f"{speed} tok/s{' of forced lengths' if state.degenerate.forced else ''} at {depth}"


def _troubles(state: RunState, lost: int) -> list[str]:
    counts = (
        (sum(state.leak_counts.get(kind, 0) for kind in ("foreign", "stale")), "LEAKED"),
        (lost, "missed"),
        (sum(recall.capped for recall in state.recalls), "capped"),
        (state.delivery.failed.count, "undelivered"),
        (state.degenerate.found.count, "degenerate"),
        *away_of(state),
    )
    return [f"{count} {what}" for count, what in counts if count]
