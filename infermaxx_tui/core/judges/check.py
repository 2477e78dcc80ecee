"""What a judge hands back: one answer of three, what it rests on, and where the log says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from infermaxx_tui.core.evidence import Finding, Findings, Recall, Ref

EVIDENCE_SHOWN = 20
"""Pieces of evidence that a check carries; their number stands in `advice`."""

AnswerOutcome = Literal["pass", "fail", "not_evaluable"]
Cause = Literal["under_load", "unsalted", "alone_too", "foreign", "stale"]
"""Why a check failed. `under_load`: a miss that alone recalls. `unsalted`: the same where one request ran at a time, so
that only the cache differs. `alone_too`: it misses alone as well. `foreign`: another conversation's tag. `stale`: an
earlier run's tag."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One witness: where it stands in the log, and what it says."""

    event: Ref
    session: int | None = None
    turn: int | None = None
    tag: str | None = None
    said: str | None = None
    what: str
    """The class of a reply, or what happened, in a few words."""
    note: str | None = None
    label: str | None = None
    owner: int | None = None
    """The session that a leaked tag belongs to."""
    channel: str | None = None
    planted_depth_tokens: int | None = None
    depth_tokens: int | None = None
    overlapped: bool | None = None
    question: str | None = None
    """What a quality task asked, and the key."""
    expected: str | None = None
    cause: Cause | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One judge's answer. Keys that do not apply are None."""

    name: str
    outcome: AnswerOutcome
    required: bool = True
    n_evaluated: int
    n_planned: int | None = None
    excluded: dict[str, int] = msgspec.field(default_factory=dict)
    """What was planned and not counted, by reason."""
    bound95: float | None = None
    """Upper 95 % bound of the rate of failures, each one by itself."""
    bound95_sessions: float | None = None
    """The same with a whole session as the unit, since what one session says hangs together."""
    cause: Cause | None = None
    evidence: tuple[Evidence, ...] = ()
    advice: str | None = None
    """What a person can do, or should know."""
    interval95: tuple[float, float] | None = None
    """Two-sided, for as many independent replies as those of each session come to (core.power)."""
    design_effect: float | None = None
    """By how much the replies of one session hang together; None where that cannot be told."""


def plural(n: int, one: str, many: str = "") -> str:
    """`1 reply`, `3 replies`; `many` is `one` with an s if left out."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def count_text(check: Check) -> str:
    """`24/28`, or `24` where nobody planned how many."""
    return f"{check.n_evaluated}" if check.n_planned is None else f"{check.n_evaluated}/{check.n_planned}"


def figures_text(check: Check, bound: str = "bound") -> str:
    """`n 24/28  bound 11.7 %  by session 53.2 %`: what a check rests on."""
    parts = [f"n {count_text(check)}"]
    if check.bound95 is not None:
        parts.append(f"{bound} {check.bound95:.2%}")
    if check.bound95_sessions is not None:
        parts.append(f"by session {check.bound95_sessions:.1%}")
    if check.interval95 is not None and check.design_effect is not None:
        low, high = check.interval95
        parts.append(f"interval {low:.1%} to {high:.1%}, design effect {check.design_effect:.1f}")
    if check.cause is not None:
        parts.append(check.cause.replace("_", " "))
    return "  ".join(parts)


def by_reason(excluded: dict[str, int]) -> str:
    """`22 capped, 1 refused`, most first."""
    return ", ".join(f"{n} {reason}" for reason, n in sorted(excluded.items(), key=lambda item: (-item[1], item[0])))


def of_recall(recall: Recall, cause: Cause | None = None, what: str | None = None) -> Evidence:
    """A recall reply as a witness."""
    return Evidence(
        event=recall.at,
        session=recall.session,
        turn=recall.turn,
        tag=recall.tag or None,
        said=recall.said,
        what=what or recall.cls,
        note=recall.note,
        label=recall.label,
        planted_depth_tokens=recall.planted_depth_tokens,
        depth_tokens=recall.depth_tokens,
        overlapped=recall.overlapped,
        cause=cause,
    )


def of_finding(finding: Finding) -> Evidence:
    """Something that was seen as a witness."""
    session = finding.session if finding.session is None or finding.session >= 0 else None
    return Evidence(event=finding.at, session=session, turn=finding.turn, said=finding.said, what=finding.what)


def shown(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """The first pieces of evidence."""
    return tuple(evidence)[:EVIDENCE_SHOWN]


def shown_findings(*findings: Findings) -> tuple[Evidence, ...]:
    """The first pieces of several lists, in the order of the log."""
    kept = sorted((one for some in findings for one in some.kept), key=lambda one: one.at)
    return shown(of_finding(one) for one in kept)
