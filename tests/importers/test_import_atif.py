"""ATIF trajectories: token ids taken as they are, and what converters get wrong put right where the file shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, put_document, replies, said

from infermaxx_tui.core.transcript import Session, TokenIds, TranscriptError, Usage
from infermaxx_tui.importers import load

STAMP = "2026-05-01T10:00:{:02d}Z"
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def step(source: str, message: object, at: int | None = None, **more: object) -> Json:
    stamp = {} if at is None else {"timestamp": STAMP.format(at)}
    return {"step_id": 1, "source": source, "message": message, **stamp, **more}


def agent(message: str, *calls: str, at: int | None = None, results: list[Json] | None = None, **more: object) -> Json:
    tool_calls = [{"tool_call_id": c, "function_name": "bash", "arguments": {"command": "ls"}} for c in calls]
    observed = {"observation": {"results": results}} if results is not None else {}
    metrics = more.pop("metrics", {"prompt_tokens": 100, "completion_tokens": 5})
    return step("agent", message, at, tool_calls=tool_calls, metrics=metrics, **observed, **more)


def result(call_id: str | None, content: object, **more: object) -> Json:
    return {"source_call_id": call_id, "content": content, **more}


def trajectory(*steps: Json, **more: object) -> Json:
    about: Json = {"name": "demo", "version": "1.0", "model_name": "m", "tool_definitions": TOOLS}
    return {"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": about, "steps": [*steps], **more}


def one(folder: Path, *steps: Json, **more: object) -> Session:
    (session,) = put_document(folder / "trajectory.json", trajectory(*steps, **more))
    return session


def ledger(session: Session) -> dict[str, int]:
    found = loss(session, "no_tool_timing")
    for name in ("no_system_prompt", "no_timing"):
        found.pop(name, None)
    return found


@pytest.mark.parametrize("indent", [None, 2])
def test_the_whole_shape(tmp_path: Path, indent: int | None) -> None:
    document = trajectory(
        step("system", "You are…"),
        step("user", "Why?", 1),
        agent(
            "Reading.",
            "c1",
            at=5,
            results=[result("c1", "x")],
            reasoning_content="hm",
            metrics={
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "cached_tokens": 0,
                "prompt_token_ids": [1, 2, 3],
                "completion_token_ids": [4, 5],
            },
        ),
        agent("Done.", at=9, metrics={"prompt_token_ids": [1, 2, 3, 4, 5, 6], "completion_token_ids": [7]}),
        step("user", "More.", 39),
        agent("Sure.", at=40),
    )
    (session,) = put_document(tmp_path / "trajectory.json", document, indent)
    assert (session.id, session.format, session.model) == ("s1", "atif", "m")
    assert json.loads(session.tools) == TOOLS
    first, second, third = session.requests
    assert said(first.delta) == [("system", "You are…"), ("user", "Why?")]
    assert (first.reply.reasoning, first.reply.tool_calls[0].arguments) == ("hm", '{"command":"ls"}')
    assert (first.ids, second.ids, third.ids) == (TokenIds(0, (1, 2, 3), (4, 5)), TokenIds(5, (6,), (7,)), None)
    assert [r.usage for r in session.requests] == [Usage(3, 0, 2), Usage(6, None, 1), Usage(100, None, 5)]
    assert said(second.delta) == [("tool", "x")]
    assert second.tool_delay_s == 0.0
    assert third.think_s == pytest.approx(30.0)
    assert ledger(session) == {}


def test_ids_that_do_not_go_on_say_how_far_they_agree(tmp_path: Path) -> None:
    first = {"prompt_token_ids": [1, 2, 3], "completion_token_ids": [4, 5]}
    second = {"prompt_token_ids": [1, 2, 3, 4, 9, 9], "completion_token_ids": [7]}
    session = one(tmp_path, step("user", "a"), agent("b", metrics=first), step("user", "c"), agent("d", metrics=second))
    assert session.requests[1].ids == TokenIds(4, (9, 9), (7,))
    assert ledger(session) == {"prefix_broken": 1}


@pytest.mark.parametrize("ids", [[1, -2], ["x"], [1.5], [True], None, {}])
def test_ids_that_are_none_are_not_taken(tmp_path: Path, ids: object) -> None:
    metrics = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_token_ids": ids, "completion_token_ids": [1]}
    session = one(tmp_path, step("user", "a"), agent("b", metrics=metrics))
    assert session.requests[0].ids is None


def test_copied_context_is_a_prompt(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        step("user", "old", is_copied_context=True),
        agent("old end", "c1", results=[result("c1", "x")], is_copied_context=True),
        step("user", "new"),
        agent("end"),
    )
    assert replies(session) == [["end"]]
    assert said(session.requests[0].delta) == [
        ("user", "old"),
        ("assistant", "old end"),
        ("tool", "x"),
        ("user", "new"),
    ]
    assert ledger(session) == {"history_copied": 1}


def test_steps_without_a_request_and_with_several(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        step("user", "a"),
        agent("scripted", "c0", results=[result("c0", "x")], llm_call_count=0),
        agent("b", "c1", results=[result("c1", "y")], llm_call_count=3, metrics={"prompt_tokens": 900}),
        agent("c"),
    )
    assert replies(session) == [["b", "c"]]
    assert [r.usage.prompt_tokens for r in session.requests] == [None, 100]
    assert said(session.requests[0].delta) == [("user", "a"), ("assistant", "scripted"), ("tool", "x")]
    assert ledger(session) == {"synthetic_kept": 1, "usage_aggregated": 1, "usage_missing": 1}


def test_counts_that_leave_out_what_was_cached(tmp_path: Path) -> None:
    metrics = {"prompt_tokens": 100, "cached_tokens": 9000, "completion_tokens": 1}
    session = one(tmp_path, step("user", "a"), agent("b", metrics=metrics))
    assert session.requests[0].usage == Usage(9100, 9000, 1)
    assert ledger(session) == {"usage_mended": 1}


@pytest.mark.parametrize(("total", "prompts"), [(600, [100, 200, 300]), (1500, [100, 300, 600])])
def test_counts_that_add_up_over_the_run(tmp_path: Path, total: int, prompts: list[int]) -> None:
    steps = [step("user", "a")]
    for n, prompt in enumerate([100, 300, 600]):
        done = {"prompt_tokens": prompt, "completion_tokens": 5 * (n + 1), "cached_tokens": 0}
        steps.append(agent(f"r{n}", f"c{n}", results=[result(f"c{n}", "x")], metrics=done))
    session = one(tmp_path, *steps, final_metrics={"total_prompt_tokens": 600 if total == 600 else 1000})
    assert [r.usage.prompt_tokens for r in session.requests] == prompts
    assert ("usage_cumulative" in ledger(session)) == (total == 600)


@pytest.mark.parametrize("where", ["step", "result"])
def test_doubled_observations_are_taken_once(tmp_path: Path, where: str) -> None:
    extra = {"tool_result_metadata": {"raw_tool_result": {"tool_use_id": "c1", "content": "once"}}}
    empty: Json = {}
    on_result, on_step = (extra, empty) if where == "result" else (empty, extra)
    doubled = [result("c1", "once\n\nonce", extra=on_result)]
    session = one(tmp_path, step("user", "a"), agent("b", "c1", results=doubled, extra=on_step), agent("c"))
    assert said(session.requests[1].delta) == [("tool", "once")]
    assert ledger(session) == {"observation_undoubled": 1}


def test_interleaved_sidechains_are_sessions(tmp_path: Path) -> None:
    side: Json = {"is_sidechain": True, "agent_id": "x"}
    document = trajectory(
        step("user", "a"),
        step("user", "sub task", extra=side),
        agent("sub", "k1", results=[result("k1", "y")], extra=side),
        agent("b", "c1", results=[result("c1", "x")]),
        agent("sub end", extra=side),
        agent("c"),
    )
    main, sub = put_document(tmp_path / "t.json", document)
    assert replies(main) == [["b", "c"]]
    assert (sub.id, sub.parent, replies(sub)) == ("s1/x", "s1", [["sub", "sub end"]])
    assert sub.windows[0].reason == "subagent"


def test_subagents_are_linked_by_their_trajectory_id(tmp_path: Path) -> None:
    child = {**trajectory(step("user", "sub"), agent("sub end")), "session_id": "s1", "trajectory_id": "t2"}
    ref = result("c1", "2 callers", subagent_trajectory_ref=[{"trajectory_id": "t2"}])
    document = trajectory(
        step("user", "a"), agent("b", "c0", results=[result("c0", "x")]), agent("c", "c1", results=[ref]), agent("d")
    )
    main, sub = put_document(tmp_path / "t.json", {**document, "subagent_trajectories": [child]})
    assert replies(main) == [["b", "c", "d"]]
    assert (sub.id, sub.parent, sub.spawned_after) == ("t2", "s1", 2)


def test_results_without_a_call_are_what_the_user_says(tmp_path: Path) -> None:
    session = one(tmp_path, step("user", "a"), agent("ls", results=[result(None, "terminal: x")]), agent("b"))
    assert said(session.requests[1].delta) == [("user", "terminal: x")]


def test_pictures_and_continuations(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image", "source": {"path": "images/1.png"}}]
    session = one(tmp_path, step("user", parts), agent("b"), continued_trajectory_ref="trajectory.cont-1.json")
    assert said(session.requests[0].delta) == [("user", "see\n[image]")]
    assert ledger(session) == {"continued_elsewhere": 1, "image_dropped": 1}


def test_several_trajectories_in_one_file_and_a_torn_one(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    text = json.dumps(trajectory(step("user", "a"), agent("b")))
    file.write_text(f"{text}\n{text}\n{text[:-30]}", encoding="utf-8")
    assert [(session.id, replies(session)) for session in load(file)] == [("s1", [["b"]]), ("s1:2", [["b"]])]
    whole = json.dumps(trajectory(step("user", "a"), agent("b"), step("user", "c")))
    file.write_text(whole[: whole.index('"c"')], encoding="utf-8")
    assert loss(load(file)[0])["torn_tail"] == 1


def test_a_broken_document_says_in_which_line(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(json.dumps(trajectory(step("user", "a"), agent("b")), indent=1)[:-2] + ', "x" }', encoding="utf-8")
    with pytest.raises(TranscriptError, match="not JSON: a colon was expected") as caught:
        load(file)
    assert caught.value.line is not None
    assert caught.value.line > 20


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["agent", "user", "c1", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["source", "message", "tool_calls", "tool_call_id", "observation", "results", "metrics", "extra"]
            ),
            inner,
        )
    ),
    max_leaves=15,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["source", "message", "observation", "metrics", "extra"]), VALUES)), VALUES
)
def test_no_values_break_it(tmp_path_factory: pytest.TempPathFactory, steps: list[Json], more: object) -> None:
    document = trajectory(*steps, subagent_trajectories=[more], final_metrics=more)
    try:
        put_document(tmp_path_factory.mktemp("any") / "t.json", document)
    except TranscriptError:
        return
