"""Misses are asked again: the same prompt, alone, twice, salted; and under a real load, three times more."""

from __future__ import annotations

import pytest
from runnertools import Played, Setting, play_small

from infermaxx_tui.core.events import FirstToken, RequestEnded, RequestStarted
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.keep import LOADS_KEPT, MISSES_KEPT, Keep, Kept
from infermaxx_tui.runner.lines import Prompt


@pytest.fixture(scope="module")
def forgets() -> Played:
    """A server that forgets for good."""
    return play_small(Setting(faults=("forget-oldest",)))


@pytest.fixture(scope="module")
def rots() -> Played:
    """A server whose prefix cache is sick."""
    return play_small(Setting(faults=("cache-rot",), overrides=("sessions.count=3",)))


def of_kind(played: Played, kind: str) -> list[RequestEnded]:
    """Requests of one kind."""
    return [event for event in played.ended.values() if event.kind == kind]


def test_a_miss_that_misses_alone_is_not_asked_under_load(forgets: Played) -> None:
    misses = [recall for recall in forgets.state.recalls if recall.miss]
    assert misses
    again = of_kind(forgets, "reask_alone")
    assert sorted(forgets.asked[e.req].again_of or 0 for e in again) == sorted(2 * [recall.req for recall in misses])
    assert not of_kind(forgets, "reask_load")
    assert not of_kind(forgets, "load")
    assert forgets.outcome("recall") == "fail"


def test_it_is_the_same_prompt_with_a_salt_of_its_own(forgets: Played) -> None:
    calls = forgets.by_req()
    salts = []
    for event in of_kind(forgets, "reask_alone"):
        first = forgets.asked[event.req].again_of
        assert first is not None
        assert calls[event.req].ids == calls[first].ids
        assert calls[event.req].sent.max_tokens == calls[first].sent.max_tokens
        salts.append(calls[event.req].sent.cache_salt)
    assert None not in salts
    assert len(set(salts)) == len(salts)


def test_alone_means_alone(forgets: Played) -> None:
    open_requests: set[int] = set()
    for record in forgets.records:
        match record.event:
            case RequestStarted(req=req, kind=kind):
                assert kind != "reask_alone" or not open_requests
                open_requests.add(req)
            case RequestEnded(req=req):
                open_requests.discard(req)
            case _:
                pass


def test_only_misses_are_asked_again() -> None:
    for fault in ("refuse", "capped", "echo", "empty-length", "clean"):
        assert not of_kind(play_small(Setting(faults=(fault,))), "reask_alone")


def test_a_miss_that_recalls_alone_is_asked_three_times_while_others_decode(rots: Played) -> None:
    misses = [recall for recall in rots.state.recalls if recall.miss]
    assert misses
    loaded = of_kind(rots, "reask_load")
    assert sorted(rots.asked[e.req].again_of or 0 for e in loaded) == sorted(3 * [recall.req for recall in misses])
    kinds = {event.req: event.kind for event in rots.of(RequestStarted)}
    first = next(n for n, r in enumerate(rots.records) if getattr(r.event, "kind", "") == "reask_load")
    began = [r.event for r in rots.records[:first] if isinstance(r.event, FirstToken) and kinds[r.event.req] == "load"]
    assert len({event.session for event in began}) == 2
    by_session = {event.req: event.session for event in rots.of(RequestStarted)}
    sick = rots.records[first].event
    assert isinstance(sick, RequestStarted)
    assert sick.session not in {by_session[event.req] for event in began}


def test_load_is_never_cut_so_that_counts_stay_comparable(rots: Played) -> None:
    assert {event.outcome for event in rots.ended.values()} == {"ok"}
    counts = rots.state.counts
    assert counts is not None
    assert counts.reason is None
    assert counts.generation_client == counts.generation_server
    assert rots.outcome("instrument") == "pass"


def test_under_load_the_salt_is_that_of_the_conversation() -> None:
    salted = Setting(faults=("typo",), overrides=("sessions.cache_salt=session",))
    played = play_small(salted)
    for event in of_kind(played, "reask_load"):
        first = played.asked[event.req].again_of
        assert first is not None
        assert played.by_req()[event.req].sent.cache_salt == played.by_req()[first].sent.cache_salt


def test_chat_prompts_are_asked_again_as_they_were() -> None:
    played = play_small(Setting(faults=("forget-oldest",), overrides=("sessions.prompt=chat",)))
    again = of_kind(played, "reask_alone")
    assert again
    for event in again:
        first = played.asked[event.req].again_of
        assert first is not None
        assert played.by_req()[event.req].sent.texts == played.by_req()[first].sent.texts


def test_what_is_kept_of_a_long_run_is_bounded() -> None:
    keep = Keep()
    for session in range(500):
        kept = Kept.of(Prompt(ids=tuple(range(session, session + 50)), known_tokens=50), session, 3, None)
        keep.asked(kept)
        keep.missed(session, kept)
    assert sum(keep.miss(req) is not None for req in range(500)) == MISSES_KEPT
    assert [kept.session for kept in keep.beside(499)] == [496, 497, 498]
    assert [kept.session for kept in keep.beside(3)] == [497, 498, 499]
    assert len(keep.beside(496)) == LOADS_KEPT - 1


def test_a_kept_prompt_comes_back_as_it_was() -> None:
    prompt = Prompt(ids=(1, 2, 4_000_000_000), no_thinking=True, known_tokens=3)
    assert Kept.of(prompt, 1, 2, "s").prompt == prompt
    chat = Prompt(tools="[]", known_tokens=9)
    assert Kept.of(chat, 1, 2, None).prompt == chat


def test_an_order_that_asks_nothing_stays_the_same_when_it_is_sent_again() -> None:
    plain = Order(prompt=Prompt(ids=(1,)), session=0, turn=1, kind="turn", max_tokens=1)
    assert plain.again(7) is plain
