"""All that a fold keeps, as one struct: what is put away and taken out again is this, and nothing else."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from infermaxx_tui.core.events import GateChecked, Outcome, RequestKind, Resumed, StartupRead
from infermaxx_tui.core.evidence import Recall
from infermaxx_tui.core.fold_availability import Availability
from infermaxx_tui.core.fold_controls import ControlsKept
from infermaxx_tui.core.fold_delivery import Deliveries, Tally
from infermaxx_tui.core.fold_drift import Drift
from infermaxx_tui.core.fold_gauges import Gauges
from infermaxx_tui.core.fold_gpu import Gpus
from infermaxx_tui.core.fold_inflation import Paces
from infermaxx_tui.core.fold_instrument import SelfReadings
from infermaxx_tui.core.fold_lines import Lines
from infermaxx_tui.core.fold_prefix import Prefixes
from infermaxx_tui.core.fold_probes import Probes
from infermaxx_tui.core.fold_quality import Quality
from infermaxx_tui.core.fold_replies import Replies
from infermaxx_tui.core.fold_server import ServerSide
from infermaxx_tui.core.fold_sessions import Sessions
from infermaxx_tui.core.fold_streams import Streams
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.state import Meta

NOTES_KEPT = 20
"""Remarks for people that are kept, the newest."""


def _notes() -> deque[str]:
    return deque(maxlen=NOTES_KEPT)


@dataclass(slots=True)
class RunFacts:
    """What is known of the run as a whole."""

    meta: Meta | None = None
    segment: int = 0
    planned_recalls: int = 0
    regime: Regime | None = None
    startup: StartupRead | None = None
    gates: dict[tuple[str, str], GateChecked] = field(default_factory=dict)
    asked: int = 0
    answered: int = 0
    outcomes: dict[tuple[RequestKind, Outcome], int] = field(default_factory=dict)
    outcomes_before: dict[Outcome, int] = field(default_factory=dict)
    """Those of the segments before the newest."""
    anomalies: dict[str, int] = field(default_factory=dict)
    generated_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    evidence_lost: Tally = field(default_factory=Tally)
    stop_by: str | None = None
    ended: str | None = None
    duration_over: bool = False
    notes: deque[str] = field(default_factory=_notes)
    newest: Recall | None = None
    resumes: list[Resumed] = field(default_factory=list)

    def segment_began(self) -> None:
        """The run goes on: how it had ended, what was never answered and what could not be written is a story now."""
        self.stop_by = self.ended = None
        self.duration_over = False
        self.asked = self.answered
        self.evidence_lost = Tally()
        self.outcomes_before = {}
        for (_, outcome), n in self.outcomes.items():
            self.outcomes_before[outcome] = self.outcomes_before.get(outcome, 0) + n


class FoldParts(msgspec.Struct):
    """Everything. Whoever adds to a fold adds here, as a msgspec struct of typed values."""

    lines: Lines = msgspec.field(default_factory=Lines)
    streams: Streams = msgspec.field(default_factory=Streams)
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    replies: Replies = msgspec.field(default_factory=Replies)
    deliveries: Deliveries = msgspec.field(default_factory=Deliveries)
    availability: Availability = msgspec.field(default_factory=Availability)
    gauges: Gauges = msgspec.field(default_factory=Gauges)
    itself: SelfReadings = msgspec.field(default_factory=SelfReadings)
    server: ServerSide = msgspec.field(default_factory=ServerSide)
    gpus: Gpus = msgspec.field(default_factory=Gpus)
    quality: Quality = msgspec.field(default_factory=Quality)
    drift: Drift = msgspec.field(default_factory=Drift)
    paces: Paces = msgspec.field(default_factory=Paces)
    prefixes: Prefixes = msgspec.field(default_factory=Prefixes)
    controls: ControlsKept = msgspec.field(default_factory=ControlsKept)
    probes: Probes = msgspec.field(default_factory=Probes)
    run: RunFacts = msgspec.field(default_factory=RunFacts)
