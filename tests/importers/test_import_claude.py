"""Claude Code session files: each trap of the format with a file that holds it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core.transcript import Message, Session, ToolCall, TranscriptError, Usage
from infermaxx_tui.importers import load, load_all, recordings

Json = dict[str, object]
PARALLEL = Path(__file__).parent / "fixtures" / "claude_parallel.jsonl"


def user(uuid: str, parent: str | None, content: object, **more: object) -> Json:
    message = {"role": "user", "content": content}
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": message, **more}


def result(uuid: str, parent: str | None, call_id: str, content: object, **more: object) -> Json:
    return user(uuid, parent, [{"type": "tool_result", "tool_use_id": call_id, "content": content}], **more)


def reply(uuid: str, parent: str | None, message_id: str | None, *blocks: object, **more: object) -> Json:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    usage = more.pop("usage", {"input_tokens": 100, "output_tokens": 5})
    message: Json = {"role": "assistant", "model": "m", "content": content, "usage": usage, "stop_reason": "end_turn"}
    if message_id is not None:
        message["id"] = message_id
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": "S", "message": message, **more}


def call(call_id: str, **arguments: object) -> Json:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": arguments}


def boundary(uuid: str, logical: str | None, **metadata: object) -> Json:
    record: Json = {"type": "system", "subtype": "compact_boundary", "uuid": uuid, "parentUuid": None, "sessionId": "S"}
    return {**record, "logicalParentUuid": logical, "compactMetadata": metadata}


def put(folder: Path, records: Iterable[Json], name: str = "S.jsonl") -> tuple[Session, ...]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return load(file)


def one(folder: Path, *records: Json) -> Session:
    (session,) = put(folder, records)
    return session


def replies(session: Session) -> list[list[str]]:
    return [[request.reply.content for request in window.requests] for window in session.windows]


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.content for message in messages]


def loss(session: Session) -> dict[str, int]:
    """The ledger without what every file of this format lacks."""
    ledger = dict(session.loss)
    assert list(ledger) == sorted(ledger)
    assert ledger.pop("no_system_prompt") == ledger.pop("no_tools") == 1
    ledger.pop("no_timing", None)
    return ledger


def test_one_reply_over_several_records_with_parallel_calls() -> None:
    (session,) = load(PARALLEL)
    assert (session.id, session.format, session.source) == ("S", "claude-code", "claude_parallel.jsonl")
    assert session.model == "local-model"
    first, second, third = session.requests
    assert first.delta == (
        Message("user", "<local-command-caveat>typed by hand</local-command-caveat>\nWhy does test_add fail?"),
    )
    assert first.reply.reasoning == "Look at the test."
    assert [(c.id, c.name, json.loads(c.arguments)) for c in first.reply.tool_calls] == [
        ("toolu_1", "Read", {"file_path": "t.py"}),
        ("toolu_2", "Task", {"prompt": "List callers", "subagent_type": "Explore"}),
    ]
    assert second.delta == (
        Message("tool", "1\tassert add(1,1)==3", tool_call_id="toolu_1"),
        Message("tool", "2 callers", tool_call_id="toolu_2"),
    )
    assert texts(third.delta) == ["Fix it."]
    assert loss(session) == {"attachment_unrendered": 1, "synthetic_dropped": 1}
    assert "no_timing" not in dict(session.loss)


def test_usage_is_the_fullest_record_of_a_reply_and_sums_the_three_inputs() -> None:
    (session,) = load(PARALLEL)
    assert [request.usage for request in session.requests] == [
        Usage(15116, 14800, 118),
        Usage(15318, 15110, 9),
        Usage(15400, None, 4),
    ]


def test_delays_come_from_calls_and_people_and_not_from_generation() -> None:
    (session,) = load(PARALLEL)
    assert [request.tool_delay_s for request in session.requests] == pytest.approx([0.0, 26.0, 0.0])
    assert [request.think_s for request in session.requests] == pytest.approx([0.0, 0.0, 30.5])


def test_the_copy_for_the_screen_is_not_what_was_sent() -> None:
    assert "COPY FOR THE SCREEN" not in repr(load(PARALLEL))


@pytest.mark.parametrize("with_request_id", [True, False])
def test_replies_are_grouped_by_message_id_alone(tmp_path: Path, with_request_id: bool) -> None:
    ids = {"requestId": "r"} if with_request_id else {}
    usage = {"input_tokens": 900, "output_tokens": 40}
    session = one(
        tmp_path,
        user("u", None, "go"),
        reply("a", "u", "m1", {"type": "thinking", "thinking": "hm"}, usage=usage, **ids),
        reply("b", "a", "m1", "text", usage=usage, **ids),
        reply("c", "b", "m1", call("t", command="ls"), usage=usage, **ids),
        result("r", "c", "t", "x"),
        reply("d", "r", "m2", "end", usage={"input_tokens": 950, "output_tokens": 2}),
    )
    assert [request.usage.prompt_tokens for request in session.requests] == [900, 950]
    assert session.requests[0].reply.content == "text"
    assert loss(session) == {}


def test_records_without_message_ids_fall_back_to_the_request_id_then_stand_alone(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u", None, "go"),
        reply("a", "u", None, "one", requestId="r1"),
        reply("b", "a", None, "two", requestId="r1"),
        user("v", "b", "more"),
        reply("c", "v", None, "three"),
    )
    assert replies(session) == [["one\ntwo", "three"]]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([(6, 3), (6, 118)], Usage(6, None, 118)),
        ([(6, 118), (6, 3)], Usage(6, None, 118)),
        ([(6, None), (6, 5)], Usage(6, None, 5)),
        ([(0, 0), (0, None)], Usage(None, None, None)),
        ([(0, 7), (900, 7)], Usage(900, None, 7)),
    ],
)
def test_the_fullest_usage_wins(tmp_path: Path, counts: list[tuple[int, int | None]], expected: Usage) -> None:
    records = [user("u", None, "go")]
    for i, (prompt, output) in enumerate(counts):
        records.append(reply(f"a{i}", "u", "m", f"block {i}", usage={"input_tokens": prompt, "output_tokens": output}))
    session = one(tmp_path, *records)
    assert session.requests[0].usage == expected
    assert loss(session).get("usage_missing", 0) == (expected.prompt_tokens is None)


def test_snapshots_and_copies_of_a_block_count_once(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u", None, "go"),
        reply("a", "u", "m", "The ans"),
        reply("b", "a", "m", "The answer is 4."),
        reply("c", "b", "m", "The answer is 4.", call("t", n=1)),
        reply("d", "c", "m", call("t", n=1)),
    )
    assert session.requests[0].reply == Message(
        "assistant", "The answer is 4.", "", (ToolCall("t", "Bash", '{"n":1}'),)
    )
    assert loss(session) == {"dup_dropped": 3}


def test_results_before_and_between_the_records_of_their_message(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u", None, "go"),
        result("r2", "a2", "t2", "second"),
        reply("a1", "u", "m", call("t1")),
        result("r1", "a1", "t1", "first"),
        reply("a2", "a1", "m", call("t2")),
        reply("e", "r2", "n", "end"),
    )
    assert texts(session.requests[1].delta) == ["first", "second"]
    assert [message.role for message in session.requests[1].delta] == ["tool", "tool"]
    assert loss(session) == {}


def test_duplicate_uuids_and_results_are_dropped(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u", None, "go"),
        user("u", None, "go"),
        reply("a", "u", "m", call("t")),
        result("r", "a", "t", "out"),
        result("r-again", "r", "t", "out"),
        reply("e", "r-again", "n", "end"),
    )
    assert texts(session.requests[0].delta) == ["go"]
    assert texts(session.requests[1].delta) == ["out"]
    assert loss(session) == {"dup_dropped": 2}


@pytest.mark.parametrize("root", [None, "a2"])
def test_a_history_written_twice_under_new_uuids_counts_once(tmp_path: Path, root: str | None) -> None:
    history = [
        user("u1", None, "one"),
        reply("a1", "u1", "m1", "A"),
        user("u2", "a1", "two"),
        reply("a2", "u2", "m2", "B"),
    ]
    again = [
        user("x1", root, "one"),
        reply("y1", "x1", "m1", "A"),
        user("x2", "y1", "two"),
        reply("y2", "x2", "m2", "B"),
    ]
    session = one(tmp_path, *history, *again, user("u3", "y2", "three"), reply("a3", "u3", "m3", "C"))
    assert [text for window in replies(session) for text in window] == ["A", "B", "C"]
    assert [texts(request.delta) for request in session.requests] == [["one"], ["two"], ["three"]]
    assert loss(session)["dup_dropped"] >= 4


def test_a_rewind_leaves_the_abandoned_branch_out(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u1", None, "one"),
        reply("a1", "u1", "m1", "A"),
        user("u2", "a1", "wrong way"),
        reply("a2", "u2", "m2", call("t")),
        result("r2", "a2", "t", "x"),
        reply("a3", "r2", "m3", "bad"),
        user("u3", "a1", "right way"),
        reply("a4", "u3", "m4", "good"),
    )
    assert replies(session) == [["A", "good"]]
    assert texts(session.requests[1].delta) == ["right way"]
    assert loss(session) == {"branch_dropped": 2}


def test_links_of_other_types_hold_the_chain_together(tmp_path: Path) -> None:
    def link(uuid: str, parent: str, kind: str, **more: object) -> Json:
        return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "S", **more}

    session = one(
        tmp_path,
        user("u1", None, "one"),
        reply("a1", "u1", "m1", call("t")),
        link("p1", "a1", "progress", data={}),
        result("r1", "p1", "t", "x"),
        link("s1", "r1", "system", subtype="turn_duration"),
        link("n1", "s1", "brand-new-type"),
        {"type": "another-new-type", "sessionId": "S"},
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
        reply("a2", "n1", "m2", "end"),
    )
    assert replies(session) == [["", "end"]]
    assert loss(session) == {"unknown_record": 2}


def test_a_parent_that_was_never_written_falls_back_to_file_order(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u1", "from another file", "one"),
        reply("a1", "u1", "m1", "A"),
        user("u2", "never written", "two"),
        reply("a2", "u2", "m2", "B"),
    )
    assert replies(session) == [["A", "B"]]
    assert loss(session) == {"broken_parent": 2}


def test_parents_in_a_circle_end_somewhere(tmp_path: Path) -> None:
    session = one(tmp_path, user("u", "a", "one"), reply("a", "u", "m", "A"))
    assert replies(session) == [["A"]]


def test_a_second_root_is_a_window_of_its_own(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u1", None, "one"),
        reply("a1", "u1", "m1", "A"),
        user("u2", None, "fresh"),
        reply("a2", "u2", "m2", "B"),
    )
    assert [window.reason for window in session.windows] == ["start", "clear"]
    assert replies(session) == [["A"], ["B"]]


BEFORE = [
    user("u1", None, "one"),
    reply("a1", "u1", "m1", call("t1"), usage={"input_tokens": 150_000, "output_tokens": 5}),
    result("r1", "a1", "t1", "long output"),
    reply("a2", "r1", "m2", "B"),
]


def summary(parent: str | None) -> Json:
    return user("c2", parent, "Summary: all of it.", isCompactSummary=True, isVisibleInTranscriptOnly=True)


def test_compaction_opens_a_window(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        *BEFORE,
        boundary("c1", "a2", trigger="auto", preTokens=155000),
        summary("c1"),
        user("u3", "c2", "go on"),
        reply("a3", "u3", "m3", "C", usage={"input_tokens": 3100, "output_tokens": 5}),
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert replies(session) == [["", "B"], ["C"]]
    assert session.windows[1].requests[0].delta == (Message("user", "Summary: all of it.\ngo on"),)
    assert loss(session) == {"context_shrank": 1}


@pytest.mark.parametrize("logical", [None, "never written"])
def test_compaction_without_a_logical_parent_follows_the_file(tmp_path: Path, logical: str | None) -> None:
    session = one(tmp_path, *BEFORE, boundary("c1", logical), summary("c1"), reply("a3", "c2", "m3", "C"))
    assert replies(session) == [["", "B"], ["C"]]


def test_a_summary_without_a_boundary_opens_a_window_too(tmp_path: Path) -> None:
    session = one(tmp_path, *BEFORE, summary(None), reply("a3", "c2", "m3", "C"))
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert replies(session) == [["", "B"], ["C"]]


@pytest.mark.parametrize("next_parent", ["c2", "a2"], ids=["parents skip the carried messages", "parents lead through"])
@pytest.mark.parametrize(
    "metadata",
    [
        {"preservedSegment": {"headUuid": "a1", "tailUuid": "a2", "anchorUuid": "c2"}},
        {"preservedMessages": {"uuids": ["a1", "r1", "a2"], "anchorUuid": "c2"}},
        {"preservedSegment": {"headUuid": "a1", "tailUuid": "a2"}},
    ],
)
def test_carried_messages_stand_after_the_summary(tmp_path: Path, metadata: Json, next_parent: str) -> None:
    session = one(
        tmp_path,
        *BEFORE,
        boundary("c1", "a2", **metadata),
        summary("c1"),
        user("u3", next_parent, "go on"),
        reply("a3", "u3", "m3", "C"),
    )
    assert replies(session) == [["", "B"], ["C"]]
    prompt = session.windows[1].requests[0].delta
    assert [(message.role, message.content) for message in prompt] == [
        ("user", "Summary: all of it."),
        ("assistant", ""),
        ("tool", "long output"),
        ("assistant", "B"),
        ("user", "go on"),
    ]
    assert session.windows[1].requests[0].tool_delay_s == 0.0
    assert "preserved_lost" not in loss(session)


def test_carried_messages_that_are_gone_are_counted(tmp_path: Path) -> None:
    metadata = {"preservedSegment": {"headUuid": "gone", "tailUuid": "a2", "anchorUuid": "c2"}}
    session = one(tmp_path, *BEFORE, boundary("c1", "a2", **metadata), summary("c1"), reply("a3", "c2", "m3", "C"))
    assert replies(session) == [["", "B"], ["C"]]
    assert loss(session)["preserved_lost"] == 1


def test_two_compactions(tmp_path: Path) -> None:
    second = user("d2", "d1", "Summary two.", isCompactSummary=True)
    session = one(
        tmp_path,
        *BEFORE,
        boundary("c1", "a2", preservedSegment={"headUuid": "a2", "tailUuid": "a2", "anchorUuid": "c2"}),
        summary("c1"),
        user("u3", "a2", "go on"),
        reply("a3", "u3", "m3", "C"),
        boundary("d1", "a3", preservedSegment={"headUuid": "a3", "tailUuid": "a3", "anchorUuid": "d2"}),
        second,
        user("u4", "a3", "further"),
        reply("a4", "u4", "m4", "D"),
    )
    assert replies(session) == [["", "B"], ["C"], ["D"]]
    assert texts(session.windows[2].requests[0].delta) == ["Summary two.", "C", "further"]


def test_sidechains_are_sessions_of_their_own(tmp_path: Path) -> None:
    side = {"isSidechain": True, "agentId": "7f3"}
    main, agent = put(
        tmp_path,
        [
            user("u1", None, "one"),
            reply("a1", "u1", "m1", call("t1")),
            user("s1", None, "List callers", **side),
            reply("s2", "s1", "n1", "2 callers", **side),
            result("r1", "a1", "t1", "2 callers"),
            reply("a2", "r1", "m2", "B"),
        ],
    )
    assert replies(main) == [["", "B"]]
    assert replies(agent) == [["2 callers"]]
    assert (agent.id, agent.parent, main.parent) == ("agent-7f3", "S", None)
    assert [window.reason for window in agent.windows] == ["subagent"]


def test_sidechains_without_agent_ids_are_told_apart_by_their_roots(tmp_path: Path) -> None:
    side = {"isSidechain": True}
    records = [user("u1", None, "one"), reply("a1", "u1", "m1", "A")]
    records += [user(f"s{i}", None, f"task {i}", **side) for i in (1, 2)]
    records += [reply(f"t{i}", f"s{i}", f"n{i}", f"done {i}", **side) for i in (2, 1)]
    _, first, second = put(tmp_path, records)
    assert (replies(first), replies(second)) == ([["done 1"]], [["done 2"]])


def test_subagent_files_beside_the_session_are_read_once(tmp_path: Path) -> None:
    side = {"isSidechain": True, "agentId": "9"}
    child = tmp_path / "S" / "subagents" / "agent-9.jsonl"
    put(child.parent, [user("s1", None, "task", **side), reply("s2", "s1", "n1", "done", **side)], child.name)
    (child.parent / "agent-9.meta.json").write_text("{}", encoding="utf-8")
    (child.parent / "agent-broken.jsonl").write_text("{", encoding="utf-8")
    records = [
        user("u1", None, "one"),
        reply("a1", "u1", "m1", "A"),
        user("u2", "a1", "two"),
        reply("a2", "u2", "m2", call("t1")),
        result("r2", "a2", "t1", "done", toolUseResult={"agentId": "9", "content": "COPY FOR THE SCREEN"}),
        reply("a3", "r2", "m3", "C"),
    ]
    found = put(tmp_path, records)
    assert [(session.id, session.parent) for session in found] == [("S", None), ("agent-9", "S")]
    assert [session.spawned_after for session in found] == [None, 2]
    assert loss(found[0]) == {"subagent_unreadable": 1}
    assert (load(child)[0].parent, load(child)[0].spawned_after) == ("S", None)
    assert [s.id for s in load_all([tmp_path / "S.jsonl", child])] == ["S", "agent-9"]
    assert recordings(tmp_path)[0] == tmp_path / "S.jsonl"


def test_orphan_results_unanswered_calls_and_prompts(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u1", None, "one"),
        result("r0", "u1", "nobody's", "stray"),
        reply("a1", "r0", "m1", call("t1"), call("t2")),
        result("r1", "a1", "t1", "x"),
        reply("a2", "r1", "m2", "B"),
        user("u2", "a2", "still there?"),
    )
    assert texts(session.requests[1].delta) == ["x"]
    assert "stray" not in repr(session)
    assert loss(session) == {"orphan_result": 1, "unanswered_call": 1, "unanswered_prompt": 1}


def test_what_was_only_shown_is_left_out(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        user("u1", None, "one"),
        user("v", "u1", "shown to the person", isVisibleInTranscriptOnly=True),
        reply("a1", "v", "m1", "A"),
    )
    assert texts(session.requests[0].delta) == ["one"]
    assert loss(session) == {"transcript_only_dropped": 1}


def test_images_hidden_reasoning_and_strange_blocks_are_counted(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    session = one(
        tmp_path,
        user("u1", None, [{"type": "text", "text": "see"}, picture]),
        reply("a1", "u1", "m1", {"type": "redacted_thinking", "data": "x"}, call("t")),
        result(
            "r1", "a1", "t", [{"type": "text", "text": "shot"}, picture, {"type": "tool_reference", "tool_name": "x"}]
        ),
        reply("a2", "r1", "m2", "B"),
    )
    assert texts(session.requests[0].delta) == ["see\n[image]"]
    assert texts(session.requests[1].delta) == ["shot\n[image]"]
    assert loss(session) == {"image_dropped": 2, "reasoning_encrypted": 1, "unknown_block": 1}


def test_lone_surrogates_bom_crlf_and_a_torn_tail(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    lines = [json.dumps(r) for r in (user("u1", None, "cut \ud83d"), reply("a1", "u1", "m1", "line\u2028sep"))]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode() + b'\r\n{"parentUuid":"a1","type":"user","mess')
    (session,) = load(file)
    assert texts(session.requests[0].delta) == ["cut \ufffd"]
    assert session.requests[0].reply.content == "line\u2028sep"
    assert loss(session) == {"surrogate_repaired": 1, "torn_tail": 1}


def test_the_torn_tail_may_be_the_second_line(tmp_path: Path) -> None:
    file = tmp_path / "S.jsonl"
    file.write_text(json.dumps(user("u1", None, "x")) + '\n{"type":"assis', encoding="utf-8")
    with pytest.raises(TranscriptError, match="nothing to replay"):
        load(file)


def test_a_file_of_bookkeeping_alone_has_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="nothing to replay"):
        put(tmp_path, [{"type": "ai-title", "aiTitle": "x", "sessionId": "S"}])


def test_printed_stream_json_is_read_in_file_order(tmp_path: Path) -> None:
    records: list[Json] = [
        {"type": "system", "subtype": "init", "session_id": "P", "uuid": "i", "tools": ["Bash"]},
        {"type": "user", "session_id": "P", "uuid": "u", "message": {"role": "user", "content": "go"}},
    ]
    for i, parent in enumerate([None, None, "toolu_task"]):
        message = {"id": f"m{i}", "role": "assistant", "model": "m", "content": [{"type": "text", "text": f"r{i}"}]}
        records.append(
            {"type": "assistant", "session_id": "P", "uuid": f"a{i}", "parent_tool_use_id": parent, "message": message}
        )
    main, agent = put(tmp_path, records)
    assert (main.id, replies(main), replies(agent)) == ("P", [["r0", "r1"]], [["r2"]])


@given(st.permutations(range(12)), st.integers(1, 3))
def test_parallel_results_may_stand_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], blocks: int
) -> None:
    """However records of one reply and its results are mixed, the request is the same."""
    records = []
    for i in range(0, 6):
        records.append(reply(f"a{i}", f"a{i - 1}" if i else "u", "m", *(call(f"t{i}.{b}") for b in range(blocks))))
        content = [
            {"type": "tool_result", "tool_use_id": f"t{i}.{b}", "content": f"out {i}.{b}"} for b in range(blocks)
        ]
        records.append(user(f"r{i}", f"a{i}", content))
    mixed = [records[i] for i in order]
    end = next(str(r["uuid"]) for r in reversed(mixed) if r["type"] == "user")
    session = one(tmp_path_factory.mktemp("mix"), user("u", None, "go"), *mixed, reply("e", end, "n", "end"))
    first, second = session.requests
    assert {c.id for c in first.reply.tool_calls} == {f"t{i}.{b}" for i in range(6) for b in range(blocks)}
    assert [m.tool_call_id for m in second.delta] == [c.id for c in first.reply.tool_calls]
    assert all(m.content == m.tool_call_id.replace("t", "out ") for m in second.delta)
    assert loss(session) == {}
