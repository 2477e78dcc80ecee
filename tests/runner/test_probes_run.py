"""Probes through the whole runner on a clock of its own, where the right speed of the embedded server is known."""

from __future__ import annotations

import msgspec
import pytest

from infermaxx_tui.core.events import (
    InstrumentRead,
    ProbeAsked,
    ProbeCached,
    Record,
    RequestEnded,
    RequestStarted,
    decode,
)
from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories.edits import each
from infermaxx_tui.core.measures import Measure, find
from infermaxx_tui.core.probe_fit import REFUSED, SERVED
from infermaxx_tui.core.verdict import Verdict, judge_run
from infermaxx_tui.selftest import judge_lines, play_in_memory

_Lines = tuple[bytes, ...]
_FIVE = (
    'probes=[{kind="five", depths=[2000], n=2, max_tokens=64}]',
    "sessions.rounds=1",
    "limits.min_recalls=15",
)


def _played(*faults: str, more: tuple[str, ...] = ()) -> Verdict:
    return judge_lines(play_in_memory(faults or ("clean",), (*_FIVE, *more)))


def _of(verdict: Verdict, name: str, depth: int = 0, streams: int = 1) -> Measure:
    found = find(verdict.measures, (name, depth, streams))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def clean() -> Verdict:
    """On a healthy server."""
    return _played()


def test_the_five_measures_are_the_speeds_that_the_server_has(clean: Verdict) -> None:
    """3 ms a token, 0.02 ms more for each 1,000 tokens before it; 60,000 tokens of prefill a second and 3 ms."""
    assert clean.verdict == "PASS"
    assert _of(clean, "decode.tokens_per_s").median == pytest.approx(1000 / 3.0, rel=0.02)
    assert _of(clean, "decode.tokens_per_s", 2000).median == pytest.approx(1000 / 3.04, rel=0.02)
    assert _of(clean, "ttft.cold_ms", 2000).median == pytest.approx(3.0 + 2000 / 60, rel=0.01)
    hits = _of(clean, "ttft.repeat_hit_tokens", 2000)
    assert all(1900 <= value <= 2000 for value in hits.values)
    assert (_of(clean, "ttft.repeat_ms", 2000).median or 99) < 12
    assert _of(clean, "aggregate.admitted", streams=4).values == (4.0, 4.0)
    aggregate = _of(clean, "aggregate.tokens_per_s", streams=4).median or 0
    assert 2.5 * 333 < aggregate < 4 * 333
    assert all(len(one.values) == 2 and one.reason is None for one in clean.measures), clean.measures


@pytest.fixture(scope="module")
def log() -> _Lines:
    """The lines of such a run."""
    return play_in_memory(("clean",), _FIVE)


def _lagging(log: _Lines, run_ms: float, probe_ms: float | None) -> Verdict:
    """With this lag in all windows of the run, and that one while each request of a probe was open."""
    run = each(InstrumentRead, lambda read: msgspec.structs.replace(read, loop_lag_p99_ms=run_ms))
    probe = each(
        RequestEnded,
        lambda ended: msgspec.structs.replace(
            ended, **(dict.fromkeys(("lag_first_ms", "lag_max_ms"), probe_ms) if ended.kind == "probe" else {})
        ),
    )
    fold = Fold()
    for record in probe(run(tuple(map(decode, log)))):
        fold.add(record)
    return judge_run(fold.snapshot())


@pytest.mark.parametrize(
    ("run_ms", "probe_ms", "seen"),
    [
        (0.0, None, {"cold", "repeat", "decode"}),
        (22.0, 0.5, {"cold", "repeat", "decode"}),
        (22.0, None, {"decode"}),
        (0.0, 22.0, {"decode"}),
        (22.0, 60.0, set()),
        (0.0, 5.0, {"cold", "decode"}),
    ],
    ids=[
        "never",
        "at other times",
        "nobody knows when",
        "while it waited",
        "for long",
        "more than the short one bears",
    ],
)
def test_a_lag_voids_the_times_that_lasted_while_it_did(
    log: _Lines, run_ms: float, probe_ms: float | None, seen: set[str]
) -> None:
    """A fifth of a time is the limit: of 36 ms cold, about 6 repeated, and 190 for a reply's tokens."""
    verdict = _lagging(log, run_ms, probe_ms)
    found = {
        name
        for name, one in (
            ("cold", _of(verdict, "ttft.cold_ms", 2000)),
            ("repeat", _of(verdict, "ttft.repeat_ms", 2000)),
            ("decode", _of(verdict, "decode.tokens_per_s", 2000)),
        )
        if one.values
    }
    assert found == seen
    if probe_ms is not None and probe_ms > 1:
        assert f"lagged {probe_ms:g} ms while it waited" in (_of(verdict, "ttft.repeat_ms", 2000).reason or "")


def test_a_cold_prompt_and_a_repeated_one_have_replies_of_the_same_kind(log: _Lines) -> None:
    """A server that schedules ahead gives the first token of a long reply a step later than the only one of a short."""
    records = [record for record in map(decode, log) if isinstance(record, Record)]
    part = {record.event.req: record.event.part for record in records if isinstance(record.event, ProbeAsked)}
    asked = [
        (part[record.event.req], record.event.max_tokens)
        for record in records
        if isinstance(record.event, RequestStarted) and record.event.req in part
    ]
    assert {tokens for name, tokens in asked if name == "cold"} == {8}
    assert {tokens for name, tokens in asked if name != "cold"} == {64}


def test_speeds_of_a_run_whose_tasks_fail_are_withheld() -> None:
    verdict = _played("dull", more=("quality.tasks=24", "limits.min_quality=0.9"))
    assert verdict.verdict == "FAIL"
    speeds = [one for one in verdict.measures if one.is_speed]
    assert speeds
    assert all(one.values == () and (one.reason or "").startswith("withheld") for one in speeds)


def test_what_a_probe_reaches_is_not_what_conversations_were_shown_to_bear() -> None:
    """Sixteen streams and a prompt of 6,000 tokens beside four conversations to 2,500."""
    more = 'probes=[{kind="depth", depths=[6000], n=1, max_tokens=32}, {kind="streams", streams=[16], n=1}]'
    small = ("sessions.rounds=1", "limits.min_recalls=15")
    verdict, without = (judge_lines(play_in_memory(("clean",), (*probes, *small))) for probes in ((more,), ()))
    assert _of(verdict, "aggregate.admitted", streams=16).values == (16.0,)
    for key in ("concurrency_admitted_peak", "depth_reached"):
        assert getattr(verdict.regime, key) == getattr(without.regime, key)
    assert f"beside one another, down to {without.regime.depth_reached} tokens" in verdict.scope


def test_without_usage_the_servers_counters_say_what_is_cold_and_without_both_nothing_is(clean: Verdict) -> None:
    log = play_in_memory(("no-usage",), _FIVE)
    verdict = judge_lines(log)
    for name in ("ttft.cold_ms", "ttft.repeat_hit_tokens"):
        assert _of(verdict, name, 2000).values == pytest.approx(_of(clean, name, 2000).values, rel=0.01)
    fold = Fold()
    for record in map(decode, log):
        if not isinstance(record, Record) or not isinstance(record.event, ProbeCached):
            fold.add(record)
    cold = _of(judge_run(fold.snapshot()), "ttft.cold_ms", 2000)
    assert cold.values == ()
    assert "nobody counted" in (cold.reason or "")


def test_a_probe_deeper_than_the_window_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(Exception, match="probes: the deepest prompt and its reply need 1000064 tokens"):
        play_in_memory(("clean",), ('probes=[{kind="depth", depths=[1000000], max_tokens=64}]',))


def test_the_largest_session_that_fits_is_served_and_the_next_one_is_refused() -> None:
    """The embedded server's window is 65,536 tokens, so that its pool of four times that never is what refuses."""
    fit = 'probes=[{kind="fit", sizes=[900, 3000, 70000], max_tokens=32}]'
    verdict = judge_lines(play_in_memory(("clean",), (fit, "sessions.rounds=1", "limits.min_recalls=15")))
    assert verdict.verdict == "PASS"
    served, refused = (find(verdict.measures, (name, None, None)) for name in (SERVED, REFUSED))
    assert served is not None
    assert refused is not None
    assert served.values == (3000.0,)
    assert refused.values == (70_000.0,)
    assert "by the window of 65,536 tokens" in (refused.note or "")
