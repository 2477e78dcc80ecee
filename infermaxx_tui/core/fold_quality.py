"""Quality tasks and the marks of their answers, of which only the facts stand in the log."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core import degeneration
from infermaxx_tui.core.events import QualityAsked, RequestEnded, RunStarted
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.fold_replies import clumped
from infermaxx_tui.core.fold_streams import Open, Streams
from infermaxx_tui.core.kept import Rows, Table
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.quality.gate import Asked, Phase, withheld
from infermaxx_tui.core.quality.outcome import QualityAnswer, grade


class Quality(msgspec.Struct):
    """All quality tasks of a run. Memory grows with the waves of conversations, not with their turns."""

    tasks: int = 0
    when: tuple[Phase, ...] = ()
    waves: int = 1
    beside: bool = True
    limits: Limits = msgspec.field(default_factory=Limits)
    answers: Rows[QualityAnswer] = msgspec.field(default_factory=Rows)
    _place: Table[tuple[str, int, str], int] = msgspec.field(default_factory=Table)
    _open: dict[int, QualityAsked] = {}
    _withheld: str | None = None
    _stale: bool = False
    """Whether an answer came since the withholding was decided last."""

    def started(self, event: RunStarted) -> None:
        """What is planned."""
        self.tasks, self.when = event.quality_tasks, event.quality_when
        self.waves = max(-(-event.sessions // max(event.wave_size or event.at_once, 1)), 1)
        self.beside = event.at_once > 1
        self.limits = event.limits

    def asked(self, event: QualityAsked) -> None:
        """A task went out."""
        self._open[event.req] = event

    def ended(
        self, at: Ref, event: RequestEnded, opened: Open | None, streams: Streams, max_model_len: int | None
    ) -> None:
        """A reply to a task, just now in `streams`; a task that was asked again is marked by the newest reply."""
        asked = self._open.pop(event.req, None)
        if asked is None:
            return
        overlapped = opened is not None and streams.overlapped(opened, clumped(event))
        graded = grade(asked, event, max_model_len)
        degenerate = event.degenerate or degeneration.find_reply((event.content, event.reasoning), event.anomalies)
        answer = QualityAnswer(
            at=at,
            req=event.req,
            session=event.session,
            turn=event.turn,
            phase=asked.phase,
            wave=asked.wave,
            task=asked.task,
            question=asked.question,
            expected=asked.expected,
            mark=graded.mark,
            reason=graded.reason,
            said=graded.said,
            depth_tokens=asked.depth_tokens,
            overlapped=overlapped,
            degenerate=degenerate,
            max_tokens=event.max_tokens,
        )
        key = (asked.phase, asked.wave, asked.task)
        place = self._place.by.get(key)
        if place is None:
            self._place.put(key, len(self.answers.rows))
            self.answers.append(answer)
        else:
            self.answers.replace(place, answer)
        self._stale = True

    def segment_began(self) -> None:
        """What was open is gone."""
        self._open.clear()

    def seen(self) -> Asked:
        """Everything so far."""
        return Asked(
            tasks=self.tasks,
            when=self.when,
            waves=self.waves,
            beside=self.beside,
            answers=tuple(self.answers.rows),
        )

    def withheld(self, asked: Asked) -> str | None:
        """Why the run's speed is not to be shown, by the run's own limits; None if it may be."""
        if self._stale:
            self._withheld, self._stale = withheld(asked, self.limits), False
        return self._withheld
