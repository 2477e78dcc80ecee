"""The wire: key by key what vLLM 0.32 was captured to send (vllm-wire §1 to §4)."""

from __future__ import annotations

import re
from typing import Any

import httpx
import orjson
import pytest
from simtools import (
    TAGS,
    asking,
    client_of,
    completion,
    finish_of,
    ids_in,
    ids_of,
    make_app,
    parsed,
    raw,
    run_virtual,
    text_of,
    told,
    vocabulary,
    working,
)

from infermaxx_tui.core.readings import parse_cache_config, parse_metrics
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.faults import FAULTS

LABELS = tuple(TAGS)
ASK = asking(LABELS[:1], LABELS[0])
SAYS = f"The lot tag for the {LABELS[0]} is {TAGS[LABELS[0]]}."
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {}}}]


def post(path: str, body: object, app: App | None = None, headers: dict[str, str] | None = None) -> httpx.Response:
    async def send() -> httpx.Response:
        async with client_of(app or make_app()) as client:
            return await client.post(path, json=body, headers=headers)

    return run_virtual(send())


def get(path: str, app: App | None = None, method: str = "GET", **headers: str) -> httpx.Response:
    async def send() -> httpx.Response:
        async with client_of(app or make_app()) as client:
            return await client.request(method, path, headers=headers)

    return run_virtual(send())


def wire_messages(last: str) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in told(LABELS[:1])] + [{"role": "user", "content": last}]


# /v1/completions


def test_a_completion_stream_has_the_captured_keys() -> None:
    answer = post("/v1/completions", completion(ASK), headers={"X-Request-Id": "abc-123"})
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = parsed(answer.content)
    first, last, usage = events[0], events[-2], events[-1]
    assert list(first) == ["id", "object", "created", "model", "choices"]
    assert first["id"] == "cmpl-abc-123"
    assert first["object"] == "text_completion"
    choice = ["index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"]
    assert all(list(event["choices"][0]) == choice for event in events[:-1])
    assert first["choices"][0]["prompt_token_ids"] == ASK
    assert all(event["choices"][0]["prompt_token_ids"] is None for event in events[1:-1])
    assert last["choices"][0]["finish_reason"] == "stop"
    assert (last["choices"][0]["text"], last["choices"][0]["token_ids"]) == ("", [1])
    assert list(usage) == ["id", "object", "created", "model", "choices", "usage", "system_fingerprint"]
    assert usage["choices"] == []
    n = len(ids_in(events))
    assert usage["usage"] == {
        "prompt_tokens": len(ASK),
        "total_tokens": len(ASK) + n,
        "completion_tokens": n,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert text_of(events) == SAYS
    assert vocabulary().decode(ids_in(events)) == SAYS + "<|im_end|>"


def test_the_json_is_written_without_spaces_and_the_stream_without_names() -> None:
    data = post("/v1/completions", completion(ASK)).content
    assert data.startswith(b'data: {"id":"cmpl-')
    for frame in data.split(b"\n\n")[:-2]:
        body = frame.removeprefix(b"data: ")
        assert orjson.dumps(orjson.loads(body)) == body


def test_without_wishes_there_are_no_ids_and_no_usage() -> None:
    events = parsed(post("/v1/completions", {"prompt": ASK, "max_tokens": 200, "stream": True}).content)
    assert all(event["choices"][0]["token_ids"] is None for event in events)
    assert not any("usage" in event for event in events)
    assert [("system_fingerprint" in event) for event in events].count(True) == 1
    assert "system_fingerprint" in events[-1]


def test_usage_grows_with_each_event_if_asked_for() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = parsed(post("/v1/completions", completion(ASK, stream_options=options)).content)
    assert [event["usage"]["completion_tokens"] for event in events[:-1]] == list(range(1, len(events)))
    alone = parsed(post("/v1/completions", completion(ASK, stream_options={"continuous_usage_stats": True})).content)
    assert not any("usage" in event for event in alone)


def test_sixteen_tokens_are_the_default() -> None:
    events = parsed(post("/v1/completions", {"prompt": working(()), "stream": True, "return_token_ids": True}).content)
    assert len(ids_in(events)) == 16
    assert finish_of(events) == "length"


def test_a_reply_that_just_fits_has_stopped() -> None:
    n = len(vocabulary().encode(SAYS)) + 1
    fits = parsed(post("/v1/completions", completion(ASK, max_tokens=n)).content)
    short = parsed(post("/v1/completions", completion(ASK, max_tokens=n - 1)).content)
    assert (finish_of(fits), finish_of(short)) == ("stop", "length")
    assert text_of(fits) == text_of(short)


def test_a_body_has_the_captured_keys() -> None:
    body = post("/v1/completions", {"prompt": ASK, "max_tokens": 200, "return_token_ids": True}).json()
    expected = ["index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs"]
    assert list(body["choices"][0]) == [*expected, "prompt_token_ids", "routed_experts"]
    assert body["choices"][0]["text"] == SAYS
    assert body["usage"]["completion_tokens"] == len(body["choices"][0]["token_ids"])
    assert body["usage"]["prompt_tokens_details"] == {
        "cached_tokens": 0,
        "created_cache_tokens": len(ASK) // 16 * 16,
        "multimodal_tokens": None,
    }
    assert body["usage"]["completion_tokens_details"] is None


def test_cached_tokens_are_told() -> None:
    app = make_app()
    post("/v1/completions", completion(ASK), app)
    again = parsed(post("/v1/completions", completion(ASK), app).content)
    assert again[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == (len(ASK) - 1) // 16 * 16


@pytest.mark.parametrize("stop", ["lot", ["tag for", "lot"], "t tag f", ["never", "Th"]])
def test_a_stop_string_cuts_the_text_and_is_named(stop: str | list[str]) -> None:
    events = parsed(post("/v1/completions", completion(ASK, stop=stop)).content)
    stops = [stop] if isinstance(stop, str) else stop
    at, found = min((SAYS.find(s), s) for s in stops if s in SAYS)
    assert text_of(events) == SAYS[:at]
    assert events[-2]["choices"][0]["stop_reason"] == found
    assert finish_of(events) == "stop"
    assert events[-1]["usage"]["completion_tokens"] == len(ids_in(events))


def test_a_stop_string_that_never_comes_loses_nothing() -> None:
    events = parsed(post("/v1/completions", completion(ASK, stop="zebra crossing")).content)
    assert text_of(events) == SAYS
    assert events[-2]["choices"][0]["stop_reason"] is None


def test_control_tokens_are_shown_on_demand() -> None:
    events = parsed(post("/v1/completions", completion(ASK, skip_special_tokens=False)).content)
    assert text_of(events) == SAYS + "<|im_end|>"


def test_ignoring_the_end_of_turn_runs_to_the_cap() -> None:
    events = parsed(post("/v1/completions", completion(ASK, ignore_eos=True, max_tokens=100)).content)
    assert len(ids_in(events)) == 100
    assert finish_of(events) == "length"


def test_every_event_holds_whole_characters() -> None:
    for n in range(12):
        events = parsed(post("/v1/completions", completion(working((), f"job {n}"))).content)
        assert "\ufffd" not in text_of(events)
        hidden = vocabulary().decode(ids_in(events)).removesuffix("<|im_end|>")
        assert text_of(events) == hidden


# /v1/chat/completions


def chat(app: App | None = None, **fields: Any) -> list[Any]:
    body = {"messages": wire_messages("Go on."), "stream": True, "stream_options": {"include_usage": True}, **fields}
    return parsed(post("/v1/chat/completions", body, app).content)


def deltas(events: list[Any], name: str) -> str:
    return "".join(c["delta"].get(name) or "" for event in events for c in event["choices"])


def test_a_chat_stream_begins_with_the_role() -> None:
    events = chat(messages=wire_messages(recall_question(LABELS[0])))
    assert events[0]["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert list(events[0])[-2:] == ["prompt_token_ids", "prompt_text"]
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{16}", events[0]["id"])
    assert list(events[1]["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "token_ids"]
    final = events[-2]["choices"][0]
    assert list(final) == ["index", "delta", "logprobs", "finish_reason", "stop_reason", "token_ids"]
    assert (final["delta"], final["finish_reason"]) == ({"content": ""}, "stop")
    assert deltas(events, "content") == SAYS


def test_chat_ids_are_those_of_the_rendered_messages() -> None:
    events = chat(messages=wire_messages(recall_question(LABELS[0])), return_token_ids=True)
    assert events[0]["prompt_token_ids"] == ASK
    assert "token_ids" not in events[0]["choices"][0]
    assert vocabulary().decode(ids_in(events[1:])) == SAYS + "<|im_end|>"
    tokenised = post("/tokenize", {"messages": wire_messages(recall_question(LABELS[0]))}).json()
    assert tokenised["tokens"] == ASK


def test_thinking_comes_in_a_field_of_its_own() -> None:
    found = 0
    for n in range(30):
        events = chat(messages=[{"role": "user", "content": f"job {n}"}], return_token_ids=True)
        thought = deltas(events, "reasoning")
        if not thought:
            continue
        found += 1
        assert thought.startswith("\n")
        assert "<think>" not in thought + deltas(events, "content")
        inside = vocabulary().decode(ids_in(events[1:])).partition("<think>")[2].partition("</think>")
        assert (thought, deltas(events, "content") + "<|im_end|>") == (inside[0], inside[2])
        details = events[-1]["usage"]["completion_tokens_details"]
        assert details == {"reasoning_tokens": len(vocabulary().encode(thought))}
        blank = [e["choices"][0]["token_ids"] for e in events[1:-1] if e["choices"][0]["delta"] == {}]
        marks = [[vocabulary().special_id(token)] for token in ("<think>", "</think>")]
        assert [ids for ids in blank if ids in marks] == marks
    assert found > 3


def test_a_tool_call_comes_in_pieces() -> None:
    found = 0
    for n in range(30):
        messages = [{"role": "user", "content": f"job {n}"}]
        events = chat(messages=messages, tools=TOOLS)
        calls = [c for e in events for ch in e["choices"] for c in ch["delta"].get("tool_calls", ())]
        if not calls:
            continue
        found += 1
        assert list(calls[0]) == ["id", "type", "index", "function"]
        assert list(calls[0]["function"]) == ["name"]
        assert all(list(call) == ["index", "function"] for call in calls[1:])
        arguments = orjson.loads("".join(call["function"]["arguments"] for call in calls[1:]))
        assert set(arguments) == {"path", "limit"}
        assert finish_of(events[1:]) == "tool_calls"
        body = {"messages": messages, "tools": TOOLS}
        whole = post("/v1/chat/completions", body).json()["choices"][0]
        assert whole["finish_reason"] == "tool_calls"
        assert whole["message"]["tool_calls"][0]["function"]["name"] == calls[0]["function"]["name"]
        assert orjson.loads(whole["message"]["tool_calls"][0]["function"]["arguments"]) == arguments
    assert found > 3


def test_without_tools_nothing_is_called() -> None:
    for n in range(20):
        assert "tool_calls" not in str(chat(messages=[{"role": "user", "content": f"job {n}"}]))


def test_a_chat_body_has_the_captured_keys() -> None:
    body = post("/v1/chat/completions", {"messages": wire_messages(recall_question(LABELS[0]))}).json()
    message = body["choices"][0]["message"]
    assert list(message) == ["role", "content", "refusal", "annotations", "audio", "function_call", "reasoning"]
    assert message["content"] == SAYS
    assert message["reasoning"] is None
    tail = ["kv_transfer_params", "ec_transfer_params", "metrics"]
    assert list(body)[-6:] == ["prompt_logprobs", "prompt_token_ids", "prompt_text", *tail]


def test_max_completion_tokens_wins() -> None:
    assert chat(max_tokens=4, max_completion_tokens=2)[-1]["usage"]["completion_tokens"] == 2


def test_history_with_calls_thinking_and_parts_is_rendered() -> None:
    history: list[dict[str, object]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x.py"},
    ]
    ids = post("/tokenize", {"messages": history}).json()["tokens"]
    text = vocabulary().decode(ids)
    assert text.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nLook.<|im_end|>\n")
    assert '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "ls", "arguments": {}}\n</tool_call>' in text


def test_no_thinking_on_demand() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "return_token_ids": True, "stream": True}
    events = parsed(post("/v1/chat/completions", {**body, "chat_template_kwargs": {"enable_thinking": False}}).content)
    assert vocabulary().decode(events[0]["prompt_token_ids"]).endswith("assistant\n<think>\n\n</think>\n\n")


# Errors


def refused(body: dict[str, object], path: str = "/v1/completions", app: App | None = None) -> tuple[int, Any]:
    answer = post(path, body, app)
    return answer.status_code, answer.json()["error"]


def test_a_wrong_model_is_named_with_the_right_one() -> None:
    status, error = refused({"model": "x", "prompt": ASK})
    message = "The model `x` does not exist. Valid aliases: infermaxx-sim."
    assert (status, error) == (404, {"message": message, "type": "NotFoundError", "param": "model", "code": 404})


def test_too_long_is_said_in_vllms_words() -> None:
    app = make_app(max_model_len=64)
    status, error = refused({"prompt": [9] * 70}, app=app)
    assert status == 400
    assert error["message"] == (
        "This model's maximum context length is 64 tokens. However, your prompt contains 70 input tokens, which exceeds"
        " this limit even without any output tokens. Please reduce the length of the input prompt."
        " (parameter=input_tokens, value=70)"
    )
    assert (error["param"], error["type"]) == ("input_tokens", "BadRequestError")


def test_the_window_cuts_the_budget_silently() -> None:
    app = make_app(max_model_len=64)
    events = parsed(post("/v1/completions", completion([9] * 53, max_tokens=60, ignore_eos=True), app).content)
    assert len(ids_in(events)) == 11
    assert finish_of(events) == "length"
    status, error = refused({"prompt": [9] * 64, "max_tokens": 1}, app=app)
    assert (status, error["message"][:39]) == (400, "max_tokens must be at least 1, got 0. (")


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"prompt": []}, "You must pass at least one prompt", None),
        ({}, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)", "prompt"),
        ({"prompt": [99_999_999]}, "Token id 99999999 is out of vocabulary", None),
        ({"prompt": [-4]}, "Token id -4 is out of vocabulary", None),
        (
            {"prompt": ASK, "max_tokens": 0},
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
            "max_tokens",
        ),
        (
            {"prompt": ASK, "temperature": -1.0},
            "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)",
            "temperature",
        ),
        ({"prompt": ASK, "stop": [""]}, "stop cannot contain an empty string.", None),
        (
            {"prompt": ASK, "stream_options": {"include_usage": True}},
            "Stream options can only be defined when `stream=True`. (parameter=stream_options)",
            "stream_options",
        ),
        (
            {"prompt": ASK, "cache_salt": ""},
            "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)",
            "cache_salt",
        ),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_in_vllms_words(body: dict[str, object], message: str, param: str | None) -> None:
    status, error = refused(body)
    assert (status, error["message"], error["param"]) == (400, message, param)


def test_what_is_no_request_is_refused() -> None:
    status, error = refused({"prompt": ASK, "max_tokens": "lots"})
    assert (status, error["type"], error["param"]) == (400, "Bad Request", "body.max_tokens")
    assert error["message"].startswith("1 validation error:\n")

    async def odd(content: bytes, kind: str) -> Any:
        async with client_of(make_app()) as client:
            answer = await client.post("/v1/completions", content=content, headers={"content-type": kind})
            return answer.json()["error"]["message"]

    assert "JSON decode error" in run_virtual(odd(b"{", "application/json"))
    assert "Unsupported Media Type" in run_virtual(odd(b"{}", "text/plain"))
    assert refused({"messages": []}, "/v1/chat/completions")[1]["message"].startswith("Cannot apply chat template")
    assert refused({"messages": [{"role": "king", "content": ""}]}, "/v1/chat/completions")[0] == 400


# The other endpoints


def test_the_key_guards_v1_and_nothing_else() -> None:
    app = make_app(api_key="sesame")
    for path, status in (("/v1/models", 401), ("/health", 200), ("/metrics", 200), ("/version", 200)):
        assert get(path, app).status_code == status
    assert get("/v1/models", app).json() == {"error": "Unauthorized"}
    assert get("/v1/models", app, Authorization="Bearer wrong").status_code == 401
    assert get("/v1/models", app, Authorization="bearer sesame").status_code == 200


def test_probes_and_cards() -> None:
    assert get("/version").json()["version"] == "0.32.0+infermaxxsim"
    for path in ("/health", "/ping"):
        answer = get(path)
        assert (answer.status_code, answer.content, "content-type" in answer.headers) == (200, b"", False)
    card = get("/v1/models").json()["data"][0]
    assert (card["id"], card["max_model_len"], card["owned_by"]) == ("infermaxx-sim", 65_536, "vllm")
    assert get("/nothing").json() == {"detail": "Not Found"}
    assert get("/health", method="DELETE").status_code == 405


def test_tokenize_and_detokenize() -> None:
    answer = post("/tokenize", {"prompt": "Hello <|im_end|>", "return_token_strs": True}).json()
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["token_strs"][-1] == "<|im_end|>"
    assert answer["max_model_len"] == 65_536
    assert post("/tokenize", {"prompt": "x"}).json()["token_strs"] is None
    assert post("/detokenize", {"tokens": answer["tokens"]}).json() == {"prompt": "Hello <|im_end|>"}
    assert post("/detokenize", {"tokens": [10**6]}).json() == {"prompt": ""}
    plain = [{"role": "user", "content": "Say hi"}, {"role": "assistant", "content": "Hi th"}]
    body = {"messages": plain, "add_generation_prompt": False, "continue_final_message": True}
    assert vocabulary().decode(post("/tokenize", body).json()["tokens"]).endswith("assistant\nHi th")
    assert post("/tokenize", {}).status_code == 400


def test_metrics_say_what_a_client_reads() -> None:
    app = make_app()
    events = parsed(post("/v1/completions", completion(ASK), app).content)
    post("/v1/completions", completion(ASK), app)
    page = get("/metrics", app)
    assert page.headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    reading = parse_metrics(page.content)
    assert (reading.running, reading.waiting, reading.kv_usage, reading.preemptions) == (0, 0, 0, 0)
    assert reading.prompt_tokens == reading.prefix_queries == 2 * len(ASK)
    assert reading.prefix_hits == (len(ASK) - 1) // 16 * 16
    assert reading.generation_tokens == 2 * len(ids_in(events))
    assert reading.process_start_s == 1_800_000_000.0
    config = parse_cache_config(page.content)
    assert config is not None
    assert (config.block_size, config.pool_tokens, config.prefix_caching) == (16, 262_144, True)
    assert 'vllm:request_success_total{engine="0",finished_reason="stop",model_name="infermaxx-sim"} 2.0' in page.text
    assert (
        'vllm:prompt_tokens_by_source_total{engine="0",model_name="infermaxx-sim",source="local_compute"}' in page.text
    )


def test_every_sample_has_its_help_and_type_before_it() -> None:
    seen: set[str] = set()
    for line in get("/metrics").text.splitlines():
        if line.startswith("# TYPE "):
            seen.add(line.split()[2])
        elif not line.startswith("#"):
            assert line.split("{")[0].split(" ")[0] in seen


def test_the_catalogue_is_the_contracts() -> None:
    by_verdict: dict[tuple[str, str | None], int] = {}
    for fault in FAULTS.values():
        key = (fault.verdict, fault.check)
        by_verdict[key] = by_verdict.get(key, 0) + 1
    assert by_verdict == {
        ("PASS", None): 18,
        ("FAIL", "isolation"): 4,
        ("FAIL", "recall"): 5,
        ("FAIL", "degeneration"): 6,
        ("FAIL", "delivery"): 8,
        ("FAIL", "availability"): 3,
        ("FAIL", "quality"): 1,
        ("FAIL", "drift"): 2,
        ("INCONCLUSIVE", None): 16,
    }


def test_a_prompt_without_turns_is_a_users() -> None:
    ids = list(vocabulary().encode("just some words"))
    assert len(text_of(parsed(post("/v1/completions", completion(ids)).content))) > 20
    assert ids_of((Message("user", "x"),)) != ids


def test_raw_bytes_end_in_done() -> None:
    assert run_virtual(raw(make_app(), "/v1/completions", completion(ASK))).endswith(b"\n\ndata: [DONE]\n\n")
