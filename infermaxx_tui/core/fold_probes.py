"""What probes asked and what came: one small row a request, from which all of their figures are made."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from infermaxx_tui.core.abilities import Ability
from infermaxx_tui.core.events import AbilityAnswered, ProbeAsked, ProbeCached, RequestEnded
from infermaxx_tui.core.kept import Rows
from infermaxx_tui.core.probes import Part, Probe
from infermaxx_tui.core.torn import torn


class ProbeReply(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a probe that is over. Times are the run's monotonic clock."""

    probe: int
    part: Part
    rep: int
    streams: int
    wanted_tokens: int | None
    outcome: str
    error: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    tokens: int | None
    first_chunk_tokens: int | None
    ttft_ms: float | None
    decode_ms: float | None
    sent_us: int
    ended_us: int
    total_ms: float
    forced: bool
    degenerate: str | None
    place: int = 0
    text_sha256: str | None = None
    """Of the whole reply; None where nothing was said, what came is not what the server sent, or the server cut it
    before its budget, so that nobody knows what it would have said within that."""
    lag_first_ms: float | None = None
    lag_max_ms: float | None = None
    """The longest lag of the client until the first token and until the end; None where nobody watched it."""
    capped: bool = False
    """It was cut at its budget, or may have been: what would have come after that is not known."""
    req: int = -1
    counted_cached_tokens: int | None = None
    """What of the prompt came from the cache by the server's counters, which need not be what its usage says."""


class ProbesSeen(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned, and what came, in the order in which it ended."""

    planned: tuple[Probe, ...] = ()
    replies: tuple[ProbeReply, ...] = ()
    abilities: tuple[Ability, ...] = ()
    answers: tuple[AbilityAnswered, ...] = ()
    """To what was asked to try an ability."""


@dataclass(slots=True)
class Probes:
    """All of them; there are as many as the scenario plans."""

    planned: tuple[Probe, ...] = ()
    replies: Rows[ProbeReply] = field(default_factory=Rows)
    abilities: tuple[Ability, ...] = ()
    answers: Rows[AbilityAnswered] = field(default_factory=Rows)
    _open: dict[int, ProbeAsked] = field(default_factory=dict)
    _cached: dict[int, int] = field(default_factory=dict)
    """Tokens from the cache by request, as the server's counters have them."""

    def asked(self, event: ProbeAsked) -> None:
        """A request is for a probe."""
        self._open[event.req] = event

    def ended(self, mono_us: int, event: RequestEnded, sent_us: int | None) -> None:
        """It is over; `sent_us` is when it was sent, if the log holds that."""
        asked = self._open.pop(event.req, None)
        if asked is None:
            return
        self.replies.append(
            ProbeReply(
                probe=asked.probe,
                part=asked.part,
                rep=asked.rep,
                streams=asked.streams,
                wanted_tokens=asked.wanted_tokens,
                outcome=event.outcome,
                error=event.error,
                prompt_tokens=event.prompt_tokens,
                cached_tokens=event.cached_tokens,
                tokens=event.completion_tokens if event.completion_tokens is not None else event.ids_received,
                first_chunk_tokens=event.first_chunk_tokens,
                ttft_ms=event.ttft_ms,
                decode_ms=event.decode_ms,
                sent_us=sent_us if sent_us is not None else mono_us - round(event.total_ms * 1000),
                ended_us=mono_us,
                total_ms=event.total_ms,
                forced=event.forced,
                degenerate=event.degenerate,
                place=asked.place,
                text_sha256=None if torn(event) or self._cut_early(asked, event) else event.text_sha256,
                lag_first_ms=event.lag_first_ms,
                lag_max_ms=event.lag_max_ms,
                capped=event.finish_reason in (None, "length"),
                req=event.req,
            )
        )

    def _cut_early(self, asked: ProbeAsked, event: RequestEnded) -> bool:
        if event.finish_reason != "length" or event.completion_tokens is None or asked.probe >= len(self.planned):
            return False
        return event.completion_tokens < self.planned[asked.probe].max_tokens - 1

    def cached(self, event: ProbeCached) -> None:
        """What the server's counters say of a request that is over."""
        self._cached[event.req] = event.cached_tokens

    def answered(self, event: AbilityAnswered) -> None:
        """A question that tries an ability has its reply."""
        self.answers.append(event)

    def _told(self, one: ProbeReply) -> ProbeReply:
        """With what the server's counters say."""
        return msgspec.structs.replace(one, counted_cached_tokens=self._cached.get(one.req))

    def segment_began(self) -> None:
        """What was open is gone."""
        self._open.clear()

    def seen(self) -> ProbesSeen:
        """All so far."""
        return ProbesSeen(
            planned=self.planned,
            replies=tuple(self._told(one) for one in self.replies.rows),
            abilities=self.abilities,
            answers=tuple(self.answers.rows),
        )
