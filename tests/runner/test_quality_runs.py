"""Quality tasks in a whole run: who asks them when, what is sent, and that a wish to stop is heard."""

from __future__ import annotations

import pytest
from runnertools import Played, Setting, play_small

from infermaxx_tui.core.events import FirstToken, QualityAsked, RequestEnded, RequestStarted, RunStarted
from infermaxx_tui.core.quality.tasks import tasks
from infermaxx_tui.vocabulary import shipped

TASKS = ("quality.tasks=24",)


@pytest.fixture(scope="module")
def healthy() -> Played:
    return play_small(Setting(overrides=TASKS))


@pytest.fixture(scope="module")
def dull() -> Played:
    return play_small(Setting(overrides=TASKS, faults=("dull",)))


def asked(played: Played, phase: str) -> list[QualityAsked]:
    return [event for event in played.of(QualityAsked) if event.phase == phase]


def test_a_run_without_tasks_asks_none() -> None:
    played = play_small()
    assert not played.of(QualityAsked)
    assert not [event for event in played.of(RequestEnded) if event.kind == "quality"]


@pytest.mark.parametrize("phase", ["before", "during", "after"])
def test_each_phase_asks_the_whole_set_once(phase: str, healthy: Played) -> None:
    wanted = {task.task: (task.question, task.expected) for task in tasks(healthy.of(RunStarted)[0].seed)}
    waves = {event.wave for event in asked(healthy, phase)}
    assert waves == ({-1} if phase != "during" else waves)
    for wave in waves:
        events = [event for event in asked(healthy, phase) if event.wave == wave]
        assert {event.task: (event.question, event.expected) for event in events} == wanted
        assert len(events) == 24


def test_tasks_go_out_before_and_after_all_conversations_and_at_their_depth_in_between(healthy: Played) -> None:
    kinds = [event for event in (record.event for record in healthy.records) if isinstance(event, RequestStarted)]
    phase = {event.req: event.phase for event in healthy.of(QualityAsked)}
    order = [phase.get(event.req, "other") for event in kinds]
    assert order[:24] == ["before"] * 24
    assert order[-24:] == ["after"] * 24
    regime = healthy.state.regime
    assert regime is not None
    assert regime.target_depth is not None
    assert max(event.depth_tokens for event in asked(healthy, "during")) > 0.8 * regime.target_depth
    assert healthy.outcome("quality") == "pass"


def test_tasks_have_a_budget_of_their_own_and_are_side_branches(healthy: Played) -> None:
    calls, decode = healthy.by_req(), shipped().decode
    questions = [event.question for event in healthy.of(QualityAsked)]
    for event in healthy.of(QualityAsked):
        assert calls[event.req].sent.max_tokens == 2048
    turns = [req for req, event in healthy.ended.items() if event.kind == "turn"]
    for req in turns:
        text = decode(calls[req].ids)
        assert not any(question in text for question in questions)


def test_before_and_after_have_nothing_beside(healthy: Played) -> None:
    phase = {event.req: event.phase for event in healthy.of(QualityAsked)}
    open_: set[int] = set()
    for record in healthy.records:
        match record.event:
            case RequestStarted(req=req):
                open_.add(req)
            case FirstToken(req=req) if phase.get(req) in ("before", "after", "alone"):
                assert open_ == {req}
            case RequestEnded(req=req):
                open_.discard(req)
            case _:
                pass


def test_what_was_wrong_under_load_is_asked_again_alone_with_the_same_ids_and_a_salt(dull: Played) -> None:
    calls, again = dull.by_req(), asked(dull, "alone")
    assert again
    first = {(event.wave, event.task): event.req for event in asked(dull, "during")}
    salts = {calls[event.req].sent.cache_salt for event in again}
    assert None not in salts
    assert len(salts) == len(again)
    for event in again:
        assert calls[event.req].ids == calls[first[event.wave, event.task]].ids
    check = next(check for check in dull.verdict.checks if check.name == "quality")
    assert (check.outcome, check.cause) == ("fail", "under_load")
    assert dull.state.speed_withheld is not None


def test_in_chat_mode_the_same_is_asked() -> None:
    played = play_small(Setting(overrides=(*TASKS, 'sessions.prompt="chat"')))
    assert played.outcome("quality") == "pass"
    assert len(asked(played, "after")) == 24


@pytest.mark.parametrize("at_s", [0.05, 0.5, 2.0])
def test_a_wish_to_stop_ends_each_phase(at_s: float) -> None:
    played = play_small(Setting(overrides=TASKS, stop=((at_s, "sigint"),)))
    assert not asked(played, "after")
    assert played.outcome("quality") == "not_evaluable"


def test_the_end_of_the_duration_does_not_keep_a_run_from_asking_after_it() -> None:
    played = play_small(Setting(overrides=TASKS, stop=((1.5, "duration"),)))
    assert len(asked(played, "after")) == 24


def test_a_dead_server_is_not_asked_24_times() -> None:
    played = play_small(Setting(overrides=TASKS, faults=("dies",)))
    lost = [event for event in played.of(RequestEnded) if event.kind == "quality" and event.outcome != "ok"]
    assert len(lost) <= 4
