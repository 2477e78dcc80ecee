"""What all tasks of one run share: the scenario, the recorder, the open streams, and the wish to stop."""

from __future__ import annotations

from typing import Literal

import anyio
import httpx
import msgspec

from infermaxx_tui.core.canary import RegistryBuilder
from infermaxx_tui.core.events import StopAsked
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.runner.board import Board
from infermaxx_tui.runner.lines import Prompt
from infermaxx_tui.runner.recorder import Recorder

StopReason = Literal["sigint", "sigterm", "sighup", "duration", "server_lost", "evidence_lost", "internal"]


class Prepared(msgspec.Struct, frozen=True):
    """Everything that is fixed before the first request."""

    scenario: Scenario
    scenario_text: str
    plan: Plan
    transcripts: tuple[Session, ...]
    tokenised: tuple[TokenisedTranscript, ...]
    renderer: Renderer | None
    regime: Regime
    seed: int
    nonce: str
    model: str
    stale: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Tags of earlier runs, by run."""
    earlier: tuple[tuple[str, str], ...] = ()
    """Labels and tags of an earlier run's conversation that is sent before this one starts."""


class Stopper:
    """Whether the run was asked to end, and by what; the first wish counts."""

    def __init__(self) -> None:
        self.by: StopReason | None = None
        self.event = anyio.Event()

    def ask(self, by: StopReason) -> bool:
        """True if this was the first wish."""
        if self.by is not None:
            return False
        self.by = by
        self.event.set()
        return True


class Kept(msgspec.Struct, frozen=True):
    """A recall prompt that may have to be asked again."""

    prompt: Prompt
    session: int
    turn: int


class RunContext:
    """The shared state of one run."""

    def __init__(self, prepared: Prepared, client: httpx.AsyncClient, recorder: Recorder, stopper: Stopper) -> None:
        self.prepared = prepared
        self.client = client
        self.recorder = recorder
        self.stopper = stopper
        self.board = Board()
        self.registry = RegistryBuilder()
        self.kept: dict[int, Kept] = {}
        """Recall prompts whose reply lacked the tag, by request."""
        self.load: dict[int, Kept] = {}
        """The latest deep prompt of each conversation: load for asking a miss again."""
        self.tokens_seen = False
        self.closing = False
        """Open requests were cut, and none may be opened."""
        self._next_req = 0

    @property
    def scenario(self) -> Scenario:
        """The scenario as run."""
        return self.prepared.scenario

    def new_req(self) -> int:
        """The number of the next request."""
        self._next_req += 1
        return self._next_req

    def stop(self, by: StopReason) -> None:
        """Asks the run to end and logs the wish."""
        if self.stopper.ask(by):
            self.recorder.emit(StopAsked(by=by))
