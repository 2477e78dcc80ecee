"""What is left of a run that was broken off, and whether a server is still the one that it was."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.continuing import MEASURED, WHOLE, differences, how_ended, remaining, root, unfinished
from infermaxx_tui.core.fold_sessions import Sessions
from infermaxx_tui.core.plan import ConversationPlan, Plan
from infermaxx_tui.core.regime import Regime


def conversation(session: int, wave_size: int = 3, parent: int | None = None) -> ConversationPlan:
    return ConversationPlan(session, session // wave_size, session % wave_size, (0,), (), (), parent=parent)


def planned(n: int, wave_size: int = 3) -> Plan:
    return Plan(tuple(conversation(session, wave_size) for session in range(n)), ("decoy",), wave_size)


@given(n=st.integers(1, 12), size=st.integers(1, 5), data=st.data())
def test_whole_conversations_and_those_that_are_left_are_all_there_are(n: int, size: int, data: st.DataObject) -> None:
    reasons = st.sampled_from([*sorted(WHOLE), "stopped", "failed", "server_lost", None])
    ended = data.draw(st.dictionaries(st.integers(0, n - 1), reasons))
    plan = planned(n, size)
    again = unfinished(plan, ended)
    broken = {session for session in range(n) if ended.get(session) not in WHOLE}
    for wave in plan.waves:
        members = {one.session for one in wave}
        left_alone = len(members & broken) == 1
        assert again & members == (members if left_alone else members & broken)
    left = remaining(plan, again)
    assert {one.session for one in left.conversations} == again
    before = {one.session: one for one in plan.conversations}
    for wave in left.waves:
        assert [one.place for one in wave] == list(range(len(wave))), "each wave asks its whole set of tasks"
    for one in left.conversations:
        assert msgspec.structs.replace(one, place=before[one.session].place) == before[one.session]
    assert (left.decoys, left.at_once) == (plan.decoys, plan.at_once)


@pytest.mark.parametrize("cut_off", [False, True])
def test_one_whose_server_went_away_in_the_middle_is_not_whole_though_it_came_to_its_end(cut_off: bool) -> None:
    sessions = Sessions()
    for session in range(3):
        sessions.of(session).ended = "finished"
    sessions.of(1).cut_off = cut_off
    ended = how_ended(sessions.states({}, 0, {}))
    assert ended == {0: "finished", 1: None if cut_off else "finished", 2: "finished"}
    assert unfinished(planned(3), ended) == (frozenset(range(3)) if cut_off else frozenset())


def test_a_conversation_and_its_subagents_are_whole_together() -> None:
    one, two = conversation(0, 5), conversation(1, 5)
    child, grandchild = conversation(2, 5, parent=0), conversation(3, 5, parent=2)
    plan = Plan((one, two, child, grandchild), (), 2)
    whole = {0: "finished", 1: "finished", 2: "exhausted", 3: "finished"}
    assert unfinished(plan, whole) == frozenset()
    three = Plan((*plan.conversations, conversation(4, 5)), (), 5)
    assert unfinished(three, whole | {3: "stopped", 1: None, 4: "finished"}) == {0, 1, 2, 3}
    assert root(7, {7: 8, 8: 7}) in (7, 8), "a plan that is wrong in itself is no endless loop"


REGIME = Regime(model="m", engine="vllm 0.32.0", pool_tokens=10_000, kv_gib=4.0, missing={"gpu": "none"})


def test_the_same_server_is_the_same_whatever_is_missing() -> None:
    assert differences(REGIME, msgspec.structs.replace(REGIME, missing={})) == ((), ())


@pytest.mark.parametrize("key", sorted(set(Regime.__struct_fields__) - MEASURED - {"missing"}))
def test_every_key_of_the_regime_counts(key: str) -> None:
    other, moved = differences(REGIME, msgspec.structs.replace(REGIME, **{key: "another"}))
    assert len(other) == 1
    assert other[0].startswith(f"{key} (")
    assert other[0].endswith(", now another)")
    assert moved == ()


@pytest.mark.parametrize(
    ("pool", "refused"), [(10_400, False), (9_600, False), (11_000, True), (None, True), (10_000, None)]
)
def test_what_a_start_measures_may_move_a_little(pool: int | None, refused: bool | None) -> None:
    other, moved = differences(REGIME, msgspec.structs.replace(REGIME, pool_tokens=pool))
    assert (bool(other), bool(moved)) == {True: (True, False), False: (False, True), None: (False, False)}[refused]
