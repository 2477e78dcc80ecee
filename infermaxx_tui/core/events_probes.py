"""The event that says what a request of a probe is for. All figures are made from the request's own events."""

from __future__ import annotations

from infermaxx_tui.core.event import Event
from infermaxx_tui.core.probes import Part


class ProbeAsked(Event, frozen=True, kw_only=True):
    """Request `req` belongs to a probe."""

    req: int
    probe: int
    """Which of the scenario's probes, from 0."""
    part: Part
    rep: int
    """-1: it warms up, and does not count."""
    streams: int
    """Requests that are sent at once."""
    wanted_tokens: int | None
    """Of the prompt; None for a short one. `held` and `over`: of the session that it stands for, reply included."""
    place: int = 0
    """Which of the probe's prompts it is."""


class ProbeCached(Event, frozen=True, kw_only=True):
    """What of the prompt of request `req` came from the prefix cache, by the server's counters before and after it."""

    req: int
    cached_tokens: int
