"""All that this program makes is its owner's alone, whatever the umask says; no link in a run folder is followed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clitools import PROGRAM, Place, write_small
from living import PATIENCE_S

from infermaxx_tui import rundir
from infermaxx_tui.log import Appender, parts
from infermaxx_tui.private import make_folder, new_file
from infermaxx_tui.rundir import RunError, RunFolder

STAMP = "20260102-030405"


@contextmanager
def masked(umask: int) -> Iterator[None]:
    """A umask for this process while the block lasts."""
    before = os.umask(umask)
    try:
        yield
    finally:
        os.umask(before)


def open_ones(root: Path) -> list[str]:
    """What under a folder others may read, write or enter; links are not followed."""
    found = [root, *root.rglob("*")]
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path.relative_to(root)}"
        for path in found
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


def home(place: Place, umask: int) -> dict[str, str]:
    """An environment in which every default place lies under one folder that was not there before."""
    made = place.root / f"home-{umask:03o}"
    env = {name: value for name, value in place.env.items() if not name.startswith("INFERMAXX_")}
    xdg = {f"XDG_{name}_HOME": str(made / name.lower()) for name in ("DATA", "CACHE", "STATE", "CONFIG")}
    return {**env, **xdg, "HOME": str(made)}


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_whatever_a_command_writes_is_closed_to_others(place: Place, umask: int) -> None:
    env = home(place, umask)
    root = Path(env["HOME"])
    root.mkdir(mode=0o700)
    small = write_small(place.root / "small")
    out = root / "converted" / "deep"
    commands = (
        ("demo", "--headless", "--no-gpu"),
        ("run", str(small), "--headless", "--no-gpu", "--set", 'server.sim=["clean"]'),
        ("judge", "latest"),
        ("transcripts", "import", str(small.parent / "t0.jsonl"), "--out", str(out / "import")),
        ("transcripts", "make", "--sessions", "1", "--out", str(out / "make")),
        ("transcripts", "redact", str(small.parent / "t1.jsonl"), "--out", str(out / "redact")),
        ("selftest", "--fault", "clean"),
    )
    for words in commands:
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=place.root,
            env=env,
            umask=umask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr.decode())
    assert len(list(root.rglob("verdict.json"))) == 2
    assert len(list(out.rglob("*.jsonl"))) >= 3
    assert open_ones(root) == []


def test_folders_above_a_private_one_are_private_too(tmp_path: Path) -> None:
    with masked(0):
        make_folder(tmp_path / "a" / "b" / "c")
        make_folder(tmp_path / "a" / "b" / "c")
        with new_file(tmp_path / "a" / "x") as file:
            file.write(b"x")
    assert open_ones(tmp_path / "a") == []
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a" / "x")
    with pytest.raises(FileExistsError):
        new_file(tmp_path / "a" / "x")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        new_file(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def planted(folder: RunFolder, name: str, victim: Path) -> None:
    """A link with the name of a file of a run."""
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(victim)


def test_no_link_in_a_run_folder_is_written_through(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path / "runs", STAMP, "demo", "00ff")
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="ascii")
    for name in (".lock", ".read", "events.jsonl", "verdict.json", "events-1.jsonl"):
        planted(folder, name, victim)
    with pytest.raises(OSError, match="symbolic links"):
        folder.hold()
    folder.mark_read()
    with pytest.raises(OSError, match="symbolic links"):
        Appender(folder.events)
    rundir.replace_file(folder.verdict, b"{}")
    assert not folder.alive()
    assert victim.read_text(encoding="ascii") == "precious"
    assert not folder.verdict.is_symlink()


def test_no_link_is_taken_for_a_run_or_for_its_log(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere"
    secret.mkdir()
    (secret / "events.jsonl").write_bytes(b"{}\n")
    root = tmp_path / "runs"
    root.mkdir()
    (root / f"{STAMP}-demo-00aa").symlink_to(secret)
    assert rundir.list_runs(root) == ()
    for name in ("latest", f"{STAMP}-demo-00aa", STAMP):
        with pytest.raises(RunError):
            rundir.find(root, name)
    folder = rundir.create(root, STAMP, "demo", "00bb")
    folder.events.symlink_to(secret / "events.jsonl")
    os.mkfifo(folder.path / "events-1.jsonl")
    assert parts(folder.path) == ()
    with pytest.raises(RunError):
        rundir.find(root, str(folder.path))


def test_a_fifo_for_a_lock_holds_nobody_up(tmp_path: Path) -> None:
    folder = rundir.create(tmp_path, STAMP, "demo", "00ff")
    os.mkfifo(folder.lock)
    code = (
        "import sys, pathlib; from infermaxx_tui.rundir import RunFolder; RunFolder(pathlib.Path(sys.argv[1])).alive()"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code, str(folder.path)], env=env, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "name",
    ["/etc", "../x", "a/../../b", "..", ".", "", "a\x00b", "~root", "-rf", "a b", "%2e%2e", "x" * 300, "\u202e", "*"],
)
def test_a_name_that_is_no_id_reaches_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"")
    root = tmp_path / "runs"
    root.mkdir()
    with pytest.raises(RunError):
        rundir.find(root, name)
