"""ShareGPT sets, vLLM's multi-turn files and chat JSON over many lines; and the reader of documents below them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from importtools import Json, loss, peak_bytes, put_document, put_lines, replies, said

from infermaxx_tui.core.transcript import TranscriptError
from infermaxx_tui.importers import load
from infermaxx_tui.importers import pieces as pieces_module
from infermaxx_tui.importers.pieces import Piece, Pieces, objects

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CALL = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'
HERMES: Json = {
    "id": "h1",
    "conversations": [
        {"from": "system", "value": "Tools: <tools>[]</tools>"},
        {"from": "human", "value": "Go."},
        {"from": "gpt", "value": CALL},
        {"from": "tool", "value": "<tool_response>x</tool_response>"},
        {"from": "gpt", "value": "Done."},
    ],
}


@pytest.mark.parametrize("shape", ["list", "lines", "object", "compact list"])
def test_sharegpt_stays_text(tmp_path: Path, shape: str) -> None:
    file = tmp_path / "set.json"
    if shape == "lines":
        (session,) = put_lines(file, [HERMES])
    else:
        document = HERMES if shape == "object" else [HERMES]
        (session,) = put_document(file, document, None if shape == "compact list" else 2)
    assert (session.id, session.format, session.source) == ("h1", "sharegpt", "set.json")
    first, second = session.requests
    assert said(first.delta) == [("system", "Tools: <tools>[]</tools>"), ("user", "Go.")]
    assert (first.reply.content, first.reply.tool_calls) == (CALL, ())
    assert said(second.delta) == [("user", "<tool_response>x</tool_response>")]
    assert loss(session) == {"no_timing": 1, "no_tools": 1, "usage_missing": 2}


def test_sharegpt_sets_with_holes(tmp_path: Path) -> None:
    sets: list[object] = [
        {"conversations": [{"from": "gpt", "value": "starts in the middle"}]},
        {"conversations": []},
        "noise",
        {
            "conversations": [
                {"from": "human", "value": "a"},
                {"from": "alien", "value": "?"},
                {"from": "GPT", "value": "b"},
            ]
        },
    ]
    one, two = put_document(tmp_path / "set.json", sets)
    assert (one.id, two.id) == ("set-0", "set-2")
    assert said(one.requests[0].delta) == [("user", "")]
    assert loss(one)["prompt_missing"] == 1
    assert loss(two)["unknown_record"] == loss(two)["foreign_record"] == 1


def test_vllm_multi_turn(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]
    one, two = put_document(tmp_path / "m.json", [{"id": "x", "messages": messages}, {"messages": messages[:2]}])
    assert [(s.id, s.format, replies(s)) for s in (one, two)] == [
        ("x", "vllm-multi-turn", [["b", "d"]]),
        ("m-1", "vllm-multi-turn", [["b"]]),
    ]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gzip", "zstd"])
def test_documents_are_read_packed_too(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    file = tmp_path / "set.json.packed"
    file.write_bytes(pack(json.dumps([HERMES] * 3).encode()))
    assert [session.id for session in load(file)] == ["h1", "h1:2", "h1:3"]


def test_chat_json_over_many_lines(tmp_path: Path) -> None:
    document = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "id": "n"}
    (session,) = put_document(tmp_path / "c.json", document, indent=2)
    assert (session.id, session.format, replies(session)) == ("n", "openai-chat", [["b"]])


def test_a_bad_message_of_a_list_is_named_with_its_line(tmp_path: Path) -> None:
    good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
    bad = {"messages": [{"role": "boss", "content": "a"}]}
    file = tmp_path / "m.json"
    file.write_text("[" + ",\n".join(json.dumps(x) for x in (good, good, bad)) + "]", encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"m\.json:3: .*unknown role 'boss'"):
        load(file)


def read(file: Path, text: str | bytes) -> list[Piece]:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(Pieces(file))


def test_pieces_of_a_document(tmp_path: Path) -> None:
    found = read(tmp_path / "x", '{"a": {"b": [1]},\n "c": [1, "]}\\"", {"d": []}],\n "e": [], "f": null}\n[7]')
    assert [(p.document, p.key, p.value, p.item, p.line) for p in found] == [
        (0, "a", {"b": [1]}, False, 1),
        (0, "c", 1, True, 2),
        (0, "c", ']}"', True, 2),
        (0, "c", {"d": []}, True, 2),
        (0, "e", [], False, 3),
        (0, "f", None, False, 3),
        (1, "", 7, True, 4),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a" 1}', "a colon was expected"),
        ("{1: 2}", "a key was expected"),
        ("[1 2]", "a comma or ] was expected"),
        ("[,]", "a value was expected"),
        ("[nul]", "not JSON"),
        ("word", "no JSON object or list"),
        ('{"a": [1}', "a comma or ] was expected"),
    ],
)
def test_what_is_no_json(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TranscriptError, match=message):
        read(tmp_path / "x", text)


def test_a_value_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "MAX_VALUE_BYTES", 1 << 20)
    with pytest.raises(TranscriptError, match="split the file"):
        read(tmp_path / "x", '["' + "x y" * 2_000_000 + '"]')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(
    st.lists(st.dictionaries(st.text(min_size=1, max_size=4), JSON, min_size=1, max_size=4), max_size=3), st.booleans()
)
def test_what_is_written_comes_out_whole(
    tmp_path_factory: pytest.TempPathFactory, values: list[Json], as_list: bool
) -> None:
    file = tmp_path_factory.mktemp("any") / "x.json"
    text = json.dumps(values) if as_list else "\n".join(json.dumps(value, indent=1) for value in values)
    file.write_text(text, encoding="utf-8")
    reader = Pieces(file)
    assert [value for _, value in objects(reader)] == values
    assert not +reader.loss


@given(st.binary(max_size=60) | st.text(st.sampled_from('[]{}":,\\ \n1ae'), max_size=40).map(str.encode))
def test_no_bytes_break_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "x.json"
    file.write_bytes(data)
    try:
        list(Pieces(file))
    except TranscriptError:
        return


def held_bytes(file: Path, conversations: int) -> int:
    with file.open("w", encoding="utf-8") as out:
        turns = [{"from": "human", "value": "x y " * 100_000}, {"from": "gpt", "value": "b"}]
        out.write("[" + ",".join(json.dumps({"conversations": turns}) for _ in range(conversations)) + "]")
    peak, requests = peak_bytes(file)
    assert len(requests) == conversations
    return peak


def test_memory_does_not_grow_with_a_document_on_one_line(tmp_path: Path) -> None:
    assert held_bytes(tmp_path / "a.json", 80) < 1.2 * held_bytes(tmp_path / "b.json", 20)
