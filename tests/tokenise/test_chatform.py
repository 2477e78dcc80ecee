"""The shape of messages for templates, and control-token strings kept out of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.core import chatform
from infermaxx_tui.core.transcript import Message, ToolCall


@pytest.mark.parametrize(
    ("text", "value", "wrapped"),
    [
        ('{"b": 1, "a": {"c": null}}', {"b": 1, "a": {"c": None}}, False),
        ("", {}, False),
        (" \n", {}, False),
        ("[]", {"arguments": []}, True),
        ("null", {"arguments": None}, True),
        ('"{}"', {"arguments": "{}"}, True),
        ('{"a": ', {"arguments": '{"a": '}, True),
        ("[" * 100_000, {"arguments": "[" * 100_000}, True),
    ],
    ids=lambda value: str(value)[:20],
)
def test_arguments_become_an_object(text: str, value: object, wrapped: bool) -> None:
    assert chatform.arguments_object(text) == (value, wrapped)
    message = Message("assistant", tool_calls=(ToolCall("c", "f", text),))
    assert chatform.wrapped_arguments([message]) == int(wrapped)


def test_a_message_has_text_content_and_both_reasoning_keys() -> None:
    call = ToolCall("c1", "ls", '{"path": "é"}')
    messages = (Message("assistant", reasoning="why", tool_calls=(call,)), Message("tool", "x", tool_call_id="c1"))
    function: dict[str, object] = {"name": "ls", "arguments": {"path": "é"}}
    said, result = chatform.chat_messages(messages)
    assert said == {
        "role": "assistant",
        "content": "",
        "reasoning": "why",
        "reasoning_content": "why",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    assert result == {"role": "tool", "content": "x", "tool_call_id": "c1"}
    (sent,) = chatform.chat_messages(messages[:1], arguments_as_text=True)
    assert '"arguments": "{\\"path\\": \\"é\\"}"' in json.dumps(sent, ensure_ascii=False)


@pytest.mark.parametrize(
    ("tools", "listed"),
    [
        ("", None),
        ("[]", None),
        ('[{"type": "function", "function": {"name": "f"}}]', [{"type": "function", "function": {"name": "f"}}]),
        (
            '[{"name": "f", "description": "d", "input_schema": {"type": "object"}}]',
            [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        ),
    ],
)
def test_tools_are_listed_in_one_shape(tools: str, listed: object) -> None:
    assert chatform.chat_tools(tools) == listed


@pytest.mark.parametrize("tools", ["{", "{}", "[1]", "[" * 100_000], ids=lambda text: text[:5])
def test_a_tool_list_that_is_none_is_refused(tools: str) -> None:
    with pytest.raises(ValueError, match="the tool list is not"):
        chatform.chat_tools(tools)


TOKENS = ("<|im_end|>", "<|im_start|>", "</think>", "<a>")
pieces = st.lists(st.sampled_from((*TOKENS, "\ue000", "\ue001x", "é", "a b\n", "<|", "im_end|>")), max_size=8)


@given(texts=st.lists(pieces.map("".join), min_size=1, max_size=4))
def test_hidden_strings_come_back_cut_and_nothing_else_changes(texts: list[str]) -> None:
    value: list[object] = [{"k": texts, **dict.fromkeys(texts, 1)}]
    found = chatform.found_in(value, chatform.any_of(TOKENS))
    hidden = chatform.stand_ins(found, value)
    assert len(set(hidden.values())) == len(found)
    concealed = chatform.hide_all(value, hidden)
    assert not any(token in text for text in chatform.strings(concealed[0]) for token in TOKENS)
    for text in texts:
        parts = chatform.plain_pieces(chatform.hide(text, hidden), hidden)
        assert "".join(parts) == text
        assert not any(token in part for part in parts for token in TOKENS)


def test_without_tokens_nothing_is_found() -> None:
    assert chatform.found_in(["anything", {"k": 1}], chatform.any_of(())) == ()
    assert chatform.plain_pieces("text", {}) == ("text",)
    assert chatform.plain_pieces("", {}) == ()
