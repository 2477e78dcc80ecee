"""This host: what the program runs on, and what a vLLM started here would trip over."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import resource
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from infermaxx_tui import rundir
from infermaxx_tui.core.checkup import Item

_BEFORE_314: Final = "backports.zstd"
"""Newer Pythons bring it."""
_LEAST_FREE: Final = 1 << 30
_LEAST_FILES: Final = 4096
_LEAST_SHM: Final = 1 << 30
_GIB: Final = float(1 << 30)


def host_items(runs_dir: str | None) -> list[Item]:
    """All of it; nothing is changed but a file that is written to the runs folder and taken away again."""
    return [*_machine(), *_python(), *_terminal(), _runs(rundir.runs_dir(runs_dir)), *_for_a_server()]


def _machine() -> Iterator[Item]:
    memory = psutil.virtual_memory()
    said = f"{socket.gethostname()}, {platform.system()} {platform.release()} {platform.machine()}"
    yield Item("host", "machine", "ok", said)
    cpus = os.cpu_count() or 1
    load = os.getloadavg()[0]
    busy = load > cpus
    yield Item(
        "host",
        "CPU",
        "warn" if busy else "ok",
        f"{cpus} cores, load {load:.1f}",
        "what else runs here delays the client: times of a run would be its own" if busy else None,
    )
    yield Item("host", "memory", "ok", f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB free")
    if "microsoft" in platform.release().lower():
        said = "WSL: the driver hides which process holds how much of a card"
        yield Item("host", "WSL", "note", said, "give WSL memory and swap in .wslconfig before a large model is loaded")


def _python() -> Iterator[Item]:
    final = sys.version_info.releaselevel == "final"
    yield Item(
        "host",
        "Python",
        "ok" if final else "warn",
        f"{platform.python_version()} at {sys.executable}",
        None if final else "a pre-release: take a final one",
    )
    yield from package_items(_versions())
    rivals = [name for name in ("pynvml", "nvidia-ml-py3") if _installed(name)]
    if rivals:
        said = f"{', '.join(rivals)} stands in the place of nvidia-ml-py"
        yield Item("host", "NVML binding", "warn", said, f"pip uninstall {' '.join(rivals)}")


NEEDED: Final = {
    "anyio": "anyio",
    "backports.zstd": "backports.zstd",
    "httpx": "httpx",
    "jinja2": "jinja2",
    "msgspec": "msgspec",
    "nvidia-ml-py": "pynvml",
    "orjson": "orjson",
    "platformdirs": "platformdirs",
    "psutil": "psutil",
    "textual": "textual",
    "tokenizers": "tokenizers",
    "transformers": "transformers",
}
"""What this program needs, without its extras, and the module that it imports of each. It stands here because a program
that runs from a folder has no distribution to ask."""


def package_items(versions: Mapping[str, str | None]) -> Iterator[Item]:
    """Each package with its version, and those that are not there (None)."""
    found = [f"{name} {version}" for name, version in versions.items() if version is not None]
    missing = [name for name, version in versions.items() if version is None]
    if found:
        yield Item("host", "packages", "ok", ", ".join(found))
    if missing:
        yield Item("host", "packages missing", "bad", ", ".join(missing), "pip install infermaxx-tui")
    if not _installed("infermaxx-tui"):
        yield Item("host", "program", "note", "runs from a folder: it is not installed as infermaxx-tui")


def _versions() -> dict[str, str | None]:
    needed = {name: module for name, module in NEEDED.items() if name != _BEFORE_314 or sys.version_info < (3, 14)}
    return {name: version_of(name, module) for name, module in needed.items()}


def version_of(name: str, module: str) -> str | None:
    """By the distribution's own word, else by the module's; None if there is neither, or if it cannot be imported."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        imported = importlib.import_module(module)
    except (ImportError, OSError):
        return None
    version = getattr(imported, "__version__", None)
    return f"{version} (by its module)" if isinstance(version, str) else "of an unknown version"


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _terminal() -> Iterator[Item]:
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    kind, encoding = os.environ.get("TERM", ""), getattr(sys.stdout, "encoding", None) or "unknown"
    over = ", over SSH" if os.environ.get("SSH_CONNECTION") else ""
    drawn = tty and kind not in ("", "dumb")
    said = f"TERM={kind or 'unset'}, {encoding}{over}" + ("" if drawn else ": no TUI here, --headless works")
    yield Item("host", "terminal", "ok" if drawn else "note", said)


def _runs(root: Path) -> Item:
    """Whether runs can be kept there; the folder is not made for that."""
    place = root
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Item("host", "runs folder", "bad", f"{root}: {error.strerror}", "give --runs-dir DIR")
    if not os.access(place, os.W_OK | os.X_OK):
        return Item("host", "runs folder", "bad", f"{root}: no right to write", "give --runs-dir DIR")
    said = f"{root}, {free / _GIB:.1f} GiB free"
    if free < _LEAST_FREE:
        return Item("host", "runs folder", "warn", said, "a long run needs some 150 MB: free some space")
    return Item("host", "runs folder", "ok", said)


def _for_a_server() -> Iterator[Item]:
    """What a vLLM that is launched from here would meet."""
    vllm = shutil.which("vllm")
    here = importlib.util.find_spec("vllm") is not None
    said = vllm or ("importable here" if here else "not on PATH, not importable here: a run takes --url")
    yield Item("launching vLLM", "vllm", "ok" if vllm or here else "note", said)
    ninja = shutil.which("ninja")
    advice = None if ninja else "kernels that are built at the start need it on the PATH of the server itself"
    yield Item("launching vLLM", "ninja", "ok" if ninja else "note", ninja or "not on PATH", advice)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft < _LEAST_FILES
    advice = "ulimit -n 65536 before many sessions" if few else None
    yield Item("launching vLLM", "open files", "warn" if few else "ok", f"at most {soft}", advice)
    yield from _shared_memory()
    flag = os.environ.get("VLLM_USE_V2_MODEL_RUNNER")
    if flag is not None:
        yield Item("launching vLLM", "model runner", "note", f"VLLM_USE_V2_MODEL_RUNNER={flag} is set here")


def _shared_memory() -> Iterator[Item]:
    shm = Path("/dev/shm")
    if not shm.exists():
        return
    size = shutil.disk_usage(shm).total
    small = size < _LEAST_SHM
    advice = "tensor parallelism needs more: docker run --shm-size 8g" if small else None
    yield Item("launching vLLM", "shared memory", "warn" if small else "ok", f"{size / _GIB:.1f} GiB", advice)
