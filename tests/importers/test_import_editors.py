"""Gemini CLI, Qwen Code, Cline and Roo: each trap with a file that holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, put_document, put_lines, replies, said

from infermaxx_tui.core.transcript import Session, TranscriptError, Usage
from infermaxx_tui.importers import load

STAMP = "2026-05-01T10:00:{:02d}.000Z"
HEAD: Json = {"sessionId": "g1", "projectHash": "abc", "startTime": STAMP.format(0)}


def user(message_id: str, content: object, at: int = 0) -> Json:
    return {"id": message_id, "timestamp": STAMP.format(at), "type": "user", "content": content}


def answer(message_id: str, content: str, at: int = 0, **more: object) -> Json:
    tokens = {"input": 900, "output": 10, "cached": 16, "thoughts": 5, "tool": 0}
    head: Json = {"id": message_id, "timestamp": STAMP.format(at), "type": "gemini", "content": content}
    return {**head, "tokens": tokens, "model": "m", **more}


def tool(call_id: str, response: Json, at: int = 0) -> Json:
    result = [{"functionResponse": {"id": call_id, "response": response}}]
    return {"id": call_id, "name": "read_file", "args": {"path": "t"}, "result": result, "timestamp": STAMP.format(at)}


def ledger(session: Session) -> dict[str, int]:
    return loss(session, "no_tools", "no_system_prompt")


def check_gemini(session: Session) -> None:
    assert (session.id, session.format, session.model) == ("g1", "gemini", "m")
    first, second, third = session.requests
    assert said(first.delta) == [("user", "Why?\u2028Really?")]
    assert first.usage == Usage(900, 16, 15, 5)
    assert said(second.delta) == [("tool", "x"), ("tool", "boom")]
    assert second.tool_delay_s == pytest.approx(3.0)
    assert third.think_s == pytest.approx(30.0)
    assert replies(session) == [["Look.", "Done.", "Sure."]]
    assert ledger(session) == {"reasoning_summarised": 1}


CHAT: list[Json] = [
    user("1", [{"text": "Why?\u2028Really?"}], 1),
    answer(
        "2",
        "Look.",
        2,
        thoughts=[{"subject": "s", "description": "d"}],
        toolCalls=[tool("c1", {"output": "x"}, 3), tool("c2", {"error": "boom"}, 5)],
    ),
    {"id": "3", "type": "info", "content": "noted", "timestamp": STAMP.format(6)},
    answer("4", "Done.", 8),
    user("5", "More.", 38),
    answer("6", "Sure.", 39),
]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_gemini_document(tmp_path: Path, indent: int | None) -> None:
    (session,) = put_document(tmp_path / "session-1.json", {**HEAD, "messages": CHAT}, indent)
    check_gemini(session)


def test_a_gemini_log_with_updates_and_a_rewind(tmp_path: Path) -> None:
    file = tmp_path / "session-1.jsonl"
    lost: list[Json] = [user("x", "undone"), answer("y", "undone too")]
    early = {**CHAT[1], "content": "Lo", "toolCalls": []}
    changed: Json = {"$set": {"lastUpdated": "z"}}
    update: Json = {"type": "message_update", "id": "6", "content": "Sure."}
    lines: list[Json] = [HEAD, CHAT[0], early, CHAT[1], CHAT[2], CHAT[3], *lost, {"$rewindTo": "x"}, changed]
    records: list[Json] = [*lines, CHAT[4], {**CHAT[5], "content": "Su"}, update]
    file.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    (session,) = load(file)
    assert dict(session.loss).get("branch_dropped") == 1
    (plain,) = put_lines(file, [r for r in records if r not in lost and "$rewindTo" not in r])
    check_gemini(plain)
    assert plain.windows == session.windows


def test_a_gemini_log_whose_messages_are_set_anew(tmp_path: Path) -> None:
    anew: Json = {"$set": {"messages": CHAT}}
    (session,) = put_lines(tmp_path / "x.jsonl", [HEAD, user("1", "gone"), anew])
    check_gemini(session)


def test_gemini_pictures_failures_and_strange_records(tmp_path: Path) -> None:
    picture: Json = {"inlineData": {"mimeType": "image/png", "data": "A" * 999}}
    empty: Json = {"id": "e", "type": "gemini", "content": "", "timestamp": STAMP.format(1)}
    lines: list[Json] = [HEAD, {"$rewindTo": "never"}, user("1", ["see", picture]), empty, answer("2", "a"), {"new": 1}]
    (session,) = put_lines(tmp_path / "x.jsonl", lines)
    assert said(session.requests[0].delta) == [("user", "see\n[image]")]
    assert ledger(session) == {"broken_parent": 1, "failed_reply": 1, "image_dropped": 1, "unknown_record": 1}


def test_a_rewind_to_a_message_that_is_not_there_takes_everything_out(tmp_path: Path) -> None:
    lines: list[Json] = [
        HEAD,
        user("1", "gone"),
        answer("2", "gone"),
        {"$rewindTo": "x"},
        user("3", "go"),
        answer("4", "a"),
    ]
    (session,) = put_lines(tmp_path / "x.jsonl", lines)
    assert said(session.requests[0].delta) == [("user", "go")]
    assert ledger(session) == {"branch_dropped": 1, "broken_parent": 1}


@pytest.mark.parametrize("log", [True, False])
def test_a_gemini_subagent_stands_in_its_parents_folder(tmp_path: Path, log: bool) -> None:
    file = tmp_path / "chats" / "g0" / "g1.jsonl"
    head: Json = {**HEAD, "kind": "subagent"}
    found = put_lines(file, [head, *CHAT]) if log else put_document(file, {**head, "messages": CHAT})
    assert [(session.parent, session.windows[0].reason) for session in found] == [("g0", "subagent")]


def qwen(uuid: str, parent: str | None, kind: str, *parts: Json, at: int = 0, **more: object) -> Json:
    head: Json = {"uuid": uuid, "parentUuid": parent, "sessionId": "q1", "timestamp": STAMP.format(at), "type": kind}
    return {**head, "message": {"role": "model" if kind == "assistant" else "user", "parts": [*parts]}, **more}


def test_qwen_code_follows_the_tree(tmp_path: Path) -> None:
    call: Json = {"functionCall": {"id": "c1", "name": "ls", "args": {}}}
    response: Json = {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "x"}}}
    usage = {"promptTokenCount": 900, "candidatesTokenCount": 10, "cachedContentTokenCount": 0}
    (session,) = put_lines(
        tmp_path / "chat.jsonl",
        [
            {"uuid": "s", "parentUuid": None, "sessionId": "q1", "type": "system", "systemPayload": {}},
            qwen("u", "s", "user", {"text": "go"}),
            qwen(
                "a", "u", "assistant", {"text": "hm", "thought": True}, call, at=2, usageMetadata=usage, model="qwen3"
            ),
            qwen("r", "a", "tool_result", response, at=4),
            qwen("b", "r", "assistant", {"text": "abandoned"}),
            qwen("c", "r", "assistant", {"text": "done"}, at=6),
            qwen("v", "c", "user", {"text": "more"}, at=26),
            qwen("d", "v", "assistant", {"text": "end"}),
        ],
    )
    assert (session.id, session.format, session.model) == ("q1", "qwen-code", "qwen3")
    assert replies(session) == [["", "done", "end"]]
    assert session.requests[0].reply.reasoning == "hm"
    assert session.requests[0].usage == Usage(900, 0, 10)
    assert said(session.requests[1].delta) == [("tool", "x")]
    assert session.requests[1].tool_delay_s == pytest.approx(2.0)
    assert session.requests[2].think_s == pytest.approx(20.0)
    assert ledger(session) == {"branch_dropped": 1, "usage_missing": 2}


def test_qwen_code_compresses(tmp_path: Path) -> None:
    history = [{"role": "user", "parts": [{"text": "SUM"}]}, {"role": "model", "parts": [{"text": "ok"}]}]
    compression: Json = {"uuid": "z", "parentUuid": "a", "type": "system", "subtype": "chat_compression"}
    (session,) = put_lines(
        tmp_path / "chat.jsonl",
        [
            qwen("u", None, "user", {"text": "go"}),
            qwen("a", "u", "assistant", {"text": "one"}),
            {**compression, "systemPayload": {"compressedHistory": history}},
            qwen("v", "z", "user", {"text": "more"}),
            qwen("b", "v", "assistant", {"text": "two"}),
        ],
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert said(session.windows[1].requests[0].delta) == [("user", "SUM"), ("assistant", "ok"), ("user", "more")]


def test_qwen_codes_subagents_are_sessions(tmp_path: Path) -> None:
    side: Json = {"isSidechain": True, "agentId": "explore-7"}
    inherited = [{"role": "user", "parts": [{"text": "task"}]}, {"role": "model", "parts": [{"text": "seen"}]}]
    boot: Json = {"uuid": "x", "parentUuid": None, "type": "system", "subtype": "agent_bootstrap"}
    main, agent = put_lines(
        tmp_path / "chat.jsonl",
        [
            qwen("u", None, "user", {"text": "go"}),
            {**boot, "systemPayload": {"kind": "fork", "history": inherited}, **side},
            {**qwen("y", "x", "user", {"text": "on"}), **side},
            qwen("a", "u", "assistant", {"text": "one"}),
            {**qwen("z", "y", "assistant", {"text": "sub"}), **side},
        ],
    )
    assert (replies(main), replies(agent)) == ([["one"]], [["sub"]])
    assert (agent.id, agent.parent, agent.windows[0].reason) == ("q1/explore-7", "q1", "subagent")
    assert said(agent.requests[0].delta) == [("user", "task"), ("assistant", "seen"), ("user", "on")]


TASK: list[Json] = [
    {"role": "user", "content": [{"type": "text", "text": "<task>go</task>"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}, {"type": "text", "text": "env"}],
    },
    {"role": "assistant", "content": "<read_file>as text</read_file>"},
]


def stamped(messages: list[Json]) -> list[Json]:
    counts = {"inputTokens": 100, "outputTokens": 5, "cacheReadTokens": 800, "cacheWriteTokens": 0}
    more: Json = {"metrics": counts, "modelInfo": {"id": "m"}}
    return [
        {**message, "ts": 1777626000000 + 2000 * n, **(more if message["role"] == "assistant" else {})}
        for n, message in enumerate(messages)
    ]


def test_a_cline_document(tmp_path: Path) -> None:
    (session,) = put_document(tmp_path / "s.messages.json", {"sessionId": "k1", "messages": stamped(TASK)})
    assert (session.id, session.format, session.model) == ("k1", "cline", "m")
    assert [r.usage for r in session.requests] == [Usage(900, 800, 5)] * 2
    assert said(session.requests[1].delta) == [("tool", "x"), ("user", "env")]
    assert session.requests[1].tool_delay_s == pytest.approx(2.0)
    assert session.requests[1].think_s == 0.0
    assert ledger(session) == {}


@pytest.mark.parametrize("requests", [0, 2, 5])
def test_an_editors_task_with_the_counts_beside_it(tmp_path: Path, requests: int) -> None:
    folder = tmp_path / "tasks" / "1777"
    folder.mkdir(parents=True)
    counts = json.dumps({"request": "…", "tokensIn": 100, "tokensOut": 5, "cacheReads": 0, "cacheWrites": 800})
    said_on_screen = [{"ts": n, "type": "say", "say": "api_req_started", "text": counts} for n in range(requests)]
    if requests:
        (folder / "ui_messages.json").write_text(json.dumps(said_on_screen), encoding="utf-8")
    (session,) = put_document(folder / "api_conversation_history.json", TASK)
    assert (session.id, replies(session)) == ("1777", [["", "<read_file>as text</read_file>"]])
    assert [r.usage.prompt_tokens for r in session.requests] == ([900, 900] if requests == 2 else [None, None])
    found = loss(session)
    assert found.get("windows_lost", 0) == found.get("usage_unaligned", 0) == (requests == 5)
    if requests:
        with pytest.raises(TranscriptError, match=r"give api_conversation_history\.json beside it"):
            load(folder / "ui_messages.json")


def test_a_list_of_messages_with_a_system_prompt_is_chat(tmp_path: Path) -> None:
    document = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    (session,) = put_document(tmp_path / "x.json", document)
    assert (session.format, replies(session)) == ("openai-chat", [["b"]])


VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["user", "gemini", "assistant", "model", "1", "system"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "parts", "text", "toolCalls", "result", "functionResponse", "id"]
            ),
            inner,
        )
    ),
    max_leaves=8,
)
KEYS = [
    "type",
    "content",
    "toolCalls",
    "tokens",
    "id",
    "$set",
    "$rewindTo",
    "uuid",
    "parentUuid",
    "message",
    "role",
    "ts",
]


@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=6),
    st.sampled_from(["gemini", "gemini log", "qwen", "cline", "editor"]),
)
def test_no_values_break_them(tmp_path_factory: pytest.TempPathFactory, items: list[Json], which: str) -> None:
    file = tmp_path_factory.mktemp("any") / "x.json"
    try:
        match which:
            case "gemini":
                put_document(file, {**HEAD, "messages": [CHAT[0], *items]})
            case "gemini log":
                put_lines(file, [HEAD, *items])
            case "qwen":
                put_lines(file, [qwen("u", None, "user", {"text": "go"}), *items])
            case "cline":
                put_document(file, {"sessionId": "k1", "messages": [*stamped(TASK), *items]})
            case _:
                put_document(file, [*TASK, *items])
    except TranscriptError:
        return
