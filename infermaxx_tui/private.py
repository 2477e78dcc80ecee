"""Files and folders that belong to their owner alone: runs, transcripts and what is made of them hold private text.

The mode is given when a thing is made and not afterwards, so that there is no moment at which others may look.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO


def make_folder(folder: Path) -> None:
    """Makes the folder and those above it that are missing, closed to others. One that is there stays as it is.

    Raises OSError.
    """
    missing = [folder]
    while not missing[-1].parent.exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for one in reversed(missing):
        try:
            one.mkdir(mode=0o700)
        except FileExistsError:
            if not one.is_dir():
                raise


def new_file(path: Path) -> BinaryIO:
    """A new file, open for writing; whatever has its name already, a link too, is left alone. Raises OSError."""
    return open(path, "xb", opener=_closed)


def _closed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
