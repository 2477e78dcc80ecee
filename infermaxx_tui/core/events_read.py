"""Events that say what was measured: by this program of itself, of the server, of the GPU, and of the run's conditions.

They are part of core.events, which is where others take them from.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.core.calibration import Calibration
from infermaxx_tui.core.event import Event
from infermaxx_tui.core.gpu import GpuProbe, GpuReading
from infermaxx_tui.core.startup_log import StartupFacts


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """How often something took time in a window, and how much."""

    name: str
    n: int
    total_ms: float
    max_ms: float


class InstrumentRead(Event, frozen=True, kw_only=True, omit_defaults=True):
    """How well the client itself could see during the last window."""

    window_ms: float
    loop_lag_p50_ms: float | None
    loop_lag_p99_ms: float | None
    loop_lag_max_ms: float | None
    cpu_share: float | None
    """CPU time of the whole process in wall time; more than 1 with several threads."""
    rss_mib: float | None
    events_parsed: int
    wall_step_ms: float = 0.0
    """Change of wall clock minus monotonic clock since the last reading."""
    loop_cpu_share: float | None = None
    """CPU time of the event loop's thread alone: near 1 the loop has no room left."""
    reads: int = 0
    """Reads of streams from their sockets."""
    reads_coalesced: int = 0
    """Those of them that held more than one event: something between the server and us was late."""
    dispatches: int = 0
    """Requests of which the schedule said when they were wanted, and whose first bytes went out."""
    dispatch_p50_ms: float | None = None
    """From the moment at which a request was wanted until its first bytes went out."""
    dispatch_p99_ms: float | None = None
    dispatch_max_ms: float | None = None
    dispatch_buckets: tuple[tuple[int, int], ...] = ()
    """The same as (bucket index of core.stats.LogHistogram, count), so that windows add up."""
    dispatch_by: tuple[Spent, ...] = ()
    """The same by why the moment came: `wave`, `turn` (the reply before it was over), `pause` (think time, or a wait
    that the server asked for, was over), `meeting` (the last of the others arrived)."""
    dispatch_parts: tuple[Spent, ...] = ()
    """The same by what it went to: `render`, `connect`, and `other`: the loop, the log, the body."""
    connects_new: int = 0
    connects_reused: int = 0
    connect_p50_ms: float | None = None
    """Waiting for a connection, which is part of TTFT. None with a transport that does not say."""
    connect_p99_ms: float | None = None
    connect_max_ms: float | None = None
    connect_buckets: tuple[tuple[int, int], ...] = ()
    gc_pauses: int | None = None
    gc_total_ms: float | None = None
    gc_max_ms: float | None = None
    suspend_ms: float | None = None
    """Time that the machine slept; no monotonic clock counts it."""
    missing: tuple[tuple[str, str], ...] = ()
    """What could not be measured, and why."""


class ClockJumped(Event, frozen=True, kw_only=True):
    """Time did not pass as the clocks say: no duration that spans this moment is worth anything."""

    kind: Literal["step", "suspend"]
    """`step`: the wall clock was set. `suspend`: the machine slept."""
    by_ms: float
    """The wall clock's change against the monotonic one beside any sleep; or how long the sleep was."""
    since_us: int
    """Monotonic time at which all was still well."""


class Calibrated(Event, frozen=True, kw_only=True):
    """What is known of this host's own errors when a run begins."""

    calibration: Calibration | None
    age_s: float | None = None
    """Of the calibration, by the wall clock."""
    reason: str | None = None
    """Why there is none that holds here."""


class MetricsRead(Event, frozen=True, kw_only=True, omit_defaults=True):
    """The server's own counters. Absent is None, never 0."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    finished: tuple[tuple[str, float], ...] = ()
    """Requests that the server finished, by its reason, without those that a client hung up on; empty: not said."""
    drafts: float | None = None
    """Times that tokens were guessed ahead; None without a draft model."""
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_at: tuple[float, ...] = ()
    """Of the accepted ones how many stood at each place of their guess, the first place first; empty: not said."""
    corrupted: float | None = None
    """Requests with numbers that are none in their logits; exported only with VLLM_COMPUTE_NANS_IN_LOGITS=1."""
    rejected: float | None = None
    """Requests refused because the queue was full."""
    process_start_s: float | None = None
    """When the process or, where that is not said, its counters began."""
    scrape_ms: float = 0.0
    parse_ms: float = 0.0
    """What filtering and parsing the page cost the loop."""
    error: str | None = None


class CancelSettled(Event, frozen=True, kw_only=True):
    """After requests were cut: whether the server stopped working on them, by its count of running requests."""

    cut: int
    ours_open: int
    """Requests of ours that were still wanted at that moment."""
    running: float | None
    """The server's count then; None if it was not to be had."""
    waited_ms: float
    fell: bool | None
    """None: nobody can say."""


class StartupRead(Event, frozen=True, kw_only=True):
    """What the server's start-up log says, or why there is none to read."""

    source: Literal["launched", "file", "none"]
    facts: StartupFacts | None = None
    reason: str | None = None


class GateChecked(Event, frozen=True, kw_only=True):
    """A condition of the run, looked at before or after it; the newest answer of a name stands."""

    name: str
    when: Literal["before", "after"]
    outcome: Literal["pass", "fail", "unknown"]
    required: bool
    """Whether the scenario asks for it. What fails counts all the same."""
    said: str
    """What was seen, with its figures."""
    advice: str | None = None


class CountsReconciled(Event, frozen=True, kw_only=True):
    """At the end, with nothing running: our token counts beside the server's own counters over the same time."""

    generation_client: int | None
    generation_server: int | None
    prompt_client: int | None
    prompt_server: int | None
    reason: str | None = None
    """Why a comparison could not be made."""


class GpuProbed(Event, frozen=True, kw_only=True):
    """What a source of GPU sensors found at its start, or found changed since; the newest of a source stands."""

    probe: GpuProbe


class GpuRead(Event, frozen=True, kw_only=True, omit_defaults=True):
    """One round of the GPU sensors."""

    gpus: tuple[GpuReading, ...]
    server: tuple[int, ...] = ()
    """Numbers of the cards that the server is known to compute on."""
    window_ms: float
    """Monotonic time since the last round, measured where the sensors are read; 0 in the first."""
    fast_ms: float | None = None
    """What the round cost, if it was one without the costly readings."""
    slow_ms: float | None = None
    """What the round cost, if it was one with the costly readings, which come every few rounds."""
