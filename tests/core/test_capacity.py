"""Sessions are sized by their peaks, recorded where there is a recording, and an average never decides."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.capacity import LISTED, Measured, Stats, TokenizerName, describe, fit_counted, stats_lines
from infermaxx_tui.core.kv_report import fit
from infermaxx_tui.core.stats import counted_quantile, quantile
from infermaxx_tui.core.transcript import Message, Request, Session, Usage, Window

NAME = TokenizerName("toy", exact=False)


def _session(name: str, sizes: list[tuple[int, int] | None]) -> Session:
    usages = [Usage() if size is None else Usage(prompt_tokens=size[0], output_tokens=size[1]) for size in sizes]
    requests = tuple(Request((Message("user", "q"),), Message("assistant", "a"), usage) for usage in usages)
    return Session(name, "toy", f"{name}.jsonl", (Window("start", requests),), loss=(("no_timing", 1),))


def _never(session: Session) -> Measured:
    raise AssertionError("recorded usage is the witness: nothing had to be counted")


def _of(*sizes: list[tuple[int, int] | None], pool: int | None = None) -> Stats:
    sessions = [_session(f"s{n}", one) for n, one in enumerate(sizes)]
    return describe(sessions, lambda session: Measured((7,) * len(session.requests)), NAME, pool)


def test_recorded_usage_is_the_witness() -> None:
    stats = describe([_session("a", [(100, 10), (300, 20), (250, 5)])], _never, NAME, 400)
    (row,) = stats.sessions
    assert (row.peak_tokens, row.peak_source, row.mean_tokens) == (320, "recorded", (110 + 320 + 255) / 3)
    assert (stats.exceeds_alone, stats.fit_together) == (0, 1)


def test_a_gap_in_the_recording_means_counting_all_of_it() -> None:
    (row,) = _of([(100, 10), None]).sessions
    assert (row.peak_tokens, row.peak_source) == (7, "tokenised")


def test_who_exceeds_alone_and_who_fits() -> None:
    stats = _of([(90, 10)], [(40, 10)], [(45, 5)], [(290, 10)], pool=200)
    assert stats.exceeds_alone == 1
    assert stats.fit_together == 3  # 50 + 50 + 100
    assert "1 of 4 sessions exceed it alone" in "\n".join(stats_lines(stats))
    assert any(" > pool" in line for line in stats_lines(stats))


def test_without_a_pool_nothing_is_claimed_about_it() -> None:
    stats = _of([(90, 10)])
    assert (stats.pool, stats.exceeds_alone, stats.fit_together) == (None, None, None)
    assert not any("pool" in line for line in stats_lines(stats))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.integers(0, 5000))
def test_no_choice_of_sessions_fits_more(peaks: list[int], pool: int) -> None:
    found = fit(peaks, pool)
    smallest = sorted(peaks)
    assert sum(smallest[:found]) <= pool
    assert found == len(peaks) or sum(smallest[: found + 1]) > pool


_PEAKS = st.lists(st.integers(0, 60), max_size=40)


@given(_PEAKS, st.floats(0, 1))
def test_a_quantile_of_counted_values_is_that_of_the_values(values: list[int], q: float) -> None:
    wanted = quantile(values, q)
    found = counted_quantile(Counter(values), q)
    assert found == (None if wanted is None else pytest.approx(wanted))


@given(_PEAKS, st.integers(0, 400))
def test_of_counted_peaks_as_many_fit_as_of_the_peaks(peaks: list[int], room: int) -> None:
    assert fit_counted(Counter(peaks), room) == fit(peaks, room)


def test_a_trace_of_more_sessions_than_are_listed_is_counted_whole() -> None:
    sessions = (_session(f"s{n}", [(100 + n % 7, 10)]) for n in range(LISTED + 25))
    stats = describe(sessions, _never, TokenizerName("t", exact=True), 112)
    assert (len(stats.sessions), stats.sessions_left_out, stats.count) == (LISTED, 25, LISTED + 25)
    assert stats.exceeds_alone == sum(110 + n % 7 > 112 for n in range(LISTED + 25))
    assert stats.peak.max == 116
    assert stats.overlap is None
    assert "and 25 more, counted below" in "\n".join(stats_lines(stats))
