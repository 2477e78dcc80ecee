"""One reply, from its bytes to its counts and its ending: the wire's traps as tables."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.events import Outcome
from infermaxx_tui.core.reply import NO_TOKENS, Ending, Reply
from infermaxx_tui.core.sse import MAX_EVENT_BYTES, SseParser
from infermaxx_tui.core.think import Think
from infermaxx_tui.core.tool_calls import ToolCall
from infermaxx_tui.core.wire import Chunk, parse

Fields = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def event(raw: object) -> bytes:
    """One SSE event."""
    return b"data: " + orjson.dumps(raw) + b"\n\n"


def text(piece: str, ids: list[int] | None = None, finish: str | None = None, usage: Fields | None = None) -> bytes:
    """A chunk of `/v1/completions`."""
    choice = {"index": 0, "text": piece, "finish_reason": finish, "stop_reason": None, "token_ids": ids}
    return event({"id": "cmpl-1", "choices": [choice], **({"usage": usage} if usage else {})})


def chat(delta: Fields, ids: list[int] | None = None, finish: str | None = None, usage: Fields | None = None) -> bytes:
    """A chunk of `/v1/chat/completions`."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "token_ids": ids}
    return event({"id": "chatcmpl-1", "choices": [choice], **({"usage": usage} if usage else {})})


def total(completion: int, prompt: int = 5) -> bytes:
    """The usage event at the end."""
    return event({"id": "x", "choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


ROLE = chat({"role": "assistant", "content": ""})


def read(chunks: list[bytes], think: Think | None = None, tick_us: int = 0) -> Reply:
    """The reply in a body that came in these chunks, `tick_us` apart; the short way and the long way agree on it."""
    parser, reply, twin = SseParser(), Reply(think=think), Reply(think=think)
    at_us = 1000
    for chunk in chunks:
        for payload in parser.feed(chunk):
            assert reply.take(payload, at_us) == twin.add(parse(payload), at_us)
            assert known(reply) == known(twin)
        at_us += tick_us
    reply.finish(parser, at_us)
    return reply


def known(reply: Reply) -> Fields:
    """All that a reply holds."""
    held = {name: getattr(reply, name) for name in Reply.__struct_fields__ if name not in ("tools", "_splitter")}
    return held | {"calls": reply.tools.calls, "inside": reply.inside_thinking, "of": reply.reasoning_tokens}


def facts(reply: Reply) -> tuple[object, ...]:
    """All that must not depend on how the bytes were cut."""
    return (
        *(reply.content, reply.reasoning, reply.tools.text, reply.ids, reply.chunks, reply.tokens, reply.estimated),
        *(reply.completion_tokens, reply.reasoning_tokens, reply.finish_reason, reply.stop_reason, reply.done),
        *(reply.error, reply.server_id, reply.first_chunk_tokens, reply.anomalies, reply.usage, reply.outcome()),
    )


HEALTHY = text(" Pa", [7]) + text("ris 🚗", [8]) + text("", [2], "stop") + total(3) + DONE

BODIES: list[tuple[str, bytes, str, str, str, int, set[str]]] = [
    ("completion", HEALTHY, " Paris 🚗", "", "", 3, set()),
    (
        "chat",
        ROLE + chat({"content": "Hello"}) + chat({"content": " there"}, None, "stop") + total(2) + DONE,
        *("Hello there", "", "", 2, {"tokens_estimated"}),
    ),
    (
        "chat with ids",
        ROLE
        + chat({}, [44])
        + chat({"reasoning": "ok"}, [22])
        + chat({"content": "Hi"}, [9, 2], "stop")
        + total(4)
        + DONE,
        *("Hi", "ok", "", 4, {"burst"}),
    ),
    (
        "running usage",
        chat({"role": "assistant", "content": ""}, usage={"prompt_tokens": 5, "completion_tokens": 1})
        + chat({"content": "a"}, usage={"prompt_tokens": 5, "completion_tokens": 1})
        + chat({}, usage={"prompt_tokens": 5, "completion_tokens": 2})
        + chat({"content": "bcd"}, None, "stop", {"prompt_tokens": 5, "completion_tokens": 5})
        + total(5)
        + DONE,
        *("abcd", "", "", 5, {"usage_cumulative", "burst"}),
    ),
    (
        "a total on the last chunk is no step",
        text("a") + text("b") + text("c", None, "stop", {"prompt_tokens": 5, "completion_tokens": 9}) + DONE,
        *("abc", "", "", 3, {"tokens_estimated"}),
    ),
    (
        "usage in front",
        total(0) + text("a", [1]) + text("", [2], "stop") + total(2) + DONE,
        *("a", "", "", 2, set()),
    ),
    (
        "tool call",
        ROLE
        + chat({"content": "I"}, [1])
        + chat({"content": None, "tool_calls": [{"id": "t", "index": 0, "function": {"name": "ls"}}]}, [2, 3])
        + chat({"tool_calls": [{"index": 0, "function": {"arguments": '{"p":'}}]}, [4])
        + chat({"tool_calls": [{"index": 0, "function": {"arguments": '"."}'}}]}, [5])
        + chat({}, [6], "tool_calls")
        + total(6)
        + DONE,
        *("I", "", 'ls {"p":"."}', 6, {"burst"}),
    ),
    ("pings", b": ping\n\n" + HEALTHY.replace(b"\n\n", b"\n\n: ping\n\n"), " Paris 🚗", "", "", 3, {"ping"}),
    ("crlf", HEALTHY.replace(b"\n", b"\r\n"), " Paris 🚗", "", "", 3, {"crlf"}),
    ("no space", HEALTHY.replace(b"data: ", b"data:"), " Paris 🚗", "", "", 3, {"no_space"}),
    ("two done", HEALTHY + DONE, " Paris 🚗", "", "", 3, {"two_done"}),
    ("no done", HEALTHY.removesuffix(DONE), " Paris 🚗", "", "", 3, {"no_done"}),
    ("no final blank line", HEALTHY[:-1], " Paris 🚗", "", "", 3, set()),
    ("no usage", text("a", [1], "stop") + DONE, "a", "", "", 1, {"no_usage"}),
    ("bad utf8", HEALTHY.replace("🚗".encode(), b"\xff"), " Paris \ufffd", "", "", 3, {"bad_utf8"}),
    (
        "lone surrogate",
        HEALTHY.replace("🚗".encode(), b"\\ud83d"),
        *(" Paris \ufffd", "", "", 3, {"lone_surrogate"}),
    ),
    ("u2028", HEALTHY.replace("🚗".encode(), "\u2028\u0085".encode()), " Paris \u2028\u0085", "", "", 3, set()),
    (
        "several tokens in a chunk",
        text("a", [1]) + text("bcde", [2, 3, 4, 5]) + text("", [], "length") + total(5) + DONE,
        *("abcde", "", "", 5, {"burst"}),
    ),
    (
        "two choices",
        event({"choices": [{"index": 1, "text": "no"}, {"index": 0, "text": "a", "token_ids": [1]}]})
        + event({"choices": [{"index": 1, "text": "no", "finish_reason": "length"}]})
        + text("b", [2], "stop")
        + total(2)
        + DONE,
        *("ab", "", "", 2, {"multi_choice"}),
    ),
    (
        "unparsed",
        chat({"brand_new": "abc"}) + chat({"brand_new": "d"}, None, "stop") + total(40) + DONE,
        *("", "", "", 0, {"unparsed_delta"}),
    ),
    (
        "unparsed with the total on the last chunk",
        chat({"new": "a"}) + chat({"new": "d"}, None, "stop", {"completion_tokens": 40}) + DONE,
        *("", "", "", 0, {"unparsed_delta"}),
    ),
    ("only the end of turn", text("", None, "stop") + total(1) + DONE, "", "", "", 0, set()),
    ("after finish", text("a", [1], "stop") + text("b", [2]) + total(2) + DONE, "ab", "", "", 2, {"after_finish"}),
    (
        "after done",
        text("a", [1]) + DONE + text("b", [2]) + total(2),
        *("ab", "", "", 2, {"after_done"}),
    ),
    ("counts differ", text("a", [1], "stop") + total(3) + DONE, "a", "", "", 1, {"ids_usage_differ"}),
    ("done without finish", text("a", [1]) + total(1) + DONE, "a", "", "", 1, set()),
]


@pytest.mark.parametrize(
    ("name", "body", "content", "reasoning", "tools", "tokens", "anomalies"),
    [pytest.param(*b, id=b[0]) for b in BODIES],
)
def test_the_same_reply_under_every_two_way_split_and_byte_by_byte(
    name: str, body: bytes, content: str, reasoning: str, tools: str, tokens: int, anomalies: set[str]
) -> None:
    whole = read([body])
    got = (whole.content, whole.reasoning, whole.tools.text, whole.tokens, whole.anomalies)
    assert got == (content, reasoning, tools, tokens, anomalies), name
    assert whole.outcome() == Ending("ok")
    for cut in range(len(body)):
        assert facts(read([body[:cut], body[cut:]])) == facts(whole), cut
    assert facts(read([body[at : at + 1] for at in range(len(body))])) == facts(whole)


@settings(max_examples=300)
@given(st.sampled_from([body[1] for body in BODIES]), st.lists(st.integers(0, 2000), max_size=12))
def test_the_same_reply_under_any_chunking(body: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(body), *(cut % len(body) for cut in cuts)})
    assert facts(read([body[a:b] for a, b in itertools.pairwise(places)])) == facts(read([body]))


ERROR = event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})

ENDINGS: list[tuple[str, bytes, Outcome, str | None]] = [
    ("healthy", HEALTHY, "ok", None),
    ("done without finish", text("a", [1]) + DONE, "ok", None),
    ("finish without done", text("a", [1], "length"), "ok", None),
    ("repetition", text("a", [1], "repetition") + DONE, "ok", None),
    ("error then done", text("a", [1]) + ERROR + DONE, "protocol", "EngineCore"),
    ("error alone", ERROR + DONE, "protocol", "EngineCore"),
    ("error after finish", text("a", [1], "stop") + ERROR + DONE, "protocol", "EngineCore"),
    ("event: error", text("a", [1]) + b"event: error\n" + event({"message": "gone"}) + DONE, "protocol", "gone"),
    ("error as a string", event({"error": "Unauthorized"}), "protocol", "Unauthorized"),
    ("finish_reason error", text("a", [1], "error") + DONE, "protocol", "finish_reason error"),
    ("nan", HEALTHY.replace(b'"stop_reason":null', b'"stop_reason":NaN'), "protocol", "not JSON"),
    ("not JSON", b"data: hello\n\n" + HEALTHY, "protocol", "not JSON"),
    ("html", b"<!doctype html>\n<html><body>gateway</body></html>\n", "protocol", "<!doctype html>"),
    ("a JSON body", b'{"id":"cmpl-1","choices":[{"text":"a"}]}', "protocol", "not an event stream"),
    ("oversize", text("a", [1]) + b"data: " + b"x" * (MAX_EVENT_BYTES + 9) + b"\n\n" + DONE, "protocol", "larger than"),
    ("abort", text("a", [1], "abort") + DONE, "truncated", "abort"),
    ("end of body", text("a", [1]) + text("b", [2]), "truncated", "after 2 tokens"),
    ("end inside an event", text("a", [1]) + text("b", [2])[:-30], "truncated", "inside an event"),
    ("end inside done", text("a", [1]) + b"data: [DO", "truncated", "inside an event"),
    ("empty body", b"", "truncated", "after 0 tokens"),
    ("pings only", b": ping\n\n" * 5, "truncated", "after 0 tokens"),
    ("role only", ROLE, "truncated", "after 0 tokens"),
]


@pytest.mark.parametrize(("body", "outcome", "detail"), [pytest.param(*e[1:], id=e[0]) for e in ENDINGS])
def test_how_a_body_ends_on_the_wire(body: bytes, outcome: Outcome, detail: str | None) -> None:
    ending = read([body]).outcome()
    assert ending.outcome == outcome
    assert (ending.detail is None) == (detail is None)
    assert detail is None or detail in (ending.detail or "")
    if len(body) < 10_000:
        assert read([body[at : at + 7] for at in range(0, len(body), 7)]).outcome() == ending


def test_an_error_keeps_its_code_and_the_tokens_that_came_before_it() -> None:
    reply = read([text("ab", [1, 2]) + ERROR + DONE])
    assert (reply.error_code, reply.ids, reply.content, reply.completion_tokens) == (500, [1, 2], "ab", 2)
    assert reply.done
    assert reply.outcome().outcome == "protocol"


def test_what_the_transport_said_stands_in_the_detail() -> None:
    parser, reply = SseParser(), Reply()
    for payload in parser.feed(text("a", [1])):
        reply.add(parse(payload), 5)
    reply.finish(parser, 9)
    assert reply.outcome("connection reset").detail == (
        "the stream ended without finish_reason or [DONE] after 1 tokens (connection reset)"
    )


def test_done_then_silence_needs_no_end_of_body() -> None:
    parser, reply = SseParser(), Reply()
    for payload in parser.feed(HEALTHY):
        reply.add(parse(payload), 5)
    assert reply.done
    assert reply.outcome() == Ending("ok")


def test_no_count_is_invented() -> None:
    reply = read([text("a", None, "stop") + DONE])
    assert (reply.completion_tokens, reply.reasoning_tokens, reply.usage) == (None, None, None)
    assert (reply.tokens, reply.estimated) == (1, True)
    assert read([b""]).first_token_us is None
    assert read([b""]).first_chunk_tokens is None
    think = Think(open_id=90, close_id=91)
    assert read([text("a", None, "stop") + DONE], think).reasoning_tokens is None
    assert read([text("a", [1], "stop") + DONE], think).reasoning_tokens == 0


def timed(*steps: tuple[float, bytes]) -> tuple[Reply, list[tuple[int | None, int]]]:
    """A reply whose events came at these seconds, and what each `add` said."""
    parser, reply = SseParser(), Reply()
    told = [reply.take(payload, int(at_s * 1e6)) for at_s, body in steps for payload in parser.feed(body)]
    reply.finish(parser, int(steps[-1][0] * 1e6))
    return reply, told


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_the_decode_window_begins_at_the_first_token_of_any_channel(key: str) -> None:
    # prior-art D16: first reasoning 28.64 s, first content 34.69 s, last token 35.95 s; the window is 7.31 s
    reply, told = timed(
        (3.0, ROLE),
        (28.64, chat({key: "hm"}, [1])),
        (34.69, chat({"content": "\n"}, [2])),
        (34.70, chat({"content": "yes"}, [3])),
        (35.95, chat({"content": "."}, [4], "stop")),
        (36.5, total(4) + DONE),
    )
    assert reply.first_token_us == 28_640_000
    assert reply.first_visible_us == 34_700_000
    assert reply.last_token_us == 35_950_000
    assert told == [NO_TOKENS, (None, 1), (6_050_000, 1), (10_000, 1), (1_250_000, 1), NO_TOKENS, NO_TOKENS]


def test_a_reply_that_only_thinks_has_timing_and_nothing_visible() -> None:
    reply, _ = timed(
        (1.0, ROLE), (2.0, chat({"reasoning": "a"})), (3.0, chat({"reasoning": "b"}, None, "stop")), (3.0, DONE)
    )
    assert (reply.first_token_us, reply.first_visible_us, reply.last_token_us) == (2_000_000, None, 3_000_000)
    assert (reply.content, reply.reasoning) == ("", "ab")


def test_a_tool_call_alone_has_timing_and_counts_as_visible() -> None:
    call = {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "ls", "arguments": "{}"}}]}
    reply, _ = timed((1.0, ROLE), (2.0, chat(call, [5, 6])), (2.5, chat({}, [7], "tool_calls")), (2.6, total(3) + DONE))
    assert (reply.first_token_us, reply.first_visible_us, reply.first_chunk_tokens) == (2_000_000, 2_000_000, 2)
    assert reply.tools.calls == (ToolCall("t", "ls", ["{}"]),)


def test_role_usage_pings_and_done_are_no_tokens_and_end_no_window() -> None:
    reply, told = timed(
        (1.0, b": ping\n\n" + ROLE + total(0)),
        (2.0, text("a", [1])),
        (3.0, text("b", [2], "stop")),
        (9.0, total(2) + DONE),
    )
    assert [step for step in told if step != NO_TOKENS] == [(None, 1), (1_000_000, 1)]
    assert (reply.first_token_us, reply.last_token_us) == (2_000_000, 3_000_000)


def test_an_empty_delta_with_ids_is_a_token_in_time() -> None:
    reply, told = timed(
        (1.0, ROLE), (2.0, chat({}, [44])), (3.0, chat({}, [45])), (4.0, chat({"content": "a"}, [46], "stop"))
    )
    assert told == [NO_TOKENS, (None, 1), (1_000_000, 1), (1_000_000, 1)]
    assert (reply.first_token_us, reply.first_visible_us) == (2_000_000, 4_000_000)


def test_running_usage_counts_tokens_that_no_chunk_shows() -> None:
    usage = [{"prompt_tokens": 5, "completion_tokens": n} for n in (1, 1, 2, 9)]
    reply, told = timed(
        (1.0, chat({"role": "assistant", "content": ""}, usage=usage[0])),
        (1.0, chat({"content": "a"}, usage=usage[1])),
        (2.0, chat({}, usage=usage[2])),
        (3.0, chat({"tool_calls": [{"index": 0, "function": {"name": "x"}}]}, None, "tool_calls", usage[3])),
        (3.0, DONE),
    )
    assert told == [NO_TOKENS, (None, 1), (1_000_000, 1), (1_000_000, 7), NO_TOKENS]
    assert (reply.tokens, reply.completion_tokens, reply.estimated) == (9, 9, False)


@pytest.mark.parametrize(("tick_us", "buffered"), [(0, True), (40, True), (100, False)])
def test_a_reply_that_came_at_once_was_not_streamed(tick_us: int, buffered: bool) -> None:
    body = [text("a", [n]) for n in range(20)] + [text("", [2], "stop") + total(21) + DONE]
    assert ("buffered" in read(body, tick_us=tick_us).anomalies) is buffered


def test_usage_that_came_last_wins() -> None:
    reply = read([text("a", [1], None, {"completion_tokens": 1}) + text("b", [2], "stop") + total(2, 11) + DONE])
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.completion_tokens) == (11, 2)
    assert "usage_cumulative" not in reply.anomalies


def test_the_prompt_as_the_server_saw_it_is_counted_and_kept_only_if_wanted() -> None:
    first = Chunk(content="a", has_choice=True, token_ids=(9,), prompt_ids=(1, 2, 3))
    for wanted in (False, True):
        reply = Reply(keep_prompt_ids=wanted)
        reply.add(first, 5)
        assert reply.prompt_ids_count == 3
        assert reply.prompt_ids == ((1, 2, 3) if wanted else None)
    opening = Reply(keep_prompt_ids=True)
    opening.add(parse(orjson.dumps({"choices": [{"index": 0, "delta": {"role": "a"}}], "prompt_token_ids": [4, 5]})), 5)
    assert opening.prompt_ids == (4, 5)


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([(0, "a", "f", "{"), (0, None, "", "}")], [("a", "f", "{}")]),
        ([(0, "a", "f", "1"), (1, "b", "g", "2"), (0, None, "", "3")], [("a", "f", "13"), ("b", "g", "2")]),
        ([(None, "a", "f", "1"), (None, None, "", "2"), (None, "b", "g", "3")], [("a", "f", "12"), ("b", "g", "3")]),
        ([(None, None, "f", "1"), (None, None, "", "2")], [(None, "f", "12")]),
        ([(2, None, "f", "")], [(None, "f", "")]),
    ],
)
def test_tool_calls_are_put_together_with_and_without_an_index(
    deltas: list[tuple[int | None, str | None, str, str]], calls: list[tuple[str | None, str, str]]
) -> None:
    pieces = [
        {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
        for index, call_id, name, arguments in deltas
    ]
    reply = read([chat({"tool_calls": [piece]}) for piece in pieces])
    assert [(call.call_id, call.name, call.arguments) for call in reply.tools.calls] == calls
    assert facts(read([chat({"tool_calls": pieces})]))[2] == reply.tools.text


OPEN, CLOSE = 90, 91
THINK_TABLE: list[tuple[str, bool, list[tuple[str, list[int] | None]], str, str, int | None, bool]] = [
    ("whole block", False, [("<think>", [90]), ("hm", [1]), ("</think>", [91]), ("yes", [2])], "yes", "hm", 1, False),
    ("opened by the prompt", True, [("h", [1]), ("m", [2]), ("</think>", [91]), ("yes", [3])], "yes", "hm", 2, False),
    ("never closed", True, [("h", [1]), ("m", [2])], "", "hm", 2, True),
    ("no thinking", False, [("y", [1]), ("es", [2])], "yes", "", 0, False),
    ("both sides in a chunk", True, [("hm</think>yes", [1, 91, 2])], "yes", "hm", 1, False),
    ("block in a chunk", False, [("a<think>hm</think>b", [1, 90, 2, 91, 3])], "ab", "hm", 1, False),
    ("tag left out of the text", True, [("hm", [1]), ("", [91]), ("yes", [2])], "yes", "hm", 1, False),
    ("tag left out, both sides in a chunk", True, [("hm", [1]), ("m yes", [2, 91, 3])], "m yes", "hm", 2, False),
    ("the letters alone close nothing", True, [("</think>", [1, 2, 3]), ("x", [4])], "", "</think>x", 4, True),
    ("the letters alone open nothing", False, [("<think>", [1, 2]), ("x", [4])], "<think>x", "", 0, False),
    (
        "thinks twice",
        True,
        [("a", [1]), ("</think>b", [91, 2]), ("<think>c", [90, 3]), ("</think>d", [91, 4])],
        "bd",
        "ac",
        2,
        False,
    ),
    (
        "without ids by the text",
        True,
        [("hm", None), ("m</think>yes", None), ("<think>a", None)],
        "yes",
        "hmma",
        None,
        True,
    ),
]


@pytest.mark.parametrize(
    ("inside", "pieces", "content", "reasoning", "tokens", "open_at_end"),
    [pytest.param(*t[1:], id=t[0]) for t in THINK_TABLE],
)
def test_thinking_is_split_from_the_answer_by_ids(
    inside: bool,
    pieces: list[tuple[str, list[int] | None]],
    content: str,
    reasoning: str,
    tokens: int | None,
    open_at_end: bool,
) -> None:
    body = b"".join(text(piece, ids) for piece, ids in pieces) + DONE
    reply = read([body], Think(open_id=OPEN, close_id=CLOSE, starts_inside=inside))
    assert (reply.content, reply.reasoning, reply.reasoning_tokens) == (content, reasoning, tokens)
    assert reply.inside_thinking is open_at_end
    assert reply.ids == [token for _, ids in pieces for token in ids or ()]


def test_the_first_visible_token_is_after_the_thinking() -> None:
    think = Think(open_id=OPEN, close_id=CLOSE, starts_inside=True)
    reply = read([text("hm", [1]), text("</think>", [91]), text("\n\n", [2]), text("yes", [3])], think, tick_us=1000)
    assert (reply.first_token_us, reply.first_visible_us) == (1000, 4000)


FRAGMENTS = [
    *(HEALTHY, ROLE, ERROR, DONE, total(3), text("x", [1, 2]), text("y", None, "stop"), b": ping\n\n", b"data: "),
    *(b"\n", b"\r", b"\r\n\r\n", b"event: error\n", b"NaN", b'"', b"{", b"}", b"\\ud83d", b"\xff", "🚗".encode()),
    *(chat({"reasoning": "r"}), chat({"tool_calls": [{"index": 0}]}), b"<html>", b"\x00\x1b[31m"),
]


@settings(max_examples=2000)
@given(st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=12), max_size=8), st.integers(1, 60))
def test_no_stream_crashes_it_and_chunking_never_matters(pieces: list[bytes], step: int) -> None:
    body = b"".join(pieces)
    think = Think(open_id=1, close_id=2)
    whole = read([body], think)
    assert facts(read([body[at : at + step] for at in range(0, len(body), step)], think)) == facts(whole)
    assert whole.tokens == 0 or whole.first_token_us is not None
    assert whole.outcome().outcome in ("ok", "protocol", "truncated")
    assert whole.estimated or whole.tokens >= len(whole.ids)


PIECES = st.sampled_from(["", " ", "word", "<think>", "</think>", "é"])
IDS = st.sampled_from([None, [], [5], [5, 6], [7], [8], [7, 9, 8]])
FINISHES = st.sampled_from([None, None, None, "", "stop"])
DELTAS: st.SearchStrategy[Fields] = st.dictionaries(
    st.sampled_from(["content", "reasoning", "reasoning_content", "role"]), PIECES
) | st.just({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{"}}]})
CHOICES: st.SearchStrategy[Fields] = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, None, 1]),
        "text": PIECES,
        "delta": DELTAS,
        "token_ids": IDS,
        "finish_reason": FINISHES,
        "prompt_token_ids": IDS,
    },
)
ROOTS: st.SearchStrategy[Fields] = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", None]),
        "choices": st.lists(CHOICES, max_size=2) | st.lists(CHOICES, min_size=1, max_size=1),
        "usage": st.sampled_from([None, {"completion_tokens": 3}]),
        "error": st.sampled_from([None, None, "broken"]),
        "prompt_token_ids": IDS,
    },
)


@given(st.lists(ROOTS.map(event) | st.just(DONE) | st.just(b"data: {\n\n") | st.just(b"event: error\ndata: x\n\n")))
def test_the_short_way_into_a_reply_is_the_long_way(events: list[bytes]) -> None:
    read(events)
    read([b"".join(events)], Think(7, 8), tick_us=3)
