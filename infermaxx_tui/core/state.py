"""What a log says so far: the one thing that judges, the status line and the views look at.

All structs are frozen and hold no reference into a fold, so a state can be kept while the fold goes on. A missing
reading is None, never 0.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.core.controls_seen import ControlsSeen
from infermaxx_tui.core.drift import DriftSeen
from infermaxx_tui.core.events import GateChecked, Host, Outcome, RequestKind, Resumed, StartupRead
from infermaxx_tui.core.evidence import Findings, Leak, Loss, Recall, Ref
from infermaxx_tui.core.fold_instrument import Sight
from infermaxx_tui.core.fold_probes import ProbesSeen
from infermaxx_tui.core.gpu_summary import GpuSummary
from infermaxx_tui.core.inflation import Inflation, PaceSeen
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.predictions import Prediction
from infermaxx_tui.core.prefix_seen import PrefixSeen
from infermaxx_tui.core.quality.gate import Asked
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.server_seen import ServerSeen


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """What the first line of the log says."""

    program: str
    run: str
    scenario: str
    scenario_text: str
    scenario_sha256: str
    seed: int
    nonce: str
    host: Host
    limits: Limits
    sessions: int
    at_once: int
    started_wall_ms: int
    predictions: tuple[Prediction, ...] = ()
    predictions_sha256: str = ""
    wave_size: int = 0
    """Conversations that are open together."""

    @property
    def interleaved(self) -> int | None:
        """Conversations that take turns with one request in flight; None where they do not."""
        return self.wave_size if self.at_once == 1 and self.wave_size > 1 else None


Phase = Literal["prefill", "decoding", "between", "ended"]
"""What a conversation is doing; `between`: no request of it is open."""


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation as it stands."""

    session: int
    wave: int
    phase: Phase
    turn: int
    depth_tokens: int
    tokens: int
    """Tokens generated, from the beats."""
    tokens_per_s: float | None
    """In the newest beat; None if the conversation is not in it."""
    ttft_ms: float | None
    cached_share: float | None
    """Share of the newest prompt that the server took from its cache, by its own count."""
    planned_recalls: int
    planted: int
    asked: int
    recalled: int
    lost: int
    capped: int
    silent_ms: float | None
    """Log time since the newest token or the start of the request; None when no request is open."""
    ended: str | None
    parent: int | None = None
    """The conversation that a subagent runs under."""
    cut_off: bool = False
    """Whether one of its turns or questions broke because the server went away, however it came to its end."""


class Delivery(msgspec.Struct, frozen=True):
    """Turns and questions that could be judged, and those that failed."""

    judged: int
    failed: Findings
    lost_with_server: int
    """Streams that broke when the server went away: availability's, not counted here."""


class Degenerate(msgspec.Struct, frozen=True):
    """Replies with text, and those that had degenerated."""

    replies: int
    found: Findings
    recalls: int
    """How many of them answered a recall question."""
    after: int = 0
    """How many of them answered a trivial prompt after the run."""
    forced: int = 0
    """Replies of a forced length, which are none of the others: whether they degenerated cannot be told."""


class Distribution(msgspec.Struct, frozen=True):
    """Median and 99th percentile; None where n is 0."""

    n: int
    p50: float | None
    p99: float | None


class Instrument(msgspec.Struct, frozen=True, kw_only=True):
    """How well the client could see."""

    readings: int
    loop_lag_p50_ms: float | None
    """Worst window's median."""
    loop_lag_p99_ms: float | None
    """Worst window's 99th percentile."""
    loop_lag_max_ms: float | None
    cpu_share_max: float | None
    rss_first_mib: float | None
    rss_last_mib: float | None
    rss_max_mib: float | None
    events_parsed: int
    wall_step_ms: float
    """The largest step of the wall clock against the monotonic one, by size."""
    ttft_ms: Distribution
    gap_ms: Distribution
    streams_timed: int
    """Replies long enough to say whether they came token by token."""
    streams_buffered: int
    """Those of them whose tokens came in one clump."""
    anomalies: dict[str, int]
    """Replies with an oddity of the wire, by its name."""
    unparsed: Findings
    """Replies whose tokens the server counted and we could not read."""
    unknown_events: int
    invalid_lines: int
    torn_tail: bool
    lines_missing: int
    """Numbers that are missing between two lines of a part."""
    unlabelled_asks: int
    """Questions whose label the log does not know, so that the answer could not be judged."""
    evidence_lost: Findings
    sight: Sight = Sight()
    """Dispatch, connections, pauses, clocks, and what is known of this host's own errors."""


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The server's own counters, at one moment."""

    running: float | None
    waiting: float | None
    kv_usage: float | None
    preemptions: float | None
    prefix_queries: float | None
    prefix_hits: float | None
    prompt_tokens: float | None
    generation_tokens: float | None
    process_start_s: float | None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Our token counts beside the server's; None where one of them is not known."""

    at: Ref
    generation_client: int | None
    generation_server: int | None
    prompt_client: int | None
    prompt_server: int | None
    reason: str | None


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the run was to ask."""

    recalls: int
    """Recall questions, without those that the duration ended before they were due."""
    tails: int
    absents: int


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a log says so far."""

    meta: Meta | None
    regime: Regime | None
    segments: int
    """How many times the run was started; 1 without a resume."""
    events: int
    elapsed_ms: float
    """Monotonic time covered by the log, without the gaps between segments."""
    last_wall_ms: int | None
    planned: Planned
    sessions: tuple[SessionState, ...]
    recalls: tuple[Recall, ...]
    """Replies to recall questions, in order of arrival. Of a conversation that was given up and played again those
    count that lacked their tag, and no others."""
    tails: tuple[Recall, ...]
    absents: tuple[Recall, ...]
    """In these three none of a conversation that was played alone, as a control: those are in `alone`."""
    asked_unanswered: int
    """Recall questions that went out and whose end the log does not know."""
    outcomes: dict[RequestKind, dict[Outcome, int]]
    """Requests that ended, by why they were sent and how they ended."""
    delivery: Delivery
    degenerate: Degenerate
    leaks: tuple[Leak, ...]
    """The first of them, in order."""
    leak_counts: dict[str, int]
    """All of them: `foreign`, `stale` and `decoy`."""
    losses: tuple[Loss, ...]
    """Evidence that the server was away; of each sort the first few."""
    stalled: Findings
    """Requests that got no token for the stall limit, after the first token of the run."""
    refused: Findings
    """Requests to which nobody listened, after the first token of the run."""
    timed_out: Findings
    """Requests that timed out, after the first token of the run."""
    first_token: Ref | None
    decoding: int
    decoding_peak: int
    in_flight: int
    in_flight_peak: int
    running_peak: float | None
    """Most requests that the server said it was running."""
    depth_reached: int | None
    """Tokens of the deepest prompt and reply that the server processed."""
    generated_tokens: int
    """As the server counted in `usage`, else the ids received."""
    prompt_tokens: int
    """As the server counted; prompts without a count are left out."""
    cached_tokens: int | None
    tokens_per_s: float | None
    """All streams, in the newest beat."""
    metrics_first: Metrics | None
    metrics_last: Metrics | None
    metrics_errors: int
    counts: Counts | None
    gpus: GpuSummary
    instrument: Instrument
    stop_by: str | None
    ended: str | None
    """Why the run ended; None while it goes on, or if the runner died."""
    notes: tuple[str, ...]
    """The newest remarks for people."""
    server: ServerSeen = ServerSeen()
    """What the server's own counters said over the whole run."""
    startup: StartupRead | None = None
    """What the server's start-up log says; None if nobody looked for one."""
    gates: tuple[GateChecked, ...] = ()
    """Conditions of the run, each as it stood before and after; core.gates.standing says what holds."""
    inflation: Inflation | None = None
    """What is most suspicious of speeds beside their controls at equal depth; None if nothing could be compared."""
    pace: PaceSeen = PaceSeen()
    """The main-line turns of all waves."""
    alone: tuple[Recall, ...] = ()
    """Replies of the conversation that was played alone, as a control, to questions of all kinds."""
    controls: ControlsSeen = ControlsSeen()
    """What was played with nothing beside."""
    quality: Asked = Asked()
    probes: ProbesSeen = ProbesSeen()
    """Tasks with one right answer, and what was answered."""
    speed_withheld: str | None = None
    """Why no throughput of this run may be shown (then all rates here are None); None if it may be."""
    outcomes_before: dict[Outcome, int] = {}
    """Requests that had ended before the newest segment began."""
    resumes: tuple[Resumed, ...] = ()
    """How the run was taken up again, each time."""
    drift: DriftSeen = DriftSeen()
    """What may have moved while the run went on."""
    prefix: PrefixSeen = PrefixSeen()
    """How far prompts went on with the ones before them."""
