"""`transcripts make`: files that can be read back and replayed, the same for a seed, and a check that can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from infermaxx_tui.cli import main
from infermaxx_tui.core.synth.presets import PRESETS
from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.flags import MAKE_PRESETS
from infermaxx_tui.importers import load
from infermaxx_tui.transcripts_make import make_output


def test_the_command_line_knows_every_preset() -> None:
    assert set(MAKE_PRESETS) == set(PRESETS)


def test_what_is_made_reads_back_and_is_the_same_for_a_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("one", "two"):
        words = ["transcripts", "make", "--preset", "swe-eval", "--sessions", "3", "--seed", "4"]
        assert main([*words, "--out", str(tmp_path / folder)]) == 0
    told = capsys.readouterr().out
    assert "requests mean" in told
    assert "largest block that stands twice" in told
    names = [file.name for file in sorted((tmp_path / "one").iterdir())]
    assert names == ["swe-eval-4-001.jsonl", "swe-eval-4-002.jsonl", "swe-eval-4-003.jsonl"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        (session,) = load(tmp_path / "one" / name)
        assert session.requests
        assert not session.loss
        assert f"{len(session.requests)} requests" in told


def test_subagents_stand_in_the_file_of_their_parent(tmp_path: Path) -> None:
    tuple(make_output("nasty", 1, 1, str(tmp_path), "shipped"))
    parent, *children = load(tmp_path / "nasty-1-001.jsonl")
    assert [child.parent for child in children] == [parent.id] * 5
    assert {window.reason for window in parent.windows} == {"start", "compaction"}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "swe-eval-1-002.jsonl"
    there.write_text("mine")
    with pytest.raises(TranscriptError, match="nothing is overwritten"):
        tuple(make_output("swe-eval", 2, 1, str(tmp_path), "shipped"))
    assert [file.name for file in tmp_path.iterdir()] == [there.name]
    assert there.read_text() == "mine"


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TranscriptError, match="cannot be made"):
        tuple(make_output("swe-eval", 1, 1, str(tmp_path / "file" / "folder"), "shipped"))


@pytest.mark.parametrize("words", [["--preset", "none"], ["--sessions", "0"], ["--seed", "-1"]])
def test_a_wrong_flag_is_a_usage_error(words: list[str], tmp_path: Path) -> None:
    assert main(["transcripts", "make", *words, "--out", str(tmp_path)]) == 2
