"""Faults of time and hardware: how fast tokens come, what is preempted, and what the made-up card does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from simtools import client_of, completion, make_app, run_virtual, working

from infermaxx_tui.sim.cards import CREEP_MIB_PER_S, RESET_AT_S, RESET_W, THROTTLED_FROM_S, cards_of
from infermaxx_tui.sim.faults import FAULTS, demanded

LABELS = ("copper kettle", "silver anchor", "amber lantern")


async def _paced(app: Any, n: int, wait_s: float) -> tuple[list[float], list[bytes]]:
    """Seconds that replies take one after another, and what they are."""
    took, said = [], []
    async with client_of(app) as client:
        for _ in range(n):
            began = asyncio.get_running_loop().time()
            answer = await client.post("/v1/completions", json=completion(working(LABELS[:1]), max_tokens=40))
            took.append(asyncio.get_running_loop().time() - began)
            said.append(answer.content)
            await asyncio.sleep(wait_s)
    return took, said


def paced(*faults: str, n: int = 5, wait_s: float = 0.8) -> tuple[list[float], list[bytes]]:
    return run_virtual(_paced(make_app(*faults), n, wait_s))


def test_a_clean_server_keeps_its_pace() -> None:
    took, _ = paced()
    assert max(took[1:]) == pytest.approx(min(took[1:]), rel=1e-6)


def test_slow_drift_makes_every_reply_slower_than_the_last() -> None:
    took, _ = paced("slow-drift")
    assert took[1:] == sorted(took[1:])
    assert took[-1] > 1.15 * took[1]


def test_a_slow_start_is_over_after_a_second() -> None:
    took, _ = paced("slow-start")
    clean, _ = paced()
    assert took[0] > 1.5 * clean[0]
    assert took[2:] == pytest.approx(clean[2:], rel=1e-3)


def test_heat_slows_tokens_from_a_moment_on() -> None:
    took, _ = paced("throttle")
    assert took[1] == pytest.approx(paced()[0][1], rel=1e-3)
    assert took[-1] > 1.4 * took[1]


def test_a_preempted_reply_comes_whole() -> None:
    app = make_app("preemption-storm")
    took, said = run_virtual(_paced(app, 3, 0.1))
    assert app.engine.batch.preemptions == 3
    clean, same = paced(n=3, wait_s=0.1)
    assert [len(one) for one in said] == [len(one) for one in same]
    assert all(slow > quick for slow, quick in zip(took, clean, strict=True))


def test_the_cards_are_as_sick_as_the_faults_say() -> None:
    healthy, creeping = cards_of(())[0], cards_of(("vram-creep",))[0]
    assert healthy.at(60.0).processes == healthy.at(6.0).processes
    held = [creeping.at(t).processes[0][1] for t in (10.0, 20.0)]
    assert held[0] is not None
    assert held[1] is not None
    assert held[1] - held[0] == pytest.approx(10 * CREEP_MIB_PER_S)
    assert creeping.at(20.0).used_mib - creeping.at(10.0).used_mib == pytest.approx(10 * CREEP_MIB_PER_S)
    hot = cards_of(("throttle",))[0]
    assert hot.at(THROTTLED_FROM_S - 0.1).reasons & 0x20 == 0
    assert hot.at(THROTTLED_FROM_S).reasons & 0x20
    reset = cards_of(("limit-reset",))[0]
    assert reset.at(RESET_AT_S - 0.1).limit_w == 700.0
    assert reset.at(RESET_AT_S).limit_w == RESET_W


def test_the_demo_demands_what_a_fault_needs_once() -> None:
    assert demanded(("clean", "leak", "no such fault")) == ()
    both = demanded(("slow-drift", "preemption-storm"))
    assert both == FAULTS["slow-drift"].overrides
    assert len(both) == len(set(both))
