"""A file system so small that it can be filled, for what a full disk does to evidence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

NO_TMPFS: Final = "a small tmpfs"
"""How the reasons begin for which there is none: rights that no installation brings."""


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A tmpfs of 6 MiB; the test is skipped where none can be mounted."""
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip(f"{NO_TMPFS} needs root on Linux")
    words = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{NO_TMPFS} cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(folder: Path) -> None:
    """Leaves no byte free, also where it was filled before."""
    with (folder / "filler").open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
