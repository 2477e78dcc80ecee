"""What a verdict demands. The constants stand here once, decide here, and are printed from here."""

from __future__ import annotations

from typing import Final

import msgspec

DRIFT_MARGINS: Final = (
    "max_drift_share_per_hour",
    "max_ttft_drift_share_per_hour",
    "max_vram_mib_per_hour",
    "max_client_rss_mib_per_hour",
    "max_kv_floor_per_hour",
)
"""Limits that demand a verdict on drift when they are set."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thresholds of the judges, all of them, as the run or a `--limits` file set them."""

    min_recalls: int = 20
    """Complete recall replies needed before recall can be judged."""
    max_lost: int = 0
    """Confirmed misses that are still a pass."""
    max_excluded: float = 0.1
    """Largest share of the planned recalls that may be left out."""
    max_delivery_share: float = 0.05
    """Share of turns that failed in delivery at which delivery fails."""
    max_degenerate_share: float = 0.05
    """Share of degenerate replies at which degeneration fails."""
    max_degenerate_recalls: int = 1
    """Degenerate recall replies that are still a pass."""
    min_tail_recalled: float = 0.8
    """Share of tail sentinels that must come back, else the asking is broken."""
    min_overlap: float = 0.5
    """Share of the deep recalls that must have overlapped another stream's decoding."""
    deep: float = 0.8
    """Fraction of target depth from which a recall is deep."""
    stall_s: float = 120.0
    """Seconds without a token after which a stream is stalled."""
    max_ttft_p99_ms: float | None = None
    """Timing demand; None leaves `timing` advisory."""
    max_gap_p99_ms: float | None = None
    """Timing demand; None leaves `timing` advisory."""
    max_loop_lag_share: float = 0.2
    """Loop lag p99 as a share of the median gap above which timing is not evaluable (gpu-and-verdicts §2.9)."""
    max_loop_lag_ms: float = 1000.0
    """One lag above this voids timing whatever the gaps are."""
    max_dispatch_delay_ms: float = 1000.0
    """99th percentile, from when the schedule wanted a request until its bytes went out, above which timing is not
    evaluable: what was sent so late is not the load that was planned, and no TTFT shows it (gpu-and-verdicts §2.9)."""
    max_loop_cpu_share: float = 0.9
    """CPU share of the event loop's thread in one window above which the client was saturated and timing is void."""
    min_quality: float | None = None
    """Share of quality tasks that must be right in each phase, from a control run; None: only a fall counts."""
    max_quality_excluded: float = 0.25
    """Largest share of a phase's quality tasks that may be capped, in error or not asked."""
    max_drift_share_per_hour: float | None = None
    """Drift demand: by how much of itself the decode time per token, at equal depth and load, may move in an hour."""
    max_ttft_drift_share_per_hour: float | None = None
    """Drift demand: the same for the time to the first token, at equal uncached prompt."""
    max_vram_mib_per_hour: float | None = None
    """Drift demand: growth of what the server's processes hold on each card."""
    max_client_rss_mib_per_hour: float | None = None
    """Drift demand: growth of this program's own memory."""
    max_kv_floor_per_hour: float | None = None
    """Drift demand: growth of the share of the KV pool that is held while the server has nothing to do."""
    min_drift_hours: float = 0.25
    """Time after the warm-up below which no drift is judged."""
