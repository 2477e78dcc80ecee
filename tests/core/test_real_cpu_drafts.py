"""A run on a real vLLM 0.32 on the CPU that drafted from n-grams, recorded: its counters, and its log beside them.

It is a start of the arm `on` of tests/real/cpu-spec.toml, redacted by tests/tools/redact_run.py.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from infermaxx_tui.core.events import MetricsRead, Record
from infermaxx_tui.core.experiment.drafted import drafting
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.startup_log import parse_startup
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.log import read_log

RUN = Path(__file__).parent.parent / "logs" / "cpu-ngram"
_LINE = re.compile(r"Accepted: (\d+) tokens, Drafted: (\d+) tokens, Per-position acceptance rate: ([\d., ]+), Avg")


@cache
def records() -> tuple[Record, ...]:
    return tuple(record for record in read_log(RUN) if isinstance(record, Record))


@cache
def verdict() -> Verdict:
    fold = Fold()
    for record in records():
        fold.add(record)
    return judge_run(fold.snapshot())


def test_acceptance_is_that_of_its_counters_with_what_it_speaks_for() -> None:
    seen = verdict().server
    assert (seen.drafts, seen.draft_tokens, seen.accepted_tokens) == (152, 456, 227)
    assert (seen.generation_tokens, seen.accepted_at) == (1101, (93, 71, 63))
    found = {one.name: one for one in drafting(verdict())}
    assert found["draft.acceptance"].median == pytest.approx(0.4978, abs=5e-5)
    assert found["draft.mean_length"].median == pytest.approx(2.4934, abs=5e-5)
    assert [found[f"draft.acceptance_at_{place}"].median for place in (1, 2, 3)] == pytest.approx(
        [0.6118, 0.4671, 0.4145], abs=5e-5
    )
    assert {round(one.coverage or 0, 4) for one in found.values()} == {0.3442}


def test_what_was_accepted_at_each_place_adds_up_to_what_was_accepted() -> None:
    seen = verdict().server
    assert sum(seen.accepted_at) == seen.accepted_tokens
    assert sorted(seen.accepted_at, reverse=True) == list(seen.accepted_at)


def test_an_average_of_its_seconds_would_be_another_figure() -> None:
    read = [one.event for one in records() if isinstance(one.event, MetricsRead)]
    counts = [(one.accepted_tokens, one.draft_tokens) for one in read]
    grown = [
        (b[0] - a[0], b[1] - a[1])
        for a, b in pairwise(counts)
        if None not in (*a, *b) and b[1] != a[1]
        for a, b in [((a[0] or 0, a[1] or 0), (b[0] or 0, b[1] or 0))]
    ]
    assert len(grown) > 10
    average = sum(accepted / drafted for accepted, drafted in grown) / len(grown)
    assert abs(average - 227 / 456) > 0.05


def test_its_log_says_no_more_than_its_counters_and_the_same_shares() -> None:
    log = (RUN / "server.log").read_text(encoding="utf-8")
    assert parse_startup(log).speculative == verdict().regime.speculative == "ngram, 3 tokens"
    windows = [(int(hit[1]), int(hit[2]), hit[3].split(", ")) for hit in _LINE.finditer(log)]
    assert len(windows) == 5
    accepted, drafted = sum(one for one, _, _ in windows), sum(of for _, of, _ in windows)
    assert (accepted, drafted) == (147, 312), "what was drafted since the last line is in the counters alone"
    assert windows[-1][0] / windows[-1][1] > 0.58, "the last line, which is another figure than 227 of 456"
    for one, of, rates in windows:
        assert sum(map(float, rates)) * of / 3 == pytest.approx(one, abs=0.1)


def test_nothing_names_the_machine() -> None:
    for path in RUN.iterdir():
        text = path.read_text(encoding="utf-8")
        for word in ("/tmp/", "/root", "/opt/", "/home/", '"vm"'):
            assert word not in text, (path, word)
