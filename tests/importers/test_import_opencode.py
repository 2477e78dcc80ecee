"""OpenCode: its database, its export and its old tree, each trap with a file that holds it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importtools import Json, loss, put_document, replies, said

from infermaxx_tui.core.transcript import Session, TranscriptError, Usage
from infermaxx_tui.importers import load
from infermaxx_tui.importers.opencode_parts import CLEARED, QUESTION

T0 = 1777626000000


def user(message_id: str, text: str, at: int = 0, *more: Json) -> Json:
    info: Json = {"id": message_id, "role": "user", "time": {"created": T0 + at}}
    return {"info": info, "parts": [{"type": "text", "text": text}, *more]}


def tool(call_id: str, start: int = 0, end: int = 0, *, output: str = "out", **state: object) -> Json:
    time: Json = {"start": T0 + start, "end": T0 + end}
    if "compacted" in state:
        time["compacted"] = T0 + int(str(state.pop("compacted")))
    full: Json = {"status": "completed", "input": {"filePath": "t.py"}, "output": output, "time": time, **state}
    return {"type": "tool", "tool": "read", "callID": call_id, "state": full}


def finish(prompt: int = 9100, out: int = 140, read: int = 0, **more: object) -> Json:
    tokens: Json = {"input": prompt, "output": out, "reasoning": 60, "cache": {"read": read, "write": 0}, **more}
    return {"type": "step-finish", "tokens": tokens}


def reply(message_id: str, at: int, end: int, *parts: Json, **info: object) -> Json:
    head: Json = {"id": message_id, "role": "assistant", "modelID": "qwen3.6-27b"}
    return {"info": {**head, "time": {"created": T0 + at, "completed": T0 + end}, **info}, "parts": [*parts]}


def text(content: str) -> Json:
    return {"type": "text", "text": content}


def export(*messages: Json, **info: object) -> Json:
    head: Json = {"id": "ses_1", "parentID": None, "directory": "/home/dev/demo", "time": {"created": T0}}
    return {"info": {**head, **info}, "messages": [*messages]}


WHOLE = export(
    user("msg_1", "Why?", 1000, {"type": "text", "synthetic": True, "text": "<file>x</file>"}),
    reply(
        "msg_2",
        1200,
        8000,
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        tool("c1", 5000, 5040),
        tool("c2", 5000, 9000, status="error", error="boom"),
        finish(read=800),
    ),
    reply("msg_3", 9100, 10000, {"type": "step-start"}, text("Done."), finish(9900, 20)),
    user("msg_4", "More.", 40000),
    reply("msg_5", 40100, 41000, text("Sure."), tokens={"input": 9950, "output": 3, "cache": {"read": 0}}),
)


def one(folder: Path, *messages: Json, **info: object) -> Session:
    (session,) = put_document(folder / "ses_1.json", export(*messages, **info))
    return session


def ledger(session: Session) -> dict[str, int]:
    return loss(session, "no_tools", "no_system_prompt")


def check_whole(session: Session) -> None:
    assert (session.id, session.format, session.model) == ("ses_1", "opencode", "qwen3.6-27b")
    first, second, third = session.requests
    assert said(first.delta) == [("user", "Why?\n<file>x</file>")]
    assert [(c.id, json.loads(c.arguments)) for c in first.reply.tool_calls] == [
        ("c1", {"filePath": "t.py"}),
        ("c2", {"filePath": "t.py"}),
    ]
    assert first.reply.reasoning == "hm"
    assert said(second.delta) == [("tool", "out"), ("tool", "boom")]
    assert [request.usage for request in session.requests] == [
        Usage(9900, 800, 140, 60),
        Usage(9900, 0, 20, 60),
        Usage(9950, 0, 3, None),
    ]
    assert second.tool_delay_s == pytest.approx(4.0)
    assert third.think_s == pytest.approx(30.0)
    assert ledger(session) == {}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_export(tmp_path: Path, indent: int | None) -> None:
    (session,) = put_document(tmp_path / "x.json", WHOLE, indent)
    check_whole(session)


def test_each_step_of_a_message_is_a_request(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("m1", "go"),
        reply(
            "m2",
            1,
            9,
            text("a"),
            tool("c1"),
            finish(10, 1),
            text("b"),
            tool("c2"),
            finish(20, 2),
            text("c"),
            finish(30),
        ),
    )
    assert replies(session) == [["a", "b", "c"]]
    assert [request.usage.prompt_tokens for request in session.requests] == [10, 20, 30]


def test_cleared_results_are_stubs_from_that_moment_on(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("m1", "go"),
        reply("m2", 1, 2, tool("c1", output="LONG", compacted=5000), finish(900)),
        reply("m3", 3000, 3100, tool("c2", output="KEPT"), finish(950)),
        reply("m4", 6000, 6100, text("end"), finish(500)),
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert said(session.windows[0].requests[1].delta) == [("tool", "LONG")]
    assert said(session.windows[1].requests[0].delta) == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", CLEARED),
        ("assistant", ""),
        ("tool", "KEPT"),
    ]
    assert ledger(session) == {"pruned_tool_result": 1}


def test_a_compaction_is_a_request_and_opens_a_window(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("m1", "go"),
        reply("m2", 1, 2, text("a"), finish(900)),
        {
            "info": {"id": "m3", "role": "user", "time": {"created": T0}},
            "parts": [{"type": "compaction", "auto": True}],
        },
        reply("m4", 3, 4, text("SUMMARY"), finish(950), summary=True),
        user("m5", "go on"),
        reply("m6", 5, 6, text("b"), finish(100)),
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert replies(session) == [["a", "SUMMARY"], ["b"]]
    assert said(session.windows[1].requests[0].delta) == [
        ("user", QUESTION),
        ("assistant", "SUMMARY"),
        ("user", "go on"),
    ]
    assert ledger(session) == {"prompt_missing": 1}


def test_what_was_reverted_failed_or_not_sent(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("m1", "go", 0, {"type": "text", "text": "not sent", "ignored": True}, {"type": "agent", "name": "x"}),
        reply("m2", 1, 2, error={"name": "APIError"}),
        reply("m3", 3, 4, text("a"), finish()),
        user("m4", "undone"),
        reply("m5", 5, 6, text("b"), finish()),
        revert={"messageID": "m4"},
    )
    assert replies(session) == [["a"]]
    assert said(session.requests[0].delta) == [("user", "go")]
    assert ledger(session) == {"attachment_unrendered": 1, "branch_dropped": 1, "failed_reply": 1}


def test_pictures_and_open_calls(tmp_path: Path) -> None:
    picture: Json = {"type": "file", "mime": "image/png", "url": "data:image/png;base64," + "A" * 999}
    session = one(
        tmp_path,
        user("m1", "see", 0, picture),
        reply("m2", 1, 2, tool("c1", attachments=[picture]), tool("c2", status="running"), finish()),
        reply("m3", 3, 4, text("a"), finish()),
    )
    assert said(session.requests[0].delta) == [("user", "see\n[image]")]
    assert ledger(session) == {"image_dropped": 2, "unanswered_call": 1}


def test_reasoning_that_the_total_counts_apart_is_output(tmp_path: Path) -> None:
    session = one(tmp_path, user("m1", "go"), reply("m2", 1, 2, text("a"), finish(9100, 80, total=9240)))
    assert session.requests[0].usage.output_tokens == 140


CHILD = export(
    user("msg_8", "List callers"), reply("msg_9", 6000, 7000, text("2"), finish(50, 1)), id="ses_2", parentID="ses_1"
)


def database(file: Path, *exports: Json, wal: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(file)
    if wal:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, revert TEXT, time_created INTEGER)")
    db.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    db.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    for order, one_export in enumerate(exports):
        info, messages = one_export["info"], one_export["messages"]
        assert isinstance(info, dict)
        assert isinstance(messages, list)
        db.execute("INSERT INTO session VALUES (?,?,?,?,?)", (info["id"], info["parentID"], "t", None, order))
        for message in messages:
            name = message["info"].pop("id")
            row = (name, info["id"], T0, json.dumps(message["info"]))
            db.execute("INSERT INTO message VALUES (?,?,?,?)", row)
            for n, part in enumerate(message["parts"]):
                db.execute("INSERT INTO part VALUES (?,?,?,?,?)", (f"p{n}", name, info["id"], T0, json.dumps(part)))
    db.commit()
    return db


def again(value: Json) -> Json:
    copy: Json = json.loads(json.dumps(value))
    return copy


@pytest.fixture
def spawning() -> Json:
    parent = again(WHOLE)
    messages = parent["messages"]
    assert isinstance(messages, list)
    messages[1]["parts"][2]["state"]["metadata"] = {"sessionId": "ses_2"}
    return parent


def test_a_database_with_a_subagent(tmp_path: Path, spawning: Json) -> None:
    database(tmp_path / "opencode.db", spawning, again(CHILD)).close()
    parent, child = load(tmp_path / "opencode.db")
    check_whole(parent)
    assert (child.id, child.parent, child.spawned_after) == ("ses_2", "ses_1", 1)
    assert child.windows[0].reason == "subagent"
    assert child.source == "opencode.db"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    """A database whose rows are all still in its write-ahead log."""
    db = database(tmp_path / "opencode.db", again(WHOLE), wal=True)
    yield tmp_path / "opencode.db"
    db.close()


def test_turns_that_are_only_in_the_write_ahead_log_are_read(live: Path, tmp_path: Path) -> None:
    check_whole(load(live)[0])
    bare = tmp_path / "bare"
    bare.mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{live}{suffix}", bare / f"opencode.db{suffix}")
    check_whole(load(bare / "opencode.db")[0])


def test_the_second_layout_counts_alone_where_the_first_is_still_there(tmp_path: Path) -> None:
    db = database(tmp_path / "opencode.db", again(WHOLE))
    db.execute("CREATE TABLE session_v2 (id TEXT, parent_id TEXT, time_created INTEGER)")
    db.execute("CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, time_created INTEGER, data TEXT)")
    db.execute("INSERT INTO session_v2 VALUES ('ses_1', NULL, 1)")
    tokens = {"input": 100, "output": 3, "cache": {"read": 0}}
    state: Json = {"status": "completed", "input": {}, "content": [text("out")]}
    rows: list[tuple[str, Json]] = [
        ("system", {"text": "Be short."}),
        ("user", {"text": "go"}),
        ("synthetic", {"text": "<note>"}),
        (
            "assistant",
            {
                "content": [text("a"), {"type": "tool", "id": "c1", "name": "read", "state": state}],
                "tokens": tokens,
                "model": {"id": "m"},
            },
        ),
        ("shell", {"command": "ls", "output": "x"}),
        ("assistant", {"content": [text("b")], "tokens": tokens}),
        ("compaction", {"summary": "SUM"}),
        ("user", {"text": "on"}),
        ("assistant", {"content": [text("c")], "tokens": tokens}),
        ("model-switched", {}),
        ("new", {}),
    ]
    for n, (kind, data) in enumerate(rows):
        db.execute("INSERT INTO session_message VALUES (?,?,?,?,?)", (f"m{n}", "ses_1", kind, n, json.dumps(data)))
    db.commit()
    db.close()
    (session,) = load(tmp_path / "opencode.db")
    assert replies(session) == [["a", "b", "SUM"], ["c"]]
    assert said(session.requests[0].delta) == [("system", "Be short."), ("user", "go\n<note>")]
    assert said(session.requests[1].delta) == [("tool", "out"), ("user", "ls\nx")]
    assert loss(session)["layout_unverified"] == loss(session)["unknown_record"] == 1


def test_the_old_tree(tmp_path: Path) -> None:
    root = tmp_path / "storage"
    exported = again(WHOLE)
    info, messages = exported["info"], exported["messages"]
    assert isinstance(messages, list)
    places: list[tuple[Path, object]] = [(root / "session" / "p" / "ses_1.json", info)]
    for message in messages:
        name = message["info"]["id"]
        places.append((root / "message" / "ses_1" / f"{name}.json", message["info"]))
        places += [(root / "part" / name / f"prt_{n}.json", part) for n, part in enumerate(message["parts"])]
    for file, value in places:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")
    (session,) = load(root)
    check_whole(session)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE other (x)", "no program known here"),
        ("CREATE TABLE session (id); CREATE TABLE message (id); CREATE TABLE part (id)", "nothing to replay"),
    ],
)
def test_other_databases_are_refused(tmp_path: Path, statement: str, message: str) -> None:
    db = sqlite3.connect(tmp_path / "x.db")
    db.executescript(statement)
    db.close()
    with pytest.raises(TranscriptError, match=message):
        load(tmp_path / "x.db")


def test_a_message_table_without_data_is_a_version_that_is_not_known(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "x.db")
    db.executescript("CREATE TABLE session (id); CREATE TABLE message (x); CREATE TABLE part (x)")
    db.execute("INSERT INTO session VALUES ('s')")
    db.commit()
    db.close()
    with pytest.raises(TranscriptError, match="unknown version"):
        load(tmp_path / "x.db")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sound") / "x.db"
    database(file, again(WHOLE)).close()
    return file


@settings(max_examples=60)
@given(st.binary(max_size=300), st.integers(0, 12000))
def test_no_bytes_break_the_database(sound: Path, junk: bytes, at: int) -> None:
    data = sound.read_bytes()
    damaged = sound.with_name("damaged.db")
    damaged.write_bytes(data[: 16 + at] + junk + data[16 + at + len(junk) :])
    try:
        load(damaged)
    except TranscriptError:
        return


@given(
    st.recursive(
        st.none() | st.integers() | st.sampled_from(["user", "assistant", "tool", "text", "step-finish"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["info", "parts", "type", "role", "tokens", "state", "time", "id"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_values_break_the_export(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    message: Json = {"info": {"role": "assistant"}, "parts": [value]}
    try:
        put_document(tmp_path_factory.mktemp("any") / "x.json", export(user("m", "a"), message, again({"x": value})))
    except TranscriptError:
        return
