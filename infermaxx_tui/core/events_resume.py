"""What happened between two segments of one log: a run that ended too early, or whose runner died, was taken up again.

It is part of core.events, which is where others take it from.
"""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.event import Event

BrokenOff = Literal["killed", "host_restarted", "stopped", "server_lost", "evidence_lost", "internal"]
"""How a segment came to its end. `killed`: no last line, so the runner died; `host_restarted`: the same, and the
machine was started since; otherwise what the last line says."""


class Resumed(Event, frozen=True, kw_only=True):
    """The second line of each segment but the first: what the one before came to, and how long nobody looked."""

    how: BrokenOff
    gap_ms: float | None
    """Wall time from the last line to this segment's first; None where the wall clock was set back meanwhile."""
    last: tuple[int, int]
    """Part and number of the last whole line."""
    torn_bytes: int = 0
    """Bytes of a line that was never finished; they were cut off."""
    open_requests: int = 0
    """Requests of which the segment before never saw the end."""
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE"] = "INCONCLUSIVE"
    """What the log was worth before; verdict.json holds the newest only."""
    finished: int = 0
    """Conversations that are not played again."""
    again: int = 0
    """Conversations that are played, from their first turn and with new tags."""
    moved: tuple[str, ...] = ()
    """Measured figures of the server's start that are not quite what they were, such as its memory for the cache."""


def gap_in_words(gap_ms: float | None) -> str:
    """How long nobody looked, for people."""
    if gap_ms is None:
        return "a time that is not known (the clock was set back)"
    seconds = gap_ms / 1000.0
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def how_in_words(how: BrokenOff) -> str:
    """What became of the segment before, for people."""
    match how:
        case "killed":
            return "its runner died"
        case "host_restarted":
            return "its machine was restarted"
        case "stopped":
            return "it was stopped"
        case "server_lost":
            return "its server was lost"
        case "evidence_lost":
            return "its log could not be written"
        case "internal":
            return "a fault of this program ended it"
