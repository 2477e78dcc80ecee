"""One conversation, written as each agent writes it, comes out as the same requests; and each loss has a meaning."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from importtools import Json

import infermaxx_tui.importers as package
from infermaxx_tui.cli import main
from infermaxx_tui.core.transcript import Message, Request, Session, ToolCall
from infermaxx_tui.importers import LOSSES, load

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: text.strip() == text and "base64," not in text
)


class Step:
    """A reply with what its calls bring, or with what the user says after it."""

    def __init__(self, n: int, reply: str, results: list[str], then: str) -> None:
        self.reply = reply
        self.results = {f"call_{n}_{k}": result for k, result in enumerate(results)}
        self.then = then

    def __repr__(self) -> str:
        return f"Step({self.reply!r}, {self.results!r}, {self.then!r})"


@st.composite
def talks(draw: st.DrawFn) -> list[Step]:
    """Steps of which the first has only what the user says."""
    shape = draw(st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3), TEXT), min_size=1, max_size=5))
    return [Step(-1, "", [], draw(TEXT)), *(Step(n, *step) for n, step in enumerate(shape))]


def expected(talk: list[Step]) -> list[Request]:
    out: list[Request] = []
    for before, step in pairwise(talk):
        results = tuple(Message("tool", text, tool_call_id=call) for call, text in before.results.items())
        delta = results or (Message("user", before.then),)
        calls = tuple(ToolCall(call, "bash", '{"n":1}') for call in step.results)
        out.append(Request(delta, Message("assistant", step.reply, "", calls)))
    return out


def lines(records: list[Json]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def chat(talk: list[Step]) -> list[Json]:
    out: list[Json] = []
    for step in talk:
        if step.reply:
            function = {"name": "bash", "arguments": '{"n":1}'}
            calls = [{"id": call, "type": "function", "function": function} for call in step.results]
            out.append({"role": "assistant", "content": step.reply, **({"tool_calls": calls} if calls else {})})
        out += [{"role": "tool", "tool_call_id": call, "content": text} for call, text in step.results.items()]
        out += [] if step.results else [{"role": "user", "content": step.then}]
    return out


def openai(talk: list[Step]) -> str:
    return lines([{"messages": chat(talk)}])


def mini_swe(talk: list[Step]) -> str:
    return json.dumps({"info": {"mini_version": "2"}, "messages": chat(talk)})


def blocks(talk: list[Step]) -> list[tuple[str, list[Json]]]:
    """Roles and contents in Anthropic's dialect."""
    out: list[tuple[str, list[Json]]] = []
    for step in talk:
        if step.reply:
            calls: list[Json] = [
                {"type": "tool_use", "id": call, "name": "bash", "input": {"n": 1}} for call in step.results
            ]
            out.append(("assistant", [{"type": "text", "text": step.reply}, *calls]))
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": c, "content": text} for c, text in step.results.items()
        ]
        out.append(("user", results or [{"type": "text", "text": step.then}]))
    return out


def cline(talk: list[Step]) -> str:
    messages = [{"role": role, "content": content, "ts": n} for n, (role, content) in enumerate(blocks(talk))]
    return json.dumps({"sessionId": "s", "messages": messages})


def claude(talk: list[Step]) -> str:
    records: list[Json] = []
    for n, (role, content) in enumerate(blocks(talk)):
        for k, block in enumerate(content if role == "assistant" else [None]):
            message: Json = {"role": role, "content": content if block is None else [block]}
            head: Json = {"type": role, "uuid": f"{n}.{k}", "parentUuid": str(records[-1]["uuid"]) if records else None}
            records.append({**head, "sessionId": "S", "message": message | ({"id": f"m{n}"} if block else {})})
    return lines(records)


def codex(talk: list[Step]) -> str:
    items: list[Json] = []
    for step in talk:
        if step.reply:
            content = [{"type": "output_text", "text": step.reply}]
            items.append({"type": "message", "role": "assistant", "content": content})
        made: Json = {"type": "function_call", "name": "bash", "arguments": '{"n":1}'}
        items += [{**made, "call_id": call} for call in step.results]
        items += [{"type": "function_call_output", "call_id": c, "output": text} for c, text in step.results.items()]
        if not step.results:
            items.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": step.then}]})
    head: Json = {"type": "session_meta", "payload": {"id": "s"}}
    records: list[Json] = [{"type": "response_item", "payload": item} for item in items]
    return lines([head, *records])


def opencode(talk: list[Step]) -> str:
    messages: list[Json] = []
    for step in talk:
        if step.reply:
            states = {c: {"status": "completed", "input": {"n": 1}, "output": text} for c, text in step.results.items()}
            tools = [{"type": "tool", "tool": "bash", "callID": c, "state": state} for c, state in states.items()]
            parts = [{"type": "text", "text": step.reply}, *tools]
            messages.append({"info": {"role": "assistant"}, "parts": parts})
        if not step.results:
            messages.append({"info": {"role": "user"}, "parts": [{"type": "text", "text": step.then}]})
    return json.dumps({"info": {"id": "ses_1"}, "messages": messages})


def atif(talk: list[Step]) -> str:
    steps: list[Json] = []
    for step in talk:
        if step.reply:
            calls = [{"tool_call_id": c, "function_name": "bash", "arguments": {"n": 1}} for c in step.results]
            results = [{"source_call_id": c, "content": text} for c, text in step.results.items()]
            agent: Json = {"source": "agent", "message": step.reply, "tool_calls": calls}
            steps.append({**agent, "observation": {"results": results}})
        if not step.results:
            steps.append({"source": "user", "message": step.then})
    return json.dumps({"schema_version": "ATIF-v1.8", "session_id": "s", "agent": {}, "steps": steps})


def gemini(talk: list[Step]) -> str:
    messages: list[Json] = []
    for step in talk:
        if step.reply:
            calls = [
                {
                    "id": c,
                    "name": "bash",
                    "args": {"n": 1},
                    "result": [{"functionResponse": {"response": {"output": text}}}],
                }
                for c, text in step.results.items()
            ]
            messages.append({"type": "gemini", "content": step.reply, "toolCalls": calls})
        if not step.results:
            messages.append({"type": "user", "content": [{"text": step.then}]})
    return json.dumps({"sessionId": "s", "messages": messages}, ensure_ascii=False)


def openhands(talk: list[Step]) -> str:
    events: list[Json] = []
    for n, step in enumerate(talk):
        text = [{"type": "text", "text": step.reply}]
        for call in step.results:
            made = {"id": call, "name": "bash", "arguments": '{"n":1}'}
            events.append({"kind": "ActionEvent", "thought": text, "tool_call": made, "llm_response_id": f"r{n}"})
        if step.reply and not step.results:
            message: Json = {"role": "assistant", "content": text}
            events.append({"kind": "MessageEvent", "source": "agent", "llm_message": message})
        for call, out in step.results.items():
            content = {"content": [{"type": "text", "text": out}]}
            events.append({"kind": "ObservationEvent", "tool_call_id": call, "observation": content})
        if not step.results:
            said: Json = {"role": "user", "content": [{"type": "text", "text": step.then}]}
            events.append({"kind": "MessageEvent", "source": "user", "llm_message": said})
    return json.dumps([{"id": f"e{n}", **event} for n, event in enumerate(events)])


def swe_agent(talk: list[Step]) -> str:
    """Each prompt whole: the history up to a reply."""
    messages = chat(talk)
    places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    steps = [
        {
            "query": messages[:place],
            "response": messages[place]["content"],
            "tool_calls": messages[place].get("tool_calls"),
            "action": "x",
            "observation": "y",
        }
        for place in places
    ]
    return json.dumps({"trajectory": steps})


WRITERS: dict[str, tuple[str, Callable[[list[Step]], str]]] = {
    "openai-chat": ("x.jsonl", openai),
    "mini-swe-agent": ("x.traj.json", mini_swe),
    "cline": ("x.json", cline),
    "claude-code": ("S.jsonl", claude),
    "codex": ("rollout.jsonl", codex),
    "opencode": ("ses_1.json", opencode),
    "atif": ("trajectory.json", atif),
    "gemini": ("session.json", gemini),
    "openhands": ("events.json", openhands),
    "swe-agent": ("x.traj", swe_agent),
}


def bare(session: Session) -> list[Request]:
    return [Request(request.delta, request.reply) for request in session.requests]


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=40)
@given(talk=talks())
def test_formats_agree(tmp_path_factory: pytest.TempPathFactory, name: str, talk: list[Step]) -> None:
    file, write = WRITERS[name]
    path = tmp_path_factory.getbasetemp() / name / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(write(talk), encoding="utf-8")
    (session,) = load(path)
    assert session.format == name
    assert len(session.windows) == 1
    assert bare(session) == expected(talk)


def test_each_loss_that_is_counted_has_a_meaning_and_each_meaning_is_counted() -> None:
    counted: set[str] = set()
    for path in Path(package.__path__[0]).glob("*.py"):
        if path.name == "losses.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        counted |= {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    assert set(LOSSES) <= counted
    written = {
        node.slice.value
        for path in Path(package.__path__[0]).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and ast.unparse(node.value).endswith("loss")
    }
    assert written
    assert written <= set(LOSSES)


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "rollout.jsonl"
    source.write_text(codex([Step(-1, "", [], "go"), Step(0, "done", [], "x")]), encoding="utf-8")
    words = ["transcripts", "import", str(source), "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("rollout.jsonl: 1 session, 1 requests; ")
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "nothing is overwritten" in shown.err
    assert len(load(tmp_path / "out" / "rollout.jsonl")) == 1
    assert main(words[:3]) == 2
