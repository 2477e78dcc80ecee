"""Every event that a log can hold. The log is the only interface between a run and whatever looks at it.

Schema notes: 1 is the first schema; `upgrade` turns older records into the newest shape when they are read.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
import orjson

from infermaxx_tui.core.abilities import Ability
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.event import Event, Hit, Host
from infermaxx_tui.core.events_abilities import AbilityAnswered
from infermaxx_tui.core.events_controls import ControlAnswered, ControlAsked, StageBegan
from infermaxx_tui.core.events_probes import ProbeAsked, ProbeCached
from infermaxx_tui.core.events_quality import QualityAsked
from infermaxx_tui.core.events_read import (
    Calibrated,
    CancelSettled,
    ClockJumped,
    CountsReconciled,
    GateChecked,
    GpuProbed,
    GpuRead,
    InstrumentRead,
    MetricsRead,
    StartupRead,
)
from infermaxx_tui.core.events_requests import (
    FirstToken,
    GapNoted,
    Outcome,
    RequestEnded,
    RequestKind,
    RequestStarted,
)
from infermaxx_tui.core.events_resume import Resumed
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.predictions import Prediction
from infermaxx_tui.core.probes import Probe
from infermaxx_tui.core.regime import Regime

__all__ = (
    "AbilityAnswered",
    "Calibrated",
    "CancelSettled",
    "ClockJumped",
    "ControlAnswered",
    "ControlAsked",
    "CountsReconciled",
    "Event",
    "FirstToken",
    "GapNoted",
    "GateChecked",
    "GpuProbed",
    "GpuRead",
    "Hit",
    "Host",
    "InstrumentRead",
    "MetricsRead",
    "Outcome",
    "ProbeAsked",
    "ProbeCached",
    "QualityAsked",
    "RequestEnded",
    "RequestKind",
    "RequestStarted",
    "Resumed",
    "StageBegan",
    "StartupRead",
)
"""Names that are defined beside this module and belong to it."""

SCHEMA = 1

TagKind = Literal["own", "tail", "absent", "decoy"]


class RunStarted(Event, frozen=True, kw_only=True):
    """The first line of a part."""

    schema: int
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
    """Conversations planned in all, rounds included."""
    at_once: int
    planned_recalls: int
    segment: int = 0
    """0, or how often the run was resumed before."""
    predictions: tuple[Prediction, ...] = ()
    """What was claimed before the first request."""
    predictions_sha256: str = ""
    """core.predictions.sha256_of them."""
    quality_tasks: int = 0
    """Tasks with one right answer that each phase asks; 0: none."""
    quality_when: tuple[Literal["before", "during", "after"], ...] = ()
    wave_size: int = 0
    """Conversations that are open together; 0: as many as `at_once`. More than `at_once`: they take turns."""
    controls: Controls = Controls()
    probes: tuple[Probe, ...] = ()
    abilities: tuple[Ability, ...] = ()
    """How many of each control are planned."""


class RegimeNoted(Event, frozen=True, kw_only=True):
    """What the run ran on."""

    regime: Regime


class TagIssued(Event, frozen=True, kw_only=True):
    """A tag that the plan made. An absent label has no tag; a decoy belongs to no session."""

    kind: TagKind
    session: int | None
    label: str
    tag: str


class TagsKnown(Event, frozen=True, kw_only=True):
    """Tags of an earlier run, so that an old cache can be told from a leak."""

    run: str
    tags: tuple[str, ...]


class SessionStarted(Event, frozen=True, kw_only=True):
    """A conversation begins."""

    session: int
    wave: int
    transcripts: tuple[str, ...]
    planned_recalls: int
    parent: int | None = None
    """The conversation that a subagent runs under."""


class SessionEnded(Event, frozen=True, kw_only=True):
    """A conversation is over; `reason` says why."""

    session: int
    reason: Literal["finished", "window", "duration", "stopped", "failed", "server_lost", "exhausted"]
    depth_tokens: int
    turns: int
    detail: str = ""


class TagPlanted(Event, frozen=True, kw_only=True):
    """A tag entered a conversation's main line, and the request that carries it is the next one of the session."""

    session: int
    label: str
    tag: str
    how: Literal["exchange", "inline", "head", "tail"]
    depth_tokens: int
    """Tokens of rendered prompt before the tag."""
    turn: int
    again: bool = False
    """It had been planted before, in a context that a compaction has ended."""


class TagAsked(Event, frozen=True, kw_only=True):
    """A recall question went out with request `req`. An absent label is asked with an empty tag."""

    req: int
    session: int
    label: str
    tag: str
    kind: RequestKind
    asked_at: float
    """Fraction of target depth at which the plan wanted the question."""
    planted_depth_tokens: int | None
    depth_tokens: int
    """Tokens of the conversation when the question was asked."""
    again_of: int | None = None
    """The first request of the same question, when this one asks a miss again."""


class Beat(Event, frozen=True, kw_only=True):
    """One second of all streams, as columns of equal length."""

    window_ms: float
    sessions: tuple[int, ...]
    tokens: tuple[int, ...]
    depths: tuple[int, ...]
    gap_buckets: tuple[tuple[int, int], ...] = ()
    """Histogram of gaps between tokens over all streams: (bucket index of core.stats.LogHistogram, count)."""


class ServerLost(Event, frozen=True, kw_only=True):
    """Evidence that the server was not available after its first token."""

    how: Literal["refused", "pid_dead", "restarted", "stalled", "timeout", "unhealthy"]
    """`unhealthy`: streams had broken, or none was open, and /health did not say that all is well."""
    session: int | None
    req: int | None
    detail: str
    reachable: bool | None = None
    """Whether the server's host was there at that moment; None if nobody knows, or it was not asked."""


class StopAsked(Event, frozen=True, kw_only=True):
    """Somebody or something asked the run to end."""

    by: Literal["sigint", "sigterm", "sighup", "duration", "server_lost", "evidence_lost", "internal", "gate"]


class EvidenceLost(Event, frozen=True, kw_only=True):
    """Something could not be recorded."""

    detail: str


class Noted(Event, frozen=True, kw_only=True):
    """A remark for people."""

    text: str


class RunEnded(Event, frozen=True, kw_only=True):
    """The last line."""

    reason: Literal["finished", "duration", "stopped", "server_lost", "evidence_lost", "internal", "gate"]
    events: int
    detail: str = ""


AnyEvent = (
    RunStarted
    | RegimeNoted
    | TagIssued
    | TagsKnown
    | SessionStarted
    | SessionEnded
    | TagPlanted
    | RequestStarted
    | TagAsked
    | FirstToken
    | RequestEnded
    | GapNoted
    | Beat
    | InstrumentRead
    | MetricsRead
    | CountsReconciled
    | ServerLost
    | StopAsked
    | EvidenceLost
    | Noted
    | CancelSettled
    | StartupRead
    | GateChecked
    | GpuProbed
    | GpuRead
    | Calibrated
    | ClockJumped
    | AbilityAnswered
    | ProbeAsked
    | ProbeCached
    | QualityAsked
    | StageBegan
    | ControlAsked
    | ControlAnswered
    | Resumed
    | RunEnded
)


class Record(msgspec.Struct, frozen=True):
    """One line of a log: its number, when it was written on two clocks, and what happened."""

    part: int
    seq: int
    wall_ms: int
    """Unix time in ms, for people."""
    mono_us: int
    """Monotonic clock in µs, for arithmetic; comparable within a segment only."""
    event: AnyEvent


class Unknown(msgspec.Struct, frozen=True):
    """A line that this program cannot read: a newer event, or a damaged one. Counted, never fatal."""

    reason: Literal["unknown_event", "invalid"]
    detail: str


_encoder = msgspec.json.Encoder()


def encode(record: Record) -> bytes:
    """One line, newline included. Text is escaped so that the line holds no raw control character."""
    return _encoder.encode(record) + b"\n"


def upgrade(raw: object) -> object:
    """The newest shape of a parsed line of an older schema. Schema 1 is the oldest there is."""
    return raw


def _table() -> bytes:
    table = bytearray(range(256))
    for before, shown in ((b"0123456789", b"0"), (b" \t\r:,[-", b":")):
        for code in before:
            table[code] = shown[0]
    return bytes(table)


_TABLE: Final = _table()
"""Makes every digit a 0, and whatever may stand before a number a colon."""
_LONG: Final = b":" + b"0" * 19
quick_decoder: Final = msgspec.json.Decoder(Record)
"""Reads a line of this program's own schema in half the time; only for what `is_quick`."""


def is_quick(data: bytes) -> bool:
    """Whether the quick decoder can be trusted with it: it passes over bytes that are not UTF-8, and it reads numbers
    of any size, which overflow later; the slow one refuses both."""
    return data.isascii() and _LONG not in data.translate(_TABLE)


def decode(line: bytes) -> Record | Unknown:
    """What a log line says. A line that is not an event of this schema comes out as `Unknown`, never as an error."""
    if is_quick(line):
        try:
            return quick_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return decode_slowly(line)


def decode_slowly(line: bytes) -> Record | Unknown:
    """As `decode`, for lines of any schema: parsed, brought into the newest shape, and only then looked at."""
    try:
        return msgspec.convert(upgrade(orjson.loads(line)), Record)
    except orjson.JSONDecodeError as error:
        return Unknown("invalid", str(error))
    except msgspec.ValidationError as error:
        unknown = "Invalid value" in str(error) and "$.event.e" in str(error)
        return Unknown("unknown_event" if unknown else "invalid", str(error))
