"""The quality tasks of one run: which conversation asks which, and what must be asked again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from infermaxx_tui.core.events import QualityAsked
from infermaxx_tui.core.events_quality import QualityPhase
from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.quality.answer import final_answer, is_right
from infermaxx_tui.core.quality.gate import BETWEEN
from infermaxx_tui.core.quality.task import Task
from infermaxx_tui.core.quality.tasks import tasks
from infermaxx_tui.core.scenario import Quality
from infermaxx_tui.runner.exchange import Exchange
from infermaxx_tui.runner.keep import Kept

Announced = Callable[[int], QualityAsked]
"""Makes the event of a request's number."""
WRONG_KEPT: Final = 24
"""Wrong answers of a run whose prompts are kept; more of them need no second look."""


class Wrong(msgspec.Struct, frozen=True):
    """A task that was answered wrongly under load, and its prompt."""

    task: Task
    wave: int
    depth_tokens: int
    kept: Kept


class QualityTasks:
    """The set, the same in each phase, so that each task is compared with itself."""

    def __init__(self, wanted: Quality, seed: int) -> None:
        self.tasks = tasks(seed, wanted.tasks)
        self.when = wanted.when if wanted.tasks else ()
        self.max_tokens = wanted.max_tokens
        self.wrong: list[Wrong] = []

    def share(self, plan: ConversationPlan, wave_size: int) -> tuple[Task, ...]:
        """The tasks of one conversation: those of a wave ask the whole set together."""
        return self.tasks[plan.place :: wave_size] if self._asks_during(plan) else ()

    def _asks_during(self, plan: ConversationPlan) -> bool:
        return "during" in self.when and not plan.solo and plan.parent is None

    def announcing(
        self, task: Task, phase: QualityPhase, depth_tokens: int, session: int, wave: int = BETWEEN
    ) -> Announced:
        """What makes the event of a request's number."""

        def announced(req: int) -> QualityAsked:
            return QualityAsked(
                req=req,
                session=session,
                phase=phase,
                wave=wave,
                task=task.task,
                question=task.question,
                form=task.form,
                expected=task.expected,
                tolerance=task.tolerance,
                units=task.units,
                depth_tokens=depth_tokens,
            )

        return announced

    def answered(self, task: Task, exchange: Exchange, wave: int, depth_tokens: int, kept: Kept) -> None:
        """A reply under load: one that is wrong is kept to be asked again, if there is room."""
        ended = exchange.ended
        whole = ended.outcome == "ok" and ended.finish_reason not in (None, "length")
        answer = final_answer(exchange.text, task.form) if whole else None
        if answer is None or is_right(answer, task.form, task.expected, task.tolerance, task.units, task.question):
            return
        if len(self.wrong) < WRONG_KEPT:
            self.wrong.append(Wrong(task, wave, depth_tokens, kept))
