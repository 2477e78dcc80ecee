"""The same payloads under any chunking, and a fault instead of a storm for what cannot be mended."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infermaxx_tui.core.sse import MAX_EVENT_BYTES, NamedEvent, Payload, SseFault, SseParser

A = '{"text":"naïve 🚗 done"}'.encode()
B = b'{"text":"b"}'

TABLE: list[tuple[str, bytes, list[Payload]]] = [
    ("plain", b"data: " + A + b"\n\ndata: " + B + b"\n\ndata: [DONE]\n\n", [A, B, b"[DONE]"]),
    ("crlf", b"data: " + A + b"\r\n\r\ndata: " + B + b"\r\n\r\n", [A, B]),
    ("cr", b"data: " + A + b"\r\rdata: " + B + b"\r\r", [A, B]),
    ("mixed ends", b"data: " + A + b"\r\n\ndata: " + B + b"\n\rdata: x\r\r\n", [A, B, b"x"]),
    ("no space", b"data:" + A + b"\n\ndata:" + B + b"\n\n", [A, B]),
    ("two spaces", b"data:  x\n\n", [b" x"]),
    ("id and retry", b"id: 7\nretry: 100\ndata: " + A + b"\nid\n\nid: 8\n\n", [A]),
    ("event name", b"event: error\ndata: " + A + b"\n\ndata: " + B + b"\n\n", [NamedEvent("error", A), B]),
    ("event message", b"event: message\ndata: " + A + b"\n\n", [A]),
    ("error without data", b"event: error\n\nevent: other\n\n", [NamedEvent("error", b"")]),
    ("multi-line data", b'data: {"text":\ndata: "b"}\n\n', [b'{"text":\n"b"}']),
    ("data without colon", b"data\ndata: x\n\n", [b"\nx"]),
    ("comments", b": ping\n\ndata: " + A + b"\n\n:\n\n:keep-alive\ndata: " + B + b"\n: x\n\n", [A, B]),
    ("empty data", b"data: \n\ndata:\n\ndata\n\ndata: " + A + b"\n\n", [A]),
    ("byte order mark", b"\xef\xbb\xbfdata: " + A + b"\n\n\xef\xbb\xbfdata: no\n\n", [A]),
    ("no final blank line", b"data: " + A + b"\n\ndata: " + B + b"\n", [A, B]),
    ("no final newline", b"data: " + A + b"\n\ndata: " + B, [A, B]),
    ("blank lines", b"\n\n\ndata: " + A + b"\n\n\n\n\ndata: " + B + b"\n\n\n", [A, B]),
    (
        "line separators in text",
        'data: {"t":"a\u2028b\u2029c\u0085d\x0b\x0c\x1ce"}\n\n'.encode(),
        ['{"t":"a\u2028b\u2029c\u0085d\x0b\x0c\x1ce"}'.encode()],
    ),
    ("unknown fields", b"foo: bar\ndatax: 1\n data: 2\ndata: " + A + b"\n\n", [A]),
    ("html", b"<html>\n<body>no</body>\n</html>\n", []),
    ("nothing", b"", []),
]


def parse(chunks: list[bytes], limit: int = MAX_EVENT_BYTES) -> tuple[list[Payload], tuple[object, ...]]:
    """Payloads, and what the parser noticed."""
    parser = SseParser(limit)
    out: list[Payload] = []
    for chunk in chunks:
        out += parser.feed(chunk)
    out += parser.close()
    assert parser.feed(b"data: late\n\n") == []
    assert parser.close() == []
    return out, (parser.events, parser.comments, parser.saw_cr, parser.no_space, parser.junk_line, parser.cut)


def plainly(stream: bytes, limit: int = MAX_EVENT_BYTES) -> list[Payload]:
    """The standard's algorithm, on the whole body at once and without a thought for speed."""
    raw = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    torn = raw[-1].removeprefix(b"\xef\xbb\xbf") if len(raw) == 1 else raw[-1]
    names = (b"data:", b"event:", b"id:", b"retry:", b"\xef\xbb\xbf")
    if len(raw[-1]) <= limit and any(name.startswith(torn) and name != torn for name in names):
        raw.pop()
    lines = [line if at else line.removeprefix(b"\xef\xbb\xbf") for at, line in enumerate(raw)]
    out: list[Payload] = []
    data: list[bytes] = []
    name = ""
    for position, line in enumerate([*lines, b""]):
        too_long = position < len(lines) and len(raw[position]) > limit
        if line.startswith(b":") and not too_long:
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        if too_long or len(b"\n".join(data)) > limit:
            out.append(SseFault(f"an event is larger than {limit} bytes"))
            return out
        if field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
        if not line:
            joined = b"\n".join(data)
            if joined or name == "error":
                out.append(joined if name in ("", "message") else NamedEvent(name, joined))
            data, name = [], ""
    return out


def chop(stream: bytes, cuts: list[int]) -> list[bytes]:
    """The stream cut at the given places."""
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.parametrize(("stream", "payloads"), [pytest.param(s, p, id=name) for name, s, p in TABLE])
def test_payloads_are_the_same_under_every_two_way_split_and_byte_by_byte(
    stream: bytes, payloads: list[Payload]
) -> None:
    whole = parse([stream])
    assert whole[0] == payloads == plainly(stream)
    for cut in range(len(stream) + 1):
        assert parse([stream[:cut], stream[cut:]]) == whole, cut
        assert parse([stream[:cut], b"", stream[cut:]]) == whole, cut
    assert parse([stream[at : at + 1] for at in range(len(stream))]) == whole


PIECES = [
    *(b"data: ", b"data:", b"data", b"event: ", b"event:", b"error", b"id: 1", b"retry: 5", b":", b" ", b"ping"),
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\xef\xbb\xbf", "🚗".encode(), "\u2028".encode(), b"\xff", b"\x00"),
    *(b'{"text":"b"}', b"[DONE]", b"data: x\n\n", b"data: y\n\ndata: z\n\n", b"data: \n\n", b": ping\n\n"),
]


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.lists(st.integers(0, 400), max_size=12))
def test_any_stream_under_any_chunking_gives_what_the_plain_algorithm_gives(
    pieces: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(pieces)
    assert parse([stream])[0] == plainly(stream)
    assert parse(chop(stream, cuts)) == parse([stream])


@settings(max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=20), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 24))
def test_the_size_cap_falls_at_the_same_event_under_any_chunking(
    pieces: list[bytes], cuts: list[int], limit: int
) -> None:
    stream = b"".join(pieces)
    assert parse([stream], limit)[0] == plainly(stream, limit)
    assert parse(chop(stream, cuts), limit)[0] == parse([stream], limit)[0]


@settings(max_examples=2000)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_crash_it(chunks: list[bytes]) -> None:
    assert parse(chunks)[0] == plainly(b"".join(chunks))


def test_a_split_inside_a_four_byte_character_loses_nothing() -> None:
    stream = b"data: " + A + b"\n\n"
    inside = stream.index("🚗".encode())
    for cut in range(inside + 1, inside + 4):
        assert parse([stream[:cut], stream[cut:]])[0] == [A]


@pytest.mark.parametrize("step", [997, 65536, 10**7])
def test_an_event_of_a_megabyte_comes_out_whole(step: int) -> None:
    big = b'{"text":"' + b"x" * 1_000_000 + b'"}'
    stream = b"data: " + big + b"\n\ndata: " + B + b"\n\n"
    assert parse([stream[at : at + step] for at in range(0, len(stream), step)])[0] == [big, B]


@pytest.mark.parametrize("begin", [b"data: ", b": ", b"junk", b"data: a\n\ndata: "])
def test_a_line_that_never_ends_stops_at_the_cap_in_linear_time(begin: bytes) -> None:
    parser = SseParser()
    out = parser.feed(begin)
    kib, fed = b"x" * 1024, 0
    while not any(isinstance(payload, SseFault) for payload in out):
        out += parser.feed(kib)
        fed += len(kib)
    assert MAX_EVENT_BYTES - 1024 <= fed <= MAX_EVENT_BYTES + 1024
    for _ in range(24 * 1024):
        assert parser.feed(kib) == []
    assert parser.feed(b"\n\ndata: b\n\n") == []
    assert parser.close() == []
    assert [payload for payload in out if isinstance(payload, SseFault)] == out[-1:]


@pytest.mark.parametrize(
    ("stream", "limit"),
    [
        pytest.param(b"data: " + b"x" * (MAX_EVENT_BYTES + 1) + b"\n\n", MAX_EVENT_BYTES, id="one line"),
        pytest.param((b"data: " + b"x" * 4096 + b"\n") * 2049, MAX_EVENT_BYTES, id="many lines"),
        pytest.param(b"data\n" * 70_000, 65536, id="many empty lines"),
    ],
)
def test_an_event_over_the_cap_is_one_fault_and_what_came_before_it_stands(stream: bytes, limit: int) -> None:
    out, _ = parse([b"data: a\n\n" + stream + b"\n\ndata: after\n\n"], limit)
    assert out == [b"a", SseFault(f"an event is larger than {limit} bytes")]


def test_an_event_of_exactly_the_cap_is_no_fault() -> None:
    assert parse([b"data: 0123456789\n\n"], 16)[0] == [b"0123456789"]
    assert parse([b"data: 01234\ndata: 678\n\n"], 16)[0] == [b"01234\n678"]
    assert isinstance(parse([b"data: 01234567890\n\n"], 16)[0][0], SseFault)


@pytest.mark.parametrize(
    ("stream", "names"),
    [
        (b"data: a\n\n", ()),
        (b": ping\n\ndata: a\n\n", ("ping",)),
        (b"data: a\r\n\r\n", ("crlf",)),
        (b"data: a\r\r", ("crlf",)),
        (b"data:a\n\n", ("no_space",)),
        (b":\r\ndata:a\n\n", ("ping", "crlf", "no_space")),
    ],
)
def test_oddities_of_framing_have_names(stream: bytes, names: tuple[str, ...]) -> None:
    parser = SseParser()
    parser.feed(stream)
    assert parser.anomalies == names


@pytest.mark.parametrize(
    ("stream", "cut"),
    [(b"data: a\n\n", False), (b"data: a\n\n: x\n", False), (b"data: a\n", True), (b"data: a", True), (b"", False)],
)
def test_a_body_that_ends_inside_an_event_is_known(stream: bytes, cut: bool) -> None:
    parser = SseParser()
    parser.feed(stream)
    parser.close()
    assert parser.cut is cut


def test_what_is_not_sse_leaves_its_first_line_as_evidence() -> None:
    parser = SseParser()
    assert parser.feed(b'{"error": {"message": "no"}}' + b" " * 500) == []
    assert parser.close() == []
    assert parser.events == 0
    assert parser.junk_line.startswith(b'{"error"')
    assert len(parser.junk_line) == 200
