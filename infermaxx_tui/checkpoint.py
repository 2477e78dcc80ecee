"""The fingerprint of a checkpoint: names, exact sizes, and what can be read of them in no time.

Hashing the weights themselves would take longer than a run; their heads name every tensor with its shape and dtype.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec
import orjson

_SMALL_BYTES: Final = 32 << 20
"""Files up to this size are hashed whole: configuration, vocabulary, index."""
_HEAD_BYTES: Final = 100 << 20
"""The head of a safetensors file is never longer."""
_REPO: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class Checkpoint(msgspec.Struct, frozen=True):
    """What lies in a checkpoint's folder."""

    sha256: str
    files: int
    total_bytes: int
    config: object
    """The parsed config.json; None without one."""


def find_checkpoint(root: str | None) -> Path | None:
    """The folder that a server on this machine loaded, from what it says: a folder, or a name in the hub's cache."""
    if not root:
        return None
    folder = Path(root)
    if folder.is_dir():
        return folder
    if not _REPO.fullmatch(root):
        return None
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", str(home / "hub")))
    snapshots = cache / f"models--{root.replace('/', '--')}" / "snapshots"
    found = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    return found[0] if len(found) == 1 else None


def fingerprint(folder: Path) -> Checkpoint:
    """Raises OSError if a file cannot be read, and if there is none."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if not paths:
        raise FileNotFoundError(2, "no files", str(folder))
    whole, total, config = hashlib.sha256(), 0, None
    for path in paths:
        size = path.stat().st_size
        total += size
        whole.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        whole.update(_content(path, size))
    config_path = folder / "config.json"
    if config_path.is_file() and config_path.stat().st_size <= _SMALL_BYTES:
        try:
            config = orjson.loads(config_path.read_bytes())
        except orjson.JSONDecodeError:
            config = None
    return Checkpoint(whole.hexdigest(), len(paths), total, config)


def _content(path: Path, size: int) -> bytes:
    if size <= _SMALL_BYTES:
        return hashlib.sha256(path.read_bytes()).digest()
    if path.suffix != ".safetensors":
        return b""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return hashlib.sha256(file.read(min(length, _HEAD_BYTES))).digest()
