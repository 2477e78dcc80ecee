"""The engine: time, the batch, the pool and the counters, on a clock that jumps."""

from __future__ import annotations

import asyncio

import pytest
from simtools import (
    TAGS,
    VirtualLoop,
    asking,
    client_of,
    completion,
    events_of,
    ids_in,
    make_app,
    run_virtual,
    said,
    working,
)

from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.config import SimConfig

LABELS = tuple(TAGS)


async def seconds_for(app: App, ids: list[int], **fields: object) -> float:
    start = app.engine.now()
    await events_of(app, ids, **fields)
    return app.engine.now() - start


def test_time_passes_without_waiting() -> None:
    app = make_app(decode_ms=1000.0, prefill_overhead_ms=0.0, decode_ms_per_1k=0.0)
    assert run_virtual(seconds_for(app, working(()), max_tokens=61, ignore_eos=True)) == pytest.approx(60, abs=0.1)


def test_cached_prompts_prefill_faster_and_a_salt_does_not_share() -> None:
    app = make_app(prefill_tokens_per_s=100.0, decode_ms=0.001, decode_ms_per_1k=0.0)
    ids = asking(LABELS, LABELS[0])

    async def three() -> tuple[float, float, float]:
        cold = await seconds_for(app, ids)
        return cold, await seconds_for(app, ids), await seconds_for(app, ids, cache_salt="other")

    cold, warm, salted = run_virtual(three())
    assert cold == pytest.approx(len(ids) / 100, rel=0.05)
    assert warm < 0.25
    assert salted == pytest.approx(cold, rel=0.01)


def test_depth_and_company_slow_decoding() -> None:
    async def alone(depth: int) -> float:
        app = make_app(decode_ms_per_1k=100.0, prefill_tokens_per_s=1e9)
        return await seconds_for(app, working((), "x " * depth), max_tokens=20, ignore_eos=True)

    async def together(n: int) -> float:
        app = make_app(decode_ms_per_stream=5.0)
        jobs = [seconds_for(app, working((), f"job {k}"), max_tokens=20, ignore_eos=True) for k in range(n)]
        return max(await asyncio.gather(*jobs))

    assert run_virtual(alone(2000)) > 2 * run_virtual(alone(10))
    assert run_virtual(together(4)) > 1.5 * run_virtual(together(1))


def test_whoever_finds_the_batch_full_waits() -> None:
    app = make_app(max_num_seqs=2)

    async def crowd() -> tuple[int, int]:
        tasks = [asyncio.create_task(events_of(app, working((), f"job {k}"))) for k in range(5)]
        await asyncio.sleep(0.02)
        seen = app.engine.batch.running, app.engine.batch.waiting
        await asyncio.gather(*tasks)
        assert (app.engine.batch.running, app.engine.batch.waiting) == (0, 0)
        return seen

    assert run_virtual(crowd()) == (2, 3)


def test_a_full_pool_preempts_and_every_reply_still_comes_whole() -> None:
    prompts = [working((), f"job {k}") for k in range(4)]
    size = 16 * (len(prompts[0]) // 16 + 1)
    roomy, tight = make_app(), make_app(max_model_len=1024, pool_tokens=max(1024, 4 * size + 64))
    filler = working((), "y " * 600)

    async def crowd(app: App) -> list[list[int]]:
        background = asyncio.create_task(events_of(app, filler, max_tokens=300, ignore_eos=True))
        await asyncio.sleep(0.05)
        jobs = [events_of(app, prompt, max_tokens=200, ignore_eos=True) for prompt in prompts]
        out = [ids_in(events) for events in await asyncio.gather(*jobs)]
        await background
        return out

    assert run_virtual(crowd(tight)) == run_virtual(crowd(roomy))
    assert roomy.engine.batch.preemptions == 0
    assert tight.engine.batch.preemptions > 0
    assert tight.engine.batch.kv_usage == 0


def test_a_closed_response_frees_its_place() -> None:
    app = make_app(max_num_seqs=1)

    async def leave() -> int:
        async with (
            client_of(app) as client,
            client.stream("POST", "/v1/completions", json=completion(working(()))) as answer,
        ):
            async for _ in answer.aiter_raw():
                break
        assert app.engine.batch.running == 0
        return len(await events_of(app, working((), "again")))

    assert run_virtual(leave()) > 10


def test_a_cancelled_waiter_leaves_the_queue() -> None:
    app = make_app(max_num_seqs=1)

    async def leave() -> str:
        first = asyncio.create_task(said(app, working((), "first")))
        second = asyncio.create_task(said(app, working((), "second")))
        third = asyncio.create_task(said(app, asking(LABELS[:1], LABELS[0])))
        await asyncio.sleep(0.01)
        second.cancel()
        await first
        return await third

    assert TAGS[LABELS[0]] in run_virtual(leave())


def test_counters_agree_with_what_was_sent() -> None:
    app = make_app()

    async def some() -> tuple[int, int]:
        prompts = [asking(LABELS, label) for label in LABELS] + [working(LABELS)]
        got = [ids_in(await events_of(app, prompt)) for prompt in prompts]
        return sum(map(len, prompts)), sum(map(len, got))

    prompt, generated = run_virtual(some())
    stats = app.engine.stats
    assert (stats.prompt_tokens, stats.generation_tokens) == (prompt, generated)
    assert stats.prefix_queries == prompt
    assert 0 < stats.prefix_hits == stats.cached_tokens < prompt
    assert stats.finished["stop"] == 5


def test_two_runs_are_the_same_to_the_byte() -> None:
    async def crowd(app: App) -> list[list[object]]:
        return list(await asyncio.gather(*(events_of(app, working((), f"job {k}")) for k in range(5))))

    assert run_virtual(crowd(make_app("leak-parallel"))) == run_virtual(crowd(make_app("leak-parallel")))


def test_a_window_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="make the pool larger or the window smaller"):
        SimConfig(max_model_len=100, pool_tokens=99)


def test_the_jumping_clock_is_the_engines() -> None:
    app = make_app()

    async def read() -> tuple[float, float]:
        return app.engine.now(), asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        ours, loops = runner.run(read())
    assert ours == loops


def test_a_quantised_cache_has_room_for_two_and_a_half_times_as_many_tokens() -> None:
    plain, small = SimConfig(pool_tokens=65_536), SimConfig(pool_tokens=65_536, faults=("small-kv",))
    assert (plain.pool_blocks * 16, small.pool_blocks * 16) == (65_536, 163_840)
