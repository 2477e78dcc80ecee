"""Sessions side by side on a pool: by hand where that can be done, by laws where it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.fitting import admission, overlap
from infermaxx_tui.core.kv_pool import plain_cost
from infermaxx_tui.core.load import THINK_S, TOOL_S, WAIT_CAP_S, Load, Step, load_of
from infermaxx_tui.core.overlap import Played, Rates, play
from infermaxx_tui.core.transcript import Message, Request, Session, Window

BLOCK = plain_cost(16)
RATES = Rates(prefill_tokens_per_s=1000.0, decode_tokens_per_s=10.0)


def _steps(*sizes: tuple[int, int], wait_s: float = 1.0) -> tuple[Step, ...]:
    """A conversation: what each prompt adds, and each reply."""
    out, whole = list[Step](), 0
    for added, reply in sizes:
        out.append(Step(wait_s if out else 0.0, whole + added, reply, whole))
        whole += added + reply
    return tuple(out)


def _play(blocks: int, *loads: tuple[Step, ...], at: tuple[float, ...] | None = None, seqs: int = 99) -> Played:
    some = [Load(f"s{number}", steps, timed=True) for number, steps in enumerate(loads)]
    return play(some, at or (0.0,) * len(some), BLOCK, blocks, RATES, seqs)


def test_one_session_takes_its_own_time_and_its_own_blocks() -> None:
    played = _play(100, _steps((1000, 100), (100, 50)))
    assert played.lasted_s == pytest.approx(1.0 + 10.0 + 1.0 + 0.1 + 5.0)
    assert played.peak_blocks == -(-1250 // 16)
    assert (played.preemptions, played.evicted_tokens, played.too_large, played.running_peak) == (0, 0, 0, 1)


def test_the_youngest_is_preempted_and_computed_again() -> None:
    # 20 blocks: both begin with 8 of them and grow by 8; the second one has to go when both hold 10.
    played = _play(20, _steps((128, 128)), _steps((128, 128)))
    assert played.preemptions == 1
    assert 0 < played.recomputed_tokens <= 160
    assert played.too_large == 0
    assert played.peak_blocks <= 20
    assert _play(32, _steps((128, 128)), _steps((128, 128))).preemptions == 0


@pytest.mark.parametrize(("sessions", "preemptions"), [(2, (0,)), (3, (1,)), (4, (2, 3))])
@pytest.mark.parametrize("rates", [Rates(), Rates(300.0, 5.0), Rates(600.0, 3.0)])
def test_as_on_a_real_server(sessions: int, preemptions: tuple[int, ...], rates: Rates) -> None:
    """vLLM 0.32 with 60 blocks of 32 tokens, 59 of which it uses: 0, 1 and 3 preemptions.

    Three prompts of 624, 640 and 576 tokens take 58 blocks and are all admitted, though their first tokens need 3 more.
    """
    sizes = [tuple((base + 16 * more, 100) for base in (240, 400, 560)) for more in (4, 5, 1, 3)]
    loads = []
    for name, requests in enumerate(sizes[:sessions]):
        kept = [0, *(sum(size) for size in requests)]
        steps = tuple(Step(0.0, prompt, reply, kept[at]) for at, (prompt, reply) in enumerate(requests))
        loads.append(Load(f"s{name}", steps, timed=True))
    played = play(loads, [0.01 * n for n in range(sessions)], plain_cost(32), 59, rates)
    assert played.preemptions in preemptions


def test_a_prefix_makes_room_for_a_running_request_and_is_computed_again() -> None:
    first = _steps((160, 16), (16, 16), wait_s=100.0)
    second = _steps((240, 16))
    played = _play(20, first, second, at=(0.0, 10.0))
    assert played.preemptions == 0
    assert played.evicted_tokens == 176 - 4 * 16  # of its 11 blocks, the 4 that the other one's 16 leave of 20
    assert _play(27, first, second, at=(0.0, 10.0)).evicted_tokens == 0


def test_the_oldest_prefix_goes_first() -> None:
    old, newer = _steps((160, 16), (16, 16), wait_s=300.0), _steps((160, 16), (16, 16), wait_s=200.0)
    third = _steps((96, 16))
    played = _play(22, old, newer, third, at=(0.0, 20.0, 40.0))
    assert played.evicted_tokens == 176 - 4 * 16


def test_a_request_that_does_not_fit_waits_or_ends_its_session() -> None:
    waits = _play(20, _steps((200, 64)), _steps((200, 16)))
    assert waits.queued_s > 5.0
    assert (waits.preemptions, waits.running_peak) == (0, 1)
    assert _play(10, _steps((200, 16)), _steps((50, 16))).too_large == 1
    assert _play(10, _steps((100, 100))).too_large == 1


def test_max_num_seqs_holds_the_rest_back() -> None:
    loads = [_steps((64, 64))] * 5
    assert _play(500, *loads).running_peak == 5
    assert _play(500, *loads, seqs=2).running_peak == 2


turns = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 200)), min_size=1, max_size=4)
many = st.lists(turns, min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(many, st.integers(10, 200), st.lists(st.floats(0, 50), min_size=5, max_size=5))
def test_laws_of_any_play(talks: list[list[tuple[int, int]]], blocks: int, at: list[float]) -> None:
    loads = [_steps(*talk) for talk in talks]
    offsets = tuple(at[: len(loads)])
    played = _play(blocks, *loads, at=offsets)
    peaks = [BLOCK.blocks(max(step.tokens for step in load)) for load in loads]
    assert not played.storm
    assert played.peak_blocks <= blocks
    # A request whose last token alone does not fit any more is over before it needs the room.
    assert any(peak > blocks for peak in peaks) >= (played.too_large > 0) >= any(peak > blocks + 1 for peak in peaks)
    if sum(peaks) <= blocks:
        assert (played.preemptions, played.recomputed_tokens, played.evicted_tokens) == (0, 0, 0)
    if not played.preemptions:
        assert played.recomputed_tokens == 0
    assert played == _play(blocks, *loads, at=offsets)


@settings(max_examples=30, deadline=None)
@given(many, st.integers(20, 200))
def test_a_plan_admits_what_fits_and_then_nothing_is_preempted(talks: list[list[tuple[int, int]]], blocks: int) -> None:
    loads = [Load(f"s{number}", _steps(*talk), timed=True) for number, talk in enumerate(talks)]
    plan = admission(loads, BLOCK, blocks, RATES)
    assert plan is not None
    fitting = [load for load in loads if BLOCK.blocks(load.peak_tokens) <= blocks]
    assert {start.session for start in plan.starts} == {load.id for load in fitting}
    assert set(plan.refused) == {load.id for load in loads} - {load.id for load in fitting}
    assert plan.peak_share <= 1.0
    slow = Rates(prefill_tokens_per_s=1e9, decode_tokens_per_s=RATES.decode_tokens_per_s)
    plan = admission(fitting, BLOCK, blocks, slow)
    assert plan is not None
    at = {start.session: start.at_s for start in plan.starts}
    played = play(fitting, [at[load.id] for load in fitting], BLOCK, blocks, slow)
    assert (played.preemptions, played.too_large) == (0, 0)


def test_how_many_go_together() -> None:
    loads = [Load(f"s{number}", _steps((1000, 100), (100, 100), (100, 100)), timed=True) for number in range(12)]
    found = overlap(loads, BLOCK, 6 * BLOCK.blocks(1500), seed=3)
    assert found == overlap(loads, BLOCK, 6 * BLOCK.blocks(1500), seed=3)
    assert 6 <= found.without_eviction <= found.without_preemption <= found.without_preemption_half <= 12
    assert [one.sessions for one in found.tried] == list(range(1, 13))
    small = overlap(loads, BLOCK, BLOCK.blocks(1500) - 1, seed=3)
    assert (small.left_out, small.without_preemption, small.tried) == (12, 0, ())


def test_more_sessions_than_can_be_tried_are_spaced_out() -> None:
    loads = [Load(f"s{number}", _steps((160, 16)), timed=True) for number in range(100)]
    tried = [one.sessions for one in overlap(loads, BLOCK, 10_000, seed=1).tried]
    assert (tried[0], tried[-1]) == (1, 64)
    assert len(tried) <= 16


def _request(role: str, think_s: float = 0.0, tool_s: float = 0.0) -> Request:
    message = Message("user" if role == "user" else "tool", "q")
    return Request((message,), Message("assistant", "a"), think_s=think_s, tool_delay_s=tool_s)


def test_waits_are_recorded_or_assumed_and_capped() -> None:
    def load(*windows: tuple[Request, ...]) -> Load:
        some = tuple(Window("start" if not at else "compaction", one) for at, one in enumerate(windows))
        session = Session("s", "toy", "s.jsonl", some)
        return load_of(session, [(100 * (at + 1), 10) for at in range(len(session.requests))])

    assumed = load((_request("user"), _request("tool"), _request("user")))
    assert [step.wait_s for step in assumed.steps] == [0.0, TOOL_S, THINK_S]
    assert [step.kept_tokens for step in assumed.steps] == [0, 110, 210]
    assert not assumed.timed
    timed = load((_request("user"), _request("tool", tool_s=4.0)), (_request("user", think_s=90_000.0),))
    assert [step.wait_s for step in timed.steps] == [0.0, 4.0, WAIT_CAP_S]
    assert [step.kept_tokens for step in timed.steps] == [0, 110, 0]
