"""What all tasks of one run share: the scenario, the recorder, the open streams, and the wish to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

import anyio
import httpx
import msgspec
from anyio import to_thread

from infermaxx_tui.core.blocks import Stretch
from infermaxx_tui.core.canary import RegistryBuilder
from infermaxx_tui.core.events import Calibrated, GateChecked, RequestEnded, StartupRead
from infermaxx_tui.core.plan import Plan
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.scenario import Scenario
from infermaxx_tui.core.segments import TokenisedTranscript
from infermaxx_tui.core.standing import Standing
from infermaxx_tui.core.transcript import Session
from infermaxx_tui.runner import dispatch
from infermaxx_tui.runner.board import Board
from infermaxx_tui.runner.continued import Continued
from infermaxx_tui.runner.keep import Keep
from infermaxx_tui.runner.quality_tasks import QualityTasks
from infermaxx_tui.runner.recorder import Recorder

T = TypeVar("T")

StopReason = Literal["sigint", "sigterm", "sighup", "duration", "server_lost", "evidence_lost", "internal", "gate"]

_URGENCY: Final[dict[StopReason, int]] = {
    "duration": 0,
    "server_lost": 1,
    "gate": 1,
    "sigint": 2,
    "sigterm": 2,
    "sighup": 2,
    "evidence_lost": 3,
    "internal": 3,
}
_SIGNALS: Final[frozenset[StopReason]] = frozenset({"sigint", "sigterm", "sighup"})


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
    startup: StartupRead | None = None
    """What the server's start-up log says."""
    selftest: GateChecked | None = None
    """What the newest selftest on this host came to."""
    calibrated: Calibrated | None = None
    """What is known of this host's own errors."""
    remarks: tuple[str, ...] = ()
    """What the way of playing hides or costs, for the log."""
    traces: tuple[tuple[Stretch, ...], ...] = ()
    """Of each transcript the text of each window, where transcripts are traces without text; else empty."""
    continued: Continued | None = None
    """What the segments before were, if the run is taken up again; the plan is then what is left of it."""
    end_tokens: int = 0
    """Tokens of the template's end of turn, which recorded replies have and their recorded lengths do not count."""


class Stopper:
    """Whether the run was asked to end, and by what; a more urgent wish takes the place of another."""

    def __init__(self) -> None:
        self.by: StopReason | None = None
        self.event = anyio.Event()
        self._signalled = False

    def ask(self, by: StopReason) -> bool:
        """False if the wish changes nothing; for a signal False means that it is not the first one."""
        new = self.by is None or _URGENCY[by] > _URGENCY[self.by]
        if new:
            self.by = by
            self.event.set()
        if by in _SIGNALS:
            new, self._signalled = not self._signalled, True
        return new

    @property
    def hard(self) -> bool:
        """The run is to be over soon: nothing that only the end of a whole run needs is done any more."""
        return self.by is not None and self.by != "duration"


class RenderingCut(Exception):
    """The run was cut while a prompt was being rendered."""


class RunContext:
    """The shared state of one run."""

    def __init__(
        self,
        prepared: Prepared,
        client: httpx.AsyncClient,
        recorder: Recorder,
        stopper: Stopper,
        standing: Callable[[], Standing] = lambda: Standing(None),
    ) -> None:
        self.prepared = prepared
        self.client = client
        self.recorder = recorder
        self.stopper = stopper
        self.board = Board()
        self.registry = RegistryBuilder()
        self.keep = Keep()
        self.quality = QualityTasks(prepared.scenario.quality, prepared.seed)
        self.tokens_seen = False
        self.closing = False
        """Open requests were cut, and none may be opened."""
        self.was_well = False
        """/health has said that all is well; before that it means nothing that it says anything else."""
        self.doubt: RequestEnded | None = None
        """The newest request that broke as it does when a server goes away, while nobody knows whether it did."""
        self.doubt_us = 0
        """When it broke."""
        self.faults: list[Exception] = []
        """What went wrong in this program itself."""
        self._next_req = 0 if prepared.continued is None else prepared.continued.last_req
        self._next_salt = 0
        self._standing = standing
        self._rendering: set[anyio.CancelScope] = set()
        self._renderers = anyio.CapacityLimiter(1)

    @property
    def scenario(self) -> Scenario:
        """The scenario as run."""
        return self.prepared.scenario

    def new_req(self) -> int:
        """The number of the next request."""
        self._next_req += 1
        return self._next_req

    def new_salt(self) -> int:
        """A number that no salt of this run had before."""
        self._next_salt += 1
        return self._next_salt

    def cut(self, for_good: bool = True) -> None:
        """Cancels every open request; `for_good`: none may be opened after that, and nothing rendered."""
        self.closing = self.closing or for_good
        for stream in self.board.streams.values():
            stream.scope.cancel()
        if for_good:
            for scope in self._rendering:
                scope.cancel()

    async def render(self, work: Callable[..., T], *args: object) -> T:
        """What `work(*args)` gives, done beside the loop: rendering takes long, or asks the server and waits for it.

        One at a time, since tokenizers are not made for several threads. Raises RenderingCut when the run is cut.
        """
        if self.recorder.clock.jumps:
            return work(*args)
        asked_us = self.recorder.clock.mono_us()
        with anyio.CancelScope() as scope:
            self._rendering.add(scope)
            try:
                if not self.closing:
                    return await to_thread.run_sync(work, *args, abandon_on_cancel=True, limiter=self._renderers)
            finally:
                self._rendering.discard(scope)
                dispatch.rendered(self.recorder.clock.mono_us() - asked_us)
        raise RenderingCut

    async def standing(self) -> Standing:
        """Where the server's processes are now; looking for them takes a while, so it is done beside the loop."""
        if self.recorder.clock.jumps:
            return self._standing()
        return await to_thread.run_sync(self._standing, abandon_on_cancel=True)

    def lose_evidence(self) -> None:
        """The log takes no more: nothing is sent from now on."""
        self.stopper.ask("evidence_lost")
        self.cut()

    async def stopped_within(self, seconds: float) -> bool:
        """Waits, but not past a wish to stop; whether there is one."""
        until_us = self.recorder.clock.mono_us() + round(seconds * 1e6)
        with anyio.move_on_after(seconds):
            await self.stopper.event.wait()
        dispatch.wanted(until_us, "pause")
        return self.stopper.by is not None

    async def guard(self, task: Callable[[], Awaitable[None]]) -> None:
        """Runs a task of the run. A fault of this program in it ends the run in order, and no other task at once."""
        try:
            await task()
        except RenderingCut:
            return  # the run is being cut, and this was part of it
        except Exception as fault:  # the border of a task: whatever it was is logged, kept and raised when all is over
            self.faults.append(fault)
            self.stopper.ask("internal")
