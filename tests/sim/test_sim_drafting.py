"""Speculation of the embedded server: the same tokens in drafts, and counters that can be reckoned by hand."""

from __future__ import annotations

import io
from typing import Any

import pytest
from simtools import WALL_S, client_of, completion, ids_in, make_app, parsed, run_virtual, working

from infermaxx_tui.core.events import MetricsRead
from infermaxx_tui.core.readings import parse_metrics
from infermaxx_tui.core.startup_log import parse_startup
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.launch_log import LaunchLog

PROMPT = working(("copper kettle",))


async def _ask(app: App, tokens: int) -> tuple[list[Any], float]:
    async with client_of(app) as client:
        began = app.engine.now()
        body = completion(PROMPT, max_tokens=tokens, ignore_eos=True)
        answer = await client.post("/v1/completions", json=body)
        return parsed(answer.content), app.engine.now() - began


async def _read(app: App) -> bytes:
    async with client_of(app) as client:
        return (await client.get("/metrics")).content


def _sizes(events: list[Any]) -> list[int]:
    ids = (event["choices"][0].get("token_ids") for event in events if event.get("choices"))
    return [len(some) for some in ids if some]


def _asked(*faults: str, tokens: int) -> tuple[list[Any], float, MetricsRead]:
    app = make_app(*faults)
    events, seconds = run_virtual(_ask(app, tokens))
    return events, seconds, parse_metrics(run_virtual(_read(app)))


def test_drafts_bring_the_same_tokens_several_at_a_time_and_faster() -> None:
    plain, slow_s, _ = _asked("clean", tokens=56)
    drafted, quick_s, _ = _asked("drafting", tokens=56)
    assert ids_in(drafted) == ids_in(plain)
    assert _sizes(plain) == [1] * 56
    assert _sizes(drafted) == [1, *[4, 3, 1, 1, 2] * 5]
    assert quick_s == pytest.approx(slow_s / 1.45, rel=0.02)


@pytest.mark.parametrize(
    ("tokens", "drafts", "accepted", "at"),
    [
        (1, 0, 0, (0, 0, 0)),
        (3, 1, 3, (1, 1, 1)),  # two of the three were cut off by the reply's end, and are counted all the same
        (5, 1, 3, (1, 1, 1)),
        (6, 2, 5, (2, 2, 1)),
        (12, 4, 6, (3, 2, 1)),
        (56, 20, 30, (15, 10, 5)),
    ],
)
def test_its_counters_are_those_of_the_round(tokens: int, drafts: int, accepted: int, at: tuple[int, ...]) -> None:
    _, _, page = _asked("drafting", tokens=tokens)
    assert (page.drafts, page.draft_tokens, page.accepted_tokens) == (drafts, 3 * drafts, accepted)
    assert page.accepted_at == at
    assert page.generation_tokens == tokens


def test_without_speculation_nothing_is_counted() -> None:
    _, _, page = _asked("clean", tokens=12)
    assert (page.drafts, page.draft_tokens, page.accepted_tokens, page.accepted_at) == (None, None, None, ())


def test_babble_is_drafted_without_a_miss() -> None:
    app = make_app("drafting", "small-kv")
    events, _ = run_virtual(_ask(app, 64))
    page = parse_metrics(run_virtual(_read(app)))
    assert _sizes(events) == [8] * 8
    assert (page.drafts, page.draft_tokens, page.accepted_tokens) == (16, 48, 48)


def test_the_page_has_the_names_and_labels_of_vllm() -> None:
    text = run_virtual(_read(make_app("drafting"))).decode()
    labels = 'engine="0",model_name="infermaxx-sim"'
    for name in ("drafts", "draft_tokens", "accepted_tokens"):
        assert f"vllm:spec_decode_num_{name}_total{{{labels}}} 0.0" in text
    for place in range(3):
        assert f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{place}"}} 0.0' in text


@pytest.mark.parametrize(("faults", "said"), [(("drafting",), "ngram, 3 tokens"), ((), "none")])
def test_its_log_says_what_it_was_started_with(faults: tuple[str, ...], said: str) -> None:
    out = io.StringIO()
    LaunchLog(out, 1, lambda: WALL_S).starting(make_app(*faults).engine.config, 8000)
    assert parse_startup(out.getvalue()).speculative == said


def test_its_log_has_the_line_of_vllm_for_each_window_in_which_something_was_drafted() -> None:
    app, out = make_app("drafting"), io.StringIO()
    log = LaunchLog(out, 1, lambda: WALL_S)
    for tokens in (12, 12):
        run_virtual(_ask(app, tokens))
        log.stats(app.engine, 10.0)
    log.stats(app.engine, 10.0)
    lines = [line.partition("] ")[2] for line in out.getvalue().splitlines() if "SpecDecoding" in line]
    assert (
        lines
        == [
            "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 0.60 tokens/s, Drafted"
            " throughput: 1.20 tokens/s, Accepted: 6 tokens, Drafted: 12 tokens, Per-position"
            " acceptance rate: 0.750, 0.500, 0.250, Avg Draft acceptance rate: 50.0%"
        ]
        * 2
    )
