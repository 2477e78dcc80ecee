"""Events of one request: sent, its first token, its silences, and how it ended."""

from __future__ import annotations

from typing import Literal

from infermaxx_tui.core.event import Event, Hit
from infermaxx_tui.core.lumps import Arrivals

RequestKind = Literal[
    "turn", "recall", "tail", "absent", "reask_alone", "reask_load", "load", "warmup", "quality", "control", "probe"
]
"""Why a request was sent: a main-line turn; a recall of a tag; a tail sentinel; a label never planted;
a miss asked again alone, or under load; the load for that; an earlier run's conversation; a quality task; a control;
a probe of speed or ability."""

Outcome = Literal[
    "ok",
    "protocol",
    "truncated",
    "shed",
    "too_long",
    "rejected",
    "refused_connection",
    "stalled",
    "timeout",
    "cancelled",
]
"""How a request ended on the wire. `ok`: the stream ended as a stream should (a missing finish_reason is still `ok`
here and makes the reply capped). `protocol`: error event, invalid JSON, not SSE, oversize event. `truncated`: EOF or
reset before a finish. `shed`: 429 or 503. `too_long`: our own 400. `rejected`: any other 4xx/5xx.
`refused_connection`: nobody listens. `stalled`: no token for the stall limit. `cancelled`: by us."""


class RequestStarted(Event, frozen=True, kw_only=True):
    """A request was sent."""

    req: int
    session: int
    turn: int
    kind: RequestKind
    prompt_tokens: int | None
    """From our ids; None in chat mode."""
    max_tokens: int
    salted: bool = False
    opens: str = ""
    """Why the prompt begins anew at this turn: `compaction`, `clear`, `fork` or `subagent`; else empty."""


class FirstToken(Event, frozen=True, kw_only=True):
    """The first generated token of any channel arrived."""

    req: int
    session: int
    ttft_ms: float


class RequestEnded(Event, frozen=True, kw_only=True):
    """A request is over. Missing counts are None, never 0."""

    req: int
    session: int
    turn: int
    kind: RequestKind
    outcome: Outcome
    finish_reason: str | None = None
    stop_reason: str | None = None
    status: int | None = None
    """HTTP status, None if no answer came."""
    error: str | None = None
    """One line, as the server or the transport said it, at most 500 characters."""
    max_tokens: int = 0
    prompt_tokens: int | None = None
    """As the server counted."""
    completion_tokens: int | None = None
    """As the server counted in `usage`, else the ids received."""
    ids_received: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    chunks: int = 0
    ttft_ms: float | None = None
    first_visible_ms: float | None = None
    decode_ms: float | None = None
    """First to last token."""
    first_chunk_tokens: int | None = None
    total_ms: float = 0.0
    content_chars: int = 0
    reasoning_chars: int = 0
    tool_chars: int = 0
    text_sha256: str | None = None
    content: str | None = None
    """Kept for recall turns, failed turns and a sample; else None."""
    reasoning: str | None = None
    tool_args: str | None = None
    degenerate: str | None = None
    """The rule that fired on the reply's tokens, with its figures."""
    hits: tuple[Hit, ...] = ()
    anomalies: tuple[str, ...] = ()
    """Harmless oddities of the wire, by name, each once."""
    server_id: str | None = None
    distinct_trigrams: float | None = None
    """Share of the reply's trigrams of tokens that are different ones; None for a short reply or without ids."""
    prefix_shared: float | None = None
    """Share of the previous prompt plus reply that the prompt begins with; 1.0: all of it; None on a first turn."""
    prefix_tokens: int | None = None
    """The same in tokens: what a prefix cache can give at the most."""
    prefix_missed: int | None = None
    """Tokens of the previous prompt plus reply from the first one on that differs; 0: none."""
    forced: bool = False
    """Its length was forced to the recorded one, whatever the model wanted."""
    lag_first_ms: float | None = None
    """The longest lag of the client's loop until the first token; None where nobody watched: only probes are."""
    lag_max_ms: float | None = None
    """The same until the end."""
    arrivals: Arrivals | None = None
    """How its events came; None without a token, and in the log of an older program."""


class GapNoted(Event, frozen=True, kw_only=True):
    """A silence between two tokens of one stream that was longer than the threshold."""

    req: int
    session: int
    gap_ms: float
    at_token: int
