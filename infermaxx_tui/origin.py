"""Where a run came from, as far as its log does not say it: who takes it up again finds its transcripts by that."""

from __future__ import annotations

from pathlib import Path

import msgspec

from infermaxx_tui import rundir
from infermaxx_tui.rundir import RunFolder
from infermaxx_tui.wish import Wish


class Origin(msgspec.Struct, frozen=True):
    """Where a run came from, as far as its log does not say it; kept beside the log."""

    base: str
    """The folder of the scenario file, to which its transcripts are relative."""
    faults: tuple[str, ...] = ()
    """Faults that a demo was asked for."""


def keep_origin(run: RunFolder, base: Path, wish: Wish) -> None:
    """Writes down what a resume needs beside the log."""
    rundir.replace_file(run.origin, msgspec.json.encode(Origin(str(base), wish.faults)))


def origin_of(run: RunFolder) -> Origin:
    """Where the run came from; the run's own folder, if nobody wrote it down."""
    try:
        return msgspec.json.decode(run.origin.read_bytes(), type=Origin)
    except (OSError, msgspec.DecodeError):
        return Origin(str(run.path))
