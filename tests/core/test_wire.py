"""What one event says, for every server family seen, and for what is no event at all."""

from __future__ import annotations

import json

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.sse import NamedEvent, SseFault
from infermaxx_tui.core.wire import DONE, Chunk, Malformed, ServerError, ToolDelta, Usage, WireEvent, parse


def chat(delta: dict[str, object] | None, **rest: object) -> bytes:
    """A chat event around a delta."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **rest}
    return orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]})


def said(event: WireEvent) -> Chunk:
    """The event, which must be a chunk."""
    assert isinstance(event, Chunk)
    return event


# As captured from vLLM 0.32.0 (reference/vllm-wire.md §1 and §2).
COMPLETION_FIRST = (
    b'{"id":"cmpl-99702556aac798f8","object":"text_completion","created":1796051867,"model":"smollm2","choices":'
    b'[{"index":0,"text":" Paris","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":'
    b'[504,3575,282,4649,314],"token_ids":[7042]}],"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1}}'
)
COMPLETION_LAST = (
    b'{"id":"cmpl-99702556aac798f8","object":"text_completion","created":1796051867,"model":"smollm2","choices":'
    b'[{"index":0,"text":"\\n","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,'
    b'"token_ids":[198]}]}'
)
CHAT_ROLE = (
    b'{"id":"chatcmpl-9fd83a2358c636ed","object":"chat.completion.chunk","created":1796051818,"model":"smollm2",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
    b'"prompt_token_ids":[1,9690,198],"prompt_text":null}'
)
CHAT_USAGE = (
    b'{"id":"chatcmpl-be8aac0b3f712da1","object":"chat.completion.chunk","created":1796051820,"model":"smollm2",'
    b'"choices":[],"usage":{"prompt_tokens":271,"total_tokens":290,"completion_tokens":19,"prompt_tokens_details":'
    b'{"cached_tokens":256,"created_cache_tokens":0},"completion_tokens_details":{"reasoning_tokens":3}},'
    b'"system_fingerprint":"vllm-0.32.0-f5bbfc1b"}'
)
ENGINE_DEATH = (
    b'{"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", '
    b'"type": "InternalServerError", "param": null, "code": 500}}'
)


def test_a_completion_chunk_carries_text_ids_usage_and_the_prompt() -> None:
    first = said(parse(COMPLETION_FIRST))
    assert (first.content, first.token_ids, first.finish_reason) == (" Paris", (7042,), None)
    assert first.prompt_ids == (504, 3575, 282, 4649, 314)
    assert first.usage is not None
    assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (5, 1)
    assert first.server_id == "cmpl-99702556aac798f8"
    last = said(parse(COMPLETION_LAST))
    assert (last.content, last.token_ids, last.finish_reason, last.stop_reason) == ("\n", (198,), "length", None)
    assert last.prompt_ids is None
    assert last.anomalies == ()


def test_the_role_chunk_is_an_opening_and_no_token() -> None:
    role = said(parse(CHAT_ROLE))
    assert role.role_only
    assert (role.content, role.token_ids, role.prompt_ids) == ("", None, (1, 9690, 198))
    assert not said(parse(chat({"role": "assistant", "content": "Hi"}))).role_only
    assert not said(parse(chat({"role": "assistant"}, token_ids=[5]))).role_only
    assert not said(parse(chat({}))).role_only


def test_a_usage_event_has_no_choice_and_every_count_that_was_said() -> None:
    event = said(parse(CHAT_USAGE))
    assert not event.has_choice
    assert event.usage is not None
    assert (event.usage.prompt_tokens, event.usage.completion_tokens) == (271, 19)
    assert (event.usage.cached_tokens, event.usage.reasoning_tokens) == (256, 3)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 5}, (5, None, None, None)),
        ({"completion_tokens": 7, "total_tokens": 9}, (None, 7, None, None)),
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, (5, None, None, None)),
        ({"prompt_tokens": None, "completion_tokens": None}, (None, None, None, None)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}}, (5, None, None, None)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}, (5, None, 0, None)),
        ({"prompt_tokens": 5.0, "completion_tokens": "6"}, (5, 6, None, None)),
        ({"prompt_tokens": -1, "completion_tokens": 1.5}, (None, None, None, None)),
        ({"prompt_tokens": True, "completion_tokens": 10**30}, (None, None, None, None)),
    ],
)
def test_a_count_that_was_not_said_is_unknown_and_never_zero(
    usage: dict[str, object], counts: tuple[int | None, ...]
) -> None:
    payload = json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}}], "usage": usage}).encode()
    event = said(parse(payload))
    assert event.content == "x"
    got = event.usage
    assert got is not None
    assert (got.prompt_tokens, got.completion_tokens, got.cached_tokens, got.reasoning_tokens) == counts


@pytest.mark.parametrize(
    ("delta", "content", "reasoning"),
    [
        ({"content": "a"}, "a", ""),
        ({"reasoning": "a"}, "", "a"),
        ({"reasoning_content": "a"}, "", "a"),
        ({"reasoning": "a", "reasoning_content": "a"}, "", "a"),
        ({"reasoning": None, "reasoning_content": "a", "content": None}, "", "a"),
        ({"content": "a", "reasoning": "b"}, "a", "b"),
        ({"content": None}, "", ""),
        ({"brand_new_field": "a"}, "", ""),
        ({"content": [{"type": "text", "text": "a"}, "b", {"text": None}, 3, ["c"]]}, "ab", ""),
        ({"content": {"a": 1}}, '{"a":1}', ""),
        ({}, "", ""),
        (None, "", ""),
    ],
)
def test_content_and_reasoning_under_all_their_names(
    delta: dict[str, object] | None, content: str, reasoning: str
) -> None:
    event = said(parse(chat(delta)))
    assert (event.content, event.reasoning, event.has_choice) == (content, reasoning, True)


@pytest.mark.parametrize("depth", [200, 500, 1000, 5000])
@pytest.mark.parametrize("shape", ["[%s]", '{"a":%s}'])
@pytest.mark.parametrize("where", ['{"choices":[{"index":0,"text":%s}]}', '{"error":{"message":%s}}', '{"error":%s}'])
def test_no_depth_of_nesting_crashes_it(where: str, shape: str, depth: int) -> None:
    before, after = shape.split("%s")
    event = parse((where % (before * depth + "1" + after * depth)).encode())
    assert isinstance(event, Chunk | ServerError | Malformed)


@pytest.mark.parametrize(
    ("delta", "tools"),
    [
        (
            {"content": None, "tool_calls": [{"id": "t1", "type": "function", "index": 0, "function": {"name": "ls"}}]},
            (ToolDelta(0, "t1", "ls", ""),),
        ),
        ({"tool_calls": [{"index": 1, "function": {"arguments": '{"a'}}]}, (ToolDelta(1, None, "", '{"a'),)),
        ({"tool_calls": [{"function": {"name": "x", "arguments": ""}}]}, (ToolDelta(None, None, "x", ""),)),
        ({"tool_calls": [{"index": 0, "function": {"arguments": {"a": 1}}}]}, (ToolDelta(0, None, "", '{"a":1}'),)),
        ({"tool_calls": [{"index": 0, "id": "t"}]}, (ToolDelta(0, "t", "", ""),)),
        ({"tool_calls": {"index": 0, "function": {"name": "x"}}}, (ToolDelta(0, None, "x", ""),)),
        ({"function_call": {"name": "old", "arguments": "{}"}}, (ToolDelta(0, None, "old", "{}"),)),
        ({"tool_calls": []}, ()),
        ({"tool_calls": None}, ()),
    ],
)
def test_tool_call_fragments(delta: dict[str, object], tools: tuple[ToolDelta, ...]) -> None:
    assert said(parse(chat(delta))).tools == tools


@pytest.mark.parametrize(
    ("finish", "stop", "want"),
    [
        ("stop", "you", ("stop", "you")),
        ("stop", 30, ("stop", 30)),
        ("repetition", "repetition_detected", ("repetition", "repetition_detected")),
        ("", None, (None, None)),
        (None, None, (None, None)),
    ],
)
def test_finish_and_stop_reasons(finish: str | None, stop: object, want: tuple[object, object]) -> None:
    event = said(parse(chat({}, finish_reason=finish, stop_reason=stop)))
    assert (event.finish_reason, event.stop_reason) == want


@pytest.mark.parametrize(
    ("payload", "message", "code"),
    [
        (ENGINE_DEATH, "EngineCore encountered an issue. See stack trace (above) for the root cause.", 500),
        (b'{"error":"Unauthorized"}', "Unauthorized", None),
        (b'{"error":{"message":"slow\\ndown","code":"429"}}', "slow down", 429),
        (b'{"error":{"message":"x","status":503,"code":null}}', "x", 503),
        (b'{"error":{"message":"x","code":"rate_limit"}}', "x", None),
        (b'{"error":{}}', "{}", None),
        (b'{"error":["a"]}', '["a"]', None),
        (b'{"error":{"message":"x"},"choices":[{"index":0,"delta":{"content":"y"}}]}', "x", None),
        (b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}', "too long", 400),
        (b'{"type":"error","message":"boom"}', "boom", None),
        (NamedEvent("error", b'{"error":{"message":"x","code":500}}'), "x", 500),
        (NamedEvent("error", b'{"message":"x","code":500}'), "x", 500),
        (NamedEvent("error", b'{"detail":"y"}'), "y", None),
        (NamedEvent("error", b"plain \xff words"), "plain \ufffd words", None),
        (NamedEvent("error", b'"words"'), "words", None),
        (NamedEvent("error", b""), "event: error without data", None),
    ],
)
def test_an_error_in_any_form_is_an_error(payload: bytes | NamedEvent, message: str, code: int | None) -> None:
    assert parse(payload) == ServerError(message, code)


@pytest.mark.parametrize("nothing", [None, "", False])
def test_an_error_field_that_says_nothing_is_none(nothing: object) -> None:
    event = said(parse(orjson.dumps({"error": nothing, "choices": [{"index": 0, "delta": {"content": "y"}}]})))
    assert event.content == "y"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":NaN}]}',
        b'{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":-Infinity}]}',
        b'{"choices":[{"index":0,"delta":{"content":Infinity}}]}',
        b'{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":NaN}}',
        b'{"choices":[{"index":0,"delta":{"content":"x"',
        b'{"choices":[]} trailing',
        b"[1,2]",
        b"3",
        b'"text"',
        b"<html>",
        b'{"a":' + b"[" * 100_000,
        b"[" * 100_000,
        b"",
    ],
)
def test_what_is_not_a_json_object_is_malformed_on_one_short_line(payload: bytes) -> None:
    event = parse(payload)
    assert isinstance(event, Malformed)
    assert len(event.detail) <= 500
    assert "\n" not in event.detail


def test_an_oversize_event_is_malformed() -> None:
    assert parse(SseFault("an event is larger than 8 bytes")) == Malformed("an event is larger than 8 bytes")


@pytest.mark.parametrize("payload", [b"[DONE]", b" [DONE] ", NamedEvent("done", b"[DONE]")])
def test_done(payload: bytes | NamedEvent) -> None:
    assert parse(payload) == DONE


@pytest.mark.parametrize(
    ("text", "want", "anomalies"),
    [
        (b"a\xffb", "a\ufffdb", ("bad_utf8",)),
        (b"a\xed\xa0\xbdb", "a\ufffd\ufffd\ufffdb", ("bad_utf8",)),
        (b"a\xf0\x9f\x9a", "a\ufffd", ("bad_utf8",)),
        (b"a\\ud83d b", "a\ufffd b", ("lone_surrogate",)),
        (b"a\\udE97", "a\ufffd", ("lone_surrogate",)),
        (b"\\ud83d\\u0041", "\ufffdA", ("lone_surrogate",)),
        (b"\\ud83d\\ud83d\\ude97", "\ufffd\U0001f697", ("lone_surrogate",)),
        (b"\\ud83d\\n\xff", "\ufffd\n\ufffd", ("bad_utf8", "lone_surrogate")),
        (b"\\\\ud83d \\ud83d\\ude97 \\\\\\ud83d", "\\ud83d \U0001f697 \\\ufffd", ("lone_surrogate",)),
        (b"\\ud83d\\ude97", "\U0001f697", ()),
        (b"\\\\ud83d", "\\ud83d", ()),
        ("\u2028\u2029\u0085".encode(), "\u2028\u2029\u0085", ()),
    ],
)
def test_bad_text_is_mended_and_flagged(text: bytes, want: str, anomalies: tuple[str, ...]) -> None:
    event = said(parse(b'{"choices":[{"index":0,"text":"' + text + b'","token_ids":[1]}]}'))
    assert (event.content, event.anomalies, event.token_ids) == (want, anomalies, (1,))
    msgspec.json.encode(event)  # whatever came in can be written to a log


def test_the_first_choice_only() -> None:
    two = b'{"choices":[{"index":1,"text":"no"},{"index":0,"text":"yes"}]}'
    assert (said(parse(two)).content, said(parse(two)).anomalies) == ("yes", ("multi_choice",))
    other = said(parse(b'{"choices":[{"index":1,"text":"no"}],"usage":{"completion_tokens":4}}'))
    assert (other.content, other.has_choice, other.anomalies) == ("", False, ("multi_choice",))
    assert other.usage == Usage(completion_tokens=4)
    assert said(parse(b'{"choices":[{"text":"yes"}]}')).anomalies == ()


@pytest.mark.parametrize(
    ("payload", "anomalies"),
    [
        (b"{}", ()),
        (b'{"detail":"hello"}', ()),
        (b'{"choices":null}', ()),
        (b'{"choices":{"index":0,"text":"x"}}', ("odd_shape",)),
        (b'{"choices":[3]}', ("odd_shape",)),
        (b'{"choices":[{"index":"0","text":"x","token_ids":["a"]}]}', ("odd_shape",)),
        (b'{"choices":[{"index":0,"text":"x","token_ids":[-1]}],"id":7}', ("odd_shape",)),
    ],
)
def test_json_of_another_shape_is_read_as_far_as_it_goes(payload: bytes, anomalies: tuple[str, ...]) -> None:
    event = said(parse(payload))
    assert event.anomalies == anomalies
    assert event.content == ("x" if b'"x"' in payload else "")
    assert event.token_ids is None


KEYS = [
    *("choices", "index", "delta", "text", "content", "reasoning", "tool_calls", "function", "arguments", "usage"),
    *("completion_tokens", "prompt_tokens", "prompt_tokens_details", "token_ids", "finish_reason", "stop_reason"),
    *("error", "message", "code", "id"),
]
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=500)
@given(JSONISH)
def test_any_json_whatever_its_shape_is_read_without_a_crash_and_can_be_logged(value: object) -> None:
    event = parse(json.dumps(value).encode())
    msgspec.json.encode(event)
    assert isinstance(event, Malformed) or isinstance(value, dict)


@settings(max_examples=500)
@given(st.sampled_from([COMPLETION_FIRST, CHAT_ROLE, CHAT_USAGE, ENGINE_DEATH]), st.data())
def test_damaged_events_are_read_without_a_crash_and_can_be_logged(payload: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(payload)))
    drop = data.draw(st.integers(0, 4))
    damaged = payload[:at] + data.draw(st.binary(max_size=4)) + payload[at + drop :]
    msgspec.json.encode(parse(damaged))
