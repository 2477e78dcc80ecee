"""Controls in whole runs: what is sent when, in which state of the cache, and what sick servers come to."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from runnertools import Call, Played, Setting, play_small

from infermaxx_tui.core.arms import separated
from infermaxx_tui.core.events import (
    ControlAnswered,
    ControlAsked,
    RequestEnded,
    RequestStarted,
    RunStarted,
    SessionEnded,
    StageBegan,
    TagIssued,
)
from infermaxx_tui.core.judges.control_base import ControlFinding

SERIAL = ('sessions.control="serial"', "sessions.count=3")
ALL = ("controls.repeat=2", "controls.cache=2", "controls.salt=2", "controls.solo=true", "controls.after=3")


@pytest.fixture(scope="module")
def serial() -> Played:
    return play_small(Setting(overrides=SERIAL))


@pytest.fixture(scope="module")
def controlled() -> Played:
    return play_small(Setting(overrides=ALL))


def findings(played: Played) -> dict[str, ControlFinding]:
    return {one.control: one for one in played.verdict.controls}


def failed(played: Played) -> set[str]:
    return {check.name for check in played.verdict.checks if check.outcome == "fail"}


def sent(played: Played, arm: str) -> list[Call]:
    calls = played.by_req()
    return [calls[event.req] for event in played.of(ControlAsked) if event.arm == arm]


def never_more_than_one_is_open(played: Played) -> bool:
    """By the log, whose order is that of what happened."""
    open_: set[int] = set()
    for record in played.records:
        match record.event:
            case RequestStarted(req=req):
                open_.add(req)
            case RequestEnded(req=req):
                open_.discard(req)
            case _:
                pass
        if len(open_) > 1:
            return False
    return True


# The serial control


def test_one_request_at_a_time_over_the_whole_run(serial: Played) -> None:
    assert never_more_than_one_is_open(serial)
    spans = [(c.at_s, c.at_s + serial.ended[req].total_ms / 1000) for req, c in sorted(serial.by_req().items())]
    assert all(end <= begin + 1e-6 for (_, end), (begin, _) in itertools.pairwise(spans))
    started = serial.of(RunStarted)[0]
    assert (started.at_once, started.wave_size) == (1, 3)
    regime = serial.verdict.regime
    assert (regime.concurrency_requested, regime.at_once, regime.interleaved) == (1, 1, 3)
    assert regime.concurrency_admitted_peak == 1


def test_the_conversations_take_turns(serial: Played) -> None:
    """While all of them have something to send each sends once before any sends twice."""
    order = [event.session for event in serial.of(RequestStarted)]
    ends = {event.session: n for n, event in enumerate(serial.of(SessionEnded))}
    assert set(ends) == {0, 1, 2}
    first_over = min(max(n for n, session in enumerate(order) if session == one) for one in ends)
    together = order[: first_over + 1]
    assert len(together) > 15
    assert all(len(set(together[n : n + 3])) == 3 for n in range(len(together) - 3))
    counts = Counter(together)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_isolation_can_be_judged_and_overlap_is_not_asked_for(serial: Played) -> None:
    checks = {check.name: check for check in serial.verdict.checks}
    assert serial.verdict.verdict == "PASS"
    assert checks["isolation"].outcome == "pass"
    assert checks["isolation"].required
    assert not checks["vacuity"].required
    assert "3 open together and taking turns, one request at a time" in serial.verdict.scope
    assert any("3 conversations in turns" in line for line in separated(serial.verdict))


@pytest.mark.parametrize(
    ("fault", "normal", "one_at_a_time"),
    [
        ("leak-parallel", ("FAIL", {"isolation"}), ("PASS", set())),
        ("leak", ("FAIL", {"isolation"}), ("FAIL", {"isolation"})),
        ("refuse", ("INCONCLUSIVE", set()), ("INCONCLUSIVE", set())),
    ],
)
def test_the_serial_arm_leaves_out_concurrency_alone(
    fault: str, normal: tuple[str, set[str]], one_at_a_time: tuple[str, set[str]]
) -> None:
    for overrides, wanted in ((SERIAL[1:], normal), (SERIAL, one_at_a_time)):
        played = play_small(Setting(overrides=overrides, faults=(fault,)))
        assert (played.verdict.verdict, failed(played)) == wanted, (overrides, played.verdict.checks)
        if overrides == SERIAL:
            assert never_more_than_one_is_open(played)


def test_a_miss_is_asked_again_with_one_request_at_a_time_too() -> None:
    """The cache is the only thing that differs there, and the cause says so."""
    played = play_small(Setting(overrides=SERIAL, faults=("cache-rot",)))
    recall = next(check for check in played.verdict.checks if check.name == "recall")
    assert (recall.outcome, recall.cause) == ("fail", "unsalted")
    assert never_more_than_one_is_open(played)
    assert any("takes the prefix cache" in line for line in separated(played.verdict))


@pytest.mark.parametrize(("by", "reason"), [("duration", "duration"), ("sigterm", "stopped")])
def test_whoever_waits_for_its_turn_hears_a_wish_to_stop(by: str, reason: str) -> None:
    wish = (0.4, "duration") if by == "duration" else (0.4, "sigterm")
    played = play_small(Setting(overrides=SERIAL, stop=(wish,)))  # type: ignore[arg-type]  # mypy joins the two to str
    assert {event.reason for event in played.of(SessionEnded)} == {reason}
    after = [event for event in played.of(RequestEnded) if event.kind == "turn"]
    assert len(after) < 20
    assert played.over_s < 4.0
    assert played.fault is None


def test_a_conversation_that_fails_holds_up_nobody() -> None:
    played = play_small(Setting(overrides=(*SERIAL, "limits.stall_s=1.0"), faults=("hang",)))
    assert played.outcome("availability") == "fail"
    assert len(played.of(SessionEnded)) == 3


def test_rounds_and_chat_take_turns_as_well() -> None:
    played = play_small(Setting(overrides=(*SERIAL, "sessions.rounds=2", 'sessions.prompt="chat"')))
    assert never_more_than_one_is_open(played)
    assert len(played.of(SessionEnded)) == 6
    assert played.verdict.verdict == "PASS"


# The controls before, after, and when all is over


def test_a_healthy_server_is_the_same_in_each_control(controlled: Played) -> None:
    assert controlled.verdict.verdict == "PASS"
    outcomes = {name: one.outcome for name, one in findings(controlled).items()}
    assert outcomes == {"repeat": "same", "cache": "same", "salt": "same", "solo": "healthy", "after": "healthy"}
    assert findings(controlled)["repeat"].method == "all token ids"


def test_they_run_with_nothing_beside_and_in_their_order(controlled: Played) -> None:
    stages = [event.stage for event in controlled.of(StageBegan)]
    assert stages == ["controls", "solo_before", "waves", "solo_after", "controls", "after"]
    open_: set[int] = set()
    stage = None
    for record in controlled.records:
        match record.event:
            case StageBegan(stage=begun):
                stage = begun
            case RequestStarted(req=req):
                open_.add(req)
                assert stage == "waves" or open_ == {req}
            case RequestEnded(req=req):
                open_.discard(req)
            case _:
                pass


def test_the_same_prompt_goes_out_uncached_twice_and_then_cached(controlled: Played) -> None:
    told = {event.req: event for event in controlled.of(ControlAnswered)}
    asked = {(event.arm, event.pair): event.req for event in controlled.of(ControlAsked)}
    calls = controlled.by_req()
    for pair in range(2):
        cold, again, cached = (asked[arm, pair] for arm in ("cold", "cold_again", "cached"))
        assert calls[cold].ids == calls[again].ids == calls[cached].ids
        assert len(calls[cold].ids) > 0.8 * 900
        salts = [calls[req].sent.cache_salt for req in (cold, again, cached)]
        assert len(set(salts)) == 2
        assert salts[1] == salts[2]
        assert told[cold].cached_tokens == told[again].cached_tokens == 0
        assert (told[cached].cached_tokens or 0) > 0.8 * 900
    assert asked["cold", 0] != asked["cold", 1]


def test_questions_behind_a_shared_prefix_have_a_tag_each(controlled: Played) -> None:
    shared, salted = sent(controlled, "shared"), sent(controlled, "salted")
    assert [call.ids for call in shared] == [call.ids for call in salted]
    assert {call.sent.cache_salt for call in shared} == {None}
    assert len({call.sent.cache_salt for call in salted}) == 2
    own = [event for event in controlled.of(TagIssued) if event.session == -2]
    assert len(own) == 2
    assert not controlled.state.leaks


def test_the_conversation_alone_is_the_same_before_and_after(controlled: Played) -> None:
    solo = next(event.session for event in controlled.of(StageBegan) if event.stage == "solo_before")
    assert solo == 2
    calls = [
        (event, controlled.by_req()[event.req]) for event in controlled.of(RequestStarted) if event.session == solo
    ]
    half = len(calls) // 2
    before, after = calls[:half], calls[half:]
    assert [call.ids for _, call in before] == [call.ids for _, call in after]
    assert len({call.sent.cache_salt for _, call in before}) == 1
    assert {call.sent.cache_salt for _, call in before} != {call.sent.cache_salt for _, call in after}
    state = controlled.state
    assert {one.solo for one in state.alone} == {"before", "after"}
    assert len(state.recalls) == state.planned.recalls == 8
    assert len(state.tails) == state.planned.tails == 2
    assert "ms per token at equal depth" in findings(controlled)["solo"].said
    assert controlled.verdict.regime.sessions == 2


def test_identical_prompts_at_once_are_counted_by_their_answers() -> None:
    for fault, outcome, differing in (("clean", "same", 0), ("dither", "differs", 2)):
        played = play_small(Setting(overrides=("controls.alike=3",), faults=(fault,)))
        alike = findings(played)["alike"]
        assert (alike.outcome, alike.n, alike.differing) == (outcome, 3, differing)
        assert played.verdict.verdict == "PASS"
        calls = sent(played, "alike")
        assert len({(call.ids, call.sent.cache_salt) for call in calls}) == 1
        assert max(call.at_s for call in calls) - min(call.at_s for call in calls) < 0.01


def test_where_one_request_runs_at_a_time_none_are_sent_at_once() -> None:
    played = play_small(Setting(overrides=(*SERIAL, "controls.alike=3", "controls.repeat=1", "controls.solo=true")))
    assert findings(played)["alike"].outcome == "not_applicable"
    assert never_more_than_one_is_open(played)
    assert played.verdict.verdict == "PASS"


def test_without_controls_nothing_is_sent_for_them() -> None:
    played = play_small()
    assert not played.of(StageBegan)
    assert not played.of(ControlAsked)
    assert played.verdict.controls == ()


def test_in_chat_mode_they_compare_as_well() -> None:
    played = play_small(Setting(overrides=(*ALL, 'sessions.prompt="chat"')))
    outcomes = {name: one.outcome for name, one in findings(played).items()}
    assert outcomes == {"repeat": "same", "cache": "same", "salt": "same", "solo": "healthy", "after": "healthy"}
    assert played.verdict.verdict == "PASS"


SICK = {
    "cache-flip": ("PASS", set(), {"repeat": "same", "cache": "differs", "salt": "same"}),
    "dither": ("INCONCLUSIVE", set(), {"repeat": "differs", "cache": "not_evaluable"}),
    "cache-rot": ("FAIL", {"recall"}, {"repeat": "same", "cache": "same", "salt": "differs", "solo": "healthy"}),
    "collapse": ("FAIL", {"degeneration"}, {"repeat": "same", "solo": "sick", "after": "sick"}),
}


@pytest.mark.parametrize("fault", SICK)
def test_each_control_sees_its_fault(fault: str) -> None:
    word, checks, wanted = SICK[fault]
    played = play_small(Setting(overrides=ALL, faults=(fault,)))
    got = {name: one.outcome for name, one in findings(played).items()}
    assert got.items() >= wanted.items()
    assert (played.verdict.verdict, failed(played)) == (word, checks)


@pytest.mark.parametrize("fault", ["cache-flip", "dither", "collapse"])
def test_and_nothing_else_does(fault: str) -> None:
    assert play_small(Setting(faults=(fault,))).verdict.verdict == "PASS"


def test_at_another_temperature_no_texts_are_compared() -> None:
    played = play_small(Setting(overrides=(*ALL, "reply.temperature=0.6")))
    outcomes = {name: one.outcome for name, one in findings(played).items()}
    assert (outcomes["repeat"], outcomes["cache"], outcomes["salt"]) == ("not_evaluable", "not_evaluable", "same")
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_the_end_of_the_duration_does_not_keep_a_run_from_what_comes_after() -> None:
    played = play_small(Setting(overrides=ALL, stop=((3.0, "duration"),)))
    assert [event.stage for event in played.of(StageBegan)][-3:] == ["solo_after", "controls", "after"]
    assert findings(played)["solo"].outcome == "healthy"
    assert findings(played)["after"].outcome == "healthy"
    solos = [event for event in played.of(SessionEnded) if event.session == 2]
    assert [event.reason for event in solos] == ["finished", "finished"]


@pytest.mark.parametrize("at_s", [0.05, 0.6, 1.5, 3.0])
def test_a_signal_ends_each_stage(at_s: float) -> None:
    played = play_small(Setting(overrides=ALL, stop=((at_s, "sigint"),)))
    assert played.fault is None
    assert findings(played)["after"].outcome == "not_evaluable"
    assert not played.of(StageBegan) or played.of(StageBegan)[-1].stage != "after"


def test_a_dead_server_is_not_asked_again_and_again() -> None:
    played = play_small(Setting(overrides=ALL, faults=("dies",)))
    lost = [event for event in played.of(RequestEnded) if event.kind == "control" and event.outcome != "ok"]
    assert len(lost) <= 4
