"""A run may be stopped at any moment, lose its log, or break by a fault of its own: what is left can be judged."""

from __future__ import annotations

import anyio
import httpx
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from runnertools import Delegate, Played, Setting, play_small

from infermaxx_tui.core.events import (
    EvidenceLost,
    Noted,
    RequestEnded,
    RequestStarted,
    RunEnded,
    ServerLost,
    SessionEnded,
    SessionStarted,
    StopAsked,
    TagAsked,
)
from infermaxx_tui.core.segments import TokenizerError
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.runner.context import Prepared, Stopper, StopReason

SIGNALS: tuple[StopReason, ...] = ("sigint", "sigterm", "sighup")
WHOLE_S = 0.9
"""About as long as the small scenario takes."""
EXAMPLES = 25


def assert_judgeable(played: Played) -> None:
    """The log has its last line, and whatever began in it has ended."""
    last = played.records[-1].event
    assert isinstance(last, RunEnded)
    assert last.events == len(played.records)
    assert sorted(event.req for event in played.of(RequestStarted)) == sorted(played.ended)
    started = sorted(event.session for event in played.of(SessionStarted))
    assert started == sorted(event.session for event in played.of(SessionEnded))


@settings(max_examples=EXAMPLES)
@given(st.floats(0.0, WHOLE_S + 0.1), st.sampled_from((*SIGNALS, "duration")))
@example(0.0, "sigterm")
def test_a_stop_at_any_moment_leaves_a_log_that_can_be_judged(at_s: float, by: StopReason) -> None:
    played = play_small(Setting(stop=((at_s, by),)))
    assert played.fault is None
    assert_judgeable(played)
    assert played.over_s <= at_s + 10.0 or played.over_s <= WHOLE_S + 0.1
    recalls = len(played.state.recalls)
    if played.verdict.verdict == "PASS":
        assert recalls >= (6 if by == "duration" else 8)
    assert played.verdict.verdict != "FAIL"
    (ended,) = played.of(RunEnded)
    if ended.reason != "finished":
        assert (ended.reason, ended.detail) == ("duration", "") if by == "duration" else ("stopped", by)
        assert [event.by for event in played.of(StopAsked)] in ([by], [])


@settings(max_examples=EXAMPLES)
@given(st.floats(0.0, WHOLE_S), st.sampled_from((*SIGNALS, "duration")))
def test_nothing_is_begun_after_a_stop(at_s: float, by: StopReason) -> None:
    played = play_small(Setting(stop=((at_s, by),)))
    assert all(call.at_s <= at_s + 1e-9 for call in played.asks_for_tokens)


LINES = len(play_small(Setting()).records)
"""Lines of the whole run when nothing breaks; the last one says how it ended."""


@settings(max_examples=EXAMPLES)
@given(st.integers(0, LINES), st.booleans())
@example(0, True)
@example(LINES - 1, True)
def test_a_lost_log_stops_all_sending(breaks_after: int, spare: bool) -> None:
    played = play_small(Setting(breaks_after=breaks_after, spare=spare))
    assert played.fault is None
    assert not [call for call in played.calls if call.after_loss]
    verdict = played.verdict
    if breaks_after >= LINES:
        assert verdict.verdict == "PASS"
        return
    assert verdict.verdict == "INCONCLUSIVE"
    if spare:
        assert len(played.of(EvidenceLost)) == 1
        last = played.records[-1].event
        assert isinstance(last, RunEnded)
        assert last.reason == ("evidence_lost" if breaks_after < LINES - 1 else "finished")


def test_evidence_of_a_failure_outlives_a_lost_log() -> None:
    leaks = Setting(faults=("leak",), breaks_after=80)
    played = play_small(leaks)
    assert played.state.leak_counts["foreign"] > 0
    assert played.verdict.verdict == "FAIL"
    assert not [call for call in played.calls if call.after_loss]


@pytest.mark.parametrize("by", SIGNALS)
def test_evidence_of_a_failure_outlives_a_stop(by: StopReason) -> None:
    played = play_small(Setting(faults=("leak",), stop=((0.8, by),)))
    assert played.verdict.verdict == "FAIL"


class Broken(httpx.AsyncBaseTransport):
    """Raises what no transport should, at one request for tokens."""

    def __init__(self, inner: httpx.AsyncBaseTransport, at: int) -> None:
        self._inner = inner
        self._left = at

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("completions"):
            self._left -= 1
            if self._left == 0:
                raise ZeroDivisionError("a fault\nof this program")
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize("at", [1, 2, 9, 17])
def test_a_fault_of_ours_ends_the_run_in_order_and_is_raised(at: int) -> None:
    played = play_small(Setting(wrap=lambda inner: Broken(inner, at)))
    assert isinstance(played.fault, ZeroDivisionError)
    last = played.records[-1].event
    assert isinstance(last, RunEnded)
    assert (last.reason, last.detail) == ("internal", "ZeroDivisionError: a fault of this program")
    assert last.events == len(played.records)
    reasons = {event.session: event.reason for event in played.of(SessionEnded)}
    assert sorted(reasons.values()) in (["failed", "stopped"], ["failed", "finished"])
    unfinished = {event.req for event in played.of(RequestStarted)} - set(played.ended)
    assert len(unfinished) == 1  # the one that broke
    assert played.verdict.verdict == "INCONCLUSIVE"
    assert played.over_s < 10.0


def test_a_fault_in_a_watch_ends_the_run_too() -> None:
    def alive() -> bool:
        raise LookupError("no such process table")

    played = play_small(Setting(server_alive=alive, overrides=("sessions.think_time=1.0",)))
    assert isinstance(played.fault, LookupError)
    assert_judgeable(played)
    assert played.of(RunEnded)[0].reason == "internal"
    assert {event.outcome for event in played.ended.values()} == {"ok"}


def test_a_dead_process_of_ours_is_evidence() -> None:
    lives = iter([True])
    setting = Setting(server_alive=lambda: next(lives, False), overrides=("sessions.think_time=1.0",))
    (lost,) = play_small(setting).of(ServerLost)
    assert (lost.how, lost.reachable) == ("pid_dead", False)


def test_a_signal_cuts_what_hangs_after_three_seconds() -> None:
    hangs = Setting(faults=("hang",), overrides=("limits.stall_s=600.0",), healthy_turns=2, stop=((2.0, "sigterm"),))
    played = play_small(hangs)
    assert_judgeable(played)
    assert played.over_s < 10.0
    cut = [event for event in played.ended.values() if event.outcome == "cancelled"]
    assert len(cut) == 2
    assert all(event.error == "cut by us: the run was ending" for event in cut)
    assert played.state.counts is not None
    assert played.state.counts.reason is not None
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_the_end_of_the_duration_waits_a_minute_for_open_turns() -> None:
    setting = Setting(faults=("hang",), overrides=("limits.stall_s=600.0", "stop.duration=5s"), healthy_turns=2)
    played = play_small(setting)
    assert_judgeable(played)
    assert 65.0 <= played.over_s < 75.0
    assert {event.reason for event in played.of(SessionEnded)} == {"duration"}


def test_a_signal_after_the_duration_is_heard_and_is_not_a_second_one() -> None:
    setting = Setting(
        faults=("hang",),
        overrides=("limits.stall_s=600.0", "stop.duration=5s"),
        healthy_turns=2,
        stop=((10.0, "sigint"),),
    )
    played = play_small(setting)
    assert_judgeable(played)
    assert played.over_s < 20.0
    assert [event.by for event in played.of(StopAsked)] == ["duration", "sigint"]
    assert played.of(RunEnded)[0].detail == "sigint"


def test_misses_are_asked_again_after_the_duration_but_not_after_a_signal() -> None:
    def forgets(by: StopReason) -> Setting:
        return Setting(faults=("forget-oldest",), stop=((0.75, by),))

    again = [asked for asked in play_small(forgets("duration")).of(TagAsked) if asked.kind == "reask_alone"]
    assert again
    assert len(again) % 2 == 0
    assert not [asked for asked in play_small(forgets("sigterm")).of(TagAsked) if asked.kind == "reask_alone"]


def test_turns_end_whole_when_the_duration_is_over() -> None:
    played = play_small(Setting(overrides=("stop.duration=300ms",)))
    assert {event.outcome for event in played.ended.values()} == {"ok"}
    assert {event.reason for event in played.of(SessionEnded)} == {"duration"}
    assert played.of(RunEnded)[0].reason == "duration"


def test_a_ramp_does_not_outlast_a_stop() -> None:
    played = play_small(Setting(overrides=("sessions.ramp_s=500.0",), stop=((1.5, "sigterm"),)))
    assert played.over_s < 5.0
    assert {event.session for event in played.of(SessionStarted)} == {0}
    assert_judgeable(played)


def test_a_server_that_is_gone_ends_the_run() -> None:
    played = play_small(Setting(faults=("dies",), overrides=("sessions.rounds=5",)))
    assert_judgeable(played)
    assert played.of(RunEnded)[0].reason == "server_lost"
    assert {event.session for event in played.of(SessionStarted)} == {0, 1}
    assert any(event.how == "refused" for event in played.of(ServerLost))
    assert played.verdict.verdict == "FAIL"


class Mute(httpx.AsyncBaseTransport):
    """Answers no question about the server itself."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in ("/metrics", "/health"):
            await anyio.sleep(request.extensions["timeout"]["read"])
            raise httpx.ReadTimeout("", request=request)
        return await self._inner.handle_async_request(request)


@pytest.mark.parametrize("at_s", [0.5, 5.2, 5.9, 6.5])
def test_a_stop_is_over_within_ten_seconds_though_the_server_answers_no_question(at_s: float) -> None:
    mute = Setting(wrap=Mute, overrides=("sessions.rounds=9", "limits.stall_s=60.0"), stop=((at_s, "sigterm"),))
    played = play_small(mute)
    assert_judgeable(played)
    assert played.over_s <= at_s + 10.0
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_all_stalled_streams_cost_one_look_at_the_server() -> None:
    hangs = Setting(faults=("hang",), healthy_turns=0, overrides=("sessions.count=4",))
    played = play_small(hangs)
    stalled = [event for event in played.of(ServerLost) if event.how == "stalled"]
    assert len(stalled) == 4
    assert all(event.reachable for event in stalled)
    assert [call.path for call in played.calls].count("/health") == 3, "at first, for them, and at the end"
    assert [event.outcome for event in played.of(RequestEnded)] == ["stalled"] * 4
    assert {event.reason for event in played.of(SessionEnded)} == {"failed"}


class Refusing(Delegate):
    """A tokenizer that is gone after so many renderings."""

    def __init__(self, renders: int) -> None:
        self._left = renders

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        self._left -= 1
        if self._left < 0:
            raise TokenizerError("http://127.0.0.1:1/tokenize: the server cannot be reached")
        return super().render(messages, tools, add_generation_prompt)


def test_a_tokenizer_that_is_gone_from_the_start_ends_the_run() -> None:
    played = play_small(Setting(sabotage=lambda prepared: msgspec.structs.replace(prepared, renderer=Refusing(0))))
    assert played.fault is None
    assert played.of(RunEnded)[0].reason == "server_lost"
    assert "cannot be reached" in played.of(Noted)[0].text
    assert not played.asks_for_tokens


@pytest.mark.parametrize("renders", [8, 12, 30])
def test_a_tokenizer_that_is_gone_ends_its_conversations_and_not_the_run(renders: int) -> None:
    def without_tokenizer(prepared: Prepared) -> Prepared:
        return msgspec.structs.replace(prepared, renderer=Refusing(renders))

    played = play_small(Setting(sabotage=without_tokenizer))
    assert played.fault is None
    assert_judgeable(played)
    assert played.of(RunEnded)[0].reason == "finished"
    failed = [event for event in played.of(SessionEnded) if event.reason == "failed"]
    assert failed
    assert all(event.detail.startswith("cannot render: http://127.0.0.1:1/tokenize") for event in failed)
    assert played.verdict.verdict == "INCONCLUSIVE"


def test_wishes_to_stop_have_an_order_and_signals_are_counted() -> None:
    stopper = Stopper()
    assert stopper.ask("duration")
    assert not stopper.ask("duration")
    assert [stopper.hard, stopper.ask("sigterm"), stopper.hard] == [False, True, True]
    assert not stopper.ask("sigint")
    assert not stopper.ask("duration")
    seen = [stopper.by, stopper.ask("evidence_lost"), stopper.by]
    assert seen == ["sigterm", True, "evidence_lost"]


def test_the_first_signal_is_one_even_after_a_more_urgent_wish() -> None:
    stopper = Stopper()
    assert stopper.ask("internal")
    assert stopper.ask("sigint")
    assert stopper.by == "internal"
    assert not stopper.ask("sigterm")
