"""The plan: the same on each Python and for each hash seed, and no conversation depends on how many there are."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.canary import MIN_DISTANCE, distance, is_tag
from infermaxx_tui.core.plan import Lengths, Plan, check_transcripts, draw, plan, reached, resolve_limits
from infermaxx_tui.core.scenario import Canaries, Scenario, ScenarioError, Sessions
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall, Window

_LENGTHS = tuple(Lengths((300 + 10 * i,) * 8, (40,) * 8) for i in range(5))
_SAME = """
import hashlib, msgspec
from infermaxx_tui.core.plan import Lengths, plan
from infermaxx_tui.core.scenario import Canaries, Scenario, Sessions
lengths = tuple(Lengths((300 + 10 * i,) * 8, (40,) * 8) for i in range(5))
scenario = Scenario(name="x", sessions=Sessions(count=3, rounds=2), canaries=Canaries(head=True))
print(hashlib.sha256(msgspec.json.encode(plan(scenario, lengths, 11, "ab12"))).hexdigest())
"""


def _scenario(count: int = 3, rounds: int = 1, target: int = 2000, **canaries: object) -> Scenario:
    sessions = Sessions(count=count, rounds=rounds, target_depth=target)
    return Scenario(name="x", sessions=sessions, canaries=msgspec.convert(canaries, Canaries))


def _plan(scenario: Scenario, seed: int = 1, nonce: str = "ab") -> Plan:
    return plan(scenario, _LENGTHS, seed, nonce)


def _digest(python: str, hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([python, "-c", _SAME], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_plan_does_not_depend_on_the_hash_seed() -> None:
    assert len({_digest(sys.executable, seed) for seed in ("0", "1", "4242")}) == 1


@pytest.mark.parametrize("name", ["INFERMAXX_PY312", "INFERMAXX_PY313"])
def test_the_plan_does_not_depend_on_the_python(name: str) -> None:
    python = os.environ.get(name)
    if python is None:
        pytest.skip(f"{name} names no Python with msgspec and orjson")
    assert _digest(python, "7") == _digest(sys.executable, "8")


@given(st.integers(0, 2**63 - 1), st.text("0123456789abcdef", min_size=1, max_size=16))
@settings(max_examples=20)
def test_the_plan_follows_from_seed_and_nonce(seed: int, nonce: str) -> None:
    scenario = _scenario()
    assert _plan(scenario, seed, nonce) == _plan(scenario, seed, nonce)
    other = _plan(scenario, seed, f"{nonce}0")
    ours = {tag.tag for c in _plan(scenario, seed, nonce).conversations for tag in c.tags}
    assert not ours & {tag.tag for c in other.conversations for tag in c.tags}
    assert [c.chain for c in other.conversations] == [c.chain for c in _plan(scenario, seed, nonce).conversations]


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 4), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=30)
def test_more_rounds_change_nothing_of_the_conversations_before_them(
    count: int, rounds: int, per_session: int, head: bool, tail: bool, absent: bool
) -> None:
    canaries = {"per_session": per_session, "head": head, "tail": tail, "absent": absent}
    short = _plan(_scenario(count, rounds, **canaries))
    long = _plan(_scenario(count, rounds + 1, **canaries))
    assert long.conversations[: len(short.conversations)] == short.conversations
    assert len(long.conversations) == count * (rounds + 1)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5), st.booleans())
@settings(max_examples=20)
def test_all_tags_and_decoys_are_far_from_one_another(count: int, rounds: int, per_session: int, head: bool) -> None:
    planned = _plan(_scenario(count, rounds, per_session=per_session, head=head))
    own = [tag.tag for c in planned.conversations for tag in c.tags]
    tails = [q.tag for c in planned.conversations for a in c.asks for q in a.questions if q.kind == "tail"]
    everything = (*own, *tails, *planned.decoys)
    assert all(map(is_tag, everything))
    assert all(distance(a, b) >= MIN_DISTANCE for a, b in combinations(everything, 2))
    assert len(planned.decoys) >= len(own)
    labels = [tag.label for c in planned.conversations for tag in c.tags]
    absent = [q.label for c in planned.conversations for a in c.asks for q in a.questions if q.kind != "recall"]
    assert len({*labels, *absent}) == len(labels) + len(absent)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3), st.lists(st.floats(0, 1), min_size=1, max_size=5))
@settings(max_examples=40)
def test_a_place_asks_what_was_planted_before_it_and_nothing_else(ask_at: list[float], plant_at: list[float]) -> None:
    planned = _plan(_scenario(ask_at=ask_at, plant_at=plant_at, per_session=len(plant_at)))
    for conversation in planned.conversations:
        assert [ask.meet for ask in conversation.asks] == [False] * (len(ask_at) - 1) + [True]
        for ask in conversation.asks:
            recalls = {q.label for q in ask.questions if q.kind == "recall"}
            assert recalls == {tag.label for tag in conversation.tags if tag.fraction < ask.fraction}
            others = sorted(q.kind for q in ask.questions if q.kind != "recall")
            assert others == (["absent", "tail"] if ask.meet else [])
            assert all((q.tag == "") == (q.kind == "absent") for q in ask.questions)
        for before, after in pairwise(conversation.asks):
            assert before.depth_tokens <= after.depth_tokens
    assert planned.planned_recalls == sum(c.planned_recalls for c in planned.conversations)


def test_questions_go_out_in_an_order_of_their_own_for_each_conversation_and_seed() -> None:
    def orders(seed: int) -> list[tuple[int, ...]]:
        out = []
        for conversation in _plan(_scenario(4, per_session=5), seed).conversations:
            place = {tag.label: n for n, tag in enumerate(conversation.tags)}
            out.append(tuple(place[q.label] for q in conversation.asks[-1].questions if q.kind == "recall"))
        return out

    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders(1))
    assert len(set(orders(1))) > 1
    assert orders(1) != orders(2)


@given(st.integers(64, 9000))
@settings(max_examples=30)
def test_a_chain_is_as_long_as_the_target_needs(target: int) -> None:
    for conversation in _plan(_scenario(target=target)).conversations:
        depths = [sum(_LENGTHS[i].delta_tokens) for i in conversation.chain]
        assert len(set(conversation.chain)) == len(conversation.chain)
        assert sum(depths) >= target
        assert sum(depths[:-1]) < target
        assert all(tag.depth_tokens <= target for tag in conversation.tags)


def test_recorded_replies_count_towards_the_depth() -> None:
    deepest = sum(sum(lengths.delta_tokens) + sum(lengths.reply_tokens) for lengths in _LENGTHS)
    recorded = Scenario(name="x", sessions=Sessions(replies="recorded", target_depth=deepest))
    assert _plan(recorded).conversations
    with pytest.raises(ScenarioError, match=r"sessions\.target_depth"):
        _plan(_scenario(target=deepest))


def test_a_depth_that_cannot_be_reached_is_answered_with_one_that_can() -> None:
    with pytest.raises(ScenarioError) as caught:
        _plan(_scenario(target=10**6))
    advised = int(str(caught.value).rpartition("=")[2])
    assert _plan(_scenario(target=advised)).conversations


@pytest.mark.parametrize(
    ("at_once", "control", "waves"), [(None, "none", 2), (2, "none", 4), (None, "serial", 2), (2, "serial", 4)]
)
def test_waves(at_once: int | None, control: str, waves: int) -> None:
    sessions = msgspec.convert({"count": 4, "rounds": 2, "at_once": at_once, "control": control}, Sessions)
    planned = _plan(Scenario(name="x", sessions=msgspec.structs.replace(sessions, target_depth=900)))
    assert len(planned.waves) == waves
    assert sorted(c.session for wave in planned.waves for c in wave) == list(range(8))
    assert all(c.place == n for wave in planned.waves for n, c in enumerate(wave))


@given(st.integers(1, 120))
@settings(max_examples=15)
def test_recalls_that_are_missing_are_answered_with_rounds_that_suffice(wanted: int) -> None:
    scenario = _scenario(3, per_session=3)
    limits = msgspec.structs.replace(scenario.limits, min_recalls=wanted)
    scenario = msgspec.structs.replace(scenario, limits=limits)
    planned = _plan(scenario)
    if wanted <= planned.planned_recalls:
        assert resolve_limits(scenario, planned) == limits
        return
    with pytest.raises(ScenarioError) as caught:
        resolve_limits(scenario, planned)
    rounds = int(str(caught.value).partition("--set sessions.rounds=")[2].partition(" ")[0])
    sessions = msgspec.structs.replace(scenario.sessions, rounds=rounds)
    enough = msgspec.structs.replace(scenario, sessions=sessions)
    resolve_limits(enough, _plan(enough))


def test_no_recalls_at_all_are_refused_with_limits_that_work() -> None:
    scenario = _scenario(per_session=0)
    with pytest.raises(ScenarioError, match=r"limits\.min_recalls"):
        resolve_limits(scenario, _plan(scenario))


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(-5, 5) | st.text(max_size=5), max_size=4))
def test_a_draw_depends_on_its_key(seed: int, key: list[int | str]) -> None:
    assert draw(seed, *key) == draw(seed, *key)
    assert 0 <= draw(seed, *key) < 2**64
    assert draw(seed, *key) != draw(seed, *key, "more")


def test_almost_the_target_is_the_target() -> None:
    assert reached(970, 1000)
    assert not reached(969, 1000)


def _session(message: Message) -> Session:
    request = Request(delta=(Message("user", "hello"), message), reply=Message("assistant", "hello"))
    return Session("s", "test", "s.jsonl", (Window("start", (request,)),))


@pytest.mark.parametrize(
    "message",
    [
        Message("tool", "the lot QHAD-9WNC is here"),
        Message("assistant", "", reasoning="I think of QHAD-9WNC"),
        Message("assistant", "", tool_calls=(ToolCall("c", "look", '{"lot": "QHAD-9WNC"}'),)),
    ],
)
def test_a_transcript_that_holds_something_like_a_tag_is_refused(message: Message) -> None:
    with pytest.raises(ScenarioError, match=r"x\.toml: transcripts\.paths: s\.jsonl: request 0 .*QHAD-9WNC"):
        check_transcripts((_session(message),), "x.toml")


def test_a_trace_without_text_is_not_played_beside_transcripts_with_text() -> None:
    text = _session(Message("user", "a"))
    lengths = msgspec.structs.replace(text, content_free=True)
    with pytest.raises(ScenarioError, match="lengths and no text"):
        check_transcripts((lengths, text), "x.toml")
    check_transcripts((lengths, lengths), "x.toml")


@pytest.mark.parametrize("text", ["RFC-2119", "ISO-8859-1", "4f3c-9a1b", "2024-2025", "UTF-8", "A-B"])
def test_what_only_resembles_a_tag_is_not_refused(text: str) -> None:
    check_transcripts((_session(Message("tool", text)),), "x.toml")
