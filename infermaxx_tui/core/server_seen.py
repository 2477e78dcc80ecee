"""What the server's own counters said over a whole run, and what they say of other users of the same server."""

from __future__ import annotations

import msgspec


class ServerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Sums are growths since the first reading, over restarts too. None: the server does not say."""

    readings: int = 0
    running_peak: float | None = None
    waiting_peak: float | None = None
    waiting_share: float | None = None
    """Share of the readings in which somebody waited."""
    kv_usage_peak: float | None = None
    preemptions: int | None = None
    prefix_queries: int | None = None
    """Tokens looked up in the prefix cache."""
    prefix_hits: int | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    finished: dict[str, int] = msgspec.field(default_factory=dict)
    """Requests that the server finished, by its reason."""
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_at: tuple[int, ...] = ()
    """Of the accepted tokens how many stood at each place of their guess; empty: not said."""
    acceptance: float | None = None
    """Accepted of drafted tokens, of the whole run; None where there is a reason."""
    acceptance_reason: str | None = None
    """Why no acceptance can be quoted (core.drafting)."""
    mean_length: float | None = None
    """Tokens that a drafted step brought on the average, its own one included; of however few."""
    draft_coverage: float | None = None
    """Share of the generated tokens that came out of a drafted step: how much the acceptance speaks for."""
    corrupted: int | None = None
    rejected: int | None = None
    restarts: int = 0
    scrape_ms_max: float | None = None
    parse_ms_max: float | None = None
    foreign_requests: int = 0
    """Requests that the server finished and that were not ours, at the least."""
    foreign_running: int = 0
    """Requests that ran beside ours and were not ours, at the most, where that lasted."""
    replied: dict[str, int] = msgspec.field(default_factory=dict)
    """Replies that came to an end as they should, by why they were asked for."""
    reasoned: dict[str, int] = msgspec.field(default_factory=dict)
    """Those of them in which the model reasoned, by its tokens or its text."""
    cut: int = 0
    """Requests of ours that were cut, and of which the server's count of running requests was looked at afterwards."""
    cut_stuck: int = 0
    """Those of them on which the server went on working."""
    cut_unknown: int = 0
    """Those of them of which nobody can say."""

    @property
    def foreign(self) -> str | None:
        """What is known of others' requests, in words; None if nothing points to any."""
        said = []
        if self.foreign_requests:
            said.append(f"it finished {self.foreign_requests} more than we sent")
        if self.foreign_running:
            said.append(f"{self.foreign_running} ran beside ours")
        return " and ".join(said) or None
