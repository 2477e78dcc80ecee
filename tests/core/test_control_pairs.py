"""A run beside its serial arm, and a speed beside its control: what the two say together, and when they say nothing."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from controltools import paced_turn

from infermaxx_tui.core import events as e
from infermaxx_tui.core.comparison import comparison_json, difference
from infermaxx_tui.core.histories import Ask, Reply, Shape, history, honest, state_of
from infermaxx_tui.core.inflation import Pace, PaceSeen
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.pairs import concurrency_said, pairs_said, suspicions
from infermaxx_tui.core.panels.compare import comparison_lines
from infermaxx_tui.core.verdict import Verdict, judge_run, read_verdict, verdict_bytes

DEFAULT = Shape().regime


def leaks(ask: Ask) -> Reply:
    return Reply(content=f"It is {ask.foreign[0]}.") if ask.session == 1 and ask.foreign else honest(ask)


def deaf(ask: Ask) -> Reply:
    return Reply(content="The", finish_reason="length") if ask.kind == "recall" else honest(ask)


def loaded(answer: Callable[[Ask], Reply] = honest) -> Verdict:
    return judge_run(state_of(history(Shape(limits=Limits(min_recalls=6)), answer)))


def serial(answer: Callable[[Ask], Reply] = honest, **regime: object) -> Verdict:
    """Four conversations that take turns."""
    changed = msgspec.structs.replace(DEFAULT, concurrency_requested=1, **regime)
    events = history(Shape(at_once=1, limits=Limits(min_recalls=6), regime=changed), answer)
    start = events[0]
    assert isinstance(start, e.RunStarted)
    return judge_run(state_of([msgspec.structs.replace(start, wave_size=4), *events[1:]]))


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (loaded(leaks), serial(), "isolation fails with 4 at once and passes with one request at a time: it needs"),
        (loaded(leaks), serial(leaks), "isolation fails with 4 at once and with one request at a time: it needs no"),
        (loaded(leaks), serial(deaf), "the serial arm is no PASS (INCONCLUSIVE): whether it needs them is open"),
        (loaded(), serial(leaks), "isolation fails with one request at a time and does not with 4 at once"),
        (loaded(), serial(), "both pass, so there is no failure that concurrency would have to explain"),
        (loaded(deaf), serial(), "(INCONCLUSIVE, PASS): the pair shows nothing"),
        (loaded(leaks), serial(kv_cache_dtype="fp8"), "kv_cache_dtype differ too, so this pair does not say"),
    ],
    ids=["needs it", "needs none", "blind", "serial alone", "both pass", "loaded blind", "two levers"],
)
def test_a_pair_says_whether_concurrency_is_needed(left: Verdict, right: Verdict, said: str) -> None:
    for pair in ((left, right), (right, left)):
        (line,) = concurrency_said(*pair)
        assert said in line
        assert said in " ".join(" ".join(comparison_lines(pair, 100)).split())
        assert comparison_json(pair, pairs_said(pair))["together"] == [line]


def test_two_runs_of_which_none_or_both_took_turns_are_no_pair() -> None:
    assert concurrency_said(loaded(), loaded()) == ()
    assert concurrency_said(serial(), serial()) == ()
    assert "together" not in " ".join(comparison_lines((loaded(), loaded()), 100))


def test_one_conversation_alone_is_no_serial_arm() -> None:
    single = judge_run(state_of(history(Shape(sessions=1, at_once=1, limits=Limits(min_recalls=1)))))
    assert concurrency_said(loaded(), single) == ()


def test_taking_turns_is_one_lever_with_how_many_ran_at_once() -> None:
    found = difference(loaded(), serial())
    assert found.levers == ("concurrency_requested",)
    assert set(found.follows) == {"at_once", "interleaved"}
    assert not found.confounded


def paced(run: str, ms: float, distinct: float, accepted: float, withheld: str | None = None) -> Verdict:
    pace = Pace(drafts=100.0, draft_tokens=300.0, accepted_tokens=300.0 * accepted)
    for _ in range(10):
        pace.add(8000, 100, 100 * ms, distinct)
    kept: PaceSeen | None = None if withheld else pace.seen()
    return msgspec.structs.replace(loaded(), run=run, pace=kept, speed_withheld=withheld)


def test_a_run_that_is_too_fast_beside_its_control_is_flagged_and_its_speed_withheld() -> None:
    fast, control = paced("fast", 5.0, 0.4, 0.99), paced("control", 10.0, 0.95, 0.6)
    for pair in ((fast, control), (control, fast)):
        assert list(suspicions(pair)) == [pair.index(fast)]
        text = " ".join(" ".join(comparison_lines(pair, 100)).split())
        assert "fast is suspiciously fast: 2.00 times control at equal depth" in text
        assert "withheld" in text
    assert suspicions((paced("other", 9.0, 0.95, 0.6), control)) == {}
    assert suspicions((paced("fast", 5.0, 0.4, 0.99, "its gate failed"), control)) == {}


def test_the_sums_survive_the_file_and_say_the_same_there() -> None:
    pair = (paced("fast", 5.0, 0.4, 0.99), paced("control", 10.0, 0.95, 0.6))
    again = tuple(read_verdict(verdict_bytes(one)) for one in pair)
    assert suspicions(again) == suspicions(pair)


def babbling(before: bool) -> list[e.AnyEvent]:
    """A conversation alone, then a wave twice as fast, with all drafts accepted and few trigrams."""
    events: list[e.AnyEvent] = [*history()[:2]]
    drafts = 0.0
    stages: tuple[tuple[e.AnyEvent, int, bool], ...] = (
        (e.StageBegan(stage="solo_before", session=8), -1, False),
        (e.StageBegan(stage="waves"), 0, True),
    )
    for stage, wave, sick in stages if before else stages[1:]:
        events += [e.MetricsRead(drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=2.9 * drafts), stage]
        session = 8 if wave < 0 else 0
        events.append(e.SessionStarted(session=session, wave=wave, transcripts=("a",), planned_recalls=0))
        for turn in range(12):
            drafts += 20
            events.append(e.MetricsRead(drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=2.99 * drafts))
            events.append(paced_turn(100 * (wave + 2) + turn, session, turn, sick))
    return events


def test_the_conversation_alone_is_the_control_of_a_single_wave() -> None:
    state = state_of(babbling(before=True))
    assert state.inflation is not None
    assert state.inflation.suspicious
    assert "2.50 times one conversation alone before" in str(state.speed_withheld)
    verdict = judge_run(state)
    assert verdict.speed_withheld == state.inflation.said
    assert verdict.pace is None
    assert not [check.name for check in verdict.checks if check.outcome == "fail"]
    degeneration = next(check for check in verdict.checks if check.name == "degeneration")
    assert "suspiciously fast" in str(degeneration.advice)
    assert state_of(babbling(before=False)).inflation is None
