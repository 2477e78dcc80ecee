"""Single things that a log shows, each with its place in it: what a verdict can point at."""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.core.classify import AbsentClass, ReplyClass
from infermaxx_tui.core.events import Outcome, RequestKind

Ref = tuple[int, int]
"""Where an event stands in the log: (part, seq)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was seen, and where the log says so."""

    at: Ref
    session: int | None
    turn: int | None
    req: int | None
    what: str
    kind: RequestKind | None = None
    said: str | None = None


class Findings(msgspec.Struct, frozen=True):
    """How often something was seen, and the first of them."""

    count: int
    kept: tuple[Finding, ...]


class Reask(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to a miss that was asked again."""

    at: Ref
    req: int
    kind: Literal["reask_alone", "reask_load"]
    cls: ReplyClass
    complete: bool
    miss: bool
    said: str | None


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """One reply to a question for a tag: a planted one, a tail sentinel, or a label that was never planted."""

    at: Ref
    segment: int
    req: int
    session: int
    turn: int
    kind: Literal["recall", "tail", "absent"]
    label: str
    tag: str
    asked_at: float
    """Fraction of target depth at which the plan wanted the question."""
    planted_depth_tokens: int | None
    depth_tokens: int
    cls: ReplyClass | AbsentClass
    """What the reply is, from the logged facts."""
    tag_found: str | None
    distance: int | None
    note: str | None
    said: str | None
    """What the reply said, cut to a few lines."""
    complete: bool
    """Whether it enters n."""
    miss: bool
    capped: bool
    """Whether it hit a cap, whatever its class."""
    outcome: Outcome
    finish_reason: str | None
    max_tokens: int
    completion_tokens: int | None
    overlapped: bool
    """Whether another session's stream was decoding at some moment between this reply's first and last token."""
    foreign_present: bool
    """Whether another session's tag had been sent to the server before this reply's first token."""
    reasks: tuple[Reask, ...] = ()
    solo: Literal["before", "after"] | None = None
    """When it was given by a conversation that was played alone, as a control; None in all others."""


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """The first reply of a session in which a tag stood that the session never had; one for each (session, tag)."""

    at: Ref
    session: int
    turn: int
    req: int
    request_kind: RequestKind
    tag: str
    kind: Literal["foreign", "stale", "decoy"]
    owner: int | None
    channel: str
    planted_depth_tokens: int | None
    """How deep in the owner's conversation the tag stood; None if it was not planted in this run."""
    overlapped: bool | None
    """Whether the owner was decoding while this reply was; None if nobody owns the tag."""
    said: str | None


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence that the server was away."""

    at: Ref
    how: Literal["refused", "pid_dead", "restarted", "stalled", "timeout", "unhealthy"]
    session: int | None
    req: int | None
    detail: str
    reachable: bool | None
    after_first_token: bool
