"""A disk that is full to the last byte: nothing is sent, it is said, and once there is room the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clitools import Place, decoding
from living import until
from survivaltools import left_in, same_bytes

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.log import parts
from infermaxx_tui.rundir import RunFolder


def test_a_run_that_lost_evidence_is_taken_up_when_there_is_room(
    place: Place, server: str, two_waves: Path, tiny: Path, fill: Callable[[Path], None]
) -> None:
    runs = ("--runs-dir", str(tiny / "runs"))
    words = ("run", str(two_waves), "--headless", "--json", "--no-gpu", "--url", server, *runs)
    with place.started(*words) as command:
        folder = decoding(command.folder)
        fill(tiny)
        done = command.end()
    assert done.code == ExitCode.INCONCLUSIVE, done
    assert done.verdict["ended"] == "evidence_lost"
    left = left_in(folder)
    full = place.run("resume", folder.name, "--headless", *runs)
    assert full.code == ExitCode.USAGE
    assert "no space for a run" in full.complaint
    assert left_in(folder).events == left.events, "a resume for which there is no room changes nothing"
    (tiny / "filler").unlink()
    done = place.run("resume", folder.name, "--headless", "--json", *runs)
    assert done.code == ExitCode.PASS, done.out
    again = [event for event in left_in(folder).events if isinstance(event, ev.Resumed)]
    assert [event.how for event in again] == ["evidence_lost"]
    assert len(parts(folder)) >= 2
    assert same_bytes(folder)


def test_without_a_byte_for_the_verdict_the_log_still_earns_one(
    place: Place, server: str, two_waves: Path, tiny: Path, fill: Callable[[Path], None]
) -> None:
    runs = ("--runs-dir", str(tiny / "runs"))
    words = ("run", str(two_waves), "--headless", "--json", "--no-gpu", "--url", server, *runs)
    with place.started(*words) as command:
        folder = decoding(command.folder)

        def full() -> bool:
            fill(tiny)  # again and again: what the run sets free for its last words is taken too
            return not RunFolder(folder).alive()

        until(full)
        done = command.end()
    assert done.code == ExitCode.INCONCLUSIVE, done
    assert done.verdict["verdict"] == "INCONCLUSIVE"
    assert place.inside("judge", folder.name, *runs).code == ExitCode.INCONCLUSIVE
    (row,) = place.inside("runs", "--json", *runs).rows
    assert row["state"] in ("ended", "died")
    (tiny / "filler").unlink()
    done = place.run("resume", folder.name, "--headless", "--json", *runs)
    assert done.code == ExitCode.PASS, done.out
