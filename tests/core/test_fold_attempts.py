"""A question that the server shed and that was sent again is one question."""

from __future__ import annotations

from infermaxx_tui.core import events as e
from infermaxx_tui.core.fold import Fold

LABEL, TAG = "copper kettle", "KX7Q-M4TR"


def _log(fold: Fold, *events: e.AnyEvent) -> None:
    for seq, event in enumerate(events):
        fold.add(e.Record(0, seq, 0, seq * 1000, event))


def _asked(req: int, again_of: int | None) -> e.TagAsked:
    return e.TagAsked(
        req=req,
        session=0,
        label=LABEL,
        tag=TAG,
        kind="recall",
        asked_at=1.0,
        planted_depth_tokens=100,
        depth_tokens=900,
        again_of=again_of,
    )


def _started(req: int) -> e.RequestStarted:
    return e.RequestStarted(req=req, session=0, turn=3, kind="recall", prompt_tokens=950, max_tokens=64)


def test_the_last_attempt_of_a_shed_question_counts_once() -> None:
    fold = Fold()
    _log(
        fold,
        e.TagIssued(kind="own", session=0, label=LABEL, tag=TAG),
        _started(1),
        _asked(1, None),
        e.RequestEnded(req=1, session=0, turn=3, kind="recall", outcome="shed", status=503, max_tokens=64),
        _started(2),
        _asked(2, 1),
        e.RequestEnded(
            req=2,
            session=0,
            turn=3,
            kind="recall",
            outcome="ok",
            finish_reason="stop",
            max_tokens=64,
            prompt_tokens=950,
            completion_tokens=12,
            content=f"The lot tag for the {LABEL} is {TAG}.",
            content_chars=48,
            reasoning="",
            tool_args="",
        ),
    )
    (recall,) = fold.snapshot().recalls
    assert (recall.req, recall.cls, recall.complete) == (2, "recalled", True)
    assert fold.snapshot().outcomes["recall"] == {"shed": 1, "ok": 1}
