"""`transcripts redact`: each format goes in, what comes out can be shared, read back and redacted again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from formats import SAMPLES, write_sample

from infermaxx_tui.cli import main
from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers import load
from infermaxx_tui.transcripts_redact import redact_output

KEY = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def chat(path: Path, text: str) -> Path:
    """A chat of two messages."""
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": f"I saw it, {text}"}]
    path.write_text(json.dumps({"messages": messages, "session_id": path.stem}) + "\n")
    return path


def test_a_key_and_a_name_go_from_files_and_names_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat(tmp_path / "a-dave.jsonl", f"dave asks about {KEY}")
    chat(tmp_path / "b-dave.jsonl", "see /home/dave/x")
    out = tmp_path / "out"
    files = [str(tmp_path / "a-dave.jsonl"), str(tmp_path / "b-dave.jsonl")]
    assert main(["transcripts", "redact", *files, "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "github 2" in told
    assert "dave" not in told
    assert sorted(file.name for file in out.iterdir()) == ["transcript-001.jsonl", "transcript-002.jsonl"]
    for file in out.iterdir():
        text = file.read_text()
        assert "dave" not in text
        assert KEY not in text
        assert load(file)[0].requests


def test_redacting_what_was_redacted_gives_the_same_bytes(tmp_path: Path) -> None:
    chat(tmp_path / "a.jsonl", f"token {KEY} of eve@some-firm.io in /home/eve")
    first = tmp_path / "1"
    tuple(redact_output((tmp_path / "a.jsonl",), str(first), False, "shipped"))
    tuple(redact_output((first / "transcript-001.jsonl",), str(tmp_path / "2"), False, "shipped"))
    assert (first / "transcript-001.jsonl").read_bytes() == (tmp_path / "2" / "transcript-001.jsonl").read_bytes()


def test_content_free_keeps_every_length_and_no_word(tmp_path: Path) -> None:
    chat(tmp_path / "a.jsonl", f"token {KEY} " + "word " * 300)
    for folder in ("1", "2"):
        tuple(redact_output((tmp_path / "a.jsonl",), str(tmp_path / folder), True, "shipped"))
    one, two = (tmp_path / folder / "transcript-001.jsonl" for folder in ("1", "2"))
    assert "word" not in one.read_text()
    (session,) = load(one)
    assert session.content_free
    assert session.block_tokens == 64
    assert session.requests[0].usage.prompt_tokens == json.loads(one.read_text())["input_length"] > 300
    assert json.loads(one.read_text())["hash_ids"] != json.loads(two.read_text())["hash_ids"]


def test_lengths_cannot_be_redacted_again(tmp_path: Path) -> None:
    chat(tmp_path / "a.jsonl", "x")
    tuple(redact_output((tmp_path / "a.jsonl",), str(tmp_path / "1"), True, "shipped"))
    with pytest.raises(TranscriptError, match="nothing to redact"):
        tuple(redact_output((tmp_path / "1" / "transcript-001.jsonl",), str(tmp_path / "2"), False, "shipped"))
    assert not (tmp_path / "2").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = chat(tmp_path / "a.jsonl", "x")
    (tmp_path / "transcript-001.jsonl").write_text("mine")
    with pytest.raises(TranscriptError, match="nothing is overwritten"):
        tuple(redact_output((source,), str(tmp_path), False, "shipped"))
    assert (tmp_path / "transcript-001.jsonl").read_text() == "mine"


def test_a_copy_leaves_no_empty_file(tmp_path: Path) -> None:
    source = chat(tmp_path / "a.jsonl", "x")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "a.jsonl").write_bytes(source.read_bytes())
    lines = tuple(redact_output((source, copy / "a.jsonl"), str(tmp_path / "out"), False, "shipped"))
    assert "nothing that another file does not hold" in lines[1]
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["transcript-001.jsonl"]


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"mooncake", "weka"}))
@pytest.mark.parametrize("content_free", [False, True])
def test_every_format_can_be_shared(name: str, content_free: bool, tmp_path: Path) -> None:
    source = write_sample(tmp_path / "in", name)
    before = load(source)
    tuple(redact_output((source,), str(tmp_path / "out"), content_free, "shipped"))
    after = load(tmp_path / "out" / "transcript-001.jsonl")
    assert sorted(len(session.requests) for session in after) == sorted(len(session.requests) for session in before)
    assert {session.id.rpartition("-")[0] for session in after} == {"session"}
    assert {session.content_free for session in after} == {content_free}
