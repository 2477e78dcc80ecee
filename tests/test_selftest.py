"""The selftest's sums, its certificate, and recorded runs under the mutation list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from infermaxx_tui import certificate
from infermaxx_tui.certificate import Certificate
from infermaxx_tui.core.events import GateChecked, decode
from infermaxx_tui.core.mutations import MutationRow, judged
from infermaxx_tui.selftest import _loaded, play_in_memory, played_in_memory
from infermaxx_tui.selftest_rows import SelftestRow, certified, proved, selftest_json, selftest_lines
from infermaxx_tui.wish import Wish, load

GOOD = Certificate(
    version="9",
    core_sha256="f" * 64,
    at="2026-11-30T00:00:00Z",
    took_s=1.0,
    planted=3,
    caught=3,
    clean=2,
    false_alarms=0,
    mutations=5,
    killed=5,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERMAXX_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def changed(name: str, *, killed: bool, wanted: str = "FAIL") -> MutationRow:
    return MutationRow(name, "healthy", wanted, "recall", "PASS", (), (), killed)


def row(wanted: str, got: str, *changes: MutationRow, check: str | None = None) -> SelftestRow:
    failed = (check,) if check is not None and got == "FAIL" else ()
    return SelftestRow(f"{wanted} {got}", wanted, check, got, failed, (), True, 1, changes)


def test_the_sums_tell_the_caught_from_the_accused() -> None:
    rows = (
        row("FAIL", "FAIL", check="recall"),
        row("FAIL", "PASS", check="recall"),
        row("INCONCLUSIVE", "INCONCLUSIVE"),
        row("PASS", "PASS", changed("a", killed=True), changed("b", killed=False)),
        row("PASS", "INCONCLUSIVE", changed("drop all usage", killed=False, wanted="PASS")),
    )
    sums = certified(rows, 12.34)
    assert (sums.planted, sums.caught) == (3, 2)
    assert (sums.clean, sums.false_alarms) == (3, 2)
    assert (sums.mutations, sums.killed, sums.survivors) == (2, 1, ("b (healthy)",))
    assert sums.took_s == 12.3
    assert not sums.proved
    lines = selftest_lines(rows)
    assert lines[-4:] == (
        "caught: 2 of 3 planted",
        "false alarms: 2 of 3 clean",
        "mutations killed: 1 of 2",
        "survived: b (healthy)",
    )
    assert "sick servers failed: 1 of 2" in lines


def test_what_a_busy_host_could_not_measure_is_named_and_counts_for_nothing() -> None:
    seen = row("FAIL", "FAIL", check="recall")
    busy = msgspec.structs.replace(row("PASS", "INCONCLUSIVE"), caught=False, busy=True)
    sums = certified((seen, busy), 0.0)
    assert (sums.planted, sums.caught, sums.clean, sums.false_alarms) == (1, 1, 0, 0)
    assert proved((seen, busy))
    assert not proved((msgspec.structs.replace(busy, busy=False),))
    lines = selftest_lines((seen, busy))
    assert "not proved here: PASS INCONCLUSIVE: this host was too busy to measure its times" in lines
    assert lines[2].endswith(" busy")


def test_the_right_verdict_by_another_check_is_not_caught() -> None:
    wrong = msgspec.structs.replace(row("FAIL", "FAIL", check="recall"), failed=("delivery",))
    assert certified((wrong,), 0.0).caught == 0


@pytest.mark.parametrize(
    "bad", [{"caught": 2}, {"false_alarms": 1}, {"killed": 4}], ids=["missed", "accused", "survived"]
)
def test_one_miss_and_nothing_is_proved(bad: dict[str, int]) -> None:
    assert GOOD.proved
    assert not msgspec.structs.replace(GOOD, **bad).proved


def test_without_a_selftest_nothing_is_cited() -> None:
    assert certificate.newest() is None
    assert certificate.cited() is None


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b'{"schema": "x"}'])
def test_a_damaged_certificate_is_none(data: bytes) -> None:
    certificate.place().write_bytes(data)
    assert certificate.newest() is None


def own(**other: object) -> Certificate:
    mine = certified((row("FAIL", "FAIL", check="recall"),), 1.0)
    return msgspec.structs.replace(mine, **other)


def test_a_certificate_of_this_program_is_cited_with_its_figures() -> None:
    kept = certificate.keep(own())
    assert kept.stat().st_mode & 0o077 == 0
    assert certificate.newest() == own(at=json.loads(kept.read_text())["at"])
    gate = certificate.cited()
    assert gate is not None
    assert (gate.name, gate.outcome, gate.required, gate.advice) == ("selftest", "pass", False, None)
    assert "1 of 1 planted caught" in gate.said
    assert certificate.core_sha256()[:12] in gate.said


@pytest.mark.parametrize(
    ("other", "outcome"),
    [({"core_sha256": "0" * 64}, "unknown"), ({"version": "0"}, "unknown"), ({"caught": 0}, "fail")],
    ids=["other sources", "other version", "missed one"],
)
def test_a_certificate_that_says_nothing_of_this_program_is_named_so(other: dict[str, object], outcome: str) -> None:
    certificate.keep(own(**other))
    gate = certificate.cited()
    assert gate is not None
    assert gate.outcome == outcome
    assert gate.advice is not None
    assert "selftest" in gate.advice


def test_a_citation_decides_nothing() -> None:
    certificate.keep(own(caught=0))
    gate = certificate.cited()
    assert gate is not None
    lines = tuple(decode(line) for line in play_in_memory(("clean",)))
    place = next(n for n, line in enumerate(lines) if isinstance(getattr(line, "event", None), GateChecked))
    cited = msgspec.structs.replace(lines[place], event=gate)
    assert judged((*lines[:place], cited, *lines[place + 1 :])).word == "PASS"


@pytest.mark.parametrize("name", ["clean", "quality", "slow-start"])
def test_recorded_runs_are_changed_and_the_judges_see_it(name: str) -> None:
    played = played_in_memory(name)
    assert played.got == "PASS"
    assert [one.mutation for one in played.mutations if not one.killed] == []
    assert len(played.mutations) >= 5
    assert played.caught


def test_a_made_up_run_is_a_row_too() -> None:
    (made_up,) = json.loads(selftest_json((played_in_memory("made-up leak"),)))
    assert (made_up["wanted"], made_up["wanted_check"], made_up["got"]) == ("FAIL", "isolation", "FAIL")
    assert made_up["caught"] is True
    assert {one["killed"] for one in made_up["mutations"]} == {True}


def test_transcripts_that_are_read_once_make_the_same_run() -> None:
    wish = Wish(scenario="demo", nonce="5e1f7e57", faults=("leak",), overrides=("sessions.rounds=1", "seed=9"))
    assert _loaded(wish) == load(wish)


def over(**other: int) -> Certificate:
    played = certificate.over_sockets(own()).sockets
    assert played is not None
    return msgspec.structs.replace(own(), sockets=msgspec.structs.replace(played, **other))


def test_a_certificate_says_whether_it_holds_over_sockets() -> None:
    certificate.keep(own())
    gate = certificate.cited()
    assert gate is not None
    assert gate.said.endswith("not played over sockets")
    certificate.keep(over())
    gate = certificate.cited()
    assert gate is not None
    assert "over sockets" in gate.said
    assert gate.said.endswith("1 of 1 caught, 0 false alarms of 0")
    assert over().proved
    assert not over(caught=0).proved


def test_a_later_selftest_in_memory_keeps_what_was_seen_over_sockets_by_the_same_program_alone() -> None:
    first = over()
    later = msgspec.structs.replace(first, sockets=None, at="2026-12-01T00:00:00Z")
    certificate.keep(first)
    certificate.keep(later)
    assert certificate.newest() == msgspec.structs.replace(later, sockets=first.sockets)
    other = msgspec.structs.replace(later, core_sha256="0" * 64)
    certificate.keep(other)
    assert certificate.newest() == other


def test_the_hash_is_of_what_lies_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(certificate, "_CORE", tmp_path)
    (tmp_path / "a.py").write_text("1")
    first = certificate.core_sha256()
    (tmp_path / "a.py").write_text("2")
    second = certificate.core_sha256()
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert len({first, second, certificate.core_sha256()}) == 3
