"""Streams of known replies: legal ones give exactly what the server said under any cut; others end by name, and never
with a text that the server did not send and nobody remarks on."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pushing import Sent, push
from replies import Channel, Model, chop, chunked, http, joined, models, sse, sse_pieces

from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.torn import torn as torn_because
from infermaxx_tui.core.wire import parse

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

LEGAL, TORN, MEDDLED, GARBAGE = 4000, 2000, 2500, 1500
"""10,000 streams in all, a tenth of them in the short form."""

CHANNELS: tuple[Channel, ...] = ("content", "reasoning", "tool")
ENDS = {"ok", "protocol", "truncated", "rejected", "shed", "too_long", "stalled", "timeout"}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
SEEDS = st.integers(0, 2**32)

Check = Callable[[Model, int], None]


def many(examples: int, check: Check) -> None:
    """Tries the check on so many replies."""
    settings(max_examples=examples)(given(models(), SEEDS)(check))()


def read(pieces: list[bytes], fast: bool) -> Reply:
    """The reply through parser, wire and accumulation alone, by the hot path or by the plain one."""
    parser, reply = SseParser(), Reply()
    for at_us, piece in enumerate(pieces):
        for payload in parser.feed(piece):
            if fast:
                reply.take(payload, at_us)
            else:
                reply.add(parse(payload), at_us)
    reply.finish(parser, len(pieces))
    return reply


def said(sent: Sent) -> dict[Channel, str]:
    """What the log holds of the reply."""
    ended = sent.ended
    return {"content": ended.content or "", "reasoning": ended.reasoning or "", "tool": ended.tool_args or ""}


def reads_of(wire: bytes, rng: random.Random) -> list[bytes]:
    """The answer in reads of any size, at times byte by byte."""
    if len(wire) < 2000 and rng.random() < 0.1:
        return [wire[at : at + 1] for at in range(len(wire))]
    return chop(wire, rng, rng.randrange(30))


def test_a_legal_stream_is_exactly_the_reply(share: Callable[[int], int]) -> None:
    def check(model: Model, seed: int) -> None:
        rng = random.Random(seed)
        body = sse(model, rng)
        cuts = rng.randrange(40)
        for reply in (read([body], True), read(chop(body, rng, cuts), True), read(chop(body, rng, cuts), False)):
            got = (reply.content, reply.reasoning, reply.tools.text)
            assert got == tuple(model.text(channel) for channel in CHANNELS)
            assert tuple(reply.ids) == (model.ids if model.with_ids else ())
            assert (reply.finish_reason, reply.completion_tokens) == (model.finish, model.counted)
            assert reply.outcome().outcome == "ok"
        sent = push(reads_of(http(body, rng), rng), chat=model.chat)
        ended = sent.ended
        assert (ended.outcome, ended.status, ended.error) == ("ok", 200, None)
        assert said(sent) == {channel: model.text(channel) for channel in CHANNELS}
        assert sent.text == model.text("content")
        assert sent.ids == (model.ids if model.with_ids else ())
        assert (ended.finish_reason, ended.completion_tokens) == (model.finish, model.counted)
        assert torn_because(ended) is None
        assert ended.ttft_ms is not None

    many(share(LEGAL), check)


def test_a_stream_that_ends_early_is_torn_and_holds_a_beginning_of_the_reply(share: Callable[[int], int]) -> None:
    def check(model: Model, seed: int) -> None:
        rng = random.Random(seed)
        body = sse(model, rng)
        cut = rng.randrange(len(body))
        how = rng.randrange(4)
        if how == 0:  # a length that is not kept
            wire = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body[:cut]
        elif how == 1:  # the end of the connection is the end of the body, and nothing tells that it came too early
            wire = HEAD + b"\r\n" + body[:cut]
        else:  # chunks without the last one, or with
            whole = chunked(body[:cut], rng) if cut else b"0\r\n\r\n"
            last = whole.rindex(b"\r\n0\r\n") + 2 if cut else 0
            wire = HEAD + b"transfer-encoding: chunked\r\n\r\n" + (whole[:last] if how == 2 else whole)
        reset = ConnectionResetError(104, "reset") if rng.random() < 0.3 else None
        sent = push(reads_of(wire, rng), reset, model.chat)
        ended = sent.ended
        for channel, text in said(sent).items():
            assert text in model.prefixes(channel)
        assert sent.ids == (model.ids if model.with_ids else ())[: len(sent.ids)]
        if ended.finish_reason is None:
            came = body[:cut]  # it may be no more than a field that nobody knows, or the beginning of its name
            alien = b"x" in came and not ended.chunks and (b"x: y" in came or b"data:" not in came)
            assert ended.outcome == "truncated" or (alien and ended.outcome == "protocol")
            assert ended.error
        else:
            assert ended.outcome == "ok"
            assert said(sent) == {channel: model.text(channel) for channel in CHANNELS}

    many(share(TORN), check)


OTHER = Model(False, (), "stop", True, "none", "cmpl-other")
PAGE = b"<html>\n<head><title>502 Bad Gateway</title></head>\n<body>\n<hr>nginx</body>\n</html>\n"
ERROR = b'{"error": {"message": "upstream timed out", "code": 504}}\n'
HEAD_502 = b"HTTP/1.1 502 Bad Gateway\r\nserver: nginx\r\ncontent-length: 11\r\n\r\nBad Gateway\r\n\r\n"
FOREIGN = (
    b'data: {"id":"cmpl-other","choices":[{"index":0,"text":"FOREIGN","delta":{"content":"FOREIGN"},"token_ids":[7]}]}'
    b"\n\n"
)


def meddle(pieces: list[bytes], rng: random.Random) -> list[bytes]:
    """What something between server and client may do to whole events, once."""
    at = rng.randrange(len(pieces))
    before, one, after = pieces[:at], pieces[at], pieces[at + 1 :]
    match rng.randrange(6):
        case 0:
            return [*before, *after]
        case 1:
            return [*before, one, one, *after]
        case 2:
            return [*before, rng.choice((PAGE, ERROR, HEAD_502)), one, *after]
        case 3:
            return [*before, FOREIGN, one, *after]
        case 4:  # in the middle of an event, and the rest comes all the same
            cut = rng.randrange(len(one))
            return [*before, one[:cut], rng.choice((PAGE, ERROR, HEAD_502)), one[cut:], *after]
        case _:  # and the rest does not come
            cut = rng.randrange(len(one))
            return [*before, one[:cut], b"\n\n" + rng.choice((PAGE, ERROR, HEAD_502))]


def test_whoever_meddles_with_events_is_remarked_on(share: Callable[[int], int]) -> None:
    def check(model: Model, seed: int) -> None:
        rng = random.Random(seed)
        wire = HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunked(joined(meddle(sse_pieces(model, rng), rng)), rng)
        sent = push(reads_of(wire, rng), None, model.chat)
        ended, texts = sent.ended, said(sent)
        whole = {channel: model.text(channel) for channel in CHANNELS}
        assert ended.outcome in ENDS
        foreign = any("FOREIGN" in text for text in texts.values())
        remarked = ended.outcome != "ok" or ended.finish_reason is None or torn_because(ended) is not None
        assert remarked or not foreign
        if not foreign:
            for channel, text in texts.items():
                assert made_of(text, model, channel)
        if model.with_ids and model.usage != "none" and texts != whole and any(texts.values()):  # else it is empty
            assert remarked or "no_usage" in ended.anomalies

    many(share(MEDDLED), check)


def made_of(text: str, model: Model, channel: Channel) -> bool:
    """Whether a text consists of the server's own pieces of this channel, in order, one of them maybe left out or
    there twice."""
    parts = [delta.text for delta in model.deltas if delta.channel == channel]
    name = "look " if channel == "tool" else ""
    one_off = (
        parts[:at] + parts[at:][:1] * times + parts[at + 1 :] for at in range(len(parts) or 1) for times in (0, 1, 2)
    )
    prefixes = ("".join(some[:size]) for some in one_off for size in range(len(some) + 1))
    return any(text in (part, f"{name}{part}", f" {part}", f"looklook {part}", name) for part in prefixes)


def test_no_bytes_crash_a_request_and_no_cut_changes_what_comes_of_it(share: Callable[[int], int]) -> None:
    def check(model: Model, seed: int) -> None:
        rng = random.Random(seed)
        wire = bytearray(http(sse(model, rng), rng))
        for _ in range(rng.randrange(1, 6)):
            spoil(wire, rng)
        data = bytes(wire)
        sent = push(reads_of(data, rng), chat=model.chat)
        assert sent.ended.outcome in ENDS
        again = push([data] if len(data) < 200_000 else chop(data, rng, 3), chat=model.chat)
        assert facts(again) == facts(sent)

    many(share(GARBAGE), check)


def spoil(wire: bytearray, rng: random.Random) -> None:
    """Flips, takes out, puts in or repeats some bytes."""
    at = rng.randrange(len(wire) + 1)
    size = rng.randrange(1, 9)
    match rng.randrange(5):
        case 0 if at < len(wire):
            wire[at] ^= 1 << rng.randrange(8)
        case 1:
            del wire[at : at + size]
        case 2:
            wire[at:at] = rng.randbytes(size)
        case 3:
            wire[at:at] = rng.choice((b"\n", b"\r", b"\n\n", b"data: ", b'"', b"}", b"\xf0\x9f", b"0\r\n\r\n", b"NaN"))
        case _:
            wire[at:at] = wire[at : at + 10 * size]


def facts(sent: Sent) -> tuple[object, ...]:
    """What a cut must not change: all but times, what a read at a time is told apart by, and, in a reply that broke,
    how the framing behind the break looked."""
    ended = sent.ended
    aside = {"burst", "buffered"} | ({"crlf", "no_space", "ping"} if ended.outcome != "ok" else set())
    shown = tuple(sorted(set(ended.anomalies) - aside))
    return ended.outcome, ended.finish_reason, ended.completion_tokens, said(sent), sent.ids, shown


def test_every_way_to_spell_an_event_is_read() -> None:
    """The generator itself: over some replies it uses all of its forms."""
    seen = set[str]()
    for seed, chat in itertools.product(range(60), (False, True)):
        rng = random.Random(seed)
        body = sse(Model(chat, (), "stop", True, "last"), rng)
        marks = (b"\r\n\r\n", b"\n\n", b"\r\r", b": ping", b"\xef\xbb\xbf", b"\\u0069", b"data:{", b'data:  "id"')
        seen |= {repr(mark) for mark in marks if mark in body}
        assert read([body], True).finish_reason == "stop"
    assert len(seen) == 8
