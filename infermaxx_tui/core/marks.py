"""What people look for on a time axis: misses, leaks, failures, silences, a lost server; never more than fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events_resume import gap_in_words, how_in_words
from infermaxx_tui.core.evidence import Leak, Recall, Ref

MarkKind = Literal[
    "leak", "miss", "lost", "failed", "degenerate", "evidence_lost", "gap", "stop", "resumed", "began", "ended"
]
"""The gravest first."""
FAILURES: Final[frozenset[MarkKind]] = frozenset({"leak", "miss", "lost", "failed", "degenerate", "evidence_lost"})
"""What `next failure` goes to."""
WEIGHT: Final[dict[MarkKind, int]] = {kind: place for place, kind in enumerate(get_args(MarkKind))}
"""Where several things share a column, the one of the lowest number is drawn."""


MARKED: Final[frozenset[type[e.Event]]] = frozenset(
    {e.RequestEnded, e.GapNoted, e.ServerLost, e.StopAsked, e.EvidenceLost, e.RunStarted, e.Resumed, e.RunEnded}
)
"""Events that can be marks."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment, and how often the like of it happened in the same bucket."""

    at_us: int
    ref: Ref
    kind: MarkKind
    session: int | None
    text: str
    """As the log has it; panels settle it."""
    count: int = 1


def mark_of(at_us: int, record: e.Record) -> Mark | None:
    """What a line is by itself, without what the fold makes of it."""
    kind: MarkKind
    session: int | None
    match record.event:
        case e.RequestEnded() as event:
            return _of_request(at_us, (record.part, record.seq), event)
        case e.GapNoted(session=session, gap_ms=gap_ms):
            kind, text = "gap", f"{gap_ms / 1000:.1f} s without a token"
        case e.ServerLost(session=session, how=how, detail=detail):
            kind, text = "lost", f"{how}: {detail}"
        case e.StopAsked(by=by):
            session, kind, text = None, "stop", f"asked to stop by {by}"
        case e.EvidenceLost(detail=detail):
            session, kind, text = None, "evidence_lost", detail
        case e.RunStarted(segment=0):
            session, kind, text = None, "began", "the run began"
        case e.Resumed(how=how, gap_ms=gap_ms):
            session, kind, text = None, "resumed", f"{how_in_words(how)}, taken up after {gap_in_words(gap_ms)}"
        case e.RunEnded(reason=reason):
            session, kind, text = None, "ended", f"the run ended: {reason}"
        case _:
            return None
    return Mark(at_us=at_us, ref=(record.part, record.seq), kind=kind, session=session, text=text)


def degenerate(event: e.RequestEnded) -> str | None:
    """The rule that a reply broke, by the runner's word or the server's."""
    stopped = "the server stopped it for repetition" if event.finish_reason == "repetition" else None
    return event.degenerate or stopped


def _of_request(at_us: int, ref: Ref, event: e.RequestEnded) -> Mark | None:
    kind: MarkKind
    if event.outcome not in ("ok", "cancelled"):
        kind, text = "failed", event.outcome + (f": {event.error}" if event.error else "")
    elif (rule := degenerate(event)) is not None:
        kind, text = "degenerate", rule
    else:
        return None
    return Mark(at_us=at_us, ref=ref, kind=kind, session=event.session, text=text)


def mark_of_miss(at_us: int, recall: Recall) -> Mark | None:
    """A reply to a recall question without its tag; None for any other reply."""
    if not recall.miss:
        return None
    text = f"{recall.cls}: {recall.label}"
    return Mark(at_us=at_us, ref=recall.at, kind="miss", session=recall.session, text=text)


def mark_of_leak(at_us: int, leak: Leak) -> Mark:
    """A tag where it never should have been."""
    whose = leak.kind if leak.owner is None else f"tag of session {leak.owner}"
    return Mark(at_us=at_us, ref=leak.at, kind="leak", session=leak.session, text=f"{leak.tag} ({whose})")


@dataclass(slots=True)
class Marks:
    """At most one mark of each kind a bucket, the first, with a count of the others."""

    _kept: dict[tuple[int, MarkKind], Mark] = field(default_factory=dict)

    def add(self, bucket: int, mark: Mark) -> None:
        """One more."""
        before = self._kept.get((bucket, mark.kind))
        if before is not None:
            mark = msgspec.structs.replace(before, count=before.count + mark.count)
        self._kept[bucket, mark.kind] = mark

    def halve(self) -> None:
        """Two buckets become one."""
        kept, self._kept = self._kept, {}
        for (bucket, _), mark in kept.items():
            self.add(bucket // 2, mark)

    def between(self, from_us: int, to_us: int) -> tuple[Mark, ...]:
        """Those from the one moment on and before the other, in order of time."""
        found = (mark for mark in self._kept.values() if from_us <= mark.at_us < to_us)
        return tuple(sorted(found, key=lambda mark: (mark.at_us, mark.ref)))
