"""`transcripts import` and `transcripts stats` on each format: nothing is lost, nothing is overwritten."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from formats import SAMPLES, write_sample
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.transcript import (
    Message,
    Request,
    Session,
    TokenIds,
    ToolCall,
    TranscriptError,
    Usage,
    Window,
)
from infermaxx_tui.importers import load, native, recordings
from infermaxx_tui.transcripts_cli import import_output, stats_output

TEXT = st.text(max_size=12)
CALLS = st.lists(st.builds(ToolCall, id=TEXT, name=TEXT, arguments=st.just('{"a":1}')), max_size=2).map(tuple)
PROMPTS = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "tool"]), content=TEXT, tool_call_id=TEXT, name=TEXT)
    | st.builds(Message, role=st.just("assistant"), content=TEXT, reasoning=TEXT, tool_calls=CALLS),
    max_size=4,
).map(tuple)
COUNTS = st.none() | st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS)
IDS = st.none() | st.builds(TokenIds, st.integers(0, 9), st.just((1, 2)), st.just((3,)))
REPLIES = st.builds(Message, role=st.just("assistant"), content=TEXT, reasoning=TEXT, tool_calls=CALLS)
SECONDS = st.floats(0, 1e6)
REQUESTS = st.builds(
    Request, delta=PROMPTS, reply=REPLIES, usage=USAGES, think_s=SECONDS, tool_delay_s=SECONDS, ids=IDS
)
WINDOWS = st.lists(
    st.builds(
        Window,
        reason=st.sampled_from(["start", "compaction", "clear", "fork", "subagent"]),
        requests=st.lists(REQUESTS, min_size=1, max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=3,
).map(tuple)
SESSIONS = st.builds(
    Session,
    id=TEXT,
    format=st.just("openai-chat"),
    source=st.just("x.jsonl"),
    windows=WINDOWS,
    tools=st.sampled_from(["", '[{"type":"function","function":{"name":"b"}}]']),
    parent=st.none() | TEXT,
    model=st.none() | TEXT,
    loss=st.just((("no_tools", 1), ("torn_tail", 2))),
    spawned_after=st.none() | st.integers(0, 5),
)


@given(st.lists(SESSIONS, min_size=1, max_size=3, unique_by=lambda session: session.id))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, sessions: list[Session]) -> None:
    file = tmp_path_factory.mktemp("any") / "x.jsonl"
    file.write_bytes(b"".join(line for session in sessions for line in native.lines(session)))
    assert load(file) == tuple(sessions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replies": [{"at": 0}]}, "do not fit its messages"),
        ({"replies": [{"at": 9}]}, "do not fit its messages"),
        ({"replies": []}, "do not fit its messages"),
        ({"replies": [{"at": "x"}]}, "without the key `infermaxx`"),
        ({"reason": "whim"}, "without the key `infermaxx`"),
    ],
)
def test_notes_that_do_not_fit_are_refused_with_a_way_out(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    notes: dict[str, object] = {"reason": "start", "replies": [{"at": 1}], **change}
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps({"messages": messages, "session_id": "s", "infermaxx": notes}), encoding="utf-8")
    with pytest.raises(TranscriptError, match=message) as caught:
        load(file)
    assert caught.value.line == 1
    file.write_text(json.dumps({"messages": messages, "session_id": "s"}), encoding="utf-8")
    assert len(load(file)) == 1


def comparable(sessions: tuple[Session, ...]) -> list[Session]:
    return [msgspec.structs.replace(session, format="", source="") for session in sessions]


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_known_measured_and_converted(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERMAXX_CACHE", str(tmp_path / "cache"))
    path = write_sample(tmp_path / "in", name)
    before = load(path)
    assert {session.format for session in before} == {name.split()[0]}
    stats = json.loads(stats_output((str(path),), "shipped", 65536, True)[0])
    assert [row["id"] for row in stats["sessions"]] == [session.id for session in before]
    assert all(row["peak_tokens"] > 0 for row in stats["sessions"])
    out = tmp_path / "out"
    if any(session.content_free for session in before):
        with pytest.raises(TranscriptError, match="holds lengths and no text"):
            import_output((str(path),), str(out))
        assert list(out.iterdir()) == []
        return
    lines = import_output((str(path),), str(out))
    (written,) = out.iterdir()
    assert lines[0].startswith(written.name)
    assert comparable(load(written)) == comparable(before)
    with pytest.raises(TranscriptError, match="nothing is overwritten"):
        import_output((str(path),), str(out))
    assert comparable(load(written)) == comparable(before)


def test_a_folder_of_everything(tmp_path: Path) -> None:
    for name in SAMPLES:
        write_sample(tmp_path / name.replace(" ", "-"), name)
    (tmp_path / "package.json").write_text('{"name": "x"}', encoding="utf-8")
    (tmp_path / "notes.db").write_bytes(b"SQLite format 3\x00")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    found = recordings(tmp_path)
    assert len(found) == len(SAMPLES)
    assert {session.format for path in found for session in load(path)} == {name.split()[0] for name in SAMPLES}


def talk(text: str) -> list[object]:
    return [{"conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": "done"}]}]


def test_files_of_one_name_are_told_apart_and_what_fails_leaves_nothing(tmp_path: Path) -> None:
    one, two = (write_sample(tmp_path / folder, "sharegpt", talk(folder)) for folder in ("a", "b"))
    out = tmp_path / "out"
    import_output((str(one), str(two), str(one)), str(out))
    assert sorted(path.name for path in out.iterdir()) == [f"{one.stem}-2.jsonl", f"{one.stem}.jsonl"]
    bad = tmp_path / "bad.jsonl"
    bad.write_text(
        '{"messages":[{"role":"user","content":"x"},{"role":"assistant"}]}\n{"messages":["x"]}\n', encoding="utf-8"
    )
    with pytest.raises(TranscriptError, match=r"bad\.jsonl:2"):
        import_output((str(bad),), str(tmp_path / "other"))
    assert list((tmp_path / "other").iterdir()) == []


def test_a_folder_with_files_that_hold_nothing_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERMAXX_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "in"
    write_sample(source, "codex")
    (source / "history.jsonl").write_text('{"text":"a prompt","ts":1}\n', encoding="utf-8")
    (source / "asked.jsonl").write_text('{"messages":[{"role":"user","content":"x"}]}\n', encoding="utf-8")
    (source / "empty.jsonl").write_bytes(b"")
    lines = stats_output((str(source),), "shipped", None, False)
    assert lines[-1] == "left out: 3 files of no known format, or without anything to use in it"
    write_sample(source, "weka")
    written = import_output((str(source),), str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["rollout-own.jsonl"]
    assert written[-1].startswith("left out: 4 files")
    with pytest.raises(TranscriptError, match="no format known"):
        import_output((str(source), str(source / "history.jsonl")), str(tmp_path / "other"))
    (source / "broken.jsonl").write_bytes(b"no JSON\n")
    with pytest.raises(TranscriptError, match=r"broken\.jsonl:1: not JSON"):
        stats_output((str(source),), "shipped", None, False)


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    path = write_sample(tmp_path / "in", "codex")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TranscriptError, match="cannot be made"):
        import_output((str(path),), str(tmp_path / "file" / "out"))


def test_a_folder_without_transcripts(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    with pytest.raises(TranscriptError, match="no transcript in this folder"):
        stats_output((str(tmp_path),), "shipped", None, False)
