"""Codex rollouts: each trap of the format with a file that holds it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, peak_bytes, put_lines, replies, said

from infermaxx_tui.core.transcript import Message, Session, TranscriptError, Usage
from infermaxx_tui.importers import load

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STAMP = "2026-05-01T10:00:{:06.3f}Z"


def record(kind: str, payload: Json, at: float = 0.0, **more: object) -> Json:
    return {"timestamp": STAMP.format(at), "type": kind, "payload": payload, **more}


def meta(session: str = "own", **more: object) -> Json:
    payload: Json = {
        "id": session,
        "base_instructions": {"text": "You are a coding agent."},
        "dynamic_tools": [],
        **more,
    }
    return record("session_meta", payload)


def item(at: float = 0.0, **payload: object) -> Json:
    return record("response_item", payload, at)


def user(text: str, at: float = 0.0, role: str = "user") -> Json:
    return item(at, type="message", role=role, content=[{"type": "input_text", "text": text}])


def answer(text: str, at: float = 0.0) -> Json:
    return item(at, type="message", role="assistant", content=[{"type": "output_text", "text": text}])


def call(call_id: str, at: float = 0.0, arguments: str = '{"cmd":"ls"}') -> Json:
    return item(at, type="function_call", name="exec_command", arguments=arguments, call_id=call_id)


def output(call_id: str, text: object, at: float = 0.0) -> Json:
    return item(at, type="function_call_output", call_id=call_id, output=text)


def count(total: int, prompt: int, out: int, at: float = 0.0, reasoning: int = 0) -> Json:
    last = {
        "input_tokens": prompt,
        "cached_input_tokens": 16,
        "output_tokens": out,
        "reasoning_output_tokens": reasoning,
    }
    info = {"last_token_usage": last, "total_token_usage": {"total_tokens": total}, "model_context_window": 131072}
    return record("event_msg", {"type": "token_count", "info": info}, at)


def one(folder: Path, *records: Json) -> Session:
    (session,) = put_lines(folder / "rollout-x.jsonl", records)
    return session


def ledger(session: Session) -> dict[str, int]:
    return loss(session, "no_tools")


def test_the_whole_shape(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        meta(),
        record("turn_context", {"model": "qwen3.6-27b"}),
        user("<permissions>all</permissions>", role="developer"),
        user("Why does test_add fail?", 1),
        record("event_msg", {"type": "user_message", "message": "Why does test_add fail?"}, 1),
        item(3, type="reasoning", summary=[{"text": "**Checking**"}], content=None, encrypted_content="gAAAA"),
        call("c1", 3.1),
        item(3.2, type="custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin Patch"),
        item(3.5, type="custom_tool_call_output", call_id="c2", output='{"output":"Success."}'),
        output("c1", "Exit code: 0\nWall time: 0.7 seconds\nOutput:\nx", 3.6),
        count(9350, 9210, 140, 3.7, reasoning=60),
        record("event_msg", {"type": "agent_message", "message": "Done."}, 5),
        answer("Done.", 5),
        count(18760, 9400, 10, 5.1),
        user("Thanks, more.", 35),
        answer("Sure.", 36),
        count(28300, 9500, 5, 36.1),
    )
    assert (session.id, session.format, session.model, session.parent) == ("own", "codex", "qwen3.6-27b", None)
    first, second, third = session.requests
    assert said(first.delta) == [
        ("system", "You are a coding agent.\n\n<permissions>all</permissions>"),
        ("user", "Why does test_add fail?"),
    ]
    assert [(c.id, c.name, json.loads(c.arguments)) for c in first.reply.tool_calls] == [
        ("c1", "exec_command", {"cmd": "ls"}),
        ("c2", "apply_patch", {"input": "*** Begin Patch"}),
    ]
    assert [message.tool_call_id for message in second.delta] == ["c1", "c2"]
    assert second.delta[1].content == '{"output":"Success."}'
    assert [request.usage for request in session.requests] == [
        Usage(9210, 16, 140, 60),
        Usage(9400, 16, 10, 0),
        Usage(9500, 16, 5, 0),
    ]
    assert second.tool_delay_s == pytest.approx(0.7)
    assert third.think_s == pytest.approx(30.0)
    assert ledger(session) == {"reasoning_encrypted": 1}


def test_a_count_written_again_closes_nothing(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        meta(),
        user("a"),
        answer("b"),
        count(10, 8, 2),
        count(10, 8, 2),
        user("c"),
        count(10, 8, 2),
        answer("d"),
    )
    assert [request.usage.prompt_tokens for request in session.requests] == [8, None]
    assert ledger(session) == {"dup_dropped": 2, "usage_missing": 1}


def test_a_changed_count_without_a_reply_is_a_lost_reply(tmp_path: Path) -> None:
    session = one(tmp_path, meta(), user("a"), answer("b"), count(10, 8, 2), count(30, 18, 2))
    assert [request.usage.prompt_tokens for request in session.requests] == [8]
    assert ledger(session) == {"reply_lost": 1}


def test_rate_limits_without_counts_are_nothing(tmp_path: Path) -> None:
    empty = record("event_msg", {"type": "token_count", "info": None})
    session = one(tmp_path, meta(), empty, user("a"), answer("b"), empty, count(10, 8, 2))
    assert ledger(session) == {}


def test_reasoning_in_clear_text_is_kept(tmp_path: Path) -> None:
    clear = item(type="reasoning", summary=[], content=[{"type": "reasoning_text", "text": "hm"}])
    session = one(tmp_path, meta(), user("a"), clear, answer("b"), count(1, 8, 2))
    assert session.requests[0].reply.reasoning == "hm"
    assert ledger(session) == {}


def test_a_compaction_puts_its_history_in_place_of_everything(tmp_path: Path) -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]}
    hidden = {"type": "compaction", "encrypted_content": "gAAAA"}
    session = one(
        tmp_path,
        meta(),
        user("a"),
        answer("b"),
        count(1, 900, 2),
        record("compacted", {"message": "", "replacement_history": [kept, hidden]}),
        user("c"),
        answer("d"),
        count(2, 300, 2),
    )
    assert [window.reason for window in session.windows] == ["start", "compaction"]
    assert said(session.windows[1].requests[0].delta) == [("system", "You are a coding agent."), ("user", "kept\nc")]
    assert ledger(session) == {"compaction_encrypted": 1}


def test_an_old_compaction_knows_only_its_summary(tmp_path: Path) -> None:
    session = one(
        tmp_path, meta(), user("a"), answer("b"), record("compacted", {"message": "SUM"}), user("c"), answer("d")
    )
    assert said(session.windows[1].requests[0].delta)[1] == ("user", "SUM\nc")
    assert ledger(session) == {"preserved_lost": 1, "usage_missing": 2}


def test_turns_that_were_rolled_back_are_out_of_the_next_prompt(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        meta(),
        user("<environment_context>x</environment_context>"),
        user("one"),
        answer("1"),
        user("two"),
        answer("2"),
        record("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        user("three"),
        answer("3"),
    )
    assert [window.reason for window in session.windows] == ["start", "fork"]
    assert [text for _, text in said(session.windows[1].requests[0].delta)][1:] == [
        "<environment_context>x</environment_context>\none",
        "1",
        "three",
    ]
    assert ledger(session) == {"turn_rolled_back": 1, "usage_missing": 3}


def test_an_aborted_turn_leaves_its_call_open(tmp_path: Path) -> None:
    aborted = record("event_msg", {"type": "turn_aborted"})
    session = one(tmp_path, meta(), user("a"), call("c1"), aborted, user("b"), answer("c"))
    assert ledger(session) == {"turn_aborted": 1, "unanswered_call": 1, "usage_missing": 2}


@pytest.mark.parametrize(
    ("blob", "text"),
    [
        ("plain", "plain"),
        ('{"output":"x","metadata":{}}', '{"output":"x","metadata":{}}'),
        ({"content": "inner", "success": True}, "inner"),
        ([{"type": "text", "text": "one"}, {"type": "input_text", "text": "two"}], "one\ntwo"),
        ({"content": [{"type": "text", "text": "mcp"}]}, "mcp"),
        (None, ""),
    ],
)
def test_outputs_in_all_their_shapes(tmp_path: Path, blob: object, text: str) -> None:
    session = one(tmp_path, meta(), user("a"), call("c1"), output("c1", blob), answer("b"))
    assert said(session.requests[1].delta) == [("tool", text)]


def test_pictures_are_marked_and_never_text(tmp_path: Path) -> None:
    url = "data:image/png;base64," + "A" * 3_000_000
    picture = item(type="message", role="user", content=[{"type": "input_image", "image_url": url}])
    inline = output("c1", f"shot {url} end")
    session = one(tmp_path, meta(), picture, call("c1"), inline, answer("b"))
    assert [text for r in session.requests for _, text in said(r.delta)][1:] == ["[image]", "shot [image] end"]
    assert ledger(session) == {"image_dropped": 2, "usage_missing": 2}


def test_calls_that_the_server_ran_have_no_result_and_are_dropped(tmp_path: Path) -> None:
    search = item(type="web_search_call", status="completed", action={"query": "x"})
    shell = item(type="local_shell_call", call_id="s1", action={"type": "exec", "command": ["ls"]})
    session = one(tmp_path, meta(), user("a"), search, shell, user("b"), answer("c"))
    assert [c.name for c in session.requests[0].reply.tool_calls] == ["local_shell"]
    assert ledger(session) == {"server_tool_dropped": 1, "unanswered_call": 1, "usage_missing": 2}


def history(at: float) -> list[Json]:
    return [
        user("old", at),
        call("p1", at),
        output("p1", "x", at),
        count(10, 8, 2, at),
        answer("old end", at),
        count(20, 9, 2, at),
    ]


SPAWN = {"subagent": {"thread_spawn": {"parent_thread_id": "parent", "depth": 1}}}


@pytest.mark.parametrize(("how", "reason"), [({"forked_from_id": "parent"}, "fork"), ({"source": SPAWN}, "subagent")])
@pytest.mark.parametrize("told_by", ["ordinal", "parent's file", "stamps"])
def test_a_copied_history_is_a_prompt_and_no_requests(tmp_path: Path, how: Json, reason: str, told_by: str) -> None:
    folder = tmp_path / "2026" / "05" / "02"
    copied = history(0.2 if told_by == "stamps" else 30.0)
    own = [user("new", 40), answer("new end", 41), count(40, 30, 3, 41)]
    head = meta("own", **how)
    if told_by == "ordinal":
        head = meta("own", subagent_history_start_ordinal=100, **how)
        copied = [{**line, "ordinal": n} for n, line in enumerate(copied)]
        own = [{**line, "ordinal": 100 + n} for n, line in enumerate(own)]
    if told_by == "parent's file":
        put_lines(tmp_path / "2026" / "04" / "30" / "rollout-2026-parent.jsonl", [meta("parent"), *history(3.0)])
    (session,) = put_lines(folder / "rollout-2026-own.jsonl", [head, meta("parent"), *copied, *own])
    assert (session.id, session.parent) == ("own", "parent" if reason == "subagent" else None)
    assert [window.reason for window in session.windows] == [reason]
    (request,) = session.requests
    assert said(request.delta)[1:] == [
        ("user", "old"),
        ("assistant", ""),
        ("tool", "x"),
        ("assistant", "old end"),
        ("user", "new"),
    ]
    assert request.usage == Usage(30, 16, 3, 0)
    expected = {"history_copied": 2} | ({"fork_unresolved": 1} if told_by == "stamps" else {})
    assert ledger(session) == expected


@pytest.mark.parametrize("with_ordinals", [True, False])
def test_a_history_that_stands_only_in_the_parents_file(tmp_path: Path, with_ordinals: bool) -> None:
    parent = [meta("parent"), *history(3.0), user("later", 50), answer("later end", 51)]
    if with_ordinals:
        parent = [{**line, "ordinal": n} for n, line in enumerate(parent)]
    base = {"thread_id": "parent", "end_ordinal_exclusive": 7, "end_byte_offset": 1}
    own = [meta("own", forked_from_id="parent", history_base=base), user("new", 40), answer("end", 40.2)]
    (alone,) = put_lines(tmp_path / "alone" / "rollout-own.jsonl", own)
    assert said(alone.requests[0].delta)[1:] == [("user", "new")]
    assert ledger(alone) == {"history_missing": 1, "usage_missing": 1}
    put_lines(tmp_path / "rollout-parent.jsonl", parent)
    (session,) = put_lines(tmp_path / "rollout-own.jsonl", own)
    carried = [("user", "old"), ("assistant", ""), ("tool", "x"), ("assistant", "old end")]
    assert said(session.requests[0].delta)[1:] == [*carried, ("user", "new")]
    assert session.requests[0].delta[0].role == "system"
    assert ledger(session) == {"history_copied": 2, "usage_missing": 1}


def test_an_ordinal_alone_says_what_was_copied(tmp_path: Path) -> None:
    head = meta("own", thread_source="subagent", parent_thread_id="parent", subagent_history_start_ordinal=3)
    lines = [user("old"), answer("old end"), user("new"), answer("end")]
    session = one(tmp_path, head, *({**line, "ordinal": n} for n, line in enumerate(lines, 1)))
    assert (session.parent, replies(session)) == ("parent", [["end"]])


def test_a_fork_in_which_nothing_happened_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="nothing to replay"):
        put_lines(tmp_path / "rollout-own.jsonl", [meta("own", forked_from_id="parent"), *history(0.1)])


def test_packed_with_zstd_also_while_it_is_written(tmp_path: Path) -> None:
    lines = [meta(), user("a"), answer("b"), user("c"), answer("d")]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = tmp_path / "rollout.jsonl.zst"
    file.write_bytes(zstd.compress(data))
    (session,) = load(file)
    assert (replies(session), session.source) == ([["b", "d"]], "rollout.jsonl.zst")
    frames = zstd.compress(data) + zstd.compress((json.dumps(user("e")) + "\n" + json.dumps(answer("f"))).encode())
    file.write_bytes(frames[:-3])
    assert replies(load(file)[0])[0][:2] == ["b", "d"]


def held_bytes(file: Path, turns: int) -> int:
    url = "data:image/png;base64," + "A" * 2_000_000
    pictures = [{"type": "input_image", "image_url": url}] * 4
    compacted: Json = {"replacement_history": [{"type": "message", "role": "user", "content": pictures}]}
    with file.open("w", encoding="utf-8") as out:
        for line in (meta(), *([user("a"), answer("b"), record("compacted", compacted)] * turns)):
            out.write(json.dumps(line) + "\n")
    peak, requests = peak_bytes(file)
    assert requests == [turns]
    return peak


def test_pictures_that_are_copied_with_each_compaction_take_no_memory(tmp_path: Path) -> None:
    assert held_bytes(tmp_path / "a.jsonl", 6) < 8_000_000


def test_the_oldest_rollouts_have_no_envelope(tmp_path: Path) -> None:
    session = one(
        tmp_path,
        {"id": "old", "timestamp": "2025-04-20T10:00:00Z", "instructions": "Be short.", "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
    )
    assert session.id == "old"
    assert replies(session) == [["", "b"]]
    assert said(session.requests[0].delta) == [("system", "Be short."), ("user", "a")]


def test_a_torn_tail_and_strange_records_pass(tmp_path: Path) -> None:
    file = tmp_path / "rollout.jsonl"
    lines = [meta(), record("new_kind", {"x": 1}), user("a"), item(type="new_item"), answer("b")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"timestamp":"2026', encoding="utf-8")
    assert ledger(load(file)[0]) == {"torn_tail": 1, "unknown_record": 2, "usage_missing": 1}


@given(
    st.lists(
        st.sampled_from(["session_meta", "turn_context", "response_item", "event_msg", "compacted"]).flatmap(
            lambda kind: st.dictionaries(
                st.sampled_from(["type", "role", "content", "info", "call_id", "output", "num_turns", "id", "source"]),
                st.sampled_from(["message", "user", "assistant", "token_count", "function_call", "thread_rolled_back"])
                | st.none()
                | st.integers(-5, 5)
                | st.lists(st.just({"type": "text", "text": "x"}), max_size=2),
            ).map(lambda payload: record(kind, {**payload, "_": 1}))
        ),
        max_size=12,
    )
)
def test_no_records_break_it(tmp_path_factory: pytest.TempPathFactory, records: list[Json]) -> None:
    try:
        sessions = put_lines(tmp_path_factory.mktemp("any") / "rollout.jsonl", records)
    except TranscriptError:
        return
    for session in sessions:
        assert session.requests
        assert all(isinstance(message, Message) for request in session.requests for message in request.delta)
