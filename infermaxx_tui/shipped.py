"""Finds the scenarios and transcripts that come with the program, from a wheel and from a checkout alike."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from infermaxx_tui.core.scenario import ScenarioError

_PACKAGE = Path(__file__).resolve().parent
_WILD = "*?["


def shipped_root() -> Path:
    """The folder that holds `scenarios` and `transcripts`."""
    in_wheel = _PACKAGE / "_shipped"
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent


def scenario_files() -> tuple[Path, ...]:
    """All shipped scenario files, by name."""
    return tuple(sorted((shipped_root() / "scenarios").glob("*.toml")))


def shipped_scenario(name: str) -> Path:
    """The shipped scenario of that bare name. Raises ScenarioError."""
    return _shipped(name, "scenario", scenario_files())


def experiment_files() -> tuple[Path, ...]:
    """All shipped experiment files, by name."""
    return tuple(sorted((shipped_root() / "scenarios" / "experiments").glob("*.toml")))


def find_experiment(name: str) -> Path:
    """The experiment file that a person named: a path, or the bare name of a shipped one. Raises ScenarioError."""
    return _file(name, "experiment") or _shipped(name, "experiment", experiment_files())


def find_scenario(name: str) -> Path:
    """The scenario file that a person named: a path, or the bare name of a shipped one. Raises ScenarioError."""
    return _file(name, "scenario") or shipped_scenario(name)


def _file(name: str, kind: str) -> Path | None:
    """The file that is there by that path; None where a bare name may be that of a shipped one."""
    path = Path(os.path.expanduser(name))
    try:
        if path.is_file():
            return path.resolve()
        folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise ScenarioError(name, "", getattr(error, "strerror", None) or str(error)) from None
    if path.parent != Path():
        raise ScenarioError(name, "", f"is a folder; name the file of the {kind}" if folder else "no such file")
    return None


def _shipped(name: str, kind: str, files: Iterable[Path]) -> Path:
    shipped = {file.stem: file for file in files}
    found = shipped.get(name.removesuffix(".toml"))
    if found is None:
        names = ", ".join(shipped) or "none"
        said = "is a folder" if Path(name).is_dir() else "no such file"
        raise ScenarioError(name, "", f"{said} and no shipped {kind}; shipped are {names}")
    return found


def find_transcripts(patterns: tuple[str, ...], base: Path, source: str) -> tuple[Path, ...]:
    """What the globs match: relative to the scenario's folder, or bare names of shipped transcripts. Of a folder, what
    is recorded in it, or the folder itself where all of it is one recording.

    Raises ScenarioError where a pattern matches nothing.
    """
    shipped = shipped_root() / "transcripts"
    found: dict[Path, None] = {}
    for pattern in patterns:
        try:
            matches = _match(pattern, base)
            if not matches and "/" not in pattern:
                matches = _match(pattern, shipped) or _match(f"{pattern}.jsonl", shipped) or _long(pattern, shipped)
        except (OSError, ValueError) as error:
            raise ScenarioError(source, "transcripts.paths", f"{pattern!r}: {error}") from None
        if not matches:
            where = f"looked in {base.name or base}/"
            raise ScenarioError(source, "transcripts.paths", f"{pattern!r} matches no file ({where})")
        found.update(dict.fromkeys(matches))
    return tuple(found)


def named_folders(patterns: tuple[str, ...], base: Path) -> tuple[Path, ...]:
    """The folders that are named as such: what nothing can be made of in them is left out, and no error."""
    return tuple(path.resolve() for path in (_full(pattern, base) for pattern in patterns) if path.is_dir())


def _full(pattern: str, base: Path) -> Path:
    full = Path(os.path.expanduser(pattern))
    return full if full.is_absolute() else base / full


def _long(pattern: str, shipped: Path) -> list[Path]:
    """A long transcript by its name alone: a glob takes those of 110k tokens only where it says `long/`."""
    if any(char in pattern for char in _WILD):
        return []
    return _match(pattern, shipped / "long") or _match(f"{pattern}.jsonl", shipped / "long")


def _match(pattern: str, base: Path) -> list[Path]:
    full = _full(pattern, base)
    if full.is_file():
        return [full.resolve()]
    # what can be read is only known to the importers, which are slow to load and of no use to most callers
    from infermaxx_tui.importers import detect

    if full.is_dir():
        return list(detect.recordings(full.resolve()))
    # a leading `..` cannot be globbed, so the fixed part of the pattern is resolved first
    wild = next((i for i, part in enumerate(full.parts) if any(char in part for char in _WILD)), None)
    if wild is None:
        return []
    root = Path(*full.parts[:wild]).resolve()
    matched = sorted(root.glob("/".join(full.parts[wild:])))
    return [path for path in matched if path.is_file() or detect.folder_importer(path) is not None]
