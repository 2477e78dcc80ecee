"""The made-up runs that mutations start from: healthy ones under the strictest limits, and sick ones made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from infermaxx_tui.core import events as e
from infermaxx_tui.core.controls import Controls
from infermaxx_tui.core.events_quality import QualityPhase
from infermaxx_tui.core.histories import Ask, Reply, Shape, history, honest, records
from infermaxx_tui.core.histories.control_sides import SHAPE, TAG, Side, cached, cold_pair, with_controls
from infermaxx_tui.core.histories.edits import Lines, both, inserted, limits, reply, said
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.mutations import Base
from infermaxx_tui.core.quality.tasks import tasks

STRICT: Final = Limits(
    min_recalls=24,
    max_excluded=0.0,
    max_delivery_share=0.001,
    max_degenerate_share=0.001,
    max_degenerate_recalls=0,
    min_overlap=1.0,
    min_tail_recalled=1.0,
    max_ttft_p99_ms=100.0,
    max_gap_p99_ms=100.0,
)
"""Under these one event is enough."""
_DRIFT: Final = Limits(
    max_drift_share_per_hour=1.0,
    max_ttft_drift_share_per_hour=1.0,
    min_drift_hours=0.001,
)
_GATE: Final = e.GateChecked(name="idle", when="before", outcome="pass", required=True, said="nobody else was there")
BABBLE: Final = "It is fine" + " of" * 300


def strict(lines: Lines, **fields: object) -> Lines:
    """The log under the strictest limits, with some of them as given."""
    return limits(**{**msgspec.structs.asdict(STRICT), **fields})(lines)


def healthy() -> Lines:
    """Nothing is wrong, times are demanded and a gate is asked for."""
    return inserted(_GATE, before=e.SessionStarted)(tuple(records(history(Shape(limits=STRICT)))))


def tasks_asked() -> Lines:
    """The same with tasks that have one right answer, before, during and after, none of which may be left out."""
    events = list(history(Shape(limits=msgspec.structs.replace(STRICT, max_quality_excluded=0.0))))
    first = events[0]
    if isinstance(first, e.RunStarted):
        events[0] = msgspec.structs.replace(
            first, quality_tasks=len(_TASKS), quality_when=("before", "during", "after")
        )
    start = next(n for n, event in enumerate(events) if isinstance(event, e.SessionStarted))
    end = next(n for n, event in enumerate(events) if isinstance(event, e.SessionEnded))
    rest = next(n for n, event in enumerate(events) if isinstance(event, e.CountsReconciled))
    return tuple(
        records(
            [
                *events[:start],
                *_phase("before", 100_000, 1),
                *events[start:end],
                *_phase("during", 200_000, 4),
                *events[end:rest],
                *_phase("after", 300_000, 1),
                *events[rest:],
            ]
        )
    )


def demanding() -> Lines:
    """The same with a demand that one wrong answer misses, but perhaps by chance."""
    return limits(min_quality=0.97)(tasks_asked())


_TASKS: Final = tasks(11)


def _phase(phase: QualityPhase, numbers_from: int, at_once: int) -> Iterable[e.AnyEvent]:
    """All tasks of a phase, answered rightly, so many at once."""
    for first in range(0, len(_TASKS), at_once):
        group = list(enumerate(_TASKS[first : first + at_once], first))
        for place, task in group:
            req, session = numbers_from + place, place % at_once if phase == "during" else -1
            yield e.RequestStarted(req=req, session=session, turn=0, kind="quality", prompt_tokens=100, max_tokens=2048)
            yield e.QualityAsked(
                req=req,
                session=session,
                phase=phase,
                wave=0 if phase == "during" else -1,
                task=task.task,
                question=task.question,
                form=task.form,
                expected=task.expected,
                tolerance=task.tolerance,
                units=task.units,
                depth_tokens=100,
            )
            yield e.FirstToken(req=req, session=session, ttft_ms=5.0)
        for place, task in group:
            yield _answered(numbers_from + place, place % at_once if phase == "during" else -1, task.expected)


def _answered(req: int, session: int, expected: str) -> e.RequestEnded:
    content = f"Let me see.\nAnswer: {expected}"
    return e.RequestEnded(
        req=req,
        session=session,
        turn=0,
        kind="quality",
        outcome="ok",
        finish_reason="stop",
        max_tokens=2048,
        prompt_tokens=100,
        completion_tokens=20,
        content=content,
        content_chars=len(content),
    )


def soak() -> Lines:
    """Four waves, the first of which is warm-up, on a server that stays as it is, with margins on times."""
    return tuple(records(history(Shape(sessions=16, limits=_DRIFT))))


def watched() -> Lines:
    """The same with a margin on this program's own memory alone."""
    return limits(**{**msgspec.structs.asdict(Limits()), "max_client_rss_mib_per_hour": 1.0, "min_drift_hours": 0.001})(
        soak()
    )


def listed() -> Lines:
    """One miss that alone is recalled, and under load in the only one of three answers that is whole."""
    loaded = iter(range(3))

    def answer(ask: Ask) -> Reply:
        if ask.kind == "recall" and ask.number == 7:
            return Reply(content="I do not remember that one.")
        if ask.kind == "reask_load" and next(loaded) > 0:
            return Reply(content="The", finish_reason="length", completion_tokens=200)
        return honest(ask)

    demanded = msgspec.structs.replace(STRICT, max_excluded=0.05)
    return tuple(records(history(Shape(limits=demanded), answer)))


def serial() -> Lines:
    """One conversation after another: the first one's questions are asked before anybody else has a tag."""
    return tuple(records(history(Shape(at_once=1, limits=Limits(min_recalls=18)))))


def controlled() -> Lines:
    """Controls that were all played and proved, one of which found a lead; a lead fails nobody."""
    said = f"The lot tag for the paper lantern is {TAG}."
    sides = [
        *cold_pair(),
        cached(text="It is the loader that runs twice.", ids="b"),
        Side(arm="shared", text=said, tag=TAG, cached=960),
        Side(arm="salted", text=said, tag=TAG),
    ]
    after = [Side(arm="after", pair=pair) for pair in range(2)]
    planned = Controls(repeat=1, cache=1, salt=1, after=2)
    return tuple(records(with_controls(history(SHAPE), sides, planned, after)))


def single() -> Lines:
    """One conversation with one question of each kind."""
    demanded = Limits(min_recalls=0, max_excluded=1.0, max_ttft_p99_ms=100.0)
    return tuple(records(history(Shape(sessions=1, at_once=1, tags=1, limits=demanded))))


def _forgotten(lines: Lines) -> Lines:
    return reply("recall", 5, lambda it: said("I do not remember that one."))(lines)


def leak() -> Lines:
    """One reply holds another session's tag."""
    return reply("recall", 5, lambda it: said(f"It is {it.known.foreign(it.ended.session)}."))(healthy())


def forgets() -> Lines:
    """One tag is gone."""
    return _forgotten(healthy())


def cut() -> Lines:
    """One stream ends in the middle."""
    return reply("turn", 5, lambda it: {"outcome": "truncated", "finish_reason": None})(healthy())


def lost() -> Lines:
    """The server's process is dead at the end."""
    return inserted(e.ServerLost(how="pid_dead", session=None, req=None, detail="exit code 1"))(healthy())


def babbles() -> Lines:
    """One reply goes round in a circle."""
    return reply("recall", 5, lambda it: said(BABBLE))(healthy())


def capped() -> Lines:
    """One reply had no room for its tag."""
    return both(reply("recall", 5, lambda it: {**said("The lot tag"), "finish_reason": "length"}))(healthy())


BASES: Final[dict[Base, Callable[[], Lines]]] = {
    "healthy": healthy,
    "tasks": tasks_asked,
    "demanding": demanding,
    "soak": soak,
    "watched": watched,
    "listed": listed,
    "serial": serial,
    "controlled": controlled,
    "single": single,
    "leak": leak,
    "forgets": forgets,
    "cut": cut,
    "lost": lost,
    "babbles": babbles,
    "capped": capped,
}
"""By name, each made anew."""

SICK: Final[dict[Base, str]] = {
    "leak": "isolation",
    "forgets": "recall",
    "cut": "delivery",
    "lost": "availability",
    "babbles": "degeneration",
}
"""The check that fails in each that fails."""
