"""What the replies were: recalled or not, leaked, degenerate. The facts are in the log; the classes are made here.

Classes are not logged, so a log can be judged again by a better classifier, and a log in which one fact was changed
gives another verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import msgspec

from infermaxx_tui.core import classify, degeneration
from infermaxx_tui.core.canary import RegistryBuilder
from infermaxx_tui.core.classify import AbsentClass, Classified, ClassifiedAbsent, ReplyClass
from infermaxx_tui.core.events import Hit, RequestEnded, RequestKind, TagAsked, TagIssued, TagPlanted, TagsKnown
from infermaxx_tui.core.evidence import Leak, Reask, Recall, Ref
from infermaxx_tui.core.fold_delivery import Tally, capped, finding, said
from infermaxx_tui.core.fold_streams import Open, Streams
from infermaxx_tui.core.kept import Rows, Table
from infermaxx_tui.core.reply import BUFFERED_US
from infermaxx_tui.core.state import Degenerate
from infermaxx_tui.core.wording import recall_question

KEPT_LEAKS = 1000
"""Leaks that are kept; all are counted."""
ASK_KINDS: Final[frozenset[RequestKind]] = frozenset({"recall", "tail", "absent", "reask_alone", "reask_load"})
"""Requests that ask for a tag."""
ABSENT_COMPLETE: Final[frozenset[AbsentClass]] = frozenset({"none", "own_tag", "invented"})
"""Replies to a label that was never planted that say something about invention."""

AnyClass = ReplyClass | AbsentClass


class _Beside(NamedTuple):
    """A request that has just ended, and the streams that it ran among."""

    opened: Open | None
    streams: Streams

    def any_other(self, clumped: bool) -> bool:
        """Whether another session was decoding beside it."""
        return self.opened is not None and self.streams.overlapped(self.opened, clumped)

    def session(self, other: int) -> bool:
        """Whether that session was decoding beside it."""
        return self.opened is not None and self.streams.overlapped_with(self.opened, other)


@dataclass(slots=True)
class Replies:
    """All ended requests. Memory grows with recalls and tags, not with turns."""

    issued_kinds: dict[str, int] = field(default_factory=lambda: {"tail": 0, "absent": 0})
    segment: int = 0
    run: str = ""
    max_model_len: int | None = None
    replies_stay: bool = True
    """Whether main-line replies become part of later prompts."""
    recalls: Rows[Recall] = field(default_factory=Rows)
    tails: Rows[Recall] = field(default_factory=Rows)
    absents: Rows[Recall] = field(default_factory=Rows)
    leaks: Rows[Leak] = field(default_factory=Rows)
    leak_counts: dict[str, int] = field(default_factory=lambda: {"foreign": 0, "stale": 0, "decoy": 0})
    with_text: int = 0
    forced: int = 0
    """Replies whose length was forced: what they say past their end is nobody's fault."""
    degenerate: Tally = field(default_factory=Tally)
    degenerate_recalls: int = 0
    unlabelled_asks: int = 0
    solo: Literal["before", "after"] | None = None
    """When a conversation is played alone, as a control, just now."""
    solo_played: bool = False
    over: bool = False
    """Whether all that is sent now is sent to see what the run left behind."""
    degenerate_after: int = 0
    """Degenerate replies to the trivial prompts after the run."""
    _builder: RegistryBuilder = field(default_factory=RegistryBuilder)
    _owned: dict[int, int] = field(default_factory=dict)
    _planted: Table[tuple[int, str], int] = field(default_factory=Table)
    _in_prompt: dict[int, set[str]] = field(default_factory=dict)
    _place: Table[tuple[int, int], int] = field(default_factory=Table)
    _leaked: set[tuple[int, str]] = field(default_factory=set)
    _controls: dict[int, dict[str, int]] = field(default_factory=dict)
    """Sentinels and absent labels of each session."""
    _given_up: dict[int, int] = field(default_factory=dict)
    """By session, the segment in which it was begun anew."""

    def issued(self, event: TagIssued) -> None:
        """A tag of this run; those that the session had before it was started again are stale from now on."""
        session = event.session
        if session is not None:
            if self._owned.setdefault(session, self.segment) != self.segment:
                self._builder.retire(session, self.run)
                self._owned[session] = self.segment
                self._in_prompt.pop(session, None)
                for kind, n in self._controls.pop(session, {}).items():
                    self.issued_kinds[kind] -= n
            if event.kind in self.issued_kinds and self.solo is None:
                self.issued_kinds[event.kind] += 1
                controls = self._controls.setdefault(session, {})
                controls[event.kind] = controls.get(event.kind, 0) + 1
        self._builder.add_issued(event)

    def known(self, event: TagsKnown) -> None:
        """Tags of an earlier run."""
        self._builder.add_known(event)

    def began(self, solo: Literal["before", "after"] | None, over: bool) -> None:
        """Another stage of the run: whether a conversation is played alone, and whether all is over."""
        self.solo, self.over = solo, over
        self.solo_played = self.solo_played or solo is not None

    def given_up(self, session: int) -> None:
        """The conversation begins anew: of what it said before only what failed is evidence, since it was not whole."""
        self._given_up[session] = self.segment

    def standing(self, answers: list[Recall], misses_too: bool = False) -> tuple[Recall, ...]:
        """Those of the answers that count; `misses_too`: misses of conversations that were given up count as well."""
        if not self._given_up:
            return tuple(answers)
        since = self._given_up
        return tuple(a for a in answers if a.segment >= since.get(a.session, 0) or (misses_too and a.miss))

    def answers(self) -> tuple[tuple[Recall, ...], tuple[Recall, ...], tuple[Recall, ...], tuple[Recall, ...]]:
        """Recalls, tails and absents that count, and those of the conversation that was played alone."""
        whole = (
            self.standing(self.recalls.rows, misses_too=True),
            self.standing(self.tails.rows),
            self.standing(self.absents.rows),
        )
        if not self.solo_played:
            return (*whole, ())
        recalls, tails, absents = (tuple(one for one in some if one.solo is None) for some in whole)
        return recalls, tails, absents, tuple(one for some in whole for one in some if one.solo is not None)

    def planted(self, event: TagPlanted) -> None:
        """Where a tag stands in its owner's conversation."""
        self._planted.by.setdefault((event.session, event.tag), event.depth_tokens)

    def ended(self, at: Ref, event: RequestEnded, opened: Open | None, streams: Streams) -> Recall | None:
        """Counts a request that is over, just now in `streams`; hands back the recall reply if it was one."""
        kind = event.kind
        recall = None
        degenerate = event.degenerate
        if degenerate is None and event.finish_reason == "repetition":
            degenerate = "the server stopped it for repetition"
        hits = event.hits
        if kind in ASK_KINDS:
            ask = opened.ask if opened is not None else streams.ask_of(event.req)
            if ask is None:
                self.unlabelled_asks += 1
            elif event.outcome == "cancelled":
                hits = self._all_hits(event)
            else:
                hits = self._all_hits(event)
                cls, recall = self._answer(at, event, ask, _Beside(opened, streams))
                degenerate = _degenerate(event, cls)
        if hits:
            self._leaks(at, event, hits, _Beside(opened, streams))
        if event.forced:
            self.forced += 1
        elif event.content_chars or event.reasoning_chars or event.tool_chars:
            self.with_text += 1
            if degenerate is not None:
                self.degenerate.add(finding(at, event, degenerate))
                self.degenerate_recalls += kind == "recall"
                self.degenerate_after += kind == "control" and self.over
        return recall

    def degeneration(self) -> Degenerate:
        """Replies with text, and those that had degenerated."""
        found = self.degenerate.findings()
        return Degenerate(self.with_text, found, self.degenerate_recalls, self.degenerate_after, self.forced)

    def _all_hits(self, event: RequestEnded) -> tuple[Hit, ...]:
        """Hits in the text as logged, and those that the runner saw in the text as received."""
        found = self._builder.hits(event.session, event.content or "", event.reasoning or "", event.tool_args or "")
        seen = {hit.tag for hit in found}
        return found + tuple(hit for hit in event.hits if hit.tag not in seen)

    def _answer(self, at: Ref, event: RequestEnded, ask: TagAsked, beside: _Beside) -> tuple[AnyClass, Recall | None]:
        """The class of a reply to a question, and the reply itself if it is one that the plan counts as a recall."""
        question, session = recall_question(ask.label), event.session
        registry, in_prompt = self._builder.registry, frozenset(self._in_prompt.get(session, ()))
        if not ask.tag:
            absent = classify.classify_absent(session, event, registry, question, self.max_model_len, in_prompt)
            self._put(self.absents, self._recall(at, event, ask, beside, absent), ask)
            return absent.cls, None
        reply = classify.classify(ask.tag, session, event, registry, question, self.max_model_len, in_prompt)
        if event.kind in ("reask_alone", "reask_load"):
            self._again(at, event, ask, reply)
            return reply.cls, None
        recall = self._recall(at, event, ask, beside, reply)
        if event.kind == "tail":
            self._put(self.tails, recall, ask)
            return reply.cls, None
        self._put(self.recalls, recall, ask)
        return reply.cls, recall

    def _put(self, answers: Rows[Recall], recall: Recall, ask: TagAsked) -> None:
        """Adds an answer. A question that was sent again because the server shed it is one: the last counts."""
        place = None if ask.again_of is None else self._place.by.get((self.segment, ask.again_of))
        if place is None:
            place = len(answers.rows)
            answers.append(recall)
        else:
            answers.replace(place, recall)
        self._place.put((self.segment, recall.req), place)

    def _recall(
        self, at: Ref, event: RequestEnded, ask: TagAsked, beside: _Beside, reply: Classified | ClassifiedAbsent
    ) -> Recall:
        known_complete = classify.COMPLETE if isinstance(reply, Classified) else ABSENT_COMPLETE
        return Recall(
            at=at,
            segment=self.segment,
            req=event.req,
            session=event.session,
            turn=event.turn,
            kind=event.kind if event.kind in ("tail", "absent") else "recall",
            label=ask.label,
            tag=ask.tag,
            asked_at=ask.asked_at,
            planted_depth_tokens=ask.planted_depth_tokens,
            depth_tokens=ask.depth_tokens,
            cls=reply.cls,
            tag_found=reply.tag_found or None,
            distance=reply.distance if isinstance(reply, Classified) else None,
            note=reply.note or None,
            said=said(event, reply.tag_found),
            complete=reply.cls in known_complete,
            miss=reply.cls in classify.MISSES,
            capped=capped(event, self.max_model_len),
            outcome=event.outcome,
            finish_reason=event.finish_reason,
            max_tokens=event.max_tokens,
            completion_tokens=event.completion_tokens,
            overlapped=beside.any_other(clumped(event)),
            foreign_present=beside.opened is not None and beside.opened.foreign_present,
            solo=self.solo,
        )

    def _again(self, at: Ref, event: RequestEnded, ask: TagAsked, reply: Classified) -> None:
        """Puts a reply beside the miss that it asks again."""
        place = None if ask.again_of is None else self._place.by.get((self.segment, ask.again_of))
        if place is None:
            self.unlabelled_asks += 1
            return
        again = Reask(
            at=at,
            req=event.req,
            kind="reask_alone" if event.kind == "reask_alone" else "reask_load",
            cls=reply.cls,
            complete=reply.cls in classify.COMPLETE,
            miss=reply.cls in classify.MISSES,
            said=said(event, reply.tag_found),
        )
        first = self.recalls.rows[place]
        self.recalls.replace(place, msgspec.structs.replace(first, reasks=(*first.reasks, again)))

    def _leaks(self, at: Ref, event: RequestEnded, hits: tuple[Hit, ...], beside: _Beside) -> None:
        session = event.session
        if event.kind == "turn" and self.replies_stay:
            self._in_prompt.setdefault(session, set()).update(hit.tag for hit in hits)
        for hit in hits:
            own_prompt = event.kind == "warmup" and hit.kind == "stale"
            if own_prompt or (session, hit.tag) in self._leaked:
                continue
            self._leaked.add((session, hit.tag))
            self.leak_counts[hit.kind] += 1
            if len(self.leaks.rows) < KEPT_LEAKS:
                self.leaks.append(self._leak(at, event, hit, beside))

    def _leak(self, at: Ref, event: RequestEnded, hit: Hit, beside: _Beside) -> Leak:
        owner = hit.owner
        return Leak(
            at=at,
            session=event.session,
            turn=event.turn,
            req=event.req,
            request_kind=event.kind,
            tag=hit.tag,
            kind=hit.kind,
            owner=owner,
            channel=hit.channel,
            planted_depth_tokens=None if owner is None else self._planted.by.get((owner, hit.tag)),
            overlapped=None if owner is None else beside.session(owner),
            said=said(event, hit.tag),
        )


def clumped(event: RequestEnded) -> bool:
    """Whether all tokens of a reply came at one moment, as through a proxy that holds the stream back."""
    tokens = event.ids_received or event.completion_tokens or 0
    return tokens > 1 and event.decode_ms is not None and event.decode_ms * 1000 < BUFFERED_US


def _degenerate(event: RequestEnded, cls: AnyClass) -> str | None:
    """The rule that a reply to a question broke. An echo of the prompt is not degenerate, whatever the prompt holds."""
    if cls == "prompt_echo":
        return None
    if event.degenerate is not None or cls not in ("degenerate", "leaked", "stale"):
        return event.degenerate
    rule = degeneration.find_reply((event.content, event.reasoning, event.tool_args), event.anomalies)
    return rule or ("degenerate" if cls == "degenerate" else None)
