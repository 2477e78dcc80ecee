"""The shipped vocabulary can be made again from transcripts alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from infermaxx_tui.vocabulary import SPECIAL_TOKENS, Vocabulary

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "tools" / "train_vocabulary.py"


def train(folder: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(folder), "--out", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_it_learns_from_every_text_of_a_transcript(tmp_path: Path) -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "peregrinate", "arguments": '{"to": "here"}'}}]
    lines = [
        {
            "messages": [
                {"role": "user", "content": "ambidextrous " * 4},
                {"role": "assistant", "tool_calls": calls * 4},
            ]
        },
        {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "quizzical " * 4}]}},
    ]
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"torn": "li')
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    assert train(tmp_path, first).returncode == 0
    assert train(tmp_path, second).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    made = Vocabulary("made", first.read_text("utf-8"), "")
    assert [made.special_id(token) for token in SPECIAL_TOKENS] == list(range(len(SPECIAL_TOKENS)))
    for word in ("ambidextrous", "peregrinate", "quizzical"):
        assert len(made.encode(f" {word} {word}")) < len(word)
    text = "Ünïcode\u2028 🙂 \x00"
    assert made.decode(made.encode(text)) == text


def test_an_empty_folder_gets_one_line(tmp_path: Path) -> None:
    done = train(tmp_path, tmp_path / "out.json")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out.json").exists()
