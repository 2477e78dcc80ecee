"""What the state does not keep: the newest things that happened, and the whole of one conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.classify import RECALLED
from infermaxx_tui.core.events_resume import gap_in_words, how_in_words
from infermaxx_tui.core.evidence import Leak, Recall, Ref
from infermaxx_tui.core.kept import BLOCK, Rows
from infermaxx_tui.core.marks import degenerate

FEED_KEPT = 400
"""Things that a feed keeps, the newest."""
Tone = Literal["plain", "good", "warn", "bad"]


class FeedEntry(msgspec.Struct, frozen=True):
    """One thing that happened."""

    at_us: int
    """Log time."""
    wall_ms: int
    ref: Ref
    session: int | None
    kind: str
    """One word: `planted`, `asked`, `recalled`, `missed`, `leaked`, `failed`, `gap`, `session`, `server`, `note` …"""
    text: str
    """As the log has it; panels settle it."""
    tone: Tone = "plain"


QUIET: Final[frozenset[type[e.Event]]] = frozenset(
    {e.Beat, e.MetricsRead, e.InstrumentRead, e.Calibrated, e.RequestStarted, e.FirstToken, e.TagIssued, e.TagAsked}
)
"""The traffic between the things that people look for."""


@dataclass(slots=True)
class Feed:
    """The newest things that happened; of constant size. Feed it with `add` after the fold."""

    _kept: Rows[FeedEntry] = field(default_factory=Rows)

    def add(self, at_us: int, record: e.Record, recall: Recall | None, leak: Leak | None) -> None:
        """Takes in a line of the log, with the reply and the leak that the fold found newest."""
        event, ref = record.event, (record.part, record.seq)
        if type(event) in QUIET:
            return
        if leak is not None and leak.at == ref:
            asked = "" if recall is None or recall.at != ref else f", asked for {_about(recall)}"
            self._put(at_us, record, leak.session, "leaked", f"{_whose(leak)} in its {leak.channel}{asked}", "bad")
            return
        if recall is not None and recall.at == ref:
            kind, tone = _of_recall(recall)
            self._put(at_us, record, recall.session, kind, _about(recall), tone)
            return
        said = _said(event)
        if said is not None:
            session, kind, text, tone = said
            self._put(at_us, record, session, kind, text, tone)

    def _put(self, at_us: int, record: e.Record, session: int | None, kind: str, text: str, tone: Tone) -> None:
        ref = (record.part, record.seq)
        kept = self._kept
        kept.append(FeedEntry(at_us, record.wall_ms, ref, session, kind, text, tone))
        if len(kept.rows) >= FEED_KEPT + BLOCK:
            kept.drop_first_block()

    def entries(self) -> tuple[FeedEntry, ...]:
        """What is kept, newest last."""
        return tuple(self._kept.rows[-FEED_KEPT:])


def _whose(leak: Leak) -> str:
    return f"an earlier run's {leak.tag}" if leak.owner is None else f"{leak.tag} of session {leak.owner}"


def _of_recall(recall: Recall) -> tuple[str, Tone]:
    if recall.miss:
        return "missed", "bad"
    if recall.cls in RECALLED:
        return "recalled", "good"
    return ("leaked", "bad") if recall.cls in ("leaked", "stale") else ("not counted", "warn")


def _about(recall: Recall) -> str:
    planted = "" if recall.planted_depth_tokens is None else f", planted at {recall.planted_depth_tokens}"
    what = "" if recall.cls in ("recalled", "leaked", "stale") else f"{recall.cls}: "
    return f"{what}{recall.label} at {recall.depth_tokens} tokens{planted}"


Said = tuple[int | None, str, str, Tone]


def _said(event: e.Event) -> Said | None:
    """Session, kind, text and tone of an event that people look for."""
    match event:
        case e.RequestEnded():
            return _of_request(event)
        case e.SessionStarted(session=session, wave=-1):
            return session, "session", "began alone, as a control", "plain"
        case e.SessionStarted(session=session, wave=wave, planned_recalls=planned):
            return session, "session", f"began in wave {wave}, {planned} recalls planned", "plain"
        case e.SessionEnded(session=session, reason=reason, depth_tokens=depth, detail=detail):
            tone: Tone = "bad" if reason in ("failed", "server_lost") else "plain"
            return session, "session", f"{reason} at {depth} tokens" + (f": {detail}" if detail else ""), tone
        case e.TagPlanted(session=session, label=label, depth_tokens=depth):
            return session, "planted", f"{label} at {depth} tokens", "plain"
        case e.GapNoted(session=session, gap_ms=gap_ms):
            return session, "gap", f"{gap_ms / 1000:.1f} s between two tokens", "warn"
        case e.ServerLost(session=session, how=how, detail=detail):
            return session, "server", f"{how}: {detail}", "bad"
        case _:
            return _of_run(event)


def _of_request(event: e.RequestEnded) -> Said | None:
    what = "" if event.kind == "turn" else f"{event.kind}, "
    session = event.session if event.session >= 0 else None
    if event.outcome not in ("ok", "cancelled"):
        tone: Tone = "warn" if event.outcome in ("shed", "too_long") else "bad"
        status = "" if event.status in (None, 200) else f" HTTP {event.status}"
        return session, "failed", f"{what}{event.outcome}{status}: {event.error or 'no more is known'}", tone
    if (rule := degenerate(event)) is not None:
        return session, "degenerate", f"{what}{rule}", "bad"
    if event.kind in ("reask_alone", "reask_load"):
        where = "alone" if event.kind == "reask_alone" else "under load"
        return session, "asked again", f"{where}, request {event.req}", "plain"
    return None


def _of_run(event: e.Event) -> Said | None:
    match event:
        case e.RunStarted(scenario=scenario, segment=segment):
            return None, "run", f"{scenario} began" if segment == 0 else f"resumed, segment {segment}", "plain"
        case e.Resumed(how=how, gap_ms=gap_ms, again=again):
            return None, "run", f"{how_in_words(how)}, taken up after {gap_in_words(gap_ms)}, {again} again", "warn"
        case e.RegimeNoted(regime=regime):
            return (
                None,
                "regime",
                f"{regime.engine or 'engine not known'}, {regime.model or 'model not known'}",
                "plain",
            )
        case e.TagsKnown(run=run, tags=tags):
            return None, "run", f"{len(tags)} tags of {run} are known", "plain"
        case e.StopAsked(by=by):
            return None, "stop", f"asked by {by}", "warn"
        case e.EvidenceLost(detail=detail):
            return None, "lost", detail, "bad"
        case e.Noted(text=text):
            return None, "note", text, "plain"
        case e.CountsReconciled(reason=reason, generation_client=ours, generation_server=theirs):
            said = reason or f"tokens: {ours} counted here, {theirs} by the server"
            return None, "counts", said, "plain" if reason or ours == theirs else "warn"
        case e.RunEnded(reason=reason, detail=detail):
            return None, "run", f"ended: {reason}" + (f", {detail}" if detail else ""), "plain"
        case _:
            return _of_server(event)


def _of_server(event: e.Event) -> Said | None:
    """What was seen of the server and of the conditions of the run."""
    match event:
        case e.StartupRead(facts=facts, reason=reason):
            if facts is None:
                return None, "start-up", f"no log: {reason or 'not read'}", "plain"
            pool = "" if facts.pool_tokens is None else f", KV pool {facts.pool_tokens} tokens ({facts.pool_shape})"
            traps = "".join(f"; trap {trap.name}: {trap.detail}" for trap in facts.traps)
            return None, "start-up", f"vllm {facts.version or '?'}{pool}{traps}", "warn" if facts.traps else "plain"
        case e.GateChecked(name=name, when=when, outcome=outcome, required=required, said=said):
            tone: Tone = "plain" if outcome == "pass" or not required else "warn"
            return None, "gate", f"{name} {outcome} {when} the run: {said}", tone
        case e.ClockJumped(kind="suspend", by_ms=by_ms):
            return None, "clock", f"the machine slept for {by_ms / 1000:.1f} s; no time that spans it counts", "warn"
        case e.ClockJumped(by_ms=by_ms):
            said = f"the wall clock was set by {by_ms / 1000:+.1f} s; no time that spans it counts"
            return None, "clock", said, "warn"
        case e.CancelSettled(cut=cut, fell=fell, waited_ms=waited_ms):
            went = {True: "the server let go", False: "the server goes on", None: "nobody can say of the server"}[fell]
            after: Tone = "bad" if fell is False else "plain"
            return None, "cut", f"{cut} cut, {went}, {waited_ms / 1000:.1f} s later", after
        case _:
            return None


class Turn(msgspec.Struct, frozen=True):
    """One request of a conversation, and what came of it."""

    at_us: int
    """When it was sent."""
    ref: Ref
    """Where the log says that it ended; that it began, while it is open."""
    started: e.RequestStarted | None
    ended: e.RequestEnded | None
    """None while it is open."""
    asked: e.TagAsked | None
    gaps_ms: tuple[float, ...]


class Planting(msgspec.Struct, frozen=True):
    """A tag that entered the main line."""

    at_us: int
    ref: Ref
    event: e.TagPlanted


class Closing(msgspec.Struct, frozen=True):
    """A conversation that began or ended."""

    at_us: int
    ref: Ref
    event: e.SessionStarted | e.SessionEnded


Item = Turn | Planting | Closing


class SessionStory:
    """One conversation, all of it, in the order of the log. Feed it with the lines of the log; others' are left out."""

    def __init__(self, session: int) -> None:
        self.session = session
        self._items: list[Item] = []
        self._open: dict[int, int] = {}
        self._asks: dict[int, e.TagAsked] = {}

    @property
    def items(self) -> tuple[Item, ...]:
        """Turns, questions, plantings, beginnings and ends."""
        return tuple(self._items)

    def add(self, at_us: int, record: e.Record) -> None:
        """Takes in a line at its log time."""
        event, ref = record.event, (record.part, record.seq)
        match event:
            case e.RequestStarted(session=self.session, req=req):
                self._open[req] = len(self._items)
                self._items.append(Turn(at_us, ref, event, None, self._asks.pop(req, None), ()))
            case e.TagAsked(session=self.session, req=req):
                if not self._change(req, asked=event):
                    self._asks[req] = event
            case e.GapNoted(session=self.session, req=req, gap_ms=gap_ms):
                self._gap(req, gap_ms)
            case e.RequestEnded(session=self.session, req=req):
                if not self._change(req, ref=ref, ended=event):
                    self._items.append(Turn(at_us, ref, None, event, self._asks.pop(req, None), ()))
                self._open.pop(req, None)
            case e.TagPlanted(session=self.session):
                self._items.append(Planting(at_us, ref, event))
            case e.SessionStarted(session=self.session) | e.SessionEnded(session=self.session):
                self._items.append(Closing(at_us, ref, event))
            case _:
                pass

    def _change(self, req: int, **facts: object) -> bool:
        """Puts facts into the open request of that number; whether there is one."""
        place = self._open.get(req)
        if place is None:
            return False
        self._items[place] = msgspec.structs.replace(self._items[place], **facts)
        return True

    def _gap(self, req: int, gap_ms: float) -> None:
        place = self._open.get(req)
        turn = None if place is None else self._items[place]
        if isinstance(turn, Turn):
            self._change(req, gaps_ms=(*turn.gaps_ms, gap_ms))
