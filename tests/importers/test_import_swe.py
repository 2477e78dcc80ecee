"""mini-swe-agent and SWE-agent trajectories: each trap with a file that holds it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, put_document, replies, said

from infermaxx_tui.core.transcript import Session, TranscriptError, Usage


def mini(folder: Path, *messages: Json, **more: object) -> Session:
    model = {"model_name": "hosted_vllm/m", "model_kwargs": {"api_key": "sk-secret"}}
    info: Json = {"mini_version": "2.4.6", "config": {"model": model}, "model_stats": {"api_calls": 2}}
    document = {"info": info, "messages": [*messages], "trajectory_format": "mini-swe-agent-1.1", **more}
    (session,) = put_document(folder / "x.traj.json", document)
    return session


def noted(at: float, prompt: int | None = None, **more: object) -> Json:
    usage = {"prompt_tokens": prompt, "completion_tokens": 7}
    return {"extra": {"timestamp": 1777626000 + at, **({"response": {"usage": usage}} if prompt else {}), **more}}


def bash(call_id: str) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}


def test_mini_swe_agent_with_tool_calls(tmp_path: Path) -> None:
    session = mini(
        tmp_path,
        {"role": "system", "content": "You are…"},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "ls", "tool_calls": [bash("c1")], "reasoning_content": "hm", **noted(5, 1200)},
        {"role": "tool", "tool_call_id": "c1", "content": "x", **noted(7.5, raw_output="NOT SENT")},
        {"role": "assistant", "content": "Done.", **noted(9, 1300)},
        {"role": "exit", "content": "Submitted"},
    )
    assert (session.id, session.format, session.model) == ("x", "mini-swe-agent", "hosted_vllm/m")
    first, second = session.requests
    assert said(first.delta) == [("system", "You are…"), ("user", "Fix it.")]
    assert first.reply.reasoning == "hm"
    assert said(second.delta) == [("tool", "x")]
    assert [r.usage for r in session.requests] == [Usage(1200, None, 7), Usage(1300, None, 7)]
    assert second.tool_delay_s == pytest.approx(2.5)
    assert "sk-secret" not in repr(session)
    assert "NOT SENT" not in repr(session)
    assert loss(session) == {"no_tools": 1}


def test_mini_swe_agent_with_commands_in_the_text(tmp_path: Path) -> None:
    session = mini(
        tmp_path,
        {"role": "system", "content": "s"},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "```bash\nls\n```", **noted(1, 100)},
        {"role": "user", "content": "<returncode>0</returncode>", **noted(3)},
        {"role": "assistant", "content": "b", **noted(5, 200)},
    )
    assert said(session.requests[1].delta) == [("user", "<returncode>0</returncode>")]
    assert session.requests[1].think_s == 0.0


def test_mini_swe_agent_with_the_responses_api(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{}"}
    text = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    usage = {"input_tokens": 50, "output_tokens": 4}
    session = mini(
        tmp_path,
        {"role": "user", "content": "go"},
        {"object": "response", "output": [thought, text, call], "usage": usage, **noted(1)},
        {"type": "function_call_output", "call_id": "c1", "output": "x", **noted(2)},
        {"role": "assistant", "content": "end", **noted(3, 60)},
        instance_id="django-1",
    )
    assert session.id == "django-1"
    assert (session.requests[0].reply.content, session.requests[0].usage) == ("ok", Usage(50, None, 4))
    assert said(session.requests[1].delta) == [("tool", "x")]
    assert loss(session) == {"no_system_prompt": 1, "no_tools": 1, "reasoning_encrypted": 1}


@pytest.mark.parametrize("info", [{"model_stats": {"api_calls": 1}}, {}], ids=["older info", "no info"])
@pytest.mark.parametrize("messages_first", [True, False])
def test_mini_swe_agent_of_older_versions(tmp_path: Path, info: Json, messages_first: bool) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "a", **noted(1, 100)}]
    document: Json = {"messages": messages, "info": info} if messages_first else {"info": info, "messages": messages}
    (session,) = put_document(tmp_path / "x.json", document)
    assert (session.format, session.requests[0].usage) == ("mini-swe-agent", Usage(100, None, 7))


S: Json = {"role": "system", "content": "s"}
U: Json = {"role": "user", "content": "Fix it.", "agent": "main"}


def step(query: list[Json], response: str, observation: str = "out", **more: object) -> Json:
    head: Json = {"query": query} if query else {}
    return {**head, "response": response, "thought": response, "action": "ls", "observation": observation, **more}


def swe(folder: Path, *steps: Json, history: list[Json] | None = None) -> Session:
    info = {"model_stats": {"tokens_sent": 3000, "tokens_received": 30, "api_calls": len(steps)}}
    document = {"environment": "swe_main", "trajectory": [*steps], "history": history or [], "info": info}
    (session,) = put_document(folder / "django-1.traj", document)
    return session


def test_swe_agent_takes_the_prompts_as_they_were_sent(tmp_path: Path) -> None:
    seen: Json = {"role": "user", "content": "out", "message_type": "observation"}
    called: Json = {"role": "assistant", "content": "a", "tool_calls": [bash("c1")]}
    result: Json = {"role": "tool", "content": "out", "tool_call_ids": ["c1"]}
    session = swe(
        tmp_path,
        step([S, U], "a", execution_time=1.5, tool_calls=[bash("c1")]),
        step([S, U, called, result], "b", execution_time=0.5),
        step([S, U, called, result, {"role": "assistant", "content": "b"}, seen], "c"),
    )
    assert (session.id, session.format) == ("django-1", "swe-agent")
    assert replies(session) == [["a", "b", "c"]]
    assert said(session.requests[0].delta) == [("system", "s"), ("user", "Fix it.")]
    assert said(session.requests[1].delta) == [("tool", "out")]
    assert [r.tool_delay_s for r in session.requests] == [0.0, 1.5, 0.5]
    assert loss(session) == {"no_tools": 1, "usage_missing": 3}


def test_swe_agent_leaves_old_observations_out(tmp_path: Path) -> None:
    a: Json = {"role": "assistant", "content": "a"}
    b: Json = {"role": "assistant", "content": "b"}
    long: Json = {"role": "user", "content": "LONG"}
    elided: Json = {"role": "user", "content": "Old environment output: (9 lines omitted)"}
    session = swe(
        tmp_path, step([S, U], "a"), step([S, U, a, long], "b"), step([S, U, a, elided, b, {**U, "content": "y"}], "c")
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert len(session.windows[1].requests[0].delta) == 6
    assert loss(session)["context_rewritten"] == 1


def test_swe_agent_without_prompts(tmp_path: Path) -> None:
    session = swe(tmp_path, step([], "a"), step([], "b"), history=[S, U, {"role": "assistant", "content": "a"}])
    assert said(session.requests[0].delta) == [("system", "s"), ("user", "Fix it.")]
    assert loss(session)["prompts_rebuilt"] == 1
    bare = swe(tmp_path, step([], "a", "x"), step([], "b"))
    assert replies(bare) == [["a", "b"]]
    assert said(bare.requests[1].delta) == [("user", "x")]
    assert loss(bare)["prompt_missing"] == 1


VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.sampled_from(["assistant", "user", "tool", "system", "response", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "tool_calls", "query", "response", "extra", "output", "object", "action"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=5), st.sampled_from(["messages", "trajectory", "history"]))
def test_no_values_break_them(tmp_path_factory: pytest.TempPathFactory, items: list[object], key: str) -> None:
    document: Json = {"info": {"mini_version": "2"}, "messages": []}
    if key != "messages":
        document = {"trajectory": [step([S, U], "a")], "history": []}
    held = document[key]
    assert isinstance(held, list)
    document[key] = [*held, *json.loads(json.dumps(items))]
    try:
        put_document(tmp_path_factory.mktemp("any") / "x.traj", document)
    except TranscriptError:
        return
