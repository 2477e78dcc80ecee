"""Whole runs through a proxy that meddles: what it breaks is found, what it only delays spoils times and no content,
and nothing that it does to a reply is ever scored as the model's forgetting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import meddler
import msgspec
import pytest
from clitools import Place, log_of, sim, write_small
from meddler import Meddler, Way

from infermaxx_tui.core.events import RequestEnded
from infermaxx_tui.exitcodes import ExitCode


class Demand(msgspec.Struct, frozen=True):
    """What a run through such a proxy must come to."""

    way: Way
    verdict: str
    failed: tuple[str, ...] = ()
    """Checks that must fail, and no others may."""
    also: tuple[str, ...] = ()
    """Checks that may fail too."""
    unseen: tuple[str, ...] = ()
    """Checks that must not be evaluable."""
    outcomes: tuple[str, ...] = ("ok",)
    """How requests may end."""
    said: str = "clump"
    """Words of why the times cannot be seen, where they must not."""


TORN = ("ok", "truncated")
WAYS: dict[str, Demand] = {
    "does no harm": Demand(meddler.through, "PASS"),
    "closes connections between requests": Demand(meddler.through, "PASS"),
    "buffers the whole reply": Demand(meddler.buffered, "PASS", unseen=("timing",)),
    "clumps of 32 KiB": Demand(meddler.clumps(32768), "PASS", unseen=("timing",)),
    "clumps of 16 KiB": Demand(meddler.clumps(16384), "PASS", unseen=("timing",)),
    "clumps of 8 KiB": Demand(meddler.clumps(8192), "PASS", unseen=("timing",), said="8 KiB"),
    "clumps of 4 KiB": Demand(meddler.clumps(4096), "PASS", unseen=("timing",), said="clumps of 4 KiB"),
    "what came in 200 ms": Demand(meddler.at_intervals(0.2), "PASS", unseen=("timing",)),
    "comments and other line ends": Demand(meddler.comments, "PASS"),
    "a page between the events": Demand(meddler.between, "PASS"),
    "torn inside a line": Demand(meddler.torn("line"), "FAIL", ("delivery",), outcomes=TORN),
    "torn inside a character": Demand(meddler.torn("character"), "FAIL", ("delivery",), outcomes=TORN),
    "torn between events": Demand(meddler.torn("events"), "FAIL", ("delivery",), outcomes=TORN),
    "neither [DONE] nor a last chunk": Demand(meddler.unfinished, "PASS"),
    "a page instead of the rest": Demand(meddler.page, "FAIL", ("delivery",), outcomes=("ok", "protocol")),
    "events lost": Demand(meddler.dropped, "INCONCLUSIVE", unseen=("recall",)),
    "events twice": Demand(meddler.doubled, "INCONCLUSIVE", unseen=("recall",)),
    "events of another reply": Demand(meddler.mixed, "", also=("isolation",)),
    "compressed": Demand(meddler.packed, "FAIL", ("delivery",), outcomes=("ok", "protocol")),
    "502": Demand(meddler.bad_gateway, "INCONCLUSIVE", also=("delivery", "availability"), outcomes=("ok", "rejected")),
    "502 in the middle": Demand(meddler.late_502, "FAIL", ("delivery",), outcomes=TORN),
    "stalls": Demand(
        meddler.stalled, "FAIL", ("availability",), ("delivery",), outcomes=("ok", "stalled", "cancelled")
    ),
    "a few bytes a second": Demand(
        meddler.loris, "FAIL", ("availability",), ("delivery",), outcomes=("ok", "stalled", "cancelled")
    ),
    "resets": Demand(meddler.reset, "FAIL", ("delivery",), outcomes=TORN),
}
SHORT = ("buffers the whole reply", "clumps of 4 KiB", "torn inside a line", "events lost", "stalls")


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A healthy server that takes its time for a token, so that a proxy's delays can be told from it."""
    with sim(tmp_path_factory.mktemp("sim"), "--decode-ms", "3") as url:
        yield url


def test_a_run_through_a_proxy(place: Place, upstream: str, way: str, tell: Callable[[str], None]) -> None:
    demand = WAYS[way]
    small = write_small(place.root)
    with Meddler(upstream, demand.way) as proxy:
        words = ("--url", proxy.url, "--set", "limits.stall_s=3.0", "--set", "sessions.rounds=2", "--no-gpu")
        done = place.run("run", str(small), "--headless", "--json", *words)
        assert proxy.meddled >= 4, done
    checks = {check["name"]: check["outcome"] for check in done.verdict["checks"]}
    failed = {name for name, outcome in checks.items() if outcome == "fail"}
    verdict = done.verdict["verdict"]
    unseen = sorted(name for name, outcome in checks.items() if outcome == "not_evaluable")
    tell(f"{way}: {verdict}, fails {sorted(failed)}, cannot see {unseen}")
    timing = next(check["advice"] or "" for check in done.verdict["checks"] if check["name"] == "timing")
    assert "timing" not in demand.unseen or demand.said in timing, timing
    assert "timing" in demand.unseen or "holds" not in timing, timing
    tell(f"  timing: {timing}")
    assert checks["recall"] != "fail", done.verdict
    assert failed <= {*demand.failed, *demand.also}, done.verdict
    assert set(demand.failed) <= failed, done.verdict
    assert all(checks[name] == "not_evaluable" for name in demand.unseen), done.verdict
    if demand.verdict:
        assert verdict == demand.verdict or (failed & set(demand.also) and verdict == "FAIL"), done.verdict
    assert verdict != "PASS" or demand.verdict == "PASS"
    assert done.code == {"PASS": ExitCode.PASS, "FAIL": ExitCode.FAIL}.get(verdict, ExitCode.INCONCLUSIVE)
    ended = [event for event in log_of(folder_of(place)) if isinstance(event, RequestEnded)]
    assert {event.outcome for event in ended} <= set(demand.outcomes)


def folder_of(place: Place) -> Path:
    """The one run."""
    (folder,) = place.folders
    return folder


def test_every_short_way_is_one() -> None:
    assert set(SHORT) <= set(WAYS)
