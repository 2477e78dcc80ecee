"""What is kept of a run so that drift can be judged: sums per block of time, free of what would only look like drift.

Left out and counted: everything before the first clean conversation has ended (a cold engine is no baseline), replies
that were decoded while the server preempted requests or a card was held back by heat, and what cannot be placed. A
server that starts anew, or a power limit that changes, ends a stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.drift import DriftSeen
from infermaxx_tui.core.drift_kept import Quantity
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.fold_gauges import CLUMP_MS_PER_TOKEN, CLUMP_SHARE, MIN_TIMED_TOKENS

STALE_US: Final = 150_000_000
"""A source that has not spoken for so long is not waited for."""
_SPOILT_KEPT: Final = 8
"""Times that are kept of each reason, the newest; no sample waits longer than they reach."""
_HELD_BACK: Final = 0x008 | 0x020 | 0x040 | 0x080
"""Clock reasons that mean heat or a power brake (core.gpu_reasons.ALARMS)."""
_TIMED: Final = frozenset({"turn", "recall", "tail", "absent", "load"})


class Going(msgspec.Struct, array_like=True):
    """A request that is open."""

    sent_us: int
    beside: int
    """Other requests that were open when it was sent."""
    first_us: int = -1
    streams_us: float = 0.0
    """Integral of decoding streams over time, at its first token."""


class Waiting(msgspec.Struct, array_like=True):
    """A sample of which it is not known yet whether the server preempted anybody meanwhile."""

    name: str
    at: Ref
    from_us: int
    to_us: int
    weight: float
    covariates: tuple[float, ...]
    value: float


@dataclass(slots=True)
class Drift:
    """Everything that drift is judged by; of bounded size."""

    quantities: dict[str, Quantity] = field(default_factory=dict)
    warm_us: int = -1
    """When the first clean conversation since the server's start ended; -1 before that."""
    _open: dict[int, Going] = field(default_factory=dict)
    _decoding: int = 0
    _streams_us: float = 0.0
    _moved_us: int = 0
    _waiting: list[Waiting] = field(default_factory=list)
    _bad: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """The newest times in which samples do not count, by reason."""
    _read_us: int = -1
    _cards_us: int = -1
    """When the counters and the cards were read last; -1: not yet."""
    _preemptions: float | None = None
    _preempted: int = 0
    _preemptions_told: bool = False
    _sick: set[int] = field(default_factory=set)
    """Conversations with a request that failed."""
    _limits_w: dict[int, float] = field(default_factory=dict)

    def take(self, record: e.Record) -> None:
        """One line of the log."""
        taker = _TAKERS.get(type(record.event))
        if taker is not None:
            taker(self, record, record.event)

    def takers(self) -> dict[type[e.Event], Callable[..., None]]:
        """What takes in a line of the log with an event of each type."""
        return {kind: MethodType(taker, self) for kind, taker in _TAKERS.items()}

    def of(self, name: str) -> Quantity:
        """The quantity, made on first sight."""
        found = self.quantities.get(name)
        if found is None:
            found = self.quantities[name] = Quantity()
        return found

    def seen(self) -> DriftSeen:
        """What a judge looks at."""
        return DriftSeen(
            series=tuple(kept.seen(name) for name, kept in sorted(self.quantities.items())),
            warm=self.warm_us >= 0,
            preemptions=self._preempted if self._preemptions_told else None,
        )

    # Breaks

    def run_started(self, record: e.Record, event: e.RunStarted) -> None:
        """A resumed run has another clock, and who knows what happened to the server meanwhile."""
        if event.segment > 0:
            self._cold()
            self._open.clear()
            self._waiting.clear()
            self._bad.clear()
            self._decoding, self._moved_us, self._read_us, self._cards_us = 0, record.mono_us, -1, -1

    def server_lost(self, record: e.Record, event: e.ServerLost) -> None:
        """A new process begins cold."""
        if event.how in ("pid_dead", "restarted", "refused", "unhealthy"):
            self._cold()

    def _cold(self) -> None:
        self.warm_us, self._preemptions = -1, None
        self._sick.clear()
        self._break()

    def _break(self) -> None:
        for quantity in self.quantities.values():
            quantity.broken = True

    def session_ended(self, record: e.Record, event: e.SessionEnded) -> None:
        """From the end of the first conversation in which nothing failed, the server is warm."""
        clean = event.reason == "finished" and event.session not in self._sick
        self._sick.discard(event.session)
        if clean and self.warm_us < 0:
            self.warm_us = record.mono_us

    # Requests

    def request_started(self, record: e.Record, event: e.RequestStarted) -> None:
        """A request was sent."""
        self._open[event.req] = Going(record.mono_us, len(self._open))

    def first_token(self, record: e.Record, event: e.FirstToken) -> None:
        """A stream began to decode."""
        going = self._open.get(event.req)
        if going is not None and going.first_us < 0:
            us = record.mono_us
            self._move(us, 1)
            going.first_us, going.streams_us = us, self._streams_us

    def _move(self, us: int, step: int) -> None:
        if us > self._moved_us:
            self._streams_us += self._decoding * (us - self._moved_us)
        self._moved_us = us
        self._decoding += step

    def request_ended(self, record: e.Record, event: e.RequestEnded) -> None:
        """A request is over: how long its tokens took, and its first one."""
        going, kind, healthy = self._open.pop(event.req, None), event.kind, event.outcome == "ok"
        if not healthy and event.session >= 0:
            self._sick.add(event.session)
        if going is None or going.first_us < 0:
            return
        self._move(record.mono_us, -1)
        if not healthy or kind not in _TIMED:
            return
        self._decoded(record, event, going)
        if kind == "turn":
            self._first_came(record, event, going)

    def _decoded(self, record: e.Record, event: e.RequestEnded, going: Going) -> None:
        tokens, first = event.completion_tokens or event.ids_received or 0, event.first_chunk_tokens or 1
        took_ms, rest = event.decode_ms, tokens - first
        if took_ms is None or rest < MIN_TIMED_TOKENS:
            self.of("decode").leave_out("too_short")
        elif first >= CLUMP_SHARE * tokens or took_ms < CLUMP_MS_PER_TOKEN * rest:
            self.of("decode").leave_out("in_one_clump")
        elif event.prompt_tokens is None:
            self.of("decode").leave_out("depth_unknown")
        elif not 0 <= self.warm_us <= going.first_us:
            self.of("decode").leave_out("warm_up")
        else:
            passed_us = record.mono_us - going.first_us
            streams = (self._streams_us - going.streams_us) / passed_us if passed_us > 0 else 1.0
            covariates = ((event.prompt_tokens + tokens / 2) / 1000, max(streams - 1, 0.0))
            self._put("decode", record, going.first_us, float(rest), covariates, took_ms / rest)

    def _first_came(self, record: e.Record, event: e.RequestEnded, going: Going) -> None:
        if event.ttft_ms is None or event.prompt_tokens is None or event.cached_tokens is None:
            self.of("ttft").leave_out("cached_unknown")
        elif not 0 <= self.warm_us <= going.sent_us:
            self.of("ttft").leave_out("warm_up")
        else:
            uncached = max(event.prompt_tokens - event.cached_tokens, 0) / 1000
            self._put("ttft", record, going.sent_us, 1.0, (uncached, float(going.beside)), event.ttft_ms)

    def _put(
        self, name: str, record: e.Record, from_us: int, weight: float, covariates: tuple[float, ...], value: float
    ) -> None:
        at = (record.part, record.seq)
        self._waiting.append(Waiting(name, at, from_us, record.mono_us, weight, covariates, value))
        self._settle_up_to(record.mono_us)

    def _settle_up_to(self, now_us: int) -> None:
        """Settles the samples that everybody has spoken of who still speaks."""
        waiting = self._waiting
        if not waiting:
            return
        spoke_us = -1
        for us in (self._read_us, self._cards_us):
            if us >= 0 and now_us - us < STALE_US and not 0 <= spoke_us < us:
                spoke_us = us
        known_us = spoke_us if spoke_us >= 0 else now_us
        if waiting[0].to_us > known_us:
            return
        done = 0
        for one in waiting:
            if one.to_us > known_us:
                break
            self._settle(one)
            done += 1
        del waiting[:done]

    def _settle(self, one: Waiting) -> None:
        """Counts a sample, or says why not."""
        quantity = self.of(one.name)
        if self.warm_us < 0 or one.from_us < self.warm_us:
            quantity.leave_out("warm_up")
            return
        for reason, times in self._bad.items():
            late = bool(times) and one.from_us >= times[-1][1]
            if not late and any(one.from_us < until_us and one.to_us > since_us for since_us, until_us in times):
                quantity.leave_out(reason)
                return
        quantity.add(one.at, one.to_us, one.weight, one.covariates, one.value)

    # Readings

    def metrics(self, record: e.Record, event: e.MetricsRead) -> None:
        """The server's counters: preemptions since the last reading, and the floor of the KV pool when idle."""
        if event.error is not None:
            return
        if event.preemptions is not None:
            grown = 0.0 if self._preemptions is None else event.preemptions - self._preemptions
            self._preemptions, self._preemptions_told = event.preemptions, True
            if grown > 0:
                self._preempted += round(grown)
                self._spoil("preempted", self._read_us, record.mono_us)
        self._read_us = record.mono_us
        self._settle_up_to(record.mono_us)
        if event.running == 0 and not event.waiting and event.kv_usage is not None and not self._open:
            self._reading("kv floor", record, event.kv_usage)

    def _spoil(self, reason: str, since_us: int, until_us: int) -> None:
        times = self._bad.setdefault(reason, [])
        if times and since_us <= times[-1][1]:
            since_us = times.pop()[0]
        times.append((since_us, until_us))
        del times[:-_SPOILT_KEPT]

    def clock_jumped(self, record: e.Record, event: e.ClockJumped) -> None:
        """What spans it was not timed."""
        self._spoil("clock_jumped", event.since_us, record.mono_us)

    def instrument(self, record: e.Record, event: e.InstrumentRead) -> None:
        """The client's own memory."""
        if event.rss_mib is not None:
            self._reading("client rss", record, event.rss_mib)

    def gpus(self, record: e.Record, event: e.GpuRead) -> None:
        """The server's cards: what their memory holds, what holds them back, and whether their limit is what it was."""
        for reading in event.gpus:
            if reading.gpu not in event.server:
                continue
            if reading.reasons is not None and reading.reasons & _HELD_BACK:
                self._spoil("throttled", record.mono_us - round(event.window_ms * 1000), record.mono_us)
            if reading.limit_w is not None:
                if self._limits_w.get(reading.gpu, reading.limit_w) != reading.limit_w:
                    self._break()
                self._limits_w[reading.gpu] = reading.limit_w
            own = [one.vram_mib for one in reading.processes or () if one.server and one.vram_mib is not None]
            if own:
                self._reading(f"vram {reading.gpu}", record, sum(own))
            elif reading.vram_used_mib is not None:
                self._reading(f"board vram {reading.gpu}", record, reading.vram_used_mib)
        self._cards_us = record.mono_us
        self._settle_up_to(record.mono_us)

    def _reading(self, name: str, record: e.Record, value: float) -> None:
        if self.warm_us < 0:
            self.of(name).leave_out("warm_up")
        else:
            self.of(name).add((record.part, record.seq), record.mono_us, 1.0, (), value)


_TAKERS: Final[dict[type[e.Event], Callable[[Drift, e.Record, Any], None]]] = {
    e.RunStarted: Drift.run_started,
    e.ServerLost: Drift.server_lost,
    e.SessionEnded: Drift.session_ended,
    e.RequestStarted: Drift.request_started,
    e.FirstToken: Drift.first_token,
    e.RequestEnded: Drift.request_ended,
    e.MetricsRead: Drift.metrics,
    e.InstrumentRead: Drift.instrument,
    e.ClockJumped: Drift.clock_jumped,
    e.GpuRead: Drift.gpus,
}
