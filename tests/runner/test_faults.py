"""Every fault of the contract against the verdict that it must earn, played through the whole runner in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from infermaxx_tui.core.events import (
    InstrumentRead,
    Record,
    RequestEnded,
    RequestStarted,
    RunEnded,
    TagAsked,
    decode,
)
from infermaxx_tui.core.verdict import Verdict
from infermaxx_tui.selftest import judge_lines, play_in_memory
from infermaxx_tui.sim.faults import FAULTS, demanded

Lines = tuple[bytes, ...]

CONTRACT = """
PASS                clean no-usage usage-cumulative burst buffered ping crlf no-space split u2028 escapes two-done
PASS                no-done bad-utf8 slow-start cache-flip small-kv drafting
FAIL isolation      leak leak-parallel leak-retired stale
FAIL recall         forget-oldest forget-random typo cache-rot wrong-question
FAIL degeneration   babble bang needle-loop special-tokens reason-loop collapse
FAIL delivery       null-stop reason-only error-done eof reset nan html-200 huge-event
FAIL availability   hang dies restarts
FAIL quality        dull
FAIL drift          slow-drift vram-creep
INCONCLUSIVE        suffix-cut capped empty-length no-finish refuse echo too-long busy-503 shed-429
INCONCLUSIVE        preemption-storm throttle limit-reset dither clumps-8k clumps-4k batched
"""
"""The contract's table of faults, written down here a second time on purpose."""

NOTED = {
    "no-usage": "no_usage",
    "usage-cumulative": "usage_cumulative",
    "burst": "burst",
    "ping": "ping",
    "crlf": "crlf",
    "no-space": "no_space",
    "two-done": "two_done",
    "no-done": "no_done",
    "bad-utf8": "bad_utf8",
}
"""Harmless faults that must stand in the verdict as anomalies of the wire; the others are what a wire may do."""

CAUSES = {
    "leak": "foreign",
    "leak-parallel": "foreign",
    "leak-retired": "foreign",
    "stale": "stale",
    "forget-oldest": "alone_too",
    "forget-random": "alone_too",
    "typo": "alone_too",
    "wrong-question": "alone_too",
    "cache-rot": "under_load",
}
"""What asking again alone must say of a miss, and whose tag a leak must show."""

TOGETHER = {
    ("leak", "no-finish"): ("INCONCLUSIVE of all but the leak", "FAIL", {"isolation"}),
    ("leak", "split", "crlf", "burst"): ("odd wires hide no leak", "FAIL", {"isolation"}),
    ("leak", "babble"): ("a leak outranks babble, and both are seen", "FAIL", {"isolation", "degeneration"}),
    ("leak", "capped"): ("replies that end before any tag show none", "INCONCLUSIVE", set()),
    ("forget-oldest", "no-finish"): ("a reply that may have been cut is no miss", "INCONCLUSIVE", set()),
    ("forget-random", "no-usage", "burst"): ("counts of ids suffice", "FAIL", {"recall"}),
    ("refuse", "dies"): ("availability alone", "FAIL", {"availability"}),
    ("capped", "shed-429"): ("two blindnesses see no more than one", "INCONCLUSIVE", set()),
    ("bad-utf8", "u2028", "escapes", "ping", "no-space"): ("many oddities are still none", "PASS", set()),
}
"""Faults at once: why, the verdict, and exactly the checks that fail."""


def table() -> dict[str, tuple[str, str | None]]:
    """The verdict and the failing check of each fault."""
    out: dict[str, tuple[str, str | None]] = {}
    for line in CONTRACT.strip().splitlines():
        earns, names = re.split(r"\s{2,}", line.strip(), maxsplit=1)
        verdict, _, check = earns.partition(" ")
        out |= dict.fromkeys(names.split(), (verdict, check or None))
    return out


@pytest.fixture(scope="module")
def played() -> Iterator[dict[tuple[str, ...], Future[Lines]]]:
    """The logs of all runs of this module, made beside one another in two processes."""
    wanted = [(name,) for name in table()] + list(TOGETHER)
    with ProcessPoolExecutor(max_workers=2) as pool:
        yield {faults: pool.submit(play_in_memory, faults, demanded(faults)) for faults in wanted}


def failing(verdict: Verdict) -> set[str]:
    """Checks that fail."""
    return {check.name for check in verdict.checks if check.outcome == "fail"}


def records(lines: Lines) -> list[Record]:
    """The events of a log."""
    found = [decode(line) for line in lines]
    assert all(isinstance(one, Record) for one in found)
    return [one for one in found if isinstance(one, Record)]


def test_the_embedded_server_has_the_contracts_catalogue() -> None:
    assert {name: (fault.verdict, fault.check) for name, fault in FAULTS.items()} == table()


@pytest.mark.parametrize("name", table())
def test_a_fault_earns_its_verdict(name: str, played: dict[tuple[str, ...], Future[Lines]]) -> None:
    wanted, check = table()[name]
    verdict = judge_lines(played[name,].result())
    why = {one.name: (one.outcome, one.advice) for one in verdict.checks if one.outcome != "pass"}
    assert verdict.verdict == wanted, why
    assert failing(verdict) == ({check} if check is not None else set()), why
    assert verdict.simulated


@pytest.mark.parametrize(("name", "anomaly"), NOTED.items())
def test_a_harmless_oddity_is_noted(name: str, anomaly: str, played: dict[tuple[str, ...], Future[Lines]]) -> None:
    assert judge_lines(played[name,].result()).instrument.anomalies[anomaly] > 0


def test_a_clean_wire_has_no_anomalies(played: dict[tuple[str, ...], Future[Lines]]) -> None:
    assert judge_lines(played["clean",].result()).instrument.anomalies == {}


@pytest.mark.parametrize(("name", "cause"), CAUSES.items())
def test_a_failure_names_its_cause(name: str, cause: str, played: dict[tuple[str, ...], Future[Lines]]) -> None:
    verdict = judge_lines(played[name,].result())
    (failed,) = [check for check in verdict.checks if check.outcome == "fail"]
    assert failed.cause == cause


@pytest.mark.parametrize("faults", TOGETHER)
def test_faults_at_once(faults: tuple[str, ...], played: dict[tuple[str, ...], Future[Lines]]) -> None:
    _, wanted, checks = TOGETHER[faults]
    verdict = judge_lines(played[faults].result())
    assert verdict.verdict == wanted
    assert failing(verdict) == checks


@pytest.mark.parametrize("name", table())
def test_every_log_is_whole(name: str, played: dict[tuple[str, ...], Future[Lines]]) -> None:
    events = [record.event for record in records(played[name,].result())]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].events == len(events)
    started = [event.req for event in events if isinstance(event, RequestStarted)]
    ended = [event.req for event in events if isinstance(event, RequestEnded)]
    assert sorted(started) == sorted(ended) == list(range(1, len(started) + 1))


@pytest.mark.parametrize("name", ["clean", "no-usage", "burst", "forget-oldest", "cache-rot", "leak", "capped"])
def test_counts_agree_with_the_servers_where_nothing_was_cut(
    name: str, played: dict[tuple[str, ...], Future[Lines]]
) -> None:
    seen = judge_lines(played[name,].result()).instrument
    assert seen.counts_reason is None
    assert seen.generation_client == seen.generation_server
    assert seen.prompt_client == seen.prompt_server


@pytest.mark.parametrize("name", ["error-done", "eof", "reset", "hang", "dies", "restarts"])
def test_counts_are_not_compared_where_something_was_cut(
    name: str, played: dict[tuple[str, ...], Future[Lines]]
) -> None:
    assert judge_lines(played[name,].result()).instrument.counts_reason is not None


@pytest.mark.parametrize("name", ["busy-503", "shed-429"])
def test_shed_requests_are_sent_again_visibly_and_after_the_wait(
    name: str, played: dict[tuple[str, ...], Future[Lines]]
) -> None:
    log = records(played[name,].result())
    shed = [r for r in log if isinstance(r.event, RequestEnded) and r.event.outcome == "shed"]
    assert shed
    for record in shed:
        assert isinstance(record.event, RequestEnded)
        session, ended_us = record.event.session, record.mono_us
        later = [r for r in log if isinstance(r.event, RequestStarted) and r.event.session == session]
        waits = [r.mono_us - ended_us for r in later if r.mono_us > ended_us]
        assert not waits or min(waits) >= 1_000_000
    again = [r.event for r in log if isinstance(r.event, TagAsked) and r.event.again_of is not None]
    assert all(event.again_of is not None and event.again_of < event.req for event in again)


def test_the_same_seed_and_nonce_give_the_same_log(played: dict[tuple[str, ...], Future[Lines]]) -> None:
    first, second = (
        [record for record in records(lines) if not isinstance(record.event, InstrumentRead)]
        for lines in (played["leak",].result(), play_in_memory(("leak",)))
    )
    assert first == second
