"""Each conversation as it stands, and how many of its planned questions fell due."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import add

from infermaxx_tui.core.events import Beat, RequestEnded, SessionEnded, SessionStarted
from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.core.fold_streams import Open
from infermaxx_tui.core.kept import Table
from infermaxx_tui.core.state import Phase, SessionState

RATE_WINDOW_MS = 500.0
"""A beat shorter than this gives no rate: the last one of a run may be of any length."""


@dataclass(slots=True, eq=False)
class Session:
    """One conversation. `last_us` is when its newest token came."""

    wave: int
    planned: int
    segment: int = 0
    turn: int = 0
    depth: int = 0
    tokens: int = 0
    ttft_ms: float | None = None
    cached_share: float | None = None
    planted: int = 0
    asked: int = 0
    recalled: int = 0
    lost: int = 0
    capped: int = 0
    last_us: int = -1
    ended: str | None = None
    parent: int | None = None
    cut_off: bool = False


@dataclass(slots=True)
class Sessions:
    """All conversations by number. Memory grows with them, not with their requests."""

    depth_reached: int = 0
    """Of this run's conversations: what a probe sends is deep for reasons of its own, and shows no recall there."""
    _all: Table[int, Session] = field(default_factory=Table)
    _newest_beat: Beat | None = None
    _beaten: tuple[int, ...] = ()
    """Conversations of the newest beats, which had the same ones; what they add up to is not theirs yet."""
    _strangers_beaten: bool = False
    """Whether a stream of no conversation is among them: its number is below 0."""
    _beat_tokens: tuple[int, ...] = ()
    _beat_depths: tuple[int, ...] = ()
    _beat_us: tuple[int, ...] = ()
    """When each of them had a token last; -1 for none."""
    _segment: int = 0
    _lost_before: int = 0
    """Questions that were missed in conversations that were given up."""

    def of(self, session: int) -> Session:
        """The conversation, made on first sight."""
        found = self._all.by.get(session)
        if found is None:
            found = self._all.by[session] = Session(0, 0, self._segment)
        return found

    def started(self, event: SessionStarted) -> bool:
        """A conversation begins, or (True) again after a resume: only what it had lost by then still counts."""
        self._spread()
        before = self._all.by.get(event.session)
        again = before is not None and before.segment != self._segment
        if before is not None and again:
            self._lost_before += before.lost if before.planned else 0
        begun = Session(event.wave, event.planned_recalls, self._segment, parent=event.parent)
        self._all.put(event.session, begun)
        return again

    def ended(self, event: SessionEnded) -> None:
        """A conversation is over."""
        self._spread()
        session = self.of(event.session)
        session.ended = event.reason
        session.depth = event.depth_tokens
        session.turn = event.turns

    def beat(self, event: Beat, mono_us: int) -> None:
        """Tokens and depth of all streams in one window."""
        self._newest_beat = event
        tokens, depths = event.tokens, event.depths
        if event.sessions != self._beaten or not len(tokens) == len(depths) == len(event.sessions):
            self._spread()
            self._beaten = event.sessions[: min(len(tokens), len(depths))]
            self._beat_tokens = (0,) * len(self._beaten)
            self._beat_us = (-1,) * len(self._beaten)
            self._strangers_beaten = min(self._beaten, default=0) < 0
        self._beat_tokens = tuple(map(add, self._beat_tokens, tokens))
        self._beat_depths = depths
        if 0 in tokens:
            self._beat_us = tuple(mono_us if n else us for n, us in zip(tokens, self._beat_us, strict=False))
        else:
            self._beat_us = (mono_us,) * len(self._beaten)
        own = depths[: len(self._beaten)]
        if self._strangers_beaten:
            own = tuple(depth for number, depth in zip(self._beaten, depths, strict=False) if number >= 0)
        deepest = max(own, default=0)
        if deepest > self.depth_reached:
            self.depth_reached = deepest

    def _spread(self) -> None:
        """Gives each conversation what the beats of the same streams have added up to since the last time."""
        columns = (self._beaten, self._beat_tokens, self._beat_depths, self._beat_us)
        for number, tokens, depth, us in zip(*columns, strict=False):
            session = self.of(number)
            session.depth = depth
            session.tokens += tokens
            session.last_us = max(session.last_us, us)
        self._beaten = ()

    def segment_began(self) -> None:
        """Another clock: what the beats said is said by the old one."""
        self._spread()
        self._segment += 1

    def rates(self) -> dict[int, float]:
        """Tokens per second in the newest beat, by conversation; empty before the first one or if it is too short."""
        beat = self._newest_beat
        if beat is None or beat.window_ms < RATE_WINDOW_MS:
            return {}
        return {n: tokens * 1000.0 / beat.window_ms for n, tokens in zip(beat.sessions, beat.tokens, strict=False)}

    def replied(self, event: RequestEnded) -> None:
        """What a request says about its conversation."""
        session = self.of(event.session)
        prompt = event.prompt_tokens
        if prompt is not None:
            if event.cached_tokens is not None and prompt > 0:
                session.cached_share = event.cached_tokens / prompt
            if event.outcome == "ok" and event.session >= 0:
                depth = prompt + (event.completion_tokens or 0)
                if depth > self.depth_reached:
                    self.depth_reached = depth

    def recalled(self, recall: Recall) -> None:
        """A recall question was answered."""
        session = self.of(recall.session)
        session.capped += recall.capped
        if recall.complete:
            session.recalled += not recall.miss
            session.lost += recall.miss

    def planned_recalls(self, planned: int, duration_over: bool) -> int:
        """Of `planned` recall questions those that fell due, and those that were missed before a new attempt was made.

        A conversation that the duration ended owes no question that it had not come to; once the duration is over, one
        that never began owes none at all.
        """
        not_due = sum(
            max(session.planned - session.asked, 0) for session in self._all.by.values() if session.ended == "duration"
        )
        if duration_over:
            not_due += max(planned - sum(session.planned for session in self._all.by.values()), 0)
        return max(planned + self._lost_before - not_due, 0)

    def states(self, opened: dict[int, Open], now_us: int, rates: dict[int, float]) -> tuple[SessionState, ...]:
        """All conversations, by number; `rates` are their speeds, as far as they may be shown."""
        self._spread()
        since: dict[int, int] = {}
        decoding: set[int] = set()
        for request in opened.values():
            since[request.session] = min(request.since_us, since.get(request.session, request.since_us))
            if request.first_at is not None:
                decoding.add(request.session)
        return tuple(
            self._state(number, since.get(number), number in decoding, now_us, rates.get(number))
            for number in sorted(self._all.by)
            if number >= 0  # an earlier run's conversation is none of this run's
        )

    def _state(
        self, number: int, since_us: int | None, decoding: bool, now_us: int, rate: float | None
    ) -> SessionState:
        session = self._all.by[number]
        phase: Phase = "ended" if session.ended else "decoding" if decoding else "prefill"
        if since_us is None and not session.ended:
            phase = "between"
        return SessionState(
            session=number,
            wave=session.wave,
            phase=phase,
            turn=session.turn,
            depth_tokens=session.depth,
            tokens=session.tokens,
            tokens_per_s=rate,
            ttft_ms=session.ttft_ms,
            cached_share=session.cached_share,
            planned_recalls=session.planned,
            planted=session.planted,
            asked=session.asked,
            recalled=session.recalled,
            lost=session.lost,
            capped=session.capped,
            silent_ms=None if since_us is None else max(now_us - max(since_us, session.last_us), 0) / 1000.0,
            ended=session.ended,
            parent=session.parent,
            cut_off=session.cut_off,
        )
