"""A proxy that holds streams back, and bytes that the wire damaged, must not be taken for faults of the server."""

from __future__ import annotations

import pytest

from infermaxx_tui.core import events as e
from infermaxx_tui.core.canary import find_known
from infermaxx_tui.core.degeneration import find_reply
from infermaxx_tui.core.fold import Fold

TAGS = ("KX7Q-M4TR", "94XH-UT7V")


def _ask(req: int, session: int, seq: int) -> list[e.AnyEvent]:
    label = ("copper kettle", "basalt door")[session]
    return [
        e.RequestStarted(req=req, session=session, turn=3, kind="recall", prompt_tokens=950, max_tokens=64),
        e.TagAsked(
            req=req,
            session=session,
            label=label,
            tag=TAGS[session],
            kind="recall",
            asked_at=1.0,
            planted_depth_tokens=100,
            depth_tokens=900,
        ),
    ]


def _answer(req: int, session: int, decode_ms: float) -> list[e.AnyEvent]:
    text = f"It is {TAGS[session]}."
    return [
        e.FirstToken(req=req, session=session, ttft_ms=50.0),
        e.RequestEnded(
            req=req,
            session=session,
            turn=3,
            kind="recall",
            outcome="ok",
            finish_reason="stop",
            max_tokens=64,
            prompt_tokens=950,
            completion_tokens=12,
            decode_ms=decode_ms,
            content=text,
            content_chars=len(text),
            reasoning="",
            tool_args="",
        ),
    ]


@pytest.mark.parametrize(("decode_ms", "beside"), [(0.0, True), (40.0, False)])
def test_a_clump_counts_as_beside_a_request_that_was_open_with_it(decode_ms: float, beside: bool) -> None:
    fold = Fold()
    issued: list[e.AnyEvent] = [
        e.TagIssued(kind="own", session=s, label=("copper kettle", "basalt door")[s], tag=TAGS[s]) for s in (0, 1)
    ]
    events = [*issued, *_ask(1, 0, 0), *_ask(2, 1, 0), *_answer(1, 0, decode_ms), *_answer(2, 1, decode_ms)]
    for seq, event in enumerate(events):
        fold.add(e.Record(0, seq, 0, seq * 1000, event))
    assert [recall.overlapped for recall in fold.snapshot().recalls] == [beside, beside]


def test_a_clump_alone_is_alone() -> None:
    fold = Fold()
    first = e.TagIssued(kind="own", session=0, label="copper kettle", tag=TAGS[0])
    for seq, event in enumerate([first, *_ask(1, 0, 0), *_answer(1, 0, 0.0), *_ask(2, 0, 0), *_answer(2, 0, 0.0)]):
        fold.add(e.Record(0, seq, 0, seq * 1000, event))
    assert [recall.overlapped for recall in fold.snapshot().recalls] == [False, False]


def test_damaged_bytes_are_no_babble_and_hide_no_tag() -> None:
    text = "The\ufffd lot\ufffd tag\ufffd is\ufffd T9U\ufffdJ-AY7D\ufffd. So\ufffd be\ufffd it\ufffd."
    assert find_reply((text,), ("bad_utf8",)) is None
    assert find_reply((text,), ()) is not None
    assert find_known(text, ("T9UJ-AY7D",)) == ("T9UJ-AY7D",)
