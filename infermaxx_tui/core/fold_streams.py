"""Who was on the server when: open requests, decoding streams, and whose tags had been sent by then.

A recall says something about concurrency only if another stream was decoding beside it, and something about isolation
only if somebody else's tag was there to be leaked. Both are decided here, from the order of the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from infermaxx_tui.core.events import RequestStarted, TagAsked


class Open(msgspec.Struct):
    """A request that has not ended."""

    session: int
    since_us: int
    ask: TagAsked | None = None
    first_at: int | None = None
    """Place of the first token in the order of first tokens and ends; None before it."""
    foreign_present: bool = False
    beside_other: bool = False
    """Another session's request was open at the same time."""


@dataclass(slots=True)
class Streams:
    """Open requests by number, and the order of first tokens and ends.

    Memory grows with the conversations of the run, not with its requests.
    """

    open: dict[int, Open] = field(default_factory=dict)
    decoding: int = 0
    decoding_peak: int = 0
    """Most streams of conversations that decoded at once; what a probe sends belongs to none and is not among them."""
    in_flight_peak: int = 0
    """The same of open requests."""
    _strangers_open: int = 0
    _strangers_decoding: int = 0
    """Of no conversation of this run: their session is below 0."""
    _alone: dict[int, int] = field(default_factory=dict)
    """Sessions of the open requests beside which no other session's was open."""
    _asks: dict[int, TagAsked] = field(default_factory=dict)
    _decoding_of: dict[int, int] = field(default_factory=dict)
    _order: int = 0
    _last_end: dict[int, int] = field(default_factory=dict)
    _newest_end: tuple[int, int] = (-1, -1)
    _newest_other: tuple[int, int] = (-1, -1)
    _planting: set[int] = field(default_factory=set)
    _holders: set[int] = field(default_factory=set)

    def planted(self, session: int) -> None:
        """The next request of the session carries a tag."""
        self._planting.add(session)

    def asked(self, ask: TagAsked) -> None:
        """A question goes out with a request, which may be known already or not yet."""
        opened = self.open.get(ask.req)
        if opened is None:
            self._asks[ask.req] = ask
        else:
            opened.ask = ask

    def started(self, event: RequestStarted, mono_us: int) -> None:
        """A request was sent; one that had its number has ended by now, though the log never said so."""
        if event.req in self.open:
            self.ended(event.req)
        session = event.session
        opened = Open(session, mono_us)
        if self._asks:
            opened.ask = self._asks.pop(event.req, None)
        for other in self.open.values():
            if other.session != session:
                opened.beside_other = True
                break
        if self._alone:
            self._no_more_alone(session)
        if not opened.beside_other:
            self._alone[event.req] = session
        self.open[event.req] = opened
        self._strangers_open += session < 0
        if session in self._planting:
            self._planting.discard(session)
            self._holders.add(session)
        in_flight = len(self.open) - self._strangers_open
        if in_flight > self.in_flight_peak:
            self.in_flight_peak = in_flight

    def _no_more_alone(self, session: int) -> None:
        """A request of a session goes out beside those of others."""
        for known, other in tuple(self._alone.items()):
            if other != session:
                self.open[known].beside_other = True
                del self._alone[known]

    def first_token(self, req: int) -> Open | None:
        """A stream began to decode."""
        opened = self.open.get(req)
        if opened is None or opened.first_at is not None:
            return opened
        session = opened.session
        self._order += 1
        opened.first_at = self._order
        opened.foreign_present = len(self._holders) > (session in self._holders)
        self.decoding += 1
        self._decoding_of[session] = self._decoding_of.get(session, 0) + 1
        self._strangers_decoding += session < 0
        decoding = self.decoding - self._strangers_decoding
        if decoding > self.decoding_peak:
            self.decoding_peak = decoding
        return opened

    def ended(self, req: int) -> Open | None:
        """A request is over; None if the log never said that it began."""
        opened = self.open.pop(req, None)
        if self._alone:
            self._alone.pop(req, None)
        if opened is None:
            return None
        self._strangers_open -= opened.session < 0
        if opened.first_at is None:
            return opened
        session = opened.session
        self._order += 1
        self.decoding -= 1
        self._strangers_decoding -= session < 0
        left = self._decoding_of[session] - 1
        if left:
            self._decoding_of[session] = left
        else:
            del self._decoding_of[session]
        self._last_end[session] = self._order
        if self._newest_end[1] != session:
            self._newest_other = self._newest_end
        self._newest_end = (self._order, session)
        return opened

    def overlapped(self, ended: Open, clumped: bool) -> bool:
        """Whether another session was decoding at some moment from this stream's first token to its end, just now.

        A reply that came in one clump hides when it was decoded: some time while it was open, so that another
        session's open request counts.
        """
        if ended.first_at is None:
            return False
        if clumped and ended.beside_other:
            return True
        if self.decoding > self._decoding_of.get(ended.session, 0):
            return True
        order, session = self._newest_end
        if session == ended.session:
            order, session = self._newest_other
        return session != -1 and order > ended.first_at

    def overlapped_with(self, ended: Open, other: int) -> bool:
        """Whether the session `other` was decoding between this stream's first token and its end, just now."""
        if ended.first_at is None:
            return False
        return other in self._decoding_of or self._last_end.get(other, -1) > ended.first_at

    def ask_of(self, req: int) -> TagAsked | None:
        """The question of a request whose start the log does not know."""
        return self._asks.pop(req, None)

    def restarted(self) -> None:
        """A new segment begins: nothing of the last one is open, and a new server may hold none of its tags."""
        self.open.clear()
        self._alone.clear()
        self._asks.clear()
        self._decoding_of.clear()
        self._planting.clear()
        self._holders.clear()
        self._last_end.clear()
        self._newest_end = self._newest_other = (-1, -1)
        self.decoding = self._strangers_open = self._strangers_decoding = 0
