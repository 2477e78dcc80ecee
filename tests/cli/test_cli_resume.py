"""A run that was broken off is taken up again: what is played, what is refused, and what the verdict says of it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from clitools import SCENARIO, Place, decoding, kill_runner, log_of, sim, write_small
from living import until

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.index import RunLog
from infermaxx_tui.log import Follower, last_line, parts
from infermaxx_tui.rundir import RunFolder

_WAVES = SCENARIO.replace("target_depth = 600", "target_depth = 400\nrounds = 40\nat_once = 2")


def _waves(folder: Path, rounds: int = 4) -> Path:
    """Waves of two conversations, one after another."""
    return write_small(folder, _WAVES.replace("rounds = 40", f"rounds = {rounds}"))


def _broken_off(place: Place, scenario: Path, server: str, conversations: int = 2) -> Path:
    """The folder of a run whose runner was killed once so many conversations were over and others were going on."""
    with place.started("run", str(scenario), "--headless", "--no-gpu", "--url", server) as command:
        folder = decoding(command.folder)
        log = folder / "events.jsonl"
        until(lambda: log.read_bytes().count(b'"e":"sessionended"') >= conversations)
        until(lambda: log.read_bytes().rpartition(b'"e":"sessionended"')[2].count(b'"e":"requestended"') >= 1)
        kill_runner(folder)
    return folder


def _of(folder: Path, part: int) -> list[ev.AnyEvent]:
    """The events of one part."""
    return [record.event for record in Follower(parts(folder)[part]).read() if isinstance(record, ev.Record)]


def _issued(events: list[ev.AnyEvent]) -> dict[str, int | None]:
    return {event.tag: event.session for event in events if isinstance(event, ev.TagIssued) and event.tag}


def test_only_what_was_not_whole_is_played_again_with_new_tags(place: Place, server: str, tmp_path: Path) -> None:
    folder = _broken_off(place, _waves(tmp_path / "waves"), server)
    torn = b'{"part":0,"seq":9'
    with (folder / "events.jsonl").open("ab") as file:
        file.write(torn)
    assert place.inside("judge", "latest").code == ExitCode.INCONCLUSIVE
    done = place.run("resume", "latest", "--headless", "--json")
    assert done.code == ExitCode.PASS, done.out
    assert done.out.encode() == (folder / "verdict.json").read_bytes()
    assert place.inside("judge", "latest", "--json").out == done.out
    first, second = _of(folder, 0), _of(folder, 1)
    start, resumed = second[0], second[1]
    assert isinstance(start, ev.RunStarted)
    assert isinstance(first[0], ev.RunStarted)
    assert (start.segment, start.scenario_sha256, start.nonce) == (1, first[0].scenario_sha256, first[0].nonce)
    assert isinstance(resumed, ev.Resumed)
    assert (resumed.how, resumed.verdict, resumed.torn_bytes) == ("killed", "INCONCLUSIVE", len(torn))
    assert resumed.gap_ms is not None
    ended = {e.session for e in first if isinstance(e, ev.SessionEnded) and e.reason == "finished"}
    again = {e.session for e in second if isinstance(e, ev.SessionStarted)}
    assert ended
    assert again == {session for session in range(8) if not {session, session ^ 1} <= ended}, "waves of two"
    assert (resumed.finished, resumed.again) == (8 - len(again), len(again))
    tags = _issued(second)
    assert not set(tags) & set(_issued(first))
    assert {session for session in tags.values() if session is not None} == again
    numbers = [e.req for e in (*first, *second) if isinstance(e, ev.RequestStarted)]
    assert len(set(numbers)) == len(numbers)
    assert "started 2 times" in done.verdict["scope"]
    assert "Its runner died, taken up again after" in done.verdict["scope"]
    assert done.verdict["regime"]["segments"] == 2
    (recall,) = (check for check in done.verdict["checks"] if check["name"] == "recall")
    assert (recall["n_evaluated"], recall["n_planned"]) == (16, 16)
    (row,) = place.inside("runs", "--json").rows
    assert (row["state"], row["verdict"], row["resumed"]) == ("ended", "PASS", 1)
    assert row["gaps_s"] == [resumed.gap_ms / 1000.0]
    assert "resumed once" in place.inside("runs").out
    over = place.inside("resume", "latest")
    assert over.code == ExitCode.USAGE
    assert "came to its end" in over.complaint
    _looked_at(folder)


def _looked_at(folder: Path) -> None:
    """The review finds its way over both parts, and marks where nobody looked."""
    log = RunLog(folder)
    log.open()
    moment = log.latest()
    assert moment.state.segments == 2
    assert moment.state.ended == "finished"
    assert any("taken up after" in entry.text for entry in moment.feed)
    marks = log.timeline.snapshot(0, log.timeline.end_us + 1, 200).marks
    (taken_up,) = (mark for mark in marks if mark.kind == "resumed")
    assert taken_up.text.startswith("its runner died, taken up after")
    assert 0 < taken_up.at_us < log.timeline.end_us


def test_a_run_that_was_stopped_is_taken_up_twice(place: Place, server: str, tmp_path: Path) -> None:
    scenario = _waves(tmp_path / "waves", rounds=6)
    with place.started("run", str(scenario), "--headless", "--no-gpu", "--url", server) as command:
        folder = decoding(command.folder)
        command.process.send_signal(signal.SIGTERM)
        assert command.end().code == ExitCode.INCONCLUSIVE
    assert (folder / "verdict.json").exists()
    with place.started("resume", str(folder), "--headless") as command:
        until(
            lambda: (folder / "events-1.jsonl").exists() and b"firsttoken" in (folder / "events-1.jsonl").read_bytes()
        )
        assert not (folder / "verdict.json").exists(), "nobody must take the old verdict for that of the run"
        pid = RunFolder(folder).pid()
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        alive = place.inside("resume", str(folder))
        assert alive.code == ExitCode.USAGE
        assert "alive" in alive.complaint
        kill_runner(folder)
        assert command.end().code == ExitCode.INCONCLUSIVE
    started = place.run("resume", folder.name, "--detach")
    assert started.out.strip() == folder.name
    done = place.run("attach", folder.name, "--headless", "--json")
    assert done.code == ExitCode.PASS, done.out
    assert [e.how for e in log_of(folder) if isinstance(e, ev.Resumed)] == ["stopped", "killed"]
    assert [path.name for path in parts(folder)] == ["events.jsonl", "events-1.jsonl", "events-2.jsonl"]
    (row,) = place.inside("runs", "--json").rows
    assert (row["resumed"], row["verdict"]) == (2, "PASS")


def test_a_failure_outlives_the_crash_and_the_resume(place: Place, tmp_path: Path) -> None:
    scenario = _waves(tmp_path / "waves")
    with sim(tmp_path / "sim", "--fault", "forget-oldest") as url:
        folder = _broken_off(place, scenario, url)
        assert place.inside("judge", "latest").code == ExitCode.FAIL
        done = place.run("resume", "latest", "--headless", "--json")
    assert done.code == ExitCode.FAIL
    (resumed,) = (event for event in log_of(folder) if isinstance(event, ev.Resumed))
    assert resumed.verdict == "FAIL"


def test_another_server_or_other_transcripts_are_refused_by_name(place: Place, server: str, tmp_path: Path) -> None:
    scenario = _waves(tmp_path / "waves")
    folder = _broken_off(place, scenario, server)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (tmp_path / "waves" / "t1.jsonl").write_bytes((tmp_path / "waves" / "t0.jsonl").read_bytes())
    done = place.run("resume", "latest", "--headless")
    assert done.code == ExitCode.USAGE
    assert "transcripts_sha256" in done.complaint
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == before | {".lock": after[".lock"]}, "a resume that is refused changes nothing"


def test_a_server_that_came_back_as_another_one_is_refused(place: Place, tmp_path: Path, free_port: int) -> None:
    scenario = _waves(tmp_path / "waves")
    at = ("--port", str(free_port))
    with sim(tmp_path / "one", *at) as url:
        folder = _broken_off(place, scenario, url)
    gone = place.run("resume", "latest", "--headless")
    assert gone.code == ExitCode.SERVER
    with sim(tmp_path / "other", *at, "--max-model-len", "4096", "--model", "another"):
        done = place.run("resume", "latest", "--headless")
    assert done.code == ExitCode.USAGE
    for key in ("model (infermaxx-sim, now another)", "max_model_len"):
        assert key in done.complaint
    with sim(tmp_path / "again", *at):
        assert place.run("resume", folder.name, "--headless").code == ExitCode.PASS


def test_a_run_of_its_own_server_starts_it_again(place: Place, tmp_path: Path) -> None:
    with place.started("demo", "--headless", "--no-gpu") as command:
        folder = decoding(command.folder)
        kill_runner(folder)
        command.end()
    (folder / "scenario.toml").write_text("no scenario any more", encoding="utf-8")
    done = place.run("resume", "latest", "--headless", "--json")
    assert done.code == ExitCode.PASS, done.err
    assert {"server.log", "server-0.log"} <= {path.name for path in folder.iterdir()}
    assert (folder / "server-0.log").stat().st_mode & 0o077 == 0
    last = last_line(folder)
    assert isinstance(last, ev.Record)
    assert isinstance(last.event, ev.RunEnded)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ((), "no run ever began"),
        ((ev.RunEnded(reason="gate", events=2),), "a gate kept it from beginning"),
        ((ev.RunEnded(reason="duration", events=2),), "came to its end"),
        ((ev.Noted(text="no first line"),), "no run ever began"),
    ],
)
def test_where_there_is_nothing_to_take_up_it_says_so(place: Place, lines: tuple[ev.AnyEvent, ...], why: str) -> None:
    folder = place.runs / "20260101-000000-small-abcd"
    folder.mkdir(parents=True)
    data = b"".join(ev.encode(ev.Record(0, seq, 0, seq, event)) for seq, event in enumerate(lines))
    (folder / "events.jsonl").write_bytes(data)
    done = place.inside("resume", folder.name, "--headless")
    assert done.code == ExitCode.USAGE
    assert why in done.complaint
    assert not RunFolder(folder).alive()
    assert (folder / "events.jsonl").read_bytes() == data
