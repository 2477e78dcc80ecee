"""What comes with the program: every scenario plans without a server, by bare name, from any folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from clitools import Place

from infermaxx_tui import importers, shipped
from infermaxx_tui.core.plan import check_transcripts
from infermaxx_tui.core.scenario import ScenarioError, parse_scenario
from infermaxx_tui.exitcodes import ExitCode

_NAMES = [path.stem for path in shipped.scenario_files()]
_TRANSCRIPTS = sorted((shipped.shipped_root() / "transcripts").glob("*.jsonl"))
_REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_scenarios_that_the_documents_name_are_there() -> None:
    assert {"demo", "quick", "soak-4x36k"} <= set(_NAMES)


@pytest.mark.parametrize("name", _NAMES)
def test_a_shipped_scenario_says_what_it_proves_and_plans_offline(place: Place, name: str) -> None:
    text = shipped.shipped_scenario(name).read_text(encoding="utf-8")
    assert text.startswith("# ")
    scenario = parse_scenario(text, name)
    assert scenario.name == name
    planned = place.inside("run", name, "--dry-run")
    assert planned.code == ExitCode.PASS, planned.err
    assert "recalls planned" in planned.out
    assert place.inside("run", f"{name}.toml", "--dry-run").out == planned.out
    assert not place.runs.exists()


def test_the_wheel_holds_scenarios_and_transcripts() -> None:
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["infermaxx_tui"]
    assert wheel["force-include"] == {
        "scenarios": "infermaxx_tui/_shipped/scenarios",
        "transcripts": "infermaxx_tui/_shipped/transcripts",
    }
    assert project["project"]["scripts"] == {"infermaxx": "infermaxx_tui.cli:main"}
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (_REPOSITORY / "infermaxx_tui" / "data" / name).is_file()


def test_shipped_files_are_found_where_a_wheel_puts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "infermaxx_tui" / "_shipped"
    for folder in ("scenarios", "transcripts"):
        (root / folder).mkdir(parents=True)
    (root / "scenarios" / "own.toml").write_text('name = "own"\n', encoding="utf-8")
    (root / "transcripts" / "a.jsonl").write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(shipped, "_PACKAGE", root.parent)
    assert shipped.find_scenario("own") == root / "scenarios" / "own.toml"
    found = shipped.find_transcripts(("../transcripts/*.jsonl",), root / "scenarios", "own.toml")
    assert found == (root / "transcripts" / "a.jsonl",)


@pytest.mark.parametrize("pattern", ["a", "a.jsonl", "*.jsonl", "[a]*", "../t/a.jsonl", "../t/*", "../[s-u]/*.jsonl"])
def test_transcripts_are_found_by_glob_by_path_and_by_bare_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    folder = tmp_path / "_shipped" / "transcripts"
    folder.mkdir(parents=True)
    (tmp_path / "t").mkdir()
    (tmp_path / "scenarios").mkdir()
    for place in (folder, tmp_path / "t"):
        (place / "a.jsonl").write_text("{}\n", encoding="utf-8")
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path)
    (found,) = shipped.find_transcripts((pattern,), tmp_path / "scenarios", "x.toml")
    assert found == (tmp_path / "t" if "/" in pattern else folder) / "a.jsonl"


def test_a_name_with_brackets_is_a_name_first(tmp_path: Path) -> None:
    odd = tmp_path / "run [1].jsonl"
    odd.write_text("{}\n", encoding="utf-8")
    assert shipped.find_transcripts(("run [1].jsonl",), tmp_path, "x.toml") == (odd,)
    with pytest.raises(ScenarioError, match=r"x\.toml: transcripts\.paths: 'run \[2\]\.jsonl' matches no file"):
        shipped.find_transcripts(("run [2].jsonl",), tmp_path, "x.toml")


@pytest.mark.parametrize("path", _TRANSCRIPTS, ids=lambda path: path.name)
def test_a_shipped_transcript_can_be_replayed(path: Path) -> None:
    sessions = importers.load(path)
    check_transcripts(sessions, path.name)
    assert all(len(session.requests) >= 2 for session in sessions)
