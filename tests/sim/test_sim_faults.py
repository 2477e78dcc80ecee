"""Every fault does what its description says, on the bytes and in the answers, and a sound server does none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest
from simtools import (
    TAGS,
    asking,
    client_of,
    completion,
    events_of,
    finish_of,
    ids_in,
    make_app,
    parsed,
    raw,
    run_virtual,
    said,
    text_of,
    told,
    vocabulary,
    working,
)

from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import STATEMENT, recall_question, tag_repeat, tag_statement
from infermaxx_tui.sim.api import App
from infermaxx_tui.sim.delivery import BATCH_EVENTS, PROXY_BLOCK_BYTES, Delivery, escaped
from infermaxx_tui.sim.faults import DEGENERATE, FAULTS, UnknownFaultError, check_faults
from infermaxx_tui.sim.script import TROUBLE_AFTER
from infermaxx_tui.sim.speech import recalled

LABELS = tuple(TAGS)
MINE, THEIRS = LABELS[:2], LABELS[2:]
FOREIGN = {TAGS[label] for label in THEIRS}
REPLY_TOKENS = len(vocabulary().encode(recalled(MINE[0], TAGS[MINE[0]]))) + 1
Outcome = tuple[str, Any]


async def outcome(app: App, ids: list[int], **fields: Any) -> Outcome:
    """How a streamed request ends: (`ok`, bytes), (`status`, response) or (`broken`, bytes before the break)."""
    got = b""
    async with client_of(app) as client:
        try:
            async with client.stream("POST", "/v1/completions", json=completion(ids, **fields)) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    return "status", answer
                async for write in answer.aiter_raw():
                    got += write
        except httpx.TransportError as error:
            return type(error).__name__, got
    return "ok", got


async def many(app: App, n: int = 20, **fields: Any) -> list[Outcome]:
    return [await outcome(app, working(MINE, f"Now file {k}."), **fields) for k in range(n)]


async def meet(app: App, *conversations: tuple[str, ...]) -> None:
    """Two main-line turns of each conversation, so that the server knows their tags."""
    for labels in conversations:
        for k in range(2):
            await said(app, working(labels, f"Now file {k}."))


async def recalls(app: App, labels: tuple[str, ...] = MINE, **fields: Any) -> dict[str, set[str]]:
    """The tags in the answers to the questions for these labels."""
    out = {}
    for label in labels:
        out[label] = {tag for _, tag in STATEMENT.findall(await said(app, asking(labels, label), **fields))}
    return out


def right(labels: tuple[str, ...] = MINE) -> dict[str, set[str]]:
    return {label: {TAGS[label]} for label in labels}


# The clean server, and those that only look odd

ODD = [name for name, fault in FAULTS.items() if fault.verdict == "PASS"]


@pytest.mark.parametrize("fault", ODD)
def test_odd_but_sound_servers_say_the_same_tokens(fault: str) -> None:
    """Read by whole events, repaired where the fault damages bytes on purpose, the reply holds the right tag."""
    data = run_virtual(raw(make_app(fault), "/v1/completions", completion(asking(MINE, MINE[0]))))
    events = loose(data)
    ids = ids_in(events)
    assert f"The lot tag for the {MINE[0]} is {TAGS[MINE[0]]}." in vocabulary().decode(ids)
    assert f"is {TAGS[MINE[0]]}." in text_of(events).replace("\ufffd", "")
    assert finish_of(events) == "stop"


def loose(data: bytes) -> list[Any]:
    """The JSON events of a stream in any of the harmless forms."""
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    bodies = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [orjson.loads(body) for body in bodies if body != "[DONE]"]


def stream_of(*faults: str, **fields: Any) -> bytes:
    return run_virtual(raw(make_app(*faults), "/v1/completions", completion(asking(MINE, MINE[0]), **fields)))


def test_no_usage() -> None:
    assert b'"usage"' not in stream_of("no-usage")


def test_usage_cumulative() -> None:
    events = parsed(stream_of("usage-cumulative", stream_options=None))
    assert [event["usage"]["completion_tokens"] for event in events] == list(range(1, len(events) + 1))


def test_burst() -> None:
    sizes = [len(event["choices"][0]["token_ids"]) for event in parsed(stream_of("burst"))[:-1]]
    assert sizes[0] == 8
    assert sum(sizes) == REPLY_TOKENS
    assert len(sizes) == -(-REPLY_TOKENS // 8)


def writes_of(fault: str) -> list[bytes]:
    """The writes of one reply."""

    async def writes() -> list[bytes]:
        async with client_of(make_app(fault)) as client:
            body = completion(working(MINE), ignore_eos=True)
            async with client.stream("POST", "/v1/completions", json=body) as answer:
                return [write async for write in answer.aiter_raw()]

    return run_virtual(writes())


@pytest.mark.parametrize("fault", PROXY_BLOCK_BYTES)
def test_a_proxy_hands_on_full_buffers(fault: str) -> None:
    sizes = [len(write) for write in writes_of(fault)]
    assert len(sizes) > 2
    assert set(sizes[:-1]) == {PROXY_BLOCK_BYTES[fault]}


def test_batched() -> None:
    writes = writes_of("batched")
    assert {write.count(b"data: ") for write in writes[:-1]} == {BATCH_EVENTS}
    assert all(write.endswith(b"\n\n") for write in writes)
    assert b"[DONE]" in writes[-1]


def test_ping() -> None:
    data = stream_of("ping")
    assert data.startswith(b": ping\n\ndata: ")
    assert data.count(b"\n\n: ping\n\n") > 3


def test_crlf() -> None:
    data = stream_of("crlf")
    assert data.count(b"\r\n\r\n") == data.count(b"data: ")
    assert b"\n" not in data.replace(b"\r\n", b"")


def test_no_space() -> None:
    data = stream_of("no-space")
    assert data.startswith(b'data:{"')
    assert data.endswith(b"data:[DONE]\n\n")


def test_split() -> None:
    async def writes() -> list[bytes]:
        async with (
            client_of(make_app("split")) as client,
            client.stream("POST", "/v1/completions", json=completion(asking(MINE, MINE[0]))) as answer,
        ):
            return [write async for write in answer.aiter_raw()]

    pieces = run_virtual(writes())
    assert b"".join(pieces) == stream_of("split")
    assert sum(len(piece) == 1 for piece in pieces) > 500
    assert any(is_torn(piece) for piece in pieces)
    assert not any(piece.endswith(b"}\n\n") and piece.startswith(b"data: {") for piece in pieces)


def is_torn(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_u2028() -> None:
    data = stream_of("u2028")
    for char in ("\u2028", "\u2029", "\x85"):
        assert char.encode() in data
    assert len(data.decode().splitlines()) > data.count(b"\n")


def test_escapes() -> None:
    data = stream_of("escapes")
    assert data.isascii()
    assert b"\\ud83d\\ude42" in data
    assert b"\\/" in data
    assert '("quoted", a/b, back\\slash, tab\t, 🙂)' in text_of(parsed(data))


@pytest.mark.parametrize("text", ["", "a/b", '"\\\n\x00\u2028🙂é'])
def test_escaped_text_is_the_same_text(text: str) -> None:
    assert orjson.loads(escaped(text)) == text


@pytest.mark.parametrize(("fault", "times"), [("clean", 1), ("two-done", 2), ("no-done", 0)])
def test_done(fault: str, times: int) -> None:
    data = stream_of(fault)
    assert data.count(b"data: [DONE]\n\n") == times
    assert b'"finish_reason":"stop"' in data


def test_bad_utf8() -> None:
    data = stream_of("bad-utf8")
    with pytest.raises(UnicodeDecodeError):
        data.decode()
    assert b"\xff" in data
    assert data.count(b"\n\n") == data.count(b"data: ")


# Isolation


@pytest.mark.parametrize("fault", ["leak", "leak-parallel", "leak-retired", "stale"])
def test_nobody_leaks_who_knows_nobody(fault: str) -> None:
    async def alone() -> dict[str, set[str]]:
        app = make_app(fault)
        await meet(app, MINE)
        return await recalls(app)

    assert run_virtual(alone()) == right()


def test_leak() -> None:
    async def both(*faults: str) -> set[str]:
        app = make_app(*faults)
        await meet(app, MINE, THEIRS)
        return set().union(*(await recalls(app)).values())

    assert run_virtual(both("leak")) & FOREIGN
    assert run_virtual(both("leak")) - FOREIGN
    assert not run_virtual(both()) & FOREIGN


def test_a_warm_up_is_not_what_leaks() -> None:
    """A conversation of one request is an earlier run's plant; `leak` must give away a live one's."""

    async def warmed() -> dict[str, set[str]]:
        app = make_app("leak")
        await said(app, working(THEIRS))
        await meet(app, MINE)
        return await recalls(app)

    assert run_virtual(warmed()) == right()


def test_a_conversations_own_later_tags_are_not_foreign() -> None:
    async def early() -> dict[str, set[str]]:
        app = make_app("leak")
        await meet(app, MINE[:1], LABELS)
        return await recalls(app, MINE[:1])

    assert run_virtual(early()) == right(MINE[:1])


def test_leak_parallel() -> None:
    async def apart_and_together() -> tuple[dict[str, set[str]], set[str]]:
        app = make_app("leak-parallel")
        await meet(app, MINE, THEIRS)
        apart = await recalls(app)
        others = asyncio.create_task(events_of(app, working(THEIRS), max_tokens=2000, ignore_eos=True))
        await asyncio.sleep(0.1)
        together = await recalls(app)
        await others
        return apart, set().union(*together.values())

    apart, together = run_virtual(apart_and_together())
    assert apart == right()
    assert together & FOREIGN


def test_leak_retired() -> None:
    async def soon_and_late() -> tuple[dict[str, set[str]], set[str]]:
        app = make_app("leak-retired", retire_after_s=60.0)
        await meet(app, MINE, THEIRS)
        soon = await recalls(app)
        await asyncio.sleep(61)
        late = await recalls(app)
        return soon, set().union(*late.values())

    soon, late = run_virtual(soon_and_late())
    assert soon == right()
    assert late & FOREIGN


def test_stale() -> None:
    async def later() -> set[str]:
        app = make_app("stale")
        await said(app, working(THEIRS))
        await meet(app, MINE)
        return set().union(*(await recalls(app)).values())

    found = run_virtual(later())
    assert found & FOREIGN
    assert found - FOREIGN


# Recall


def sentinel(labels: tuple[str, ...], label: str, tag: str) -> list[int]:
    """A side branch that tells a tag and asks for it at once, as the runner's tail sentinel does."""
    end = (Message("user", tag_statement(label, tag)), Message("assistant", tag_repeat(label, tag)))
    prompt = (*told(labels), *end, Message("user", recall_question(label)))
    return list(vocabulary().render(prompt, "", True))


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.check in ("recall", "isolation")])
def test_a_tail_sentinel_always_comes_back(fault: str) -> None:
    """Else the asking would look broken, and no fault of recall could ever be seen."""

    async def ask() -> list[str]:
        app = make_app(fault)
        await meet(app, MINE, THEIRS)
        await asyncio.sleep(5)
        return [await said(app, sentinel(MINE, f"iron bell{c}", "KX7Q-M4TR")) for c in "abcdefgh"]

    assert run_virtual(ask()) == [f"The lot tag for the iron bell{c} is KX7Q-M4TR." for c in "abcdefgh"]


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.check == "recall"])
def test_recall_faults_hit_some_recall_and_give_away_nobody(fault: str) -> None:
    async def ask() -> dict[str, set[str]]:
        app = make_app(fault)
        await meet(app, LABELS)
        return await recalls(app, LABELS)

    found = run_virtual(ask())
    assert found != right(LABELS)


def test_forget_oldest() -> None:
    found = run_virtual(recalls(make_app("forget-oldest"), LABELS))
    assert found == {**right(LABELS), LABELS[0]: set(), LABELS[1]: set()}


def test_forget_random_forgets_the_same_each_time() -> None:
    async def twice() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        app = make_app("forget-random")
        return await recalls(app, LABELS), await recalls(app, LABELS)

    first, second = run_virtual(twice())
    assert first == second
    assert 1 <= sum(not tags for tags in first.values()) <= 3


def differing(a: str, b: str) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def test_typo() -> None:
    found = run_virtual(recalls(make_app("typo"), LABELS))
    distances = [differing(next(iter(tags)), TAGS[label]) for label, tags in found.items()]
    assert set(distances) == {0, 1}


def test_wrong_question() -> None:
    found = run_virtual(recalls(make_app("wrong-question"), LABELS))
    for label, tags in found.items():
        assert tags <= set(TAGS.values()) - {TAGS[label]}
        assert len(tags) == 1


def test_cache_rot() -> None:
    async def ask() -> tuple[str, str, str, str]:
        app = make_app("cache-rot")
        ids = asking(MINE, MINE[0])
        cold, rotten, salted = await said(app, ids), await said(app, ids), await said(app, ids, cache_salt="fresh")
        return cold, rotten, salted, await said(app, ids, cache_salt="fresh")

    cold, rotten, salted, again = run_virtual(ask())
    assert cold == salted == again == f"The lot tag for the {MINE[0]} is {TAGS[MINE[0]]}."
    assert rotten != cold
    assert differing(rotten, cold) == 2


# Degeneration

LOOKS: dict[str, Callable[[str], bool]] = {
    "babble": lambda text: text.count(" it is that") > 40,
    "bang": lambda text: set(text) == {"!"},
    "needle-loop": lambda text: max(text.count(tag) for tag in TAGS.values()) > 10,
    "special-tokens": lambda text: min(text.count(t) for t in ("</think>", "<tool_call>", "<|im_end|>")) > 3,
    "reason-loop": lambda text: text.startswith("<think>") and "</think>" not in text and text.count("Wait") > 10,
}


@pytest.mark.parametrize("fault", sorted(DEGENERATE))
def test_degenerate_replies_run_to_the_cap(fault: str) -> None:
    async def ask() -> list[list[Any]]:
        app = make_app(fault)
        prompts = [asking(MINE, label) for label in MINE for _ in range(4)]
        return [await events_of(app, prompt) for prompt in prompts]

    replies = run_virtual(ask())
    sick = [events for events in replies if LOOKS[fault](text_of(events))]
    assert 2 <= len(sick) < len(replies)
    for events in sick:
        assert len(ids_in(events)) == 200
        assert finish_of(events) == "length"
    assert not any(LOOKS[fault](text_of(events)) for events in replies if events not in sick)


@pytest.mark.parametrize("fault", sorted(DEGENERATE))
def test_turns_degenerate_too(fault: str) -> None:
    replies = [parsed(data) for how, data in run_virtual(many(make_app(fault))) if how == "ok"]
    assert 2 <= sum(finish_of(events) == "length" for events in replies) < 15


# Delivery


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.check == "delivery"])
def test_delivery_faults_hit_well_over_a_twentieth_and_not_everything(fault: str) -> None:
    clean = run_virtual(many(make_app()))
    sick = run_virtual(many(make_app(fault)))
    hit = sum(a != b for a, b in zip(clean, sick, strict=True))
    assert 3 <= hit <= 14


def struck(fault: str, ids: list[int] | None = None) -> Outcome:
    """How the second turn ends, which is always hit."""

    async def two() -> Outcome:
        app = make_app(fault)
        await outcome(app, working(MINE))
        return await outcome(app, ids or asking(MINE, MINE[0]))

    return run_virtual(two())


def test_null_stop() -> None:
    events = parsed(struck("null-stop")[1])
    assert (text_of(events), ids_in(events), finish_of(events)) == ("", [1], "stop")
    assert events[-1]["usage"]["completion_tokens"] == 1


def test_reason_only() -> None:
    events = parsed(struck("reason-only")[1])
    inside = text_of(events).removeprefix("<think>").removesuffix("</think>")
    assert inside == f"\nThe lot tag for the {MINE[0]} is {TAGS[MINE[0]]}.\n"
    assert finish_of(events) == "stop"


def test_error_done() -> None:
    how, data = struck("error-done")
    frames = data.split(b"\n\n")
    assert how == "ok"
    assert frames[-3].startswith(b'data: {"error": {"message": "EngineCore encountered an issue.')
    assert frames[-2] == b"data: [DONE]"
    assert b'"finish_reason":"' not in data
    assert len(frames) == TROUBLE_AFTER - 1 + 3


def test_eof_comes_in_both_forms() -> None:
    """A proxy that closes in order, and a body that breaks off."""
    seen = set()
    for n in range(8):
        how, data = struck("eof", asking(MINE[:1], MINE[0], filler="Go on. " + "x " * n))
        assert b"[DONE]" not in data
        assert b'"finish_reason":"' not in data
        assert data.count(b"data: ") == TROUBLE_AFTER - 1
        seen.add(how)
    assert seen == {"ok", "RemoteProtocolError"}


def test_reset() -> None:
    how, data = struck("reset")
    assert how == "ReadError"
    assert data.count(b"data: ") == TROUBLE_AFTER - 1


def test_nan() -> None:
    how, data = struck("nan")
    bad = [frame for frame in data.split(b"\n\n") if b"NaN" in frame]
    assert how == "ok"
    assert len(bad) == 1
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(bad[0].removeprefix(b"data: "))
    assert len(ids_in(parsed(data.replace(b":NaN", b":null")))) == REPLY_TOKENS


def test_html_200() -> None:
    how, data = struck("html-200")
    assert how == "ok"
    assert data.startswith(b"<!DOCTYPE html>")


def test_huge_event() -> None:
    _, data = struck("huge-event")
    assert max(map(len, data.split(b"\n\n"))) > 8 * 1024 * 1024
    assert data.endswith(b"data: [DONE]\n\n")


# Availability


def test_hang() -> None:
    async def hang() -> tuple[int, int, int]:
        app = make_app("hang")
        got: list[bytes] = []

        async def listen() -> None:
            body = completion(working(MINE))
            async with client_of(app) as client, client.stream("POST", "/v1/completions", json=body) as answer:
                async for write in answer.aiter_raw():
                    got.append(write)  # noqa: PERF401 - the list must hold what came before the cancel

        task = asyncio.create_task(listen())
        await asyncio.sleep(3600)
        async with client_of(app) as client:
            health = (await client.get("/health")).status_code
        running = app.engine.batch.running
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return health, running, len(got)

    assert run_virtual(hang()) == (200, 1, TROUBLE_AFTER)


def test_a_hung_reply_ends_with_its_client() -> None:
    async def leave() -> int:
        app = make_app("hang")
        task = asyncio.create_task(outcome(app, working(MINE)))
        await asyncio.sleep(10)
        assert app.engine.batch.running == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return app.engine.batch.running

    assert run_virtual(leave()) == 0


def test_dies() -> None:
    async def die() -> tuple[list[Outcome], Outcome, str]:
        app = make_app("dies")
        both = await asyncio.gather(outcome(app, working(MINE)), outcome(app, working(THEIRS)))
        async with client_of(app) as client:
            try:
                await client.get("/health")
                health = "answers"
            except httpx.ConnectError:
                health = "refuses"
        return list(both), await outcome(app, working(MINE)), health

    both, after, health = run_virtual(die())
    assert [how for how, _ in both] == ["ReadError", "ReadError"]
    assert (after[0], health) == ("ConnectError", "refuses")


def test_restarts() -> None:
    async def restart() -> tuple[list[str], float, float, list[Any]]:
        app = make_app("restarts")
        before = app.engine.stats.started_s
        both = await asyncio.gather(outcome(app, working(MINE)), outcome(app, working(THEIRS)))
        assert app.engine.stats.generation_tokens == 0
        assert app.engine.batch.running == 0
        events = await events_of(app, working(MINE))
        return [how for how, _ in both], before, app.engine.stats.started_s, events

    how, before, after, events = run_virtual(restart())
    assert how == ["ReadError", "ReadError"]
    assert after >= before + 1
    assert finish_of(events) == "stop"
    assert events[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


# What nobody can judge


@pytest.mark.parametrize("max_tokens", [24, 64, 200])
def test_suffix_cut(max_tokens: int) -> None:
    events = run_virtual(events_of(make_app("suffix-cut"), asking(MINE, MINE[0]), max_tokens=max_tokens))
    assert len(ids_in(events)) == max_tokens == events[-1]["usage"]["completion_tokens"]
    assert finish_of(events) == "stop"
    assert text_of(events).endswith(f"The lot tag for the {MINE[0]} is")


def test_capped() -> None:
    async def two(app: App) -> tuple[list[Any], list[Any]]:
        return await events_of(app, asking(MINE, MINE[0])), await events_of(app, working(MINE))

    recall, turn = run_virtual(two(make_app("capped")))
    assert text_of(recall) == f"The lot tag for the {MINE[0]} is"
    assert finish_of(recall) == finish_of(turn) == "length"
    assert len(ids_in(turn)) == 8


def test_empty_length() -> None:
    events = run_virtual(events_of(make_app("empty-length"), asking(MINE, MINE[0])))
    assert (text_of(events), ids_in(events), finish_of(events)) == ("", [], "length")


def test_no_finish() -> None:
    events = run_virtual(events_of(make_app("no-finish"), asking(MINE, MINE[0])))
    assert TAGS[MINE[0]] in text_of(events)
    assert finish_of(events) is None
    assert events[-1]["usage"]["completion_tokens"] == REPLY_TOKENS


def test_refuse() -> None:
    text = run_virtual(said(make_app("refuse"), asking(MINE, MINE[0])))
    assert "I can't share" in text
    assert not STATEMENT.search(text)


def test_echo() -> None:
    text = run_virtual(said(make_app("echo"), asking(MINE, MINE[0])))
    assert text.endswith(recall_question(MINE[0]))
    for label in MINE:
        assert tag_statement(label, TAGS[label]) in text


@pytest.mark.parametrize(("fault", "status"), [("too-long", 400), ("busy-503", 503), ("shed-429", 429)])
def test_refusals(fault: str, status: int) -> None:
    how, answer = run_virtual(outcome(make_app(fault), asking(MINE, MINE[0])))
    assert (how, answer.status_code) == ("status", status)
    assert answer.json()["error"]["code"] == status
    assert answer.headers.get("retry-after") == (None if status == 400 else "1")
    if status == 400:
        assert "maximum context length is" in answer.json()["error"]["message"]


# When they begin


@pytest.mark.parametrize("fault", [name for name, fault in FAULTS.items() if fault.late])
def test_late_faults_begin_after_the_healthy_turns(fault: str) -> None:
    clean = run_virtual(many(make_app(), 5))
    assert run_virtual(many(make_app(fault, healthy_turns=5), 5)) == clean


def test_faults_can_be_combined() -> None:
    data = stream_of("crlf", "typo", "no-done")
    assert data.count(b"\r\n\r\n") == data.count(b"data: ")
    assert b"[DONE]" not in data
    assert run_virtual(recalls(make_app("typo", "usage-cumulative"))) != right()


def test_an_unknown_fault_names_the_nearest() -> None:
    with pytest.raises(UnknownFaultError, match="'leek' is not a fault; the nearest is 'leak'"):
        check_faults(("leek",))
    assert check_faults(("clean", "leak")) == {"leak"}


def test_a_sound_delivery_is_one_write_an_event() -> None:
    assert Delivery(frozenset()).event(b"{}") == [b"data: {}\n\n"]
