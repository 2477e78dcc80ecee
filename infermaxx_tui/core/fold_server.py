"""The server's counters beside what this run sent: other users of the server, and work that goes on after a cut.

The server counts what everybody sends, so what it counts beyond ours is somebody else's. A reading is one moment, and
a request of ours may end on one side before the other, so a run is called tainted only by what cannot be ours: more
requests finished than we sent, or more running, several readings in a row, than we had open for half a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from typing import Final

from infermaxx_tui.core.drafting import coverage, why_not
from infermaxx_tui.core.events import CancelSettled, GateChecked, MetricsRead, RequestEnded
from infermaxx_tui.core.server_seen import ServerSeen

RECENT_US = 30_000_000
"""Requests that we had open within this time may still be running there."""
IN_A_ROW = 3
"""Readings with more running than ours after which it is no accident of the moment."""
SETTLE_US = 20_000_000
"""After a cut the server's count of running requests must have fallen by then."""
_CUT = ("cancelled", "stalled", "timeout")
_GROWING = (
    "preemptions",
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "corrupted",
    "rejected",
)
_counters: Final[Callable[[MetricsRead], tuple[float | None, ...]]] = attrgetter(*_GROWING)
_NOTHING: Final[tuple[float | None, ...]] = (None,) * len(_GROWING)
_PEAKS: Final = ("running", "waiting", "kv_usage", "scrape_ms", "parse_ms")
_peak_values: Final[Callable[[MetricsRead], tuple[float | None, ...]]] = attrgetter(*_PEAKS)


@dataclass(slots=True)
class ServerSide:
    """The counters of the whole run, and what they say of others; of constant size."""

    _readings: int = 0
    _waited: int = 0
    _waiting_known: int = 0
    _peaks: dict[str, float] = field(default_factory=dict)
    _grown: dict[str, float] = field(default_factory=dict)
    _finished: dict[str, float] = field(default_factory=dict)
    _accepted_at: tuple[float, ...] = ()
    _last: MetricsRead | None = None
    _restarts: int = 0
    _sent: int = 0
    _sent_before: int = 0
    """Requests sent before the first reading, or before a restart: what they do is not in the counters."""
    _sent_at_last: int = 0
    _finished_here: float = 0.0
    """Finished since the first reading or the newest restart."""
    _recent: deque[tuple[int, int]] = field(default_factory=deque)
    _replied: dict[str, int] = field(default_factory=dict)
    _reasoned: dict[str, int] = field(default_factory=dict)
    _open: int = 0
    _over: int = 0
    _foreign_requests: int = 0
    _foreign_running: int = 0
    _cut: int = 0
    _cut_us: int = 0
    _read_since_cut: bool = False
    _counts: dict[str, int] = field(default_factory=lambda: {"cut": 0, "stuck": 0, "unknown": 0})

    def segment_began(self) -> None:
        """Another clock: what was open then is gone, and what the server did meanwhile is nobody's."""
        self._recent.clear()
        self._over = self._cut = self._open = 0
        self._last, self._finished_here = None, 0.0

    def sent(self, us: int, now_open: int) -> None:
        """A request of ours went out."""
        self._sent += 1
        self._opened(us, now_open)

    def ended(self, event: RequestEnded, us: int, now_open: int) -> None:
        """A request of ours is over on our side."""
        self._opened(us, now_open + 1)
        self._open = now_open
        if event.outcome == "ok":
            self._replied[event.kind] = self._replied.get(event.kind, 0) + 1
            if event.reasoning_tokens or event.reasoning_chars:
                self._reasoned[event.kind] = self._reasoned.get(event.kind, 0) + 1
        elif event.outcome in _CUT:
            self._cut += 1
            self._cut_us = us
            self._read_since_cut = False

    def _opened(self, us: int, count: int) -> None:
        self._open, recent = count, self._recent
        while recent and recent[-1][1] <= count:
            recent.pop()
        recent.append((us, count))

    def read(self, event: MetricsRead, us: int) -> None:
        """One reading; one that failed says nothing."""
        if event.error is not None:
            return
        self._readings += 1
        self._read_since_cut = True
        self._keep_peaks(event)
        self._grow(event)
        self._last = event
        self._sent_at_last = self._sent
        self._look_for_others(event, us)

    def _keep_peaks(self, event: MetricsRead) -> None:
        peaks = self._peaks
        for name, value in zip(_PEAKS, _peak_values(event), strict=True):
            if value is not None and value > peaks.get(name, -1.0):
                peaks[name] = value
        if event.waiting is not None:
            self._waiting_known += 1
            self._waited += event.waiting > 0

    def _grow(self, event: MetricsRead) -> None:
        """Adds what each counter grew by; after a restart they begin at 0 again."""
        last = self._last
        restarted = last is not None and _restarted(last, event)
        if restarted:
            self._restarts += 1
            self._finished_here = 0.0
            self._sent_before = max(self._sent_at_last - self._open, 0)
        elif last is None:
            self._sent_before = max(self._sent - self._open, 0)
        before = _NOTHING if last is None or restarted else _counters(last)
        for name, value, old in zip(_GROWING, _counters(event), before, strict=True):
            if value != old and value is not None:
                grown = 0.0 if last is None else value - (old or 0.0)
                self._grown[name] = self._grown.get(name, 0.0) + max(grown, 0.0)
        if event.accepted_at:
            self._grow_accepted(event, None if restarted else last)
        if event.finished:
            self._grow_finished(event, None if restarted else last)

    def _grow_accepted(self, event: MetricsRead, since: MetricsRead | None) -> None:
        """Adds the tokens accepted at each place of a guess since the last reading."""
        first = self._last is None or (since is not None and not since.accepted_at)
        known = event.accepted_at if first else since.accepted_at if since is not None else ()
        grown = (max(now - old, 0.0) for now, old in zip_longest(event.accepted_at, known, fillvalue=0.0))
        self._accepted_at = tuple(a + b for a, b in zip_longest(self._accepted_at, grown, fillvalue=0.0))

    def _grow_finished(self, event: MetricsRead, since: MetricsRead | None) -> None:
        """Adds the requests that finished since the last reading; after a restart, since then."""
        known = {} if since is None else dict(since.finished)
        first = self._last is None or (since is not None and not since.finished)
        for reason, count in event.finished:
            grown = 0.0 if first else max(count - known.get(reason, 0.0), 0.0)
            self._finished[reason] = self._finished.get(reason, 0.0) + grown
            self._finished_here += grown

    def _look_for_others(self, event: MetricsRead, us: int) -> None:
        beyond = round(self._finished_here) - (self._sent - self._sent_before)
        if beyond > self._foreign_requests:
            self._foreign_requests = beyond
        recent, ours = self._recent, self._open
        while recent and us - recent[0][0] > RECENT_US:
            recent.popleft()
        if recent and recent[0][1] > ours:
            ours = recent[0][1]
        over = 0 if event.running is None else round(event.running) - ours
        self._over = self._over + 1 if over > 0 else 0
        if self._over >= IN_A_ROW:
            self._foreign_running = max(self._foreign_running, over)

    def unsettled(self, us: int, last_chance: bool = False) -> CancelSettled | None:
        """What came of the requests that were cut, once that can be said; asked after each reading.

        At the last chance something is said in any case: a server may still need its time, so then nobody can say.
        """
        if not self._cut:
            return None
        waited_us = us - self._cut_us
        running = self._last.running if self._last is not None and self._read_since_cut else None
        fell = None if running is None else running <= self._open
        if not fell and waited_us < SETTLE_US:
            if not last_chance:
                return None
            fell = None
        return CancelSettled(
            cut=self._cut,
            ours_open=self._open,
            running=running,
            waited_ms=waited_us / 1000,
            fell=fell,
        )

    def settled(self, event: CancelSettled) -> None:
        """The log says what came of the requests that were cut."""
        self._cut = 0
        self._counts["cut"] += event.cut
        if event.fell is None:
            self._counts["unknown"] += event.cut
        elif not event.fell and event.running is not None:
            self._counts["stuck"] += min(event.cut, round(event.running) - event.ours_open)

    def seen(self) -> ServerSeen:
        """Everything so far."""
        grown = {name: round(value) for name, value in self._grown.items()}
        drafts, accepted = grown.get("drafts"), grown.get("accepted_tokens")
        covered = coverage(drafts, accepted, grown.get("generation_tokens"))
        reason = why_not(self._readings, drafts, grown.get("draft_tokens"), accepted, covered)
        return ServerSeen(
            readings=self._readings,
            running_peak=self._peaks.get("running"),
            waiting_peak=self._peaks.get("waiting"),
            waiting_share=self._waited / self._waiting_known if self._waiting_known else None,
            kv_usage_peak=self._peaks.get("kv_usage"),
            **grown,
            finished={reason: round(count) for reason, count in sorted(self._finished.items())},
            accepted_at=tuple(round(count) for count in self._accepted_at),
            acceptance=accepted / grown["draft_tokens"] if accepted is not None and reason is None else None,
            acceptance_reason=reason,
            mean_length=1 + accepted / drafts if accepted is not None and drafts else None,
            draft_coverage=covered,
            restarts=self._restarts,
            scrape_ms_max=self._peaks.get("scrape_ms"),
            parse_ms_max=self._peaks.get("parse_ms"),
            foreign_requests=self._foreign_requests,
            foreign_running=self._foreign_running,
            replied=dict(sorted(self._replied.items())),
            reasoned=dict(sorted(self._reasoned.items())),
            cut=self._counts["cut"],
            cut_stuck=self._counts["stuck"],
            cut_unknown=self._counts["unknown"],
        )


def newest_gate(first: GateChecked | None, second: GateChecked) -> GateChecked:
    """Of two answers of one gate the one that stands: a failure stays, and knowing beats not knowing."""
    if first is None or first.outcome == "unknown":
        return second
    return first if first.outcome == "fail" or second.outcome == "unknown" else second


def _restarted(last: MetricsRead, event: MetricsRead) -> bool:
    """Another process start, or a counter that fell."""
    if last.process_start_s is not None and event.process_start_s is not None:
        return last.process_start_s != event.process_start_s
    before, after = last.generation_tokens, event.generation_tokens
    return before is not None and after is not None and after < before
