"""The shipped vocabulary: what people say can never become a control token, and nothing is lost on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simtools import ids_of, vocabulary

from infermaxx_tui.core.render import Renderer
from infermaxx_tui.core.transcript import Message, ToolCall
from infermaxx_tui.vocabulary import SPECIAL_TOKENS, Vocabulary, VocabularyError, shipped

SPECIAL_IDS = frozenset(vocabulary().special_id(token) for token in SPECIAL_TOKENS)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
hostile = st.lists(st.one_of(plain, st.sampled_from([*SPECIAL_TOKENS, "\ufdd00\ufdd1", "{{ x }}", "</think"]))).map(
    "".join
)
calls = st.lists(st.builds(ToolCall, st.just("c1"), hostile, hostile.map(json.dumps)), max_size=2).map(tuple)
messages = st.one_of(
    st.builds(Message, st.sampled_from(["system", "user", "tool"]), hostile),
    st.builds(Message, st.just("assistant"), hostile, hostile, calls),
)
conversations = st.lists(messages, min_size=1, max_size=5).map(tuple)


def scaffold(conversation: tuple[Message, ...], tools: str) -> list[int | None]:
    """The control tokens that the template itself must write, in order."""
    find = vocabulary().special_id
    out: list[int | None] = [find("<|im_start|>"), find("<|im_end|>")] if tools else []
    for place, message in enumerate(conversation):
        if message.role == "system" and tools and place == 0:
            continue
        follows_tool = place > 0 and conversation[place - 1].role == "tool"
        if not (message.role == "tool" and follows_tool):
            out.append(find("<|im_start|>"))
        if message.role == "tool":
            out += [find("<tool_response>"), find("</tool_response>")]
            if place + 1 < len(conversation) and conversation[place + 1].role == "tool":
                continue
        if message.reasoning:
            out += [find("<think>"), find("</think>")]
        out += [find("<tool_call>"), find("</tool_call>")] * len(message.tool_calls)
        out.append(find("<|im_end|>"))
    return [*out, find("<|im_start|>")]


def test_it_is_a_renderer() -> None:
    renderer: Renderer = shipped()
    assert renderer.name == "shipped"
    assert len(renderer.sha256) == len(renderer.template_sha256) == 64
    assert renderer.special_id("<nothing>") is None
    assert shipped() is shipped()


@given(plain)
@example("\u2028\u2029\x85\x00\ufeff 🙂é\r\n\t")
@example("".join(SPECIAL_TOKENS))
def test_text_round_trips(text: str) -> None:
    assert vocabulary().decode(vocabulary().encode(text)) == text


@given(hostile)
def test_plain_text_never_becomes_a_control_token(text: str) -> None:
    assert SPECIAL_IDS.isdisjoint(vocabulary().encode(text))


@settings(max_examples=60)
@given(conversations, st.sampled_from(["", '[{"type": "function", "function": {"name": "f<|im_end|>&\'"}}]']))
def test_only_the_template_writes_control_tokens(conversation: tuple[Message, ...], tools: str) -> None:
    ids = vocabulary().render(conversation, tools, True)
    assert [i for i in ids if i in SPECIAL_IDS] == scaffold(conversation, tools)
    assert vocabulary().decode(ids) == vocabulary().render_text(conversation, tools, True)


@settings(max_examples=60)
@given(conversations, messages)
def test_a_prompt_begins_with_the_one_before(conversation: tuple[Message, ...], added: Message) -> None:
    """Except that tool results in a row share a turn."""
    if conversation[-1].role == "tool" and added.role == "tool":
        return
    before = vocabulary().render(conversation, "", False)
    assert vocabulary().render((*conversation, added), "", False)[: len(before)] == before


def test_the_rendered_conversation_reads_as_documented() -> None:
    conversation = (
        Message("system", "Be brief."),
        Message("user", "Look."),
        Message("assistant", "I look.", "Hm.", (ToolCall("a", "ls", '{"p": "."}'), ToolCall("b", "pwd", "{}"))),
        Message("tool", "x.py", tool_call_id="a"),
        Message("tool", "/", tool_call_id="b"),
        Message("assistant", "", "", (ToolCall("c", "ls", "{}"),)),
    )
    assert vocabulary().render_text(conversation, "", True) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nLook.<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nHm.\n</think>\n\nI look.\n"
        '<tool_call>\n{"name": "ls", "arguments": {"p": "."}}\n</tool_call>\n'
        '<tool_call>\n{"name": "pwd", "arguments": {}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\nx.py\n</tool_response>\n<tool_response>\n/\n</tool_response><|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call><|im_end|>\n'
        "<|im_start|>assistant\n"
    )


def test_nothing_is_said_that_was_not_given() -> None:
    assert vocabulary().render_text((Message("user", "hi"),), "", False) == "<|im_start|>user\nhi<|im_end|>\n"


def test_tools_stand_in_the_system_turn_unescaped() -> None:
    tools = '[{"type":"function","function":{"name":"grep","description":"<b> & \'é\'"}}]'
    text = vocabulary().render_text((Message("system", "Be brief."), Message("user", "hi")), tools, False)
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n")
    assert '{"type": "function", "function": {"name": "grep", "description": "<b> & \'é\'"}}\n' in text
    assert text.count("<|im_start|>system") == 1


def test_a_tool_list_that_is_not_json_is_refused() -> None:
    with pytest.raises(VocabularyError, match="the tool list is not JSON"):
        vocabulary().render((Message("user", "hi"),), "{", True)


def test_a_template_may_refuse() -> None:
    data = (resources.files("infermaxx_tui") / "data" / "tokenizer.json").read_text("utf-8")
    strict = Vocabulary("strict", data, "{{ raise_exception('no ' + messages[0].role) }}")
    with pytest.raises(VocabularyError, match="refuses this conversation: no user"):
        strict.render((Message("user", "hi"),), "", True)


def test_control_strings_of_a_text_prompt_are_control_tokens() -> None:
    conversation = (Message("user", "What now?"),)
    text = vocabulary().render_text(conversation, "", True)
    assert vocabulary().encode_prompt(text) == vocabulary().render(conversation, "", True)
    assert vocabulary().encode(text) != vocabulary().render(conversation, "", True)


def test_unknown_ids_have_no_text() -> None:
    assert vocabulary().decode((10**6, *vocabulary().encode("so"), -1)) == "so"


def test_transformers_renders_the_same_ids() -> None:
    """Anybody who loads the two files with transformers counts as we do."""
    transformers = pytest.importorskip("transformers")
    data = resources.files("infermaxx_tui") / "data"
    with resources.as_file(data / "tokenizer.json") as path:
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    theirs.chat_template = (data / "chat_template.jinja").read_text("utf-8")
    wire = [
        {"role": "system", "content": "Be brief — é."},
        {"role": "user", "content": "\n\nLook at <b>\u2028"},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning": "Hm.",
            "tool_calls": [{"type": "function", "function": {"name": "ls", "arguments": {"p": "ü"}}}],
        },
        {"role": "tool", "content": "x.py"},
        {"role": "tool", "content": ""},
    ]
    tools = [{"type": "function", "function": {"name": "ls", "description": "lists & 'quotes'"}}]
    expected = theirs.apply_chat_template(wire, tools=tools, add_generation_prompt=True, return_dict=False)
    conversation = (
        Message("system", "Be brief — é."),
        Message("user", "\n\nLook at <b>\u2028"),
        Message("assistant", "I look.", "Hm.", (ToolCall("", "ls", '{"p": "ü"}'),)),
        Message("tool", "x.py"),
        Message("tool", ""),
    )
    assert ids_of(conversation, json.dumps(tools)) == list(expected)


def test_it_is_small_and_needs_no_transformers() -> None:
    files = [entry for entry in (resources.files("infermaxx_tui") / "data").iterdir() if entry.name == "tokenizer.json"]
    assert len(files[0].read_bytes()) < 300_000
    code = (
        "import sys; from infermaxx_tui.vocabulary import shipped; shipped().decode((1,));"
        "sys.exit(any(name in sys.modules for name in ('transformers', 'torch', 'textual', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
