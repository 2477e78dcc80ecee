"""A small whole sample of each format, as the programs write it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from importtools import Json

_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}
_SYSTEM: Json = {"role": "system", "content": "s"}
_USER: Json = {"role": "user", "content": "go"}
_CALLED: Json = {"role": "assistant", "content": "look", "tool_calls": [_CALL]}
_RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "x"}
_DONE: Json = {"role": "assistant", "content": "done"}
_CHAT = [_SYSTEM, _USER, _CALLED, _RESULT, _DONE]
_STAMP = "2026-05-01T10:00:0{}Z"


def _codex() -> list[Json]:
    def item(kind: str, payload: Json) -> Json:
        return {"timestamp": _STAMP.format(1), "type": kind, "payload": payload}

    total = {"input_tokens": 90, "output_tokens": 4, "cached_input_tokens": 0}
    count: Json = {"type": "token_count", "info": {"last_token_usage": total, "total_token_usage": total}}
    text = [{"type": "input_text", "text": "go"}]
    reply: Json = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}
    call: Json = {"type": "function_call", "name": "sh", "arguments": "{}", "call_id": "c1"}
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}
    return [
        item("session_meta", {"id": "own", "base_instructions": {"text": "s"}, "source": spawned}),
        item("turn_context", {"model": "m"}),
        {**item("response_item", {"type": "message", "role": "user", "content": text}), "timestamp": _STAMP.format(5)},
        {**item("response_item", call), "timestamp": _STAMP.format(6)},
        item("event_msg", count),
        item("response_item", {"type": "function_call_output", "call_id": "c1", "output": "x"}),
        item("compacted", {"replacement_history": [{"type": "message", "role": "user", "content": text}]}),
        {
            **item("response_item", reply),
            "timestamp": _STAMP.format(9),
        },
    ]


def _claude() -> list[Json]:
    head: Json = {"sessionId": "S"}
    use = [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]
    message: Json = {"id": "m1", "role": "assistant", "content": use, "usage": {"input_tokens": 9, "output_tokens": 1}}
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]
    end: Json = {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "b"}]}
    return [
        {**head, "type": "user", "uuid": "u", "parentUuid": None, "message": _USER},
        {**head, "type": "assistant", "uuid": "a", "parentUuid": "u", "message": message},
        {**head, "type": "user", "uuid": "r", "parentUuid": "a", "message": {"role": "user", "content": result}},
        {**head, "type": "assistant", "uuid": "b", "parentUuid": "r", "message": end},
    ]


def _opencode() -> Json:
    state = {"status": "completed", "input": {}, "output": "x", "time": {"start": 1, "end": 9, "compacted": 2}}
    finish = {"type": "step-finish", "tokens": {"input": 90, "output": 4, "reasoning": 0, "cache": {"read": 0}}}
    about: Json = {"id": "ses_1", "directory": "/home/dev", "time": {"created": 1}, "revert": {"messageID": "zz"}}
    info: Json = {"id": "m1", "role": "user", "time": {"created": 1777626000000}}
    reply: Json = {"id": "m2", "role": "assistant", "modelID": "m", "time": {"created": 1777626001000}}
    last: Json = {**reply, "id": "m3"}
    tool = {"type": "tool", "tool": "read", "callID": "c1", "state": state}
    return {
        "info": about,
        "messages": [
            {"info": info, "parts": [{"type": "text", "text": "go"}]},
            {"info": reply, "parts": [{"type": "step-start"}, tool, finish]},
            {"info": last, "parts": [{"type": "text", "text": "done"}, finish]},
        ],
    }


def _atif() -> Json:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {}}
    metrics: Json = {
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "prompt_token_ids": [1, 2, 3],
        "completion_token_ids": [4],
    }
    refs = [{"trajectory_id": "t2"}]
    observed = {"results": [{"source_call_id": "c1", "content": "x", "subagent_trajectory_ref": refs}]}
    steps: list[Json] = [
        {"source": "system", "message": "s"},
        {"source": "user", "message": "go", "timestamp": _STAMP.format(1)},
        {"source": "agent", "message": "", "tool_calls": [call], "observation": observed, "metrics": metrics},
        {"source": "agent", "message": "done", "extra": {"is_sidechain": False}},
    ]
    about: Json = {"schema_version": "ATIF-v1.7", "session_id": "s1", "agent": {"name": "d", "model_name": "m"}}
    child = {**about, "trajectory_id": "t2", "steps": steps[:3]}
    return {**about, "steps": steps, "subagent_trajectories": [child], "final_metrics": {"total_prompt_tokens": 3}}


def _openhands() -> list[Json]:
    def text(content: str) -> Json:
        return {"type": "text", "text": content}

    call = {"id": "c1", "name": "bash", "arguments": "{}"}
    said = {"role": "assistant", "content": [text("done")]}
    return [
        {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": text("s"), "tools": []},
        {"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": [text("go")]}},
        {"kind": "ActionEvent", "source": "agent", "llm_response_id": "r1", "tool_call_id": "c1", "tool_call": call},
        {"kind": "ObservationEvent", "source": "e", "tool_call_id": "c1", "observation": {"content": [text("x")]}},
        {"kind": "TokenEvent", "source": "agent", "prompt_token_ids": [1, 2], "response_token_ids": [3]},
        {"kind": "Condensation", "source": "e", "forgotten_event_ids": ["1"], "summary": "SUM", "summary_offset": 1},
        {"kind": "MessageEvent", "source": "agent", "llm_response_id": "r2", "llm_message": said},
    ]


def _gemini() -> list[Json]:
    result = [{"functionResponse": {"id": "c1", "response": {"output": "x"}}}]
    call = {"id": "c1", "name": "read", "args": {}, "result": result}
    return [
        {"id": "1", "type": "user", "content": [{"text": "go"}], "timestamp": _STAMP.format(1)},
        {"id": "2", "type": "gemini", "content": "look", "toolCalls": [call], "tokens": {"input": 9, "output": 1}},
        {"id": "3", "type": "gemini", "content": "done", "model": "m"},
    ]


def _qwen() -> list[Json]:
    head: Json = {"sessionId": "q1"}
    call = {"functionCall": {"id": "c1", "name": "ls", "args": {}}}
    response = {"functionResponse": {"id": "c1", "response": {"output": "x"}}}
    return [
        {**head, "uuid": "u", "parentUuid": None, "type": "user", "message": {"parts": [{"text": "go"}]}},
        {**head, "uuid": "a", "parentUuid": "u", "type": "assistant", "message": {"parts": [call]}},
        {**head, "uuid": "r", "parentUuid": "a", "type": "tool_result", "message": {"parts": [response]}},
        {**head, "uuid": "b", "parentUuid": "r", "type": "assistant", "message": {"parts": [{"text": "done"}]}},
    ]


def _cline() -> list[Json]:
    use = [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]
    result = [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]
    metrics = {"inputTokens": 9, "outputTokens": 1}
    return [
        {"role": "user", "content": [{"type": "text", "text": "go"}], "ts": 1},
        {"role": "assistant", "content": use, "ts": 2, "metrics": metrics, "modelInfo": {"id": "m"}},
        {"role": "user", "content": result, "ts": 3},
        {"role": "assistant", "content": "done", "ts": 4},
    ]


def _weka() -> Json:
    ask: Json = {"t": 0.0, "type": "s", "in": 130, "out": 18, "hash_ids": [1, 2], "stop": "tool_use", "think_time": 0.0}
    child: Json = {"t": 1.0, "type": "subagent", "agent_id": "x", "requests": [ask]}
    return {"id": "t1", "block_size": 64, "requests": [ask, child, {**ask, "in": 200, "hash_ids": [1, 2, 3]}]}


_UNDONE: Json = {"id": "9", "type": "user", "content": "undone"}
_STEP: Json = {"query": [_SYSTEM, _USER], "response": "look", "action": "ls", "observation": "x", "execution_time": 1.0}
_SWE_SEEN: list[Json] = [_SYSTEM, _USER, {"role": "assistant", "content": "look"}, {"role": "user", "content": "x"}]

SAMPLES: dict[str, tuple[str, object]] = {
    "openai-chat": ("talk.jsonl", [{"messages": _CHAT}]),
    "openai-chat document": ("talk.json", {"messages": _CHAT}),
    "claude-code": ("S.jsonl", _claude()),
    "codex": ("rollout-own.jsonl", _codex()),
    "opencode": ("ses_1.json", _opencode()),
    "opencode database": ("opencode.db", _opencode()),
    "atif": ("trajectory.json", _atif()),
    "vllm-multi-turn": ("multi.json", [{"id": "v", "messages": [_USER, _DONE]}]),
    "sharegpt": ("set.json", [{"conversations": [{"from": "human", "value": "go"}, {"from": "gpt", "value": "done"}]}]),
    "mini-swe-agent": ("x.traj.json", {"info": {"mini_version": "2"}, "messages": _CHAT}),
    "swe-agent": ("x.traj", {"trajectory": [_STEP, {**_STEP, "query": _SWE_SEEN}], "info": {}}),
    "openhands": ("events", _openhands()),
    "openhands list": ("events.json", _openhands()),
    "gemini": ("session.json", {"sessionId": "g1", "messages": _gemini()}),
    "gemini log": ("session.jsonl", [{"sessionId": "g1", "projectHash": "x"}, *_gemini(), _UNDONE, {"$rewindTo": "9"}]),
    "qwen-code": ("chat.jsonl", _qwen()),
    "cline": ("s.messages.json", {"sessionId": "k1", "messages": _cline()}),
    "cline editor": ("api_conversation_history.json", _cline()),
    "mooncake": ("trace.jsonl", [{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}]),
    "weka": ("t1.json", _weka()),
}
"""By the format's name and, after a space, the way it is kept: the file's name and what is in it."""


def write_sample(folder: Path, name: str, content: object = None) -> Path:
    """Writes a sample, or another content the same way, and returns the path to give to an importer."""
    file, sample = SAMPLES[name]
    content = sample if content is None else content
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    if name == "openhands":
        path.mkdir(exist_ok=True)
        for n, event in enumerate(content if isinstance(content, list) else [content]):
            body = {"id": str(n), **event} if isinstance(event, dict) else event
            (path / f"event-{n:05d}-x.json").write_text(json.dumps(body), encoding="utf-8")
        return folder
    if path.suffix == ".db":
        _database(path, content)
    elif path.suffix == ".jsonl":
        lines = content if isinstance(content, list) else [content]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    else:
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def _database(path: Path, content: object) -> None:
    """An export as the rows that it was made from; what is no message or part goes in as it is."""
    export = content if isinstance(content, dict) else {}
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE session (id TEXT, parent_id TEXT, time_created INTEGER)")
    db.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
    db.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
    db.execute("INSERT INTO session VALUES ('ses_1', NULL, 1)")
    messages = export.get("messages")
    for n, message in enumerate(messages if isinstance(messages, list) else []):
        held = message if isinstance(message, dict) else {}
        db.execute("INSERT INTO message VALUES (?,?,?,?)", (f"m{n}", "ses_1", n, json.dumps(held.get("info"))))
        parts = held.get("parts")
        for k, part in enumerate(parts if isinstance(parts, list) else []):
            db.execute("INSERT INTO part VALUES (?,?,?,?)", (f"p{k}", f"m{n}", "ses_1", json.dumps(part)))
    db.commit()
    db.close()
