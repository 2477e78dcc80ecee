"""When the speed of a run is hidden for what its replies are worth, and when it is not."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.events import decode
from infermaxx_tui.core.evidence import Findings
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Degenerate
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.core.withholding import babble, withheld_speed
from infermaxx_tui.selftest import judge_lines, play_in_memory

_PROBES = ('probes=[{kind="decode", n=2, max_tokens=64}]',)


@pytest.mark.parametrize(
    ("found", "n", "said"),
    [
        (0, 0, None),
        (0, 40, None),
        (1, 40, None),
        (2, 40, "2 of 40 replies degenerate"),
        (40, 40, "40 of 40 replies degenerate"),
    ],
)
def test_babble_hides_the_speed_from_where_it_fails_the_run(found: int, n: int, said: str | None) -> None:
    seen = Degenerate(n, Findings(found, ()), 0)
    assert babble(seen, Limits()) == said
    assert withheld_speed(None, seen, None, Limits()) == said
    assert withheld_speed("the quality gate failed", seen, None, Limits()) == "the quality gate failed"


@pytest.mark.parametrize(
    ("recalls", "after", "said"),
    [
        (1, 1, None),
        (2, 0, "2 recall replies degenerate"),
        (0, 2, "2 replies to trivial prompts after the run degenerate"),
    ],
)
def test_few_degenerate_replies_hide_the_speed_where_they_fail_the_run(
    recalls: int, after: int, said: str | None
) -> None:
    assert babble(Degenerate(400, Findings(recalls + after, ()), recalls, after), Limits()) == said


def _speeds(verdict: Verdict) -> list[bool]:
    return [bool(one.values) for one in verdict.measures if one.is_speed]


def test_a_server_that_babbles_has_no_speed_and_a_healthy_one_has() -> None:
    sick = judge_lines(play_in_memory(("babble",), _PROBES))
    assert sick.verdict == "FAIL"
    assert "degenerate" in (sick.speed_withheld or "")
    assert _speeds(sick) == [False]
    healthy = judge_lines(play_in_memory(("clean",), _PROBES))
    assert (healthy.speed_withheld, _speeds(healthy)) == (None, [True])


def _times(verdict: Verdict) -> list[float | None]:
    seen, prefix = verdict.instrument, verdict.prefix
    return [seen.ttft_p50_ms, seen.ttft_p99_ms, seen.gap_p50_ms, seen.gap_p99_ms, prefix.prefill_tokens_per_s]


def test_no_time_of_a_run_that_babbles_stands_in_its_verdict_and_all_do_of_a_healthy_one() -> None:
    assert _times(judge_lines(play_in_memory(("babble",)))) == [None] * 5
    assert None not in _times(judge_lines(play_in_memory(("clean",))))


def test_by_other_limits_the_speed_is_hidden_as_those_have_it() -> None:
    fold = Fold()
    for line in play_in_memory(("babble",)):
        fold.add(decode(line))
    state = fold.snapshot()
    lenient = Limits(max_degenerate_share=1.0, max_degenerate_recalls=1000)
    assert state.speed_withheld is not None
    verdict = judge_run(state, lenient)
    assert verdict.speed_withheld is None
    assert "Speeds are withheld" not in verdict.scope
    assert "Speeds are withheld" in judge_run(state).scope
