"""Finds the scenarios and transcripts that come with the program, from a wheel and from a checkout alike."""

from __future__ import annotations

from pathlib import Path

from infermaxx_tui.core.scenario import ScenarioError

_PACKAGE = Path(__file__).resolve().parent


def shipped_root() -> Path:
    """The folder that holds `scenarios` and `transcripts`."""
    in_wheel = _PACKAGE / "_shipped"
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent


def scenario_files() -> tuple[Path, ...]:
    """All shipped scenario files, by name."""
    return tuple(sorted((shipped_root() / "scenarios").glob("*.toml")))


def find_scenario(name: str) -> Path:
    """The scenario file that a person named: a path, or the bare name of a shipped one. Raises ScenarioError."""
    path = Path(name).expanduser()
    if path.is_file():
        return path.resolve()
    if path.parent == Path():
        stem = name.removesuffix(".toml")
        shipped = {file.stem: file for file in scenario_files()}
        if stem in shipped:
            return shipped[stem]
        raise ScenarioError(name, "", f"no such file and no shipped scenario; shipped are {', '.join(shipped) or 'none'}")
    raise ScenarioError(name, "", "no such file")


def find_transcripts(patterns: tuple[str, ...], base: Path, source: str) -> tuple[Path, ...]:
    """Files that the globs match: relative to the scenario's folder, or bare names of shipped transcripts.

    Raises ScenarioError where a pattern matches nothing.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        matches = _match(pattern, base)
        if not matches and "/" not in pattern:
            matches = _match(pattern, shipped_root() / "transcripts") or _match(f"{pattern}.jsonl", shipped_root() / "transcripts")
        if not matches:
            raise ScenarioError(source, "transcripts.paths", f"{pattern!r} matches no file (looked in {base.name or base}/)")
        found.update(dict.fromkeys(matches))
    return tuple(found)


def _match(pattern: str, base: Path) -> list[Path]:
    full = Path(pattern).expanduser()
    if not full.is_absolute():
        full = base / full
    # a leading `..` cannot be globbed, so the fixed part of the pattern is resolved first
    fixed = [part for part in full.parts]
    wild = next((i for i, part in enumerate(fixed) if any(c in part for c in "*?[")), len(fixed))
    root = Path(*fixed[:wild]).resolve()
    if wild == len(fixed):
        return [root] if root.is_file() else []
    return sorted(path for path in root.glob("/".join(fixed[wild:])) if path.is_file())
