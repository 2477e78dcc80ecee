"""A disk that is full: nothing is sent any more, and the verdict says that evidence was lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clitools import Place, decoding, log_of

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode


def test_a_disk_that_fills_up_ends_the_run_inconclusive(
    place: Place, small: Path, server: str, tiny: Path, fill: Callable[[Path], None]
) -> None:
    words = ("run", str(small), "--headless", "--json", "--url", server, "--runs-dir", str(tiny / "runs"))
    with place.started(*words, "--set", "sessions.rounds=400") as command:
        folder = decoding(command.folder)
        fill(tiny)
        done = command.end()
    assert done.code == ExitCode.INCONCLUSIVE, done
    assert done.verdict["verdict"] == "INCONCLUSIVE"
    assert done.verdict["ended"] == "evidence_lost"
    assert "evidence lost" in "".join(check["advice"] or "" for check in done.verdict["checks"])
    assert done.out.encode() == (folder / "verdict.json").read_bytes()
    log = log_of(folder)
    lost = next(place for place, event in enumerate(log) if isinstance(event, ev.EvidenceLost))
    announced = {event.req for event in log[lost + 1 :] if isinstance(event, ev.RequestStarted)}
    ended = [event for event in log[lost + 1 :] if isinstance(event, ev.RequestEnded) and event.req in announced]
    assert len(announced) <= 1, "it may be the very line that had no room, and then it is never sent"
    assert [event.outcome for event in ended] == ["cancelled"] * len(announced)
    assert all(event.status is None for event in ended)
    assert isinstance(log[-1], ev.RunEnded)
    assert {path.name for path in folder.glob("events*")} == {"events.jsonl", "events-1.jsonl"}


def test_a_disk_that_is_full_from_the_start_refuses_the_run(
    place: Place, small: Path, server: str, tiny: Path, fill: Callable[[Path], None]
) -> None:
    (tiny / "runs").mkdir()
    (tiny / "ballast").write_bytes(bytes(4 << 20))
    done = place.run("run", str(small), "--headless", "--no-gpu", "--url", server, "--runs-dir", str(tiny / "runs"))
    assert done.code == ExitCode.USAGE
    assert "no space for a run" in done.complaint
    assert "--runs-dir" in done.complaint
    assert list((tiny / "runs").iterdir()) == []
