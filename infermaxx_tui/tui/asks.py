"""What a screen may ask of the thread that reads the log, and what it gets back."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.stories import SessionStory
from infermaxx_tui.core.timeline import TimelineView
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.index import Moment, SeekTarget


class Step(msgspec.Struct, frozen=True):
    """So many columns of the axis on, or back."""

    columns: int


class Skip(msgspec.Struct, frozen=True):
    """So many seconds on, or back."""

    seconds: float


class Find(msgspec.Struct, frozen=True):
    """To the next thing of that sort, or the one before."""

    target: SeekTarget
    backwards: bool


class GoTo(msgspec.Struct, frozen=True):
    """To the time of an event."""

    ref: Ref


class Start(msgspec.Struct, frozen=True):
    """To the start of the run."""


class Follow(msgspec.Struct, frozen=True):
    """To the end, also while it moves on."""


class Play(msgspec.Struct, frozen=True):
    """Play, or pause."""


class Faster(msgspec.Struct, frozen=True):
    """So many speeds up, or down."""

    steps: int


class Longer(msgspec.Struct, frozen=True):
    """So many windows longer, or shorter."""

    steps: int


class Columns(msgspec.Struct, frozen=True):
    """How many columns the axis has room for."""

    columns: int


class Tell(msgspec.Struct, frozen=True):
    """The story of this conversation, until another is asked for; None: of none."""

    session: int | None


Ask = Step | Skip | Find | GoTo | Start | Follow | Play | Faster | Longer | Columns | Tell


class Loading(msgspec.Struct, frozen=True):
    """The log is being read."""

    done: int
    total: int


class Broken(msgspec.Struct, frozen=True):
    """The log cannot be shown: one line that says what it is."""

    text: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The run at one moment, and how it is looked at."""

    moment: Moment
    timeline: TimelineView
    end_us: int
    live: bool
    """Whether a runner is writing the log."""
    following: bool
    playing: bool
    speed: int
    window_us: int
    verdict: Verdict | None
    final: bool
    """Whether the verdict is the run's own, as it was written at its end."""
    story: SessionStory | None
    said: str
    """The answer to the newest question, if it needs words."""
    what: str
    """What sort of log it is, where that is worth saying."""


Told = Loading | Broken | Snapshot
