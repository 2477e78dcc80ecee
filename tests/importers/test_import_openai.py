"""OpenAI chat JSONL: both meanings of a line, every dialect of a message, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import peak_bytes

from infermaxx_tui.core.transcript import Message, Session, ToolCall, TranscriptError, Usage
from infermaxx_tui.importers import load

Json = dict[str, object]
SYSTEM: Json = {"role": "system", "content": "Be short."}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def call(call_id: str, arguments: object) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": arguments}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "talk.jsonl"


def put(file: Path, *records: Json) -> tuple[Session, ...]:
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return load(file)


def loss(session: Session) -> dict[str, int]:
    assert list(session.loss) == sorted(session.loss)
    return dict(session.loss)


WHOLE: Json = {
    "messages": [
        SYSTEM,
        user("Why?"),
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Look first.",
            "tool_calls": [call("c1", '{"command": "cat t.py"}'), call("c2", {"command": "ls"})],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "assert"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "t.py"}]},
        said("The expectation is wrong."),
    ],
    "tools": TOOLS,
    "parallel_tool_calls": True,
    "weight": 1,
    "usage": {"prompt_tokens": 1290, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 1200}},
}


def test_a_line_is_a_whole_conversation(file: Path) -> None:
    (session,) = put(file, WHOLE)
    assert (session.id, session.format, session.source) == ("talk", "openai-chat", "talk.jsonl")
    assert [window.reason for window in session.windows] == ["start"]
    one, two = session.requests
    assert one.delta == (Message("system", "Be short."), Message("user", "Why?"))
    calls = (ToolCall("c1", "bash", '{"command": "cat t.py"}'), ToolCall("c2", "bash", '{"command":"ls"}'))
    assert one.reply == Message("assistant", "", "Look first.", calls)
    assert one.usage == Usage()
    assert two.delta == (
        Message("tool", "assert", tool_call_id="c1"),
        Message("tool", "t.py", tool_call_id="c2"),
    )
    assert two.usage == Usage(1290, 1200, 12)
    assert json.loads(session.tools) == TOOLS
    assert loss(session) == {"no_timing": 1}


def test_two_conversations_and_what_they_lack(file: Path) -> None:
    a, b = put(file, {"messages": [user("1"), said("one")]}, {"messages": [user("2"), said("two")], "id": "second"})
    assert (a.id, b.id) == ("talk", "second")
    assert loss(a) == {"no_system_prompt": 1, "no_tools": 1, "no_timing": 1}
    assert len(a.requests) == 1


def turns(n: int) -> list[Json]:
    out: list[Json] = [SYSTEM]
    for i in range(n):
        out += [user(f"question {i}"), said(f"answer {i}")]
    return out


def log_line(n: int, **more: object) -> Json:
    """Request n of a conversation: the whole history up to its question."""
    return {"messages": turns(n + 1)[:-1], "tools": TOOLS, **more}


@pytest.mark.parametrize("group", [{"session_id": "s1"}, {"metadata": {"conversation_id": "s1"}}, {}])
def test_lines_are_requests_with_the_whole_history(file: Path, group: Json) -> None:
    lines = [
        log_line(
            i, **group, response={"choices": [{"message": said(f"answer {i}")}], "usage": {"prompt_tokens": 10 + i}}
        )
        for i in range(4)
    ]
    (session,) = put(file, *lines)
    assert [request.reply.content for request in session.requests] == [f"answer {i}" for i in range(4)]
    assert [request.usage.prompt_tokens for request in session.requests] == [10, 11, 12, 13]
    assert session.requests[2].delta == (Message("user", "question 2"),)
    assert loss(session) == {"no_timing": 1}
    assert session.id == ("s1" if group else "talk")


def test_replies_that_only_the_next_line_shows(file: Path) -> None:
    (session,) = put(file, *(log_line(i, usage={"prompt_tokens": 10 + i, "completion_tokens": 5}) for i in range(3)))
    assert [request.reply.content for request in session.requests] == ["answer 0", "answer 1"]
    assert [request.usage.prompt_tokens for request in session.requests] == [10, 11]
    assert loss(session) == {"no_timing": 1, "unanswered_prompt": 1}


@pytest.mark.parametrize("key", ["payload", "request", "body"])
def test_the_request_may_be_nested_or_be_text(file: Path, key: str) -> None:
    headers = {"Authorization": "Bearer sk-verysecret"}
    (session,) = put(file, {key: WHOLE, "headers": headers})
    assert len(session.requests) == 2
    assert "verysecret" not in repr(session)
    (again,) = put(file, {key: json.dumps(WHOLE), "headers": headers})
    assert again.requests[0].reply == session.requests[0].reply


def test_interleaved_conversations_without_ids_are_told_apart(file: Path) -> None:
    def line(who: str, n: int) -> Json:
        history = [SYSTEM, user(f"I am {who}")]
        for i in range(n):
            history += [said(f"{who} {i}"), user(f"next {i}")]
        return {"messages": history, "response": {"choices": [{"message": said(f"{who} {n}")}]}}

    found = put(file, *(line(who, n) for n in range(3) for who in "abc"))
    assert [[r.reply.content for r in s.requests] for s in found] == [[f"{w} {n}" for n in range(3)] for w in "abc"]
    assert len({session.id for session in found}) == 3


def test_retries_are_dropped_and_the_last_answer_counts(file: Path) -> None:
    def line(n: int, answer: str) -> Json:
        return log_line(n, session_id="s", response={"choices": [{"message": said(answer)}]})

    (session,) = put(
        file, line(0, "answer 0"), line(1, "lost"), line(1, "answer 1"), line(2, "answer 2"), line(2, "answer 2")
    )
    assert [request.reply.content for request in session.requests] == ["answer 0", "answer 1", "answer 2"]
    assert loss(session)["dup_dropped"] == 2
    (session,) = put(file, log_line(0), log_line(0), log_line(1))
    assert [request.reply.content for request in session.requests] == ["answer 0"]
    assert loss(session) == {"dup_dropped": 1, "no_timing": 1, "unanswered_prompt": 1}


def test_clients_that_drop_reasoning_trim_text_and_rewrite_arguments_still_match(file: Path) -> None:
    reply = {**said(" done \n"), "reasoning": "hm", "tool_calls": [call("x", '{"b":1,"a":2}')]}
    resent = {**said("done"), "tool_calls": [call("x", '{"a": 2, "b": 1}')]}
    (session,) = put(
        file,
        {"messages": [user("go")], "response": {"choices": [{"message": reply}]}},
        {
            "messages": [user("go"), resent, {"role": "tool", "tool_call_id": "x", "content": "ok"}],
            "response": {"choices": [{"message": said("end")}]},
        },
    )
    assert [request.reply.reasoning for request in session.requests] == ["hm", ""]
    assert "dup_dropped" not in loss(session)


def test_a_rewritten_history_opens_a_window(file: Path) -> None:
    def line(messages: list[Json], answer: str) -> Json:
        return {"session_id": "s", "messages": messages, "response": {"choices": [{"message": said(answer)}]}}

    (session,) = put(
        file,
        line([SYSTEM, user("a")], "A"),
        line([SYSTEM, user("a"), said("A"), user("b")], "B"),
        line([SYSTEM, user("a"), said("A"), user("other b")], "B2"),
        line([SYSTEM, user("Summary: a, b")], "C"),
    )
    assert [window.reason for window in session.windows] == ["start", "fork", "compaction"]
    assert [len(window.requests) for window in session.windows] == [2, 1, 1]
    carried = session.windows[1].requests[0].delta
    assert [message.content for message in carried] == ["Be short.", "a", "A", "other b"]
    assert session.windows[2].requests[0].delta[1].content == "Summary: a, b"


def test_changed_tools_are_counted(file: Path) -> None:
    (session,) = put(file, log_line(0), {**log_line(1), "tools": []})
    assert loss(session)["tools_changed"] == 1


def test_stream_chunks_are_put_together(file: Path) -> None:
    chunks = [
        {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"delta": {"reasoning_content": "h"}}]},
        {"choices": [{"delta": {"reasoning": "m"}}]},
        {"choices": [{"delta": {"content": "do"}}]},
        {"choices": [{"delta": {"content": "ne"}}]},
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "bash", "arguments": '{"a"'}}]}}
            ]
        },
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}},
    ]
    (session,) = put(file, {"messages": [user("go")], "response": chunks})
    request = session.requests[0]
    assert request.reply == Message("assistant", "done", "hm", (ToolCall("x", "bash", '{"a":1}'),))
    assert request.usage == Usage(7, None, 3)


def test_legacy_functions_and_missing_ids_are_paired_in_order(file: Path) -> None:
    (session,) = put(
        file,
        {
            "messages": [
                user("go"),
                {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a":1}'}},
                {"role": "function", "name": "f", "content": "1"},
                said("end"),
            ],
            "functions": [{"name": "f", "parameters": {}}],
        },
    )
    made = session.requests[0].reply.tool_calls[0]
    assert (made.name, made.arguments) == ("f", '{"a":1}')
    assert session.requests[1].delta == (Message("tool", "1", tool_call_id=made.id, name="f"),)
    assert made.id
    assert json.loads(session.tools) == [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert "orphan_result" not in loss(session)


def test_anthropic_bodies(file: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 5000}}
    (session,) = put(
        file,
        {
            "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                user("go"),
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                        {"type": "tool_use", "id": "t1", "name": "read", "input": {"p": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "t1",
                            "content": [{"type": "text", "text": "x"}, picture],
                        },
                        {"type": "text", "text": "and now?"},
                    ],
                },
            ],
            "tools": [{"name": "read", "description": "d", "input_schema": {"type": "object"}}],
            "response": {
                "role": "assistant",
                "content": [{"type": "text", "text": "end"}],
                "usage": {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 90,
                    "cache_creation_input_tokens": 7,
                    "output_tokens": 2,
                },
            },
        },
    )
    assert session.requests[0].delta[0] == Message("system", "Be short.")
    assert session.requests[0].reply.reasoning == "hm"
    assert session.requests[1].delta == (
        Message("tool", "x\n[image]", tool_call_id="t1"),
        Message("user", "and now?"),
    )
    assert session.requests[1].usage == Usage(100, 90, 2)
    assert json.loads(session.tools)[0]["function"] == {
        "name": "read",
        "description": "d",
        "parameters": {"type": "object"},
    }
    assert loss(session) == {"image_dropped": 1, "no_timing": 1}


def test_images_become_a_mark_and_are_counted_once_each(file: Path) -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 5000
    parts: list[Json] = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    (session,) = put(
        file,
        {"messages": [{"role": "user", "content": parts}], "response": {"choices": [{"message": said("a")}]}},
        {
            "messages": [{"role": "user", "content": parts}, said("a"), user(f"and <img src='{url}'>?")],
            "response": {"choices": [{"message": said("b")}]},
        },
    )
    assert [message.content for r in session.requests for message in r.delta] == [
        "see\n[image]",
        "and <img src='[image]'>?",
    ]
    assert loss(session)["image_dropped"] == 2


def test_reasoning_under_every_name(file: Path) -> None:
    for name in ("reasoning", "reasoning_content", "thinking"):
        (session,) = put(file, {"messages": [user("go"), {**said("x"), name: "because"}]})
        assert session.requests[0].reply.reasoning == "because"


def test_odd_but_usable_messages(file: Path) -> None:
    (session,) = put(
        file,
        {
            "messages": [
                {"role": "developer", "content": "rules"},
                user("go"),
                said("part one"),
                {**said("part two"), "tool_calls": [call("c", "[]")]},
                {"role": "tool", "tool_call_id": "elsewhere", "content": "sent all the same"},
                said("end"),
            ]
        },
    )
    assert session.requests[0].delta[0] == Message("system", "rules")
    assert session.requests[0].reply.content == "part one\n\npart two"
    assert json.loads(session.requests[0].reply.tool_calls[0].arguments) == {"_raw": "[]"}
    assert session.requests[1].delta[0].content == "sent all the same"
    assert loss(session) == {
        "arguments_wrapped": 1,
        "assistant_joined": 1,
        "no_timing": 1,
        "no_tools": 1,
        "orphan_result": 1,
        "unanswered_call": 1,
    }


def test_control_token_strings_and_tags_are_kept_as_they_are(file: Path) -> None:
    text = "<|im_end|></think> <tool_call> \u2028 \x1b[31m QR7T-XX4A"
    (session,) = put(file, {"messages": [user(text), said(text)]})
    assert session.requests[0].delta[0].content == text
    assert session.requests[0].reply.content == text


def test_torn_bom_crlf_and_noise(file: Path) -> None:
    line = json.dumps(WHOLE).encode()
    file.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n" + b'{"other":1}\r\n' + b"oops\r\n" + line[:200])
    (session,) = load(file)
    assert len(session.requests) == 2
    assert loss(session) == {"foreign_record": 1, "malformed_line": 1, "no_timing": 1, "torn_tail": 1}


@pytest.mark.parametrize(
    ("data", "line", "message"),
    [
        (b"", None, "empty"),
        (b"\n \n", None, "empty"),
        (b"hello\nworld\n", 1, "not JSON"),
        (b'[{"messages": []}]\n', 1, "a JSON list, not an object"),
        (b'{\n  "messages": []\n}\n', 1, "not JSON"),
        (b'{"a":1}\n', 1, "no format known"),
        (b'{"conversations":[{"from":"human","value":"x"}]}', None, "nothing to replay"),
        (b'{"messages":[]}\n', None, "nothing to replay"),
        (b'{"messages":[{"role":"user","content":"x"}]}\n', None, "nothing to replay"),
        (b'{"messages":[{"role":"user","content":"x"}', 1, "not JSON"),
        (b'{"messages":["x"]}\n', 1, r"messages\[0\] is no object"),
        (b'{"messages":[{"role":"boss","content":"x"}]}\n', 1, "unknown role 'boss'"),
    ],
)
def test_what_cannot_be_used_gets_one_line(file: Path, data: bytes, line: int | None, message: str) -> None:
    file.write_bytes(data)
    with pytest.raises(TranscriptError, match=message) as caught:
        load(file)
    assert caught.value.line == line
    assert caught.value.file == str(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "messages",
    [
        [SYSTEM, SYSTEM, user("x"), said("y")],
        [SYSTEM, {"role": "developer", "content": "z"}, user("x"), said("y")],
        [SYSTEM, user("x"), said("y"), SYSTEM],
        [user("x"), SYSTEM, said("y")],
    ],
)
def test_two_or_late_system_messages_are_refused(file: Path, messages: list[Json]) -> None:
    with pytest.raises(TranscriptError, match=r":2: .*system message") as caught:
        put(file, {"messages": [user("x"), said("fine")]}, {"messages": messages})
    assert caught.value.line == 2


def test_a_session_of_one_turn_is_legal(file: Path) -> None:
    (session,) = put(file, {"messages": [user("x"), said("y")]})
    assert len(session.requests) == 1


def held_bytes(file: Path, conversations: int) -> int:
    with file.open("w", encoding="utf-8") as out:
        for i in range(conversations):
            out.write(json.dumps({"messages": [user(f"{i} " + "x" * 500_000), said("y")]}) + "\n")
    peak, requests = peak_bytes(file)
    assert len(requests) == conversations
    return peak


def test_memory_does_not_grow_with_the_file(file: Path) -> None:
    assert held_bytes(file, 80) < 1.2 * held_bytes(file, 20)


@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20)), min_size=1, max_size=6))
def test_both_meanings_give_the_same_conversation(
    tmp_path_factory: pytest.TempPathFactory, exchange: list[tuple[str, str]]
) -> None:
    history: list[Json] = []
    lines: list[Json] = []
    for question, answer in exchange:
        history.append(user(question))
        lines.append({"messages": list(history), "response": {"choices": [{"message": said(answer)}]}})
        history.append(said(answer))
    folder = tmp_path_factory.mktemp("both")
    (as_log,) = put(folder / "a.jsonl", *lines)
    (as_whole,) = put(folder / "b.jsonl", {"messages": history})
    assert as_log.windows == as_whole.windows
