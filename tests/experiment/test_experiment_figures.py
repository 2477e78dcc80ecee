"""What a run gives to compare: a figure, or the reason why there is none."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core.events import decode
from infermaxx_tui.core.experiment.figures import figures, losses
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.selftest import judge_lines, play_in_memory

_TIMES = ("turns.ttft_p50_ms", "turns.gap_p50_ms")


def _state(lines: tuple[bytes, ...]) -> RunState:
    fold = Fold()
    for line in lines:
        fold.add(decode(line))
    return fold.snapshot()


@pytest.fixture(scope="module")
def clean() -> Verdict:
    """On a healthy server."""
    return judge_lines(play_in_memory(("clean",), ("sessions.rounds=1", "limits.min_recalls=15")))


def test_times_of_a_run_are_figures_and_void_ones_are_reasons(clean: Verdict) -> None:
    found = {one.name: one for one in figures(clean)}
    seen = clean.instrument
    assert [found[name].values for name in _TIMES] == [(seen.ttft_p50_ms,), (seen.gap_p50_ms,)]
    void = tuple(
        msgspec.structs.replace(one, outcome="not_evaluable", advice="the client lagged 40 ms")
        if one.name == "timing"
        else one
        for one in clean.checks
    )
    found = {one.name: one for one in figures(msgspec.structs.replace(clean, checks=void))}
    assert [(found[name].values, found[name].reason) for name in _TIMES] == [((), "the client lagged 40 ms")] * 2
    assert all(found[name].is_speed for name in _TIMES)


@pytest.mark.parametrize(("usage", "held"), [(0.25, True), (0.0, False), (None, False)])
def test_a_pool_that_was_read_between_requests_alone_is_not_said_to_have_held_nothing(
    clean: Verdict, usage: float | None, held: bool
) -> None:
    server = msgspec.structs.replace(clean.server, kv_usage_peak=usage)
    found = {one.name for one in figures(msgspec.structs.replace(clean, server=server))}
    assert ("pool.held_tokens" in found) is held


@pytest.mark.parametrize(
    ("fault", "leaked", "lost"), [("clean", False, False), ("leak", True, False), ("typo", False, True)]
)
def test_what_leaked_and_what_was_lost_is_counted(fault: str, leaked: bool, lost: bool) -> None:
    lines = play_in_memory((fault,), ("sessions.rounds=1", "limits.min_recalls=15"))
    found = {one.name: one.values[0] for one in losses(judge_lines(lines), _state(lines))}
    assert (found["isolation.leaked"] > 0, found["recall.lost"] > 0) == (leaked, lost)


def test_where_nobody_looked_nothing_is_counted_as_0(clean: Verdict) -> None:
    blind = tuple(msgspec.structs.replace(one, n_evaluated=0) for one in clean.checks)
    assert losses(msgspec.structs.replace(clean, checks=blind), _state(())) == ()


def test_replies_that_were_cut_at_their_budget_are_counted_apart() -> None:
    tasks = ("sessions.rounds=1", "limits.min_recalls=15", "quality.tasks=8", 'quality.when=["before"]')
    found = {one.name: one.values for one in figures(judge_lines(play_in_memory(("capped",), tasks)))}
    whole = {one.name: one.values for one in figures(judge_lines(play_in_memory(("clean",), tasks)))}
    assert (whole["quality.before.right"], whole["quality.before.cut"]) == ((8.0,), (0.0,))
    assert found["quality.before.right"][0] + found["quality.before.cut"][0] == 8.0
    assert found["quality.before.cut"][0] > 0
