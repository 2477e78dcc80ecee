"""A disk that is full: nothing is sent any more, and the verdict says that evidence was lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clitools import Place, decoding, log_of

from infermaxx_tui.core import events as ev
from infermaxx_tui.exitcodes import ExitCode


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 6 MiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a small tmpfs needs root on Linux")
    words = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path) -> None:
    """Leaves no byte free."""
    with (folder / "filler").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def test_a_disk_that_fills_up_ends_the_run_inconclusive(place: Place, small: Path, server: str, tiny: Path) -> None:
    words = ("run", str(small), "--headless", "--json", "--url", server, "--runs-dir", str(tiny / "runs"))
    with place.started(*words, "--set", "sessions.rounds=400") as command:
        folder = decoding(command.folder)
        _fill(tiny)
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


def test_a_disk_that_is_full_from_the_start_refuses_the_run(place: Place, small: Path, server: str, tiny: Path) -> None:
    (tiny / "runs").mkdir()
    (tiny / "ballast").write_bytes(bytes(4 << 20))
    done = place.run("run", str(small), "--headless", "--no-gpu", "--url", server, "--runs-dir", str(tiny / "runs"))
    assert done.code == ExitCode.USAGE
    assert "no space for a run" in done.complaint
    assert "--runs-dir" in done.complaint
    assert list((tiny / "runs").iterdir()) == []
