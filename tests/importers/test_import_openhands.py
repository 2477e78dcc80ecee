"""OpenHands conversations of both generations: each trap with a file that holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, put_document, replies, said

from infermaxx_tui.core.transcript import Session, TokenIds, TranscriptError, Usage
from infermaxx_tui.importers import load

STAMP = "2026-05-01T10:00:{:02d}"


def text(content: str) -> Json:
    return {"type": "text", "text": content}


def system(prompt: str = "s", **more: object) -> Json:
    return {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": text(prompt), "tools": TOOLS, **more}


TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def user(content: str, at: int = 0, **more: object) -> Json:
    message = {"role": "user", "content": [text(content)]}
    return {"kind": "MessageEvent", "source": "user", "timestamp": STAMP.format(at), "llm_message": message, **more}


def said_by_agent(content: str, group: str, at: int = 0) -> Json:
    message = {"role": "assistant", "content": [text(content)]}
    head: Json = {"kind": "MessageEvent", "source": "agent", "llm_response_id": group}
    return {**head, "timestamp": STAMP.format(at), "llm_message": message}


def action(call_id: str, group: str, thought: str = "", at: int = 0) -> Json:
    call = {"id": call_id, "name": "bash", "arguments": '{"command":"ls"}'}
    head: Json = {"kind": "ActionEvent", "source": "agent", "llm_response_id": group, "tool_call_id": call_id}
    thoughts = [text(thought)] if thought else []
    return {**head, "timestamp": STAMP.format(at), "thought": thoughts, "reasoning_content": "hm", "tool_call": call}


def observation(call_id: str, content: str, at: int = 0) -> Json:
    head: Json = {"kind": "ObservationEvent", "source": "environment", "tool_call_id": call_id}
    return {**head, "timestamp": STAMP.format(at), "observation": {"content": [text(content)]}}


def ids(prompt: list[int], reply: list[int]) -> Json:
    return {"kind": "TokenEvent", "source": "agent", "prompt_token_ids": prompt, "response_token_ids": reply}


def conversation(folder: Path, *events: Json, state: Json | None = None) -> Session:
    (folder / "events").mkdir(parents=True, exist_ok=True)
    for n, event in enumerate(events):
        file = folder / "events" / f"event-{n:05d}-x.json"
        file.write_text(json.dumps({"id": f"e{n}", **event}), encoding="utf-8")
    if state is not None:
        (folder / "base_state.json").write_text(json.dumps(state), encoding="utf-8")
    (session,) = load(folder)
    return session


def ledger(session: Session) -> dict[str, int]:
    found = loss(session)
    found.pop("usage_missing", None)
    return found


def test_the_whole_shape_with_parallel_calls(tmp_path: Path) -> None:
    counts = {"response_id": "r1", "prompt_tokens": 900, "completion_tokens": 20, "cache_read_tokens": 16}
    state: Json = {
        "id": "conv-1",
        "agent": {"llm": {"model": "openai/m", "api_key": "sk-secret"}},
        "stats": {"usage_to_metrics": {"agent": {"token_usages": [counts]}}},
    }
    session = conversation(
        tmp_path / "conv",
        system(dynamic_context=text("today")),
        user("Why?", extended_content=[text("<skill>")]),
        action("c1", "r1", "Look.", 2),
        observation("c1", "x", 3),
        action("c2", "r1", "Look.", 2),
        {
            "kind": "AgentErrorEvent",
            "source": "agent",
            "tool_call_id": "c2",
            "error": "boom",
            "timestamp": STAMP.format(6),
        },
        {"kind": "ConversationStateUpdateEvent", "source": "environment"},
        said_by_agent("Done.", "r2", 8),
        user("More.", 38),
        said_by_agent("Sure.", "r3", 40),
        state=state,
    )
    assert (session.id, session.format, session.model) == ("conv-1", "openhands", "openai/m")
    assert json.loads(session.tools) == TOOLS
    first, second, third = session.requests
    assert said(first.delta) == [("system", "s\n\ntoday"), ("user", "Why?\n<skill>")]
    assert (first.reply.content, first.reply.reasoning) == ("Look.", "hm")
    assert [call.id for call in first.reply.tool_calls] == ["c1", "c2"]
    assert first.usage == Usage(900, 16, 20)
    assert said(second.delta) == [("tool", "x"), ("tool", "boom")]
    assert (second.tool_delay_s, third.think_s) == (4.0, 30.0)
    assert "sk-secret" not in repr(session)
    assert ledger(session) == {}


def test_a_condensation_takes_any_events_out_and_puts_its_summary_in(tmp_path: Path) -> None:
    session = conversation(
        tmp_path / "conv",
        system(),
        user("one"),
        action("c1", "r1"),
        observation("c1", "LONG"),
        said_by_agent("two", "r2"),
        user("three"),
        {"kind": "Condensation", "forgotten_event_ids": ["e2", "e3"], "summary": "SUM", "summary_offset": 2},
        said_by_agent("four", "r3"),
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert said(session.windows[1].requests[0].delta) == [
        ("system", "s"),
        ("user", "one\nSUM"),
        ("assistant", "two"),
        ("user", "three"),
    ]
    assert ledger(session) == {"no_timing": 1} or ledger(session) == {}


@pytest.mark.parametrize("before", [True, False], ids=["ids before the reply", "ids after it"])
def test_token_ids_are_taken_as_they_are(tmp_path: Path, before: bool) -> None:
    first, second = ids([1, 2], [3]), ids([1, 2, 3, 4], [5])
    one, two = said_by_agent("a", "r1"), said_by_agent("b", "r2")
    order = [first, one, user("x"), second, two] if before else [one, first, user("x"), two, second]
    session = conversation(tmp_path / "conv", system(), user("go"), *order)
    assert [r.ids for r in session.requests] == [TokenIds(0, (1, 2), (3,)), TokenIds(3, (4,), (5,))]


def test_a_torn_event_costs_itself_alone(tmp_path: Path) -> None:
    conversation(tmp_path / "conv", system(), user("go"), said_by_agent("a", "r1"))
    (tmp_path / "conv" / "events" / "event-00009-x.json").write_text('{"kind": "Mess', encoding="utf-8")
    (tmp_path / "conv" / "events" / "event-00010-x.json").write_text("{{", encoding="utf-8")
    (session,) = load(tmp_path / "conv")
    assert replies(session) == [["a"]]
    assert ledger(session)["torn_tail"] == ledger(session)["malformed_line"] == 1
    assert replies(load(tmp_path / "conv" / "events")[0]) == [["a"]]


def test_a_list_of_events_in_one_file(tmp_path: Path) -> None:
    events: list[Json] = [system(), user("go"), said_by_agent("a", "r1"), {"kind": "NewEvent", "source": "agent"}]
    document: list[Json] = [{**event, "id": f"e{n}"} for n, event in enumerate(events)]
    (session,) = put_document(tmp_path / "x.json", document)
    assert replies(session) == [["a"]]
    assert ledger(session)["unknown_record"] == 1


def old(call_id: str, response: str, accumulated: int) -> Json:
    call = {"id": call_id, "type": "function", "function": {"name": "run", "arguments": "{}"}}
    message = {"role": "assistant", "content": "a", "tool_calls": [call]}
    usage = {"prompt_tokens": 50, "completion_tokens": 4}
    body = {"id": response, "choices": [{"message": message}], "usage": usage}
    metrics = {"accumulated_token_usage": {"prompt_tokens": accumulated}}
    metadata = {"tool_call_id": call_id, "model_response": body}
    return {"source": "agent", "action": "run", "tool_call_metadata": metadata, "llm_metrics": metrics}


def test_the_first_generation_counts_by_reply_and_not_by_run(tmp_path: Path) -> None:
    answered: Json = {
        "source": "agent",
        "observation": "run",
        "content": "x",
        "tool_call_metadata": {"tool_call_id": "c1"},
    }
    events: list[Json] = [
        {"source": "agent", "action": "system", "args": {"content": "s", "tools": TOOLS}},
        {"source": "user", "action": "message", "args": {"content": "go"}},
        old("c1", "r1", 50),
        answered,
        old("c2", "r2", 100),
        {"source": "environment", "observation": "agent_state_changed", "content": ""},
        {"source": "agent", "action": "message", "args": {"content": "end"}},
    ]
    (session,) = put_document(tmp_path / "x.json", [{"id": n, **event} for n, event in enumerate(events)])
    assert [r.usage.prompt_tokens for r in session.requests][:2] == [50, 50]
    assert said(session.requests[1].delta) == [("tool", "x")]


def test_a_folder_of_completions(tmp_path: Path) -> None:
    a: Json = {"role": "user", "content": "a"}
    b: Json = {"role": "assistant", "content": "b"}
    for n, messages in enumerate(([a], [a, b, {"role": "user", "content": "c"}])):
        body: Json = {"choices": [{"message": {"role": "assistant", "content": "b" if n == 0 else "d"}}]}
        usage = {"prompt_tokens": 10 + n, "completion_tokens": 1}
        log: Json = {"messages": messages, "response": {**body, "usage": usage}, "kwargs": {"tools": TOOLS}}
        (tmp_path / f"m-{n}.json").write_text(json.dumps(log), encoding="utf-8")
    (session,) = load(tmp_path)
    assert (session.id, session.format, replies(session)) == ("m-0", "openhands", [["b", "d"]])
    assert [r.usage.prompt_tokens for r in session.requests] == [10, 11]
    assert json.loads(session.tools) == TOOLS


KINDS = ["SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "Condensation", "TokenEvent", "Other"]
VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["user", "agent", "e1", "r1", "c1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "role", "name", "arguments", "id"]), inner)
    ),
    max_leaves=8,
)
KEYS = ["source", "llm_message", "tool_call", "tool_call_id", "llm_response_id", "observation", "forgotten_event_ids"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS),
            st.dictionaries(st.sampled_from([*KEYS, "summary", "id", "prompt_token_ids"]), VALUES),
        ),
        max_size=8,
    )
)
def test_no_values_break_it(tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, Json]]) -> None:
    document = [user("a"), *({"kind": kind, **values} for kind, values in events)]
    try:
        put_document(tmp_path_factory.mktemp("any") / "x.json", document)
    except TranscriptError:
        return
