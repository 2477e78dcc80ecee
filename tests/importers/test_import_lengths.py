"""Content-free traces: their units, their block ids, their sessions, and that they say what they are blind to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, put_document, put_lines

from infermaxx_tui.core.transcript import BlockIds, Message, Session, TranscriptError, Usage
from infermaxx_tui.importers import load, mooncake, stream


def row(at_ms: int, length: int, output: int, ids: list[int], **more: object) -> Json:
    return {"timestamp": at_ms, "input_length": length, "output_length": output, "hash_ids": ids, **more}


def blocks(session: Session) -> list[BlockIds | None]:
    return [request.blocks for request in session.requests]


def usages(session: Session) -> list[tuple[int | None, int | None]]:
    return [(request.usage.prompt_tokens, request.usage.output_tokens) for request in session.requests]


def test_mooncake_sessions_are_inferred_from_prefixes_alone(tmp_path: Path) -> None:
    rows: list[Json] = [
        row(1000, 1100, 50, [0, 1, 2]),
        row(1500, 700, 5, [0, 8]),
        row(3000, 1700, 60, [0, 1, 9, 10]),
        row(4000, 2200, 0, [0, 1, 9, 11, 12]),
        row(5000, 100, 5, [77]),
    ]
    one, two, three = sorted(put_lines(tmp_path / "trace.jsonl", rows), key=lambda session: session.id)
    assert [session.id for session in (one, two, three)] == ["trace-1", "trace-2", "trace-3"]
    assert (one.format, one.content_free, one.block_tokens) == ("mooncake", True, 512)
    assert usages(one) == [(1100, 50), (1700, 60), (2200, 0)]
    assert blocks(one) == [BlockIds(0, (0, 1, 2)), BlockIds(2, (9, 10)), BlockIds(3, (11, 12))]
    assert [request.at_s for request in one.requests] == [0.0, 2.0, 3.0]
    assert all(request.delta == () and request.reply == Message("assistant") for request in one.requests)
    assert loss(one) == {"content_free": 1, "no_timing": 1, "sessions_inferred": 1}


def test_rows_that_name_their_session_and_their_delays(tmp_path: Path) -> None:
    rows: list[Json] = [
        {"session_id": "a", "input_tokens": 100, "output_tokens": 5},
        {"session_id": "b", "input_tokens": 900, "output_tokens": 1},
        {"session_id": "a", "input_tokens": 150, "output_tokens": 5, "delay": 2500},
        {"session_id": "a", "input_tokens": 190, "output_tokens": 5, "tool_wait_ms": 700, "wait_for": ["x"]},
        {"session_id": "a", "input_tokens": 200, "output_tokens": 5, "prefix_reset": True},
        {"session_id": "a", "input_tokens": 50, "output_tokens": 5},
        {"note": 1},
    ]
    b, a = put_lines(tmp_path / "t.jsonl", rows)
    assert (a.id, b.id) == ("a", "b")
    assert [request.think_s for request in a.requests] == [0.0, 2.5, 0.0, 0.0, 0.0]
    assert a.requests[2].tool_delay_s == pytest.approx(0.7)
    assert [(window.reason, len(window.requests)) for window in a.windows] == [
        ("start", 3),
        ("compaction", 1),
        ("compaction", 1),
    ]
    assert loss(a) == {"content_free": 1, "foreign_record": 1, "graph_flattened": 1}


def test_bailian_has_seconds_blocks_of_16_and_chats_that_go_on(tmp_path: Path) -> None:
    rows: list[Json] = [
        row(10, 40, 5, [1, 2, 3], chat_id=1, parent_chat_id=-1, turn=1, type="text"),
        row(12, 60, 5, [1, 2, 4, 5], chat_id=2, parent_chat_id=1, turn=2, type="text"),
        row(13, 20, 5, [9, 10], chat_id=3, parent_chat_id=-1, turn=1, type="text"),
    ]
    one, other = put_lines(tmp_path / "t.jsonl", rows)
    assert (one.id, other.id, one.block_tokens) == ("1", "3", 16)
    assert [request.at_s for request in one.requests] == [0.0, 2.0]
    assert "sessions_inferred" not in loss(one)


def test_tracelab_rows_have_no_ids(tmp_path: Path) -> None:
    head: Json = {"session_id": "s", "tools": []}
    rows: list[Json] = [
        {**head, "round_index": 0, "input_tokens_total": 900, "prefix_tokens": 0, "output_tokens": 5},
        {**head, "round_index": 1, "input_tokens_total": 1000, "prefix_tokens": 905, "output_tokens": 6},
    ]
    (session,) = put_lines(tmp_path / "t.jsonl", rows)
    assert [request.usage for request in session.requests] == [Usage(900, 0, 5), Usage(1000, 905, 6)]
    assert blocks(session) == [None, None]
    assert session.block_tokens is None


def test_a_session_whose_prefix_breaks(tmp_path: Path) -> None:
    rows = [row(0, 1024, 5, [1, 2], session_id="s"), row(1, 1600, 5, [1, 7, 8, 9], session_id="s")]
    (session,) = put_lines(tmp_path / "t.jsonl", rows)
    assert [window.reason for window in session.windows] == ["start", "fork"]
    assert blocks(session)[1] == BlockIds(0, (1, 7, 8, 9))
    assert loss(session)["prefix_broken"] == 1


def test_ids_that_no_block_size_explains(tmp_path: Path) -> None:
    (session,) = put_lines(tmp_path / "t.jsonl", [row(0, 1000, 5, list(range(99)))])
    assert session.block_tokens is None
    assert loss(session)["block_size_unknown"] == 1


def test_only_so_many_sessions_are_open_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mooncake, "OPEN_SESSIONS", 3)
    file = tmp_path / "t.jsonl"
    rows = [{"session_id": f"s{n}", "input_tokens": 9, "output_tokens": 1} for n in (*range(6), 0)]
    file.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")
    assert [session.id for session in stream(file)] == ["s0", "s1", "s2", "s3", "s4", "s5", "s0:2"]


def ask(t: float, length: int, output: int, ids: list[int], **more: object) -> Json:
    return {"t": t, "type": "s", "model": "m", "in": length, "out": output, "hash_ids": ids, **more}


TRACE: Json = {
    "id": "trace_1",
    "models": ["m"],
    "block_size": 64,
    "hash_id_scope": "local",
    "tool_tokens": 12200,
    "system_tokens": 2800,
    "requests": [
        ask(0.0, 130, 18, [1, 2], stop="tool_use", think_time=0.0),
        {
            "t": 10.0,
            "type": "subagent",
            "agent_id": "agent_1",
            "requests": [ask(10.1, 81, 12, [9], think_time=0.0), ask(20.0, 200, 2, [9, 10, 11], think_time=3.0)],
        },
        ask(30.0, 260, 9, [1, 2, 3, 4], stop="end_turn", think_time=26.0),
        ask(99.0, 300, 9, [1, 2, 3, 4], think_time=60.5),
        ask(120.0, 150, 9, [1, 8], think_time=1.0),
    ],
}


@pytest.mark.parametrize("indent", [None, 1])
def test_weka(tmp_path: Path, indent: int | None) -> None:
    main, child = put_document(tmp_path / "x.json", TRACE, indent)
    assert (main.id, main.format, main.model, main.block_tokens) == ("trace_1", "weka", "m", 64)
    assert usages(main) == [(130, 18), (260, 9), (300, 9), (150, 9)]
    assert blocks(main) == [BlockIds(0, (1, 2)), BlockIds(2, (3, 4)), BlockIds(4, ()), BlockIds(0, (1, 8))]
    assert [request.tool_delay_s for request in main.requests] == [0.0, 26.0, 0.0, 0.0]
    assert [request.think_s for request in main.requests] == [0.0, 0.0, 60.5, 1.0]
    assert [window.reason for window in main.windows] == ["start", "compaction"]
    assert loss(main) == {"content_free": 1, "prefix_broken": 1}
    assert (child.id, child.parent, child.spawned_after) == ("trace_1/agent_1", "trace_1", 1)
    assert child.windows[0].reason == "subagent"
    assert len(child.requests) == 2


def test_a_trace_that_begins_in_the_middle_and_rows_without_lengths(tmp_path: Path) -> None:
    requests = [{"t": 0, "type": "s", "in": 0, "out": 1}, ask(1.0, 90_000, 5, [1])]
    (session,) = put_document(tmp_path / "x.json", {"id": "t", "block_size": 64, "requests": requests})
    assert loss(session) == {"content_free": 1, "malformed_line": 1, "no_timing": 1, "starts_midway": 1}


def test_several_traces_in_lines(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("".join(json.dumps({**TRACE, "id": f"t{n}"}) + "\n" for n in range(3)), encoding="utf-8")
    names = ["t0", "t0/agent_1", "t1", "t1/agent_1", "t2", "t2/agent_1"]
    assert [session.id for session in load(file)] == names


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers(-2, 9), max_size=4)
)
KEYS = ["timestamp", "input_length", "output_length", "hash_ids", "session_id", "chat_id", "parent_chat_id", "delay"]
ASK = ["t", "type", "in", "out", "hash_ids", "stop", "think_time", "requests", "agent_id", "model"]


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=6))
def test_no_rows_break_mooncake(tmp_path_factory: pytest.TempPathFactory, rows: list[Json]) -> None:
    put_lines(tmp_path_factory.mktemp("any") / "x.jsonl", [row(0, 9, 1, [1]), *rows])


@given(st.lists(st.dictionaries(st.sampled_from(ASK), VALUES | st.just("subagent")), max_size=6), VALUES)
def test_no_requests_break_weka(tmp_path_factory: pytest.TempPathFactory, requests: list[Json], size: object) -> None:
    document = {"id": "x", "block_size": size, "requests": [ask(0.0, 9, 1, [1]), *requests]}
    try:
        put_document(tmp_path_factory.mktemp("any") / "x.json", document)
    except TranscriptError:
        return
