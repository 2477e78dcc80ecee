"""A scenario may name whatever holds recordings: a file, a folder that is one recording, or a folder of many."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from formats import write_sample

from infermaxx_tui.core.scenario import ScenarioError
from infermaxx_tui.core.transcript import NothingToUseError
from infermaxx_tui.dryrun import dry_run
from infermaxx_tui.shipped import find_transcripts
from infermaxx_tui.wish import Wish, load


def scenario(folder: Path, *paths: str) -> Wish:
    """A scenario beside the recordings that names these paths."""
    listed = ", ".join(f'"{path}"' for path in paths)
    file = folder / "own.toml"
    file.write_text(f'name = "own"\n[transcripts]\npaths = [{listed}]\n', encoding="utf-8")
    return Wish(scenario=str(file))


@pytest.mark.parametrize(
    ("sample", "path", "formats"),
    [
        ("openhands", "talks/one", {"openhands"}),
        ("openhands", "talks", {"openhands"}),
        ("openhands", "talks/*", {"openhands"}),
        ("opencode database", "talks/one", {"opencode"}),
        ("opencode database", "talks/*/opencode.db", {"opencode"}),
        ("claude-code", "talks", {"claude-code"}),
        ("weka", "talks/one", {"weka"}),
    ],
)
def test_a_path_is_found_whatever_the_importers_take(sample: str, path: str, formats: set[str], tmp_path: Path) -> None:
    write_sample(tmp_path / "talks" / "one", sample)
    loaded = load(scenario(tmp_path, path))
    assert {session.format for session in loaded.transcripts} == formats


def test_a_folder_of_several_formats_is_read_whole_and_what_is_none_of_them_is_left_out(tmp_path: Path) -> None:
    for name in ("openhands", "claude-code", "cline"):
        write_sample(tmp_path / "talks" / name.replace(" ", "-"), name)
    (tmp_path / "talks" / "history.jsonl").write_text('{"display": "a prompt"}\n', encoding="utf-8")
    loaded = load(scenario(tmp_path, "talks"))
    assert {session.format for session in loaded.transcripts} == {"openhands", "claude-code", "cline"}
    with pytest.raises(NothingToUseError):
        load(scenario(tmp_path, "talks/history.jsonl"))
    with pytest.raises(NothingToUseError):
        load(scenario(tmp_path, "talks/*.jsonl"))


def test_a_folder_with_nothing_in_it_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScenarioError, match="matches no file"):
        find_transcripts(("empty",), tmp_path, "x.toml")
    (tmp_path / "empty" / "history.jsonl").write_text('{"display": "a prompt"}\n', encoding="utf-8")
    with pytest.raises(NothingToUseError):
        load(scenario(tmp_path, "empty"))


def test_a_dry_run_says_what_runs_beside_what_and_what_is_hidden(tmp_path: Path) -> None:
    write_sample(tmp_path / "talks", "weka")
    wish = msgspec.structs.replace(
        scenario(tmp_path, "talks"),
        overrides=("canaries.per_session=1", "limits.min_recalls=1", "sessions.target_depth=200", "sessions.count=2"),
        runs_dir=str(tmp_path / "runs"),
    )
    said = "\n".join(dry_run(wish, None))
    assert "forced to their recorded lengths: blind to degeneration" in said
    assert "session 2: subagent t1/x, after reply 1 of t1, which goes on" in said
    assert "up to 2 conversations at once play the same transcript" in said
    with pytest.raises(ScenarioError, match=r"sessions\.prompt"):
        list(dry_run(msgspec.structs.replace(wish, overrides=(*wish.overrides, "sessions.prompt=chat")), None))
