"""The folder of one experiment: the file as it was asked, and rows that are only ever appended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from infermaxx_tui.core.experiment.rows import AnyRow, arm_rows, decode_rows, encode_row, registered
from infermaxx_tui.private import make_folder
from infermaxx_tui.rundir import RunError, RunFolder

SUBFOLDER = "experiments"
"""Beside the runs, in the folder that holds them."""
_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9][A-Za-z0-9._+-]{0,63}-[0-9a-f]{4}")


_STAMP, _SUFFIX = len("YYYYmmdd-HHMMSS-"), -len("-0a0b")


def name_of(folder_id: str) -> str:
    """The experiment's name as its folder has it: a stamp before it, four hex digits after it."""
    return folder_id[_STAMP:_SUFFIX]


class ExperimentFolder:
    """One experiment on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def rows_file(self) -> Path:
        """The results, a row a line."""
        return self.path / "rows.jsonl"

    @property
    def file(self) -> Path:
        """The experiment file as it was asked."""
        return self.path / "experiment.toml"

    def server_log(self, arm: str, boot: int) -> Path:
        """Where the log of a start that failed is kept."""
        return self.path / f"{arm}-{boot + 1}.server.log"

    def rows(self) -> tuple[AnyRow, ...]:
        """All whole rows. Raises RunError if they cannot be read."""
        try:
            with self.rows_file.open("rb") as lines:
                return decode_rows(lines)
        except OSError as error:
            raise RunError(f"{self.rows_file}: cannot be read ({error.strerror})") from None
        except msgspec.DecodeError as error:
            raise RunError(f"{self.rows_file}: holds a row that is none: {error}") from None

    def append(self, row: AnyRow) -> None:
        """Writes one row, whole, on the disk when this returns. A torn one before it is cut off first."""
        line = encode_row(row)
        fd = os.open(self.rows_file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _cut_torn(fd)
            if os.write(fd, line) != len(line):
                raise RunError(f"{self.rows_file}: the disk is full; the row is not kept")
            os.fsync(fd)
        finally:
            os.close(fd)

    def hold(self) -> int:
        """A file descriptor with the experiment's lock. Raises RunError if it is being conducted already."""
        try:
            return RunFolder(self.path).hold()
        except RunError:
            raise RunError(f"{self.id}: is being conducted already by another process") from None


def _cut_torn(fd: int) -> None:
    size = os.fstat(fd).st_size
    data = os.pread(fd, size, 0)
    whole = data.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(fd, whole)


def create(root: Path, stamp: str, name: str, suffix: str) -> ExperimentFolder:
    """A new folder, closed to others. Raises RunError where it cannot be made."""
    folder = ExperimentFolder(root / SUBFOLDER / f"{stamp}-{name}-{suffix}")
    try:
        make_folder(folder.path.parent)
        folder.path.mkdir(mode=0o700)
    except OSError as error:
        raise RunError(f"{folder.path}: cannot make the folder ({error.strerror}); give --runs-dir DIR") from None
    return folder


def list_experiments(root: Path) -> tuple[ExperimentFolder, ...]:
    """All of them, newest first; whatever else lies there is ignored."""
    try:
        names = [entry.name for entry in os.scandir(root / SUBFOLDER) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    return tuple(
        ExperimentFolder(root / SUBFOLDER / name) for name in sorted(names, reverse=True) if _ID.fullmatch(name)
    )


def find(root: Path, name: str) -> ExperimentFolder:
    """A folder's path, an id, or `latest`. Raises RunError."""
    every = list_experiments(root)
    if name == "latest" and every:
        return every[0]
    for folder in every:
        if folder.id == name:
            return folder
    path = Path(os.path.expanduser(name))
    if (path / "rows.jsonl").is_file():
        return ExperimentFolder(path.resolve())
    raise RunError(f"{name}: no such experiment; `infermaxx experiment --list` names those in {root / SUBFOLDER}")


def unfinished(root: Path, name: str, file_sha256: str) -> ExperimentFolder | None:
    """The newest experiment of this very file that has steps left; None if there is none."""
    for folder in list_experiments(root):
        for rows in _readable(folder):
            first = registered(rows)
            if first is None or first.experiment != name or first.file_sha256 != file_sha256:
                continue
            return folder if left(rows) else None
    return None


def asked_otherwise(root: Path, name: str, file_sha256: str) -> ExperimentFolder | None:
    """The newest experiment of that name, if it has steps left and was asked in other words; None if it is not so.

    Words differ too where the program that wrote them knew other keys.
    """
    for folder in list_experiments(root):
        for rows in _readable(folder):
            first = registered(rows)
            if first is not None and first.experiment == name:
                return folder if first.file_sha256 != file_sha256 and left(rows) else None
    return None


def _readable(folder: ExperimentFolder) -> Iterator[tuple[AnyRow, ...]]:
    try:
        yield folder.rows()
    except RunError:
        return


def left(rows: tuple[AnyRow, ...]) -> tuple[tuple[str, int], ...]:
    """Arm and boot of steps without a row that counts: what was interrupted or gated is done again."""
    first = registered(rows)
    if first is None:
        return ()
    done = {(row.arm, row.boot) for row in arm_rows(rows) if row.outcome not in ("interrupted", "gated")}
    return tuple(step for step in first.order if step not in done)
