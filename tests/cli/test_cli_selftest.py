"""The selftest over sockets as a user types it: every fault by runner processes, and nothing left behind by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clitools import PROGRAM, Place
from living import until

from infermaxx_tui.certificate import Certificate
from infermaxx_tui.core.histories.bases import BASES
from infermaxx_tui.exitcodes import ExitCode
from infermaxx_tui.selftest import EXACT, HISTORIES
from infermaxx_tui.sim.faults import FAULTS

_TIMED = {"slow-start", "slow-drift"}
"""What a machine with other things to do may be unable to measure: then it says so, and the run in memory must do."""


def _environment(place: Place, tmp_path: Path) -> dict[str, str]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    return {**place.env, "TMPDIR": str(temporary)}


@pytest.mark.timeout(600)
def test_each_fault_earns_its_verdict_over_sockets(place: Place, tmp_path: Path) -> None:
    env = {**_environment(place, tmp_path), "INFERMAXX_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [*PROGRAM, "selftest", "--sockets", "--json"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=580,
    )
    rows = {row["fault"]: row for row in json.loads(done.stdout)}
    said = done.stderr.decode()
    assert set(rows) == {*FAULTS, *HISTORIES, *(f"made-up {base}" for base in BASES)} - EXACT
    busy = {name for name, row in rows.items() if row["busy"]}
    assert busy <= _TIMED, said
    for name, fault in FAULTS.items():
        if name in busy:
            continue
        failed = [] if fault.check is None else [fault.check]
        assert (rows[name]["got"], rows[name]["failed"]) == (fault.verdict, failed), said
    assert {name for name, row in rows.items() if not row["caught"]} == busy, said
    assert done.returncode == ExitCode.PASS
    assert len(rows["clean"]["mutations"]) > 50
    assert busy or list((tmp_path / "temporary").iterdir()) == []
    certificate = json.loads((tmp_path / "cache" / "selftest.json").read_bytes())
    sockets = certificate["sockets"]
    assert (sockets["caught"], sockets["false_alarms"]) == (sockets["planted"], 0)
    assert set(certificate) == set(Certificate.__struct_fields__)


def _alive(root: Path) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(root) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_ends_all_that_a_selftest_over_sockets_started(place: Place, tmp_path: Path) -> None:
    env = _environment(place, tmp_path)
    flags = ("--fault", "vram-creep", "--fault", "slow-start", "--fault", "hang")
    with place.started("selftest", "--sockets", *flags, env=env) as command:
        until(lambda: len(_alive(tmp_path / "temporary")) >= 2)  # embedded servers, which are told their port file
        command.process.send_signal(signal.SIGINT)
        done = command.end()
    assert done.code == ExitCode.INTERRUPTED
    assert done.out == ""
    assert done.err.splitlines() == ["infermaxx: interrupted"]
    until(lambda: not _alive(tmp_path / "temporary"))
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_selftest_in_memory_ends_quietly_too(place: Place) -> None:
    with place.started("selftest") as command:
        until(lambda: len(_children(command.process.pid)) >= 1)
        command.process.send_signal(signal.SIGINT)
        done = command.end()
    assert done.code == ExitCode.INTERRUPTED
    assert (done.out, done.err) == ("", "infermaxx: interrupted\n")


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]
