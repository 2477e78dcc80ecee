"""A log, event by event, becomes the state that judges and views look at. Live and review are the same fold.

Adding is cheap and a snapshot is made only when somebody asks. Cutting a log anywhere and going on changes nothing, for
all that is kept depends on the events alone and on their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from infermaxx_tui.core import events as e
from infermaxx_tui.core.events import Outcome, Record, RequestKind, StartupRead, Unknown
from infermaxx_tui.core.evidence import Finding, Leak, Recall, Ref
from infermaxx_tui.core.fold_delivery import DELIVERY_KINDS
from infermaxx_tui.core.fold_parts import FoldParts
from infermaxx_tui.core.fold_seeing import instrument_of
from infermaxx_tui.core.fold_server import newest_gate
from infermaxx_tui.core.inflation import worst
from infermaxx_tui.core.state import Meta, Planned, RunState
from infermaxx_tui.core.withholding import withheld_speed

REPLIES_GO: Final = ("recorded", "length_matched_recorded")
"""Modes in which what the model said stands in no later prompt."""


def _already_in_the_beats(event: e.GapNoted) -> None:
    """A single gap is for people who look for it in the log; the beats count it with the others."""


class Fold:
    """Everything that a log said so far. Feed it with `add`, look at it with `snapshot`."""

    def __init__(self, parts: FoldParts | None = None) -> None:
        """A fold of nothing yet, or one that goes on from what another one kept."""
        self.parts = parts = parts or FoldParts()
        """Everything that is kept."""
        self._lines = parts.lines
        self._streams = parts.streams
        self._sessions = parts.sessions
        self._replies = parts.replies
        self._deliveries = parts.deliveries
        self._availability = parts.availability
        self._gauges = parts.gauges
        self._itself = parts.itself
        self.server = parts.server
        self._gpus = parts.gpus
        self._quality = parts.quality
        self._paces = parts.paces
        self._controls = parts.controls
        self._probes = parts.probes
        self._drift = parts.drift
        self._run = parts.run
        self._plain: dict[type[e.Event], Callable[..., None]] = {
            e.InstrumentRead: self._instrument_read,
            e.Calibrated: self._itself.cited,
            e.CancelSettled: self.server.settled,
            e.StartupRead: self._startup_read,
            e.GateChecked: self._gate_checked,
            e.RegimeNoted: self._regime_noted,
            e.TagIssued: self._replies.issued,
            e.TagsKnown: self._replies.known,
            e.SessionStarted: self._session_started,
            e.SessionEnded: self._sessions.ended,
            e.TagPlanted: self._tag_planted,
            e.TagAsked: self._tag_asked,
            e.QualityAsked: self._quality.asked,
            e.ProbeAsked: self._probes.asked,
            e.ProbeCached: self._probes.cached,
            e.AbilityAnswered: self._probes.answered,
            e.StageBegan: self._stage_began,
            e.ControlAsked: self._control_asked,
            e.ControlAnswered: self._controls.answered,
            e.GapNoted: _already_in_the_beats,
            e.StopAsked: self._stop_asked,
            e.Noted: self._noted,
            e.Resumed: self._run.resumes.append,
            e.RunEnded: self._run_ended,
        }
        """Events of which it does not matter where or when they were logged."""
        self._placed: dict[type[e.Event], Callable[..., None]] = {
            e.RunStarted: self._run_started,
            e.CountsReconciled: self._reconciled,
            e.ServerLost: self._server_lost,
            e.ClockJumped: self._clock_jumped,
            e.EvidenceLost: self._lost_evidence,
            e.GpuProbed: self._gpus.probed,
            e.GpuRead: self._gpu_read,
        }
        self._often: dict[type[e.Event], Callable[..., None]] = {
            e.MetricsRead: self._metrics_read,
            e.RequestStarted: self._request_started,
            e.FirstToken: self._first_token,
            e.RequestEnded: self._request_ended,
            e.Beat: self._beat,
        }
        """Events that a long log is made of: each of these does everything that there is to do."""
        self._also = self._drift.takers()
        """What takes one of the others in after that."""

    def add(self, record: Record | Unknown) -> None:
        """Takes the next line of the log in. A line that could not be read is counted."""
        if isinstance(record, Unknown):
            self._lines.unknown(record)
            return
        if not self._lines.record(record):
            return
        event = record.event
        kind = type(event)
        often = self._often.get(kind)
        if often is not None:
            often(record, event)
            return
        placed = self._placed.get(kind)
        if placed is not None:
            placed(record, event)
        else:
            self._plain[kind](event)
        if kind in self._also:
            self._also[kind](record, event)

    def _run_started(self, record: Record, event: e.RunStarted) -> None:
        if self._run.meta is None:
            self._run.planned_recalls = event.planned_recalls
            self._run.meta = Meta(
                program=event.program,
                run=event.run,
                scenario=event.scenario,
                scenario_text=event.scenario_text,
                scenario_sha256=event.scenario_sha256,
                seed=event.seed,
                nonce=event.nonce,
                host=event.host,
                limits=event.limits,
                sessions=event.sessions,
                at_once=event.at_once,
                started_wall_ms=record.wall_ms,
                predictions=event.predictions,
                predictions_sha256=event.predictions_sha256,
                wave_size=event.wave_size or event.at_once,
            )
            self._controls.planned = event.controls
            self._probes.planned, self._probes.abilities = event.probes, event.abilities
            self._replies.run = event.run
            self._quality.started(event)
            self._run.segment = self._replies.segment = event.segment
        elif event.segment > self._run.segment:
            self._run.segment = self._replies.segment = event.segment
            self._lines.segment_began()
            self._streams.restarted()
            self._sessions.segment_began()
            self.server.segment_began()
            self._itself.segment_began()
            self._deliveries.segment_began()
            self._quality.segment_began()
            self._controls.segment_began()
            self._probes.segment_began()
            self._gauges.segment_began()
            self._run.segment_began()

    def _regime_noted(self, event: e.RegimeNoted) -> None:
        self._run.regime = event.regime
        self._replies.max_model_len = event.regime.max_model_len
        self._replies.replies_stay = event.regime.replies_mode not in REPLIES_GO

    def _metrics_read(self, record: Record, event: e.MetricsRead) -> None:
        self._gauges.metrics(event)
        self._paces.read(event, self._controls.solo_pace)
        self._controls.read(event, len(self._streams.open))
        self.server.read(event, record.mono_us)
        self._drift.metrics(record, event)

    def _startup_read(self, event: StartupRead) -> None:
        self._run.startup = event

    def _gate_checked(self, event: e.GateChecked) -> None:
        key = (event.name, event.when)
        self._run.gates[key] = newest_gate(self._run.gates.get(key), event)

    def _tag_planted(self, event: e.TagPlanted) -> None:
        self._streams.planted(event.session)
        self._replies.planted(event)
        self._sessions.of(event.session).planted += not event.again

    def _stage_began(self, event: e.StageBegan) -> None:
        self._controls.began(event)
        self._replies.began(self._controls.solo, event.stage == "after")

    def _control_asked(self, event: e.ControlAsked) -> None:
        self._controls.asked(event, len(self._streams.open))

    def _request_started(self, record: Record, event: e.RequestStarted) -> None:
        self._controls.sent()
        self._streams.started(event, record.mono_us)
        self.server.sent(record.mono_us, len(self._streams.open))
        if event.kind == "turn":
            self._sessions.of(event.session).turn = event.turn
        self._drift.request_started(record, event)

    def _tag_asked(self, event: e.TagAsked) -> None:
        self._streams.asked(event)
        if event.kind == "recall":
            self._run.asked += 1
            if event.again_of is None:
                self._sessions.of(event.session).asked += 1

    def _first_token(self, record: Record, event: e.FirstToken) -> None:
        self._streams.first_token(event.req)
        if self._availability.first_token is None:
            self._availability.first_token = (record.part, record.seq)
        self._deliveries.server_spoke()
        session = self._sessions.of(event.session)
        session.ttft_ms = event.ttft_ms
        session.last_us = record.mono_us
        self._drift.first_token(record, event)

    def _request_ended(self, record: Record, event: e.RequestEnded) -> None:
        at: Ref = (record.part, record.seq)
        run, kind, outcome = self._run, event.kind, event.outcome
        opened = self._streams.ended(event.req)
        self.server.ended(event, record.mono_us, len(self._streams.open))
        key = (kind, outcome)
        run.outcomes[key] = run.outcomes.get(key, 0) + 1
        for name in event.anomalies:
            run.anomalies[name] = run.anomalies.get(name, 0) + 1
        run.generated_tokens += event.completion_tokens or event.ids_received or 0
        run.prompt_tokens += event.prompt_tokens or 0
        if event.cached_tokens is not None:
            run.cached_tokens = (run.cached_tokens or 0) + event.cached_tokens
        if self._itself.timed(event):
            self._gauges.ended(event)
        self._itself.ended(record, event)
        self._sessions.replied(event)
        if kind in DELIVERY_KINDS:
            cut_off = self._deliveries.ended(at, record.mono_us, event, self._replies.max_model_len)
            self._sessions.of(event.session).cut_off |= cut_off
        if outcome != "ok":
            self._availability.ended(at, event)
        self._controls.ended(at, event, self._replies.max_model_len)
        if kind == "turn":
            self.parts.prefixes.ended(at, event)
            self._paces.ended(event, self._sessions.of(event.session).wave)
        elif kind == "probe":
            self._probes.ended(record.mono_us, event, None if opened is None else opened.since_us)
        elif kind == "quality":
            self._quality.ended(at, event, opened, self._streams, self._replies.max_model_len)
        recall = self._replies.ended(at, event, opened, self._streams)
        if recall is not None:
            run.newest = recall
            run.answered += 1
            self._sessions.recalled(recall)
        elif kind == "recall" and outcome == "cancelled" and opened is not None and opened.ask is not None:
            run.asked -= 1
            self._sessions.of(event.session).asked -= opened.ask.again_of is None
        self._drift.request_ended(record, event)

    def _beat(self, record: Record, event: e.Beat) -> None:
        self._sessions.beat(event, record.mono_us)
        if self._itself.gaps_count(record, event):
            self._gauges.beat(event)

    def _instrument_read(self, event: e.InstrumentRead) -> None:
        self._gauges.instrument(event)
        self._itself.read(event)

    def _clock_jumped(self, record: Record, event: e.ClockJumped) -> None:
        open_ = self._streams.open.items()
        self._itself.jumped(record, event, ((req, one.first_at is not None) for req, one in open_))

    def _reconciled(self, record: Record, event: e.CountsReconciled) -> None:
        self._gauges.reconciled((record.part, record.seq), event)

    def _gpu_read(self, record: Record, event: e.GpuRead) -> None:
        self._gpus.read(record, event, len(self._streams.open), self._streams.in_flight_peak > 0)

    def _session_started(self, event: e.SessionStarted) -> None:
        if self._sessions.started(event):
            self._replies.given_up(event.session)

    def _noted(self, event: e.Noted) -> None:
        self._run.notes.append(event.text)

    def _server_lost(self, record: Record, event: e.ServerLost) -> None:
        if self._availability.lost((record.part, record.seq), event):
            for session in self._deliveries.server_lost(record.mono_us):
                self._sessions.of(session).cut_off = True

    def _stop_asked(self, event: e.StopAsked) -> None:
        self._run.stop_by = event.by
        self._run.duration_over = self._run.duration_over or event.by == "duration"

    def _lost_evidence(self, record: Record, event: e.EvidenceLost) -> None:
        at = (record.part, record.seq)
        self._run.evidence_lost.add(Finding(at=at, session=None, turn=None, req=None, what=event.detail))

    def _run_ended(self, event: e.RunEnded) -> None:
        self._run.ended = event.reason
        self._run.duration_over = self._run.duration_over or event.reason == "duration"

    @property
    def newest(self) -> tuple[Recall | None, Leak | None]:
        """The reply to a recall question and the leak that were found last."""
        return self._run.newest, next(reversed(self._replies.leaks.rows), None)

    def snapshot(self) -> RunState:
        """What the log says so far. The result does not change when the fold goes on."""
        lines, streams, sessions, replies = self._lines, self._streams, self._sessions, self._replies
        availability, gauges = self._availability, self._gauges
        quality = self._quality.seen()
        recalls, tails, absents, alone = replies.answers()
        inflated = worst((*self._paces.inflations(), *self._controls.inflations(self._paces.whole)))
        degenerate = replies.degeneration()
        withheld = withheld_speed(self._quality.withheld(quality), degenerate, inflated, self._quality.limits)
        rates = {} if withheld is not None else sessions.rates()
        return RunState(
            meta=self._run.meta,
            regime=self._run.regime,
            segments=self._run.segment + 1,
            resumes=tuple(self._run.resumes),
            events=lines.events,
            elapsed_ms=lines.elapsed_us / 1000.0,
            last_wall_ms=lines.last_wall_ms,
            planned=Planned(
                recalls=sessions.planned_recalls(self._run.planned_recalls, self._run.duration_over),
                tails=replies.issued_kinds["tail"],
                absents=replies.issued_kinds["absent"],
            ),
            sessions=sessions.states(streams.open, lines.last_us, rates),
            recalls=recalls,
            tails=tails,
            absents=absents,
            alone=alone,
            asked_unanswered=max(self._run.asked - self._run.answered, 0),
            outcomes=self._outcomes_by_kind(),
            outcomes_before=dict(self._run.outcomes_before),
            delivery=self._deliveries.delivery(),
            degenerate=degenerate,
            leaks=tuple(replies.leaks.rows),
            leak_counts=dict(replies.leak_counts),
            losses=availability.losses(),
            stalled=availability.stalled.findings(),
            refused=availability.refused.findings(),
            timed_out=availability.timed_out.findings(),
            first_token=availability.first_token,
            decoding=streams.decoding,
            decoding_peak=streams.decoding_peak,
            in_flight=len(streams.open),
            in_flight_peak=streams.in_flight_peak,
            running_peak=gauges.running_peak,
            depth_reached=sessions.depth_reached or None,
            generated_tokens=self._run.generated_tokens,
            prompt_tokens=self._run.prompt_tokens,
            cached_tokens=self._run.cached_tokens,
            tokens_per_s=sum(rates.values()) if rates else None,
            metrics_first=gauges.metrics_first,
            metrics_last=gauges.metrics_last,
            metrics_errors=gauges.metrics_errors,
            counts=gauges.counts,
            gpus=self._gpus.summary(
                self._run.generated_tokens, self._run.prompt_tokens, self._run.cached_tokens, lines.elapsed_us
            ),
            instrument=instrument_of(self.parts),
            stop_by=self._run.stop_by,
            ended=self._run.ended,
            notes=tuple(self._run.notes),
            server=self.server.seen(),
            startup=self._run.startup,
            gates=tuple(self._run.gates.values()),
            quality=quality,
            probes=self._probes.seen(),
            inflation=inflated,
            pace=self._paces.whole.seen(),
            controls=self._controls.seen(self._paces.whole),
            speed_withheld=withheld,
            drift=self._drift.seen(),
            prefix=self.parts.prefixes.seen(),
        )

    def _outcomes_by_kind(self) -> dict[RequestKind, dict[Outcome, int]]:
        nested: dict[RequestKind, dict[Outcome, int]] = {}
        for (kind, outcome), n in sorted(self._run.outcomes.items()):
            nested.setdefault(kind, {})[outcome] = n
        return nested
