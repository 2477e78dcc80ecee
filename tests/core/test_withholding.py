"""When the speed of a run is hidden for what its replies are worth, and when it is not."""

from __future__ import annotations

import pytest

from infermaxx_tui.core.evidence import Findings
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Degenerate
from infermaxx_tui.core.verdict import Verdict
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


def _speeds(verdict: Verdict) -> list[bool]:
    return [bool(one.values) for one in verdict.measures if one.is_speed]


def test_a_server_that_babbles_has_no_speed_and_a_healthy_one_has() -> None:
    sick = judge_lines(play_in_memory(("babble",), _PROBES))
    assert sick.verdict == "FAIL"
    assert "degenerate" in (sick.speed_withheld or "")
    assert _speeds(sick) == [False]
    healthy = judge_lines(play_in_memory(("clean",), _PROBES))
    assert (healthy.speed_withheld, _speeds(healthy)) == (None, [True])
