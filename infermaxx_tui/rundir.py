"""Names inside a run folder, who is alive in it, and the list of runs: all that is known of the layout on disk."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import platformdirs

from infermaxx_tui.private import make_folder

RUN_ID = re.compile(r"(\d{8}-\d{6})-([A-Za-z0-9][A-Za-z0-9._-]{0,63})-([0-9a-f]{4})")
"""What a run's folder is called: when, which scenario, four hex digits."""
_LOCK_TRIES = 20
_LOCK_WAIT_S = 0.02
"""Whoever asks whether a runner is alive holds the lock for a moment, which must not look like a runner."""


class RunError(Exception):
    """One line for people: which run, what is wrong, what to do."""


def runs_dir(override: str | None = None) -> Path:
    """Where runs live: `--runs-dir`, else INFERMAXX_RUNS, else the platform's user-data folder."""
    given = override or os.environ.get("INFERMAXX_RUNS")
    if given:
        return Path(os.path.expanduser(given))
    return Path(platformdirs.user_data_dir("infermaxx", appauthor=False)) / "runs"


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def events(self) -> Path:
        """First part of the log."""
        return self.path / "events.jsonl"

    @property
    def verdict(self) -> Path:
        """The verdict as the run wrote it."""
        return self.path / "verdict.json"

    @property
    def scenario(self) -> Path:
        """The scenario as run."""
        return self.path / "scenario.toml"

    @property
    def runner_log(self) -> Path:
        """What the runner process said."""
        return self.path / "runner.log"

    @property
    def server_log(self) -> Path:
        """What a launched server said."""
        return self.path / "server.log"

    @property
    def read_mark(self) -> Path:
        """Exists once somebody has opened the verdict."""
        return self.path / ".read"

    @property
    def lock(self) -> Path:
        """The runner holds an exclusive lock on this file and writes its pid into it."""
        return self.path / ".lock"

    @property
    def server_lock(self) -> Path:
        """Locked while a server that the run launched lives, or is being ended after its runner was killed."""
        return self.path / ".server.log.lock"

    @property
    def origin(self) -> Path:
        """Where the run came from, for a resume."""
        return self.path / ".origin"

    @property
    def reserve(self) -> Path:
        """Space that is set free for the last lines when the disk is full."""
        return self.path / ".reserve"

    def hold(self) -> int:
        """A file descriptor with the run's exclusive lock. Raises RunError if another runner has it."""
        fd = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(_LOCK_WAIT_S)
            else:
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                return fd
        os.close(fd)
        raise RunError(f"{self.id}: another runner is writing this run; attach to it instead")

    def alive(self) -> bool:
        """Whether a runner holds the lock."""
        return _is_held(self.lock)

    def server_alive(self) -> bool:
        """Whether a server that the run launched still lives."""
        return _is_held(self.server_lock)

    def pid(self) -> int | None:
        """The runner's process id while it is alive, else None."""
        if not self.alive():
            return None
        text = self.lock.read_bytes().strip()
        return int(text) if text.isdigit() else None

    def is_read(self) -> bool:
        """Whether somebody has opened the verdict; False too where that cannot be seen."""
        try:
            return self.read_mark.exists()
        except OSError:
            return False

    def mark_read(self) -> None:
        """Remembers that somebody has seen the verdict; without the right to write there it stays unread."""
        with suppress(OSError):
            os.close(os.open(self.read_mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def create(root: Path, stamp: str, scenario: str, suffix: str) -> RunFolder:
    """A new run folder, closed to others. Raises RunError where it cannot be made."""
    folder = RunFolder(root / f"{stamp}-{scenario}-{suffix}")
    try:
        make_folder(root)
        folder.path.mkdir(mode=0o700)
    except OSError as error:
        raise RunError(f"{folder.path}: cannot make the run folder ({error.strerror}); give --runs-dir DIR") from None
    return folder


def list_runs(root: Path) -> tuple[RunFolder, ...]:
    """All runs in `root`, newest first; whatever else lies there is ignored. Raises RunError if it cannot be listed."""
    try:
        found = [entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RunError(f"{root}: cannot list the runs ({error.strerror}); give --runs-dir DIR") from None
    return tuple(RunFolder(root / name) for name in sorted(found, reverse=True) if RUN_ID.fullmatch(name))


def find(root: Path, run: str) -> RunFolder:
    """The run that a person named: a folder, an id, the start of an id, or `latest`. Raises RunError."""
    if run == "latest":
        for folder in list_runs(root):
            if _has_log(folder.path) or folder.alive():
                return folder
        raise RunError(f"no runs in {root}; start one with `infermaxx demo`")
    as_path = Path(os.path.expanduser(run))
    if _has_log(as_path):
        return RunFolder(as_path.resolve())
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", run):
        raise RunError(f"{run}: not a run id and not a run folder; `infermaxx runs` lists them")
    matches = [folder for folder in list_runs(root) if folder.id == run or folder.id.startswith(run)]
    if len(matches) != 1:
        many = "no run" if not matches else f"{len(matches)} runs"
        raise RunError(f"{run}: {many} of that name in {root}; `infermaxx runs` lists them")
    return matches[0]


def _has_log(folder: Path) -> bool:
    """Whether there is a log. Raises RunError if that cannot be seen for want of rights."""
    try:
        return stat.S_ISREG(os.lstat(folder / "events.jsonl").st_mode)
    except PermissionError as error:
        raise RunError(f"{folder}: cannot be read ({error.strerror}); its owner can, or name another run") from None
    except (OSError, ValueError):
        return False


def replace_file(path: Path, data: bytes) -> None:
    """Writes `data` to `path` at once or not at all, readable by the owner only."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
