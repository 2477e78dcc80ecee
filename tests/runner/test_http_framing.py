"""Heads and bodies of responses under any cut: what is whole comes out whole, what is broken is called so."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infermaxx_tui.runner.http.body import MAX_LINE_BYTES, Chunked, Counted, Decoder, FramingError, UntilClose
from infermaxx_tui.runner.http.connection import Connection
from infermaxx_tui.runner.http.head import MAX_HEAD_BYTES, Head, HeadError, HeadParser, parse_head

OK = b"HTTP/1.1 200 OK\r\n"


def cut(data: bytes, at: list[int]) -> list[bytes]:
    """The data in pieces, cut at these places."""
    places = sorted({place % (len(data) + 1) for place in at} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def fed(decoder: Decoder, pieces: list[bytes]) -> bytes:
    """What comes out of the pieces."""
    return b"".join(decoder.feed(piece) for piece in pieces if not decoder.over)


CUTS = st.lists(st.integers(0, 10_000), max_size=12)
TRAILERS = st.lists(st.sampled_from([b"x: y\r\n", b"digest: 1\n"]), max_size=3)


@st.composite
def chunked_bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body and its chunks on the wire."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=300), max_size=6))
    wire = b""
    for chunk in chunks:
        size = draw(st.sampled_from([b"%x", b"%X", b"00%x", b"%x;name=value", b"%x "])) % len(chunk)
        wire += size + draw(st.sampled_from([b"\r\n", b"\n"])) + chunk + b"\r\n"
    return b"".join(chunks), wire + b"0\r\n" + b"".join(draw(TRAILERS)) + b"\r\n"


@given(chunked_bodies(), CUTS, st.binary(max_size=20))
def test_a_chunked_body_is_the_same_under_any_cut(body: tuple[bytes, bytes], at: list[int], behind: bytes) -> None:
    wanted, wire = body
    decoder = Chunked()
    assert fed(decoder, cut(wire + behind, at)) == wanted
    assert decoder.over
    assert decoder.at_eof()


@given(chunked_bodies(), CUTS, st.data())
def test_a_chunked_body_that_ends_early_is_not_whole(
    body: tuple[bytes, bytes], at: list[int], data: st.DataObject
) -> None:
    wanted, wire = body
    torn = wire[: data.draw(st.integers(0, len(wire) - 1))]
    if torn.endswith((b"0\r\n\n", b"0\r\n\r\n")):
        return  # cannot be: the whole wire ends there
    decoder = Chunked()
    assert wanted.startswith(fed(decoder, cut(torn, at)))
    assert not decoder.at_eof()


def test_reads_of_one_chunk_each() -> None:
    """The short way, with a chunk between that takes the long one."""
    decoder = Chunked()
    reads = [b"3\r\nabc\r\n", b"1\r\nd", b"\r\n", b"A\r\n0123456789\r\n", b"3\r\n\r\n\r\r\n", b"0\r\n\r\n"]
    assert [decoder.feed(read) for read in reads] == [b"abc", b"d", b"", b"0123456789", b"\r\n\r", b""]
    assert decoder.over


@pytest.mark.parametrize("size", [b"zz", b"0x1f", b"+5", b"-1", b"1_0", b" 5", b"", b"5.", b"\xb2", b"f" * 16, b"5 5"])
@given(at=CUTS)
def test_what_is_no_size_is_refused(size: bytes, at: list[int]) -> None:
    with pytest.raises(FramingError):
        fed(Chunked(), cut(size + b"\r\n" + b"x" * 31 + b"\r\n0\r\n\r\n", at))


@pytest.mark.parametrize("wire", [b"3\r\nabcd\r\n", b"3\r\nabc0\r\n\r\n", b"3\r\nabc\rx\n", b"3\r\nab\r\n0\r\n\r\n"])
@given(at=CUTS)
def test_a_chunk_that_is_not_as_long_as_it_says_is_refused(wire: bytes, at: list[int]) -> None:
    with pytest.raises(FramingError):
        fed(Chunked(), cut(wire, at))


def test_lines_of_framing_have_a_limit() -> None:
    with pytest.raises(FramingError):
        fed(Chunked(), [b"1;" + b"x" * 1000] * 5)
    with pytest.raises(FramingError):
        fed(Chunked(), [b"0\r\n", b"x" * MAX_LINE_BYTES, b"y"])
    with pytest.raises(FramingError):
        fed(Chunked(), [b"0\r\n", *[b"x: y\r\n"] * 300])


@given(st.binary(max_size=200), CUTS, st.binary(max_size=20))
def test_a_counted_body(body: bytes, at: list[int], behind: bytes) -> None:
    decoder = Counted(len(body))
    assert fed(decoder, cut(body + behind, at)) == body
    assert decoder.over
    assert not Counted(1).at_eof()


@given(st.binary(max_size=200), CUTS)
def test_a_body_until_the_end_of_the_connection(body: bytes, at: list[int]) -> None:
    decoder = UntilClose()
    assert fed(decoder, cut(body, at)) == body
    assert decoder.at_eof()


@pytest.mark.parametrize(
    ("fields", "framing", "length"),
    [
        (b"", "close", 0),
        (b"\r\ncontent-length: 12", "length", 12),
        (b"\r\nContent-Length:12  ", "length", 12),
        (b"\r\ncontent-length: 12\r\ncontent-length: 12", "length", 12),
        (b"\r\ncontent-length: 12, 12", "length", 12),
        (b"\r\ntransfer-encoding: chunked", "chunked", 0),
        (b"\r\ntransfer-encoding: gzip, Chunked\r\ncontent-length: 3", "chunked", 0),
        (b"\r\ntransfer-encoding: gzip\r\ncontent-length: 3", "close", 0),
        (b"\ncontent-length: 3\nx:", "length", 3),
        (b"\r\nx: a\r\n b\r\ncontent-length: 3", "length", 3),
    ],
)
def test_what_ends_a_body(fields: bytes, framing: str, length: int) -> None:
    head = parse_head(OK[:-2] + fields, "POST")
    assert (head.framing, head.length) == (framing, length)
    assert parse_head(OK[:-2] + fields, "HEAD").framing == "none"
    assert parse_head(b"HTTP/1.0 204" + fields, "GET").framing == "none"


def test_fields_are_kept_as_they_came() -> None:
    head = parse_head(OK + b"X-A:  b c \r\nx-a: d\r\nfolded: one\r\n  two\r\nempty:", "GET")
    assert head.status == 200
    assert head.fields == ((b"X-A", b"b c"), (b"x-a", b"d"), (b"folded", b"one two"), (b"empty", b""))


@pytest.mark.parametrize(
    "block",
    [
        b"HTTP/1.1 99 Low",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.x 200 OK",
        b"HTTP/1.1 200 O\x00K",
        b"HTTP/1.1 200 OK\r\nno colon",
        b"HTTP/1.1 200 OK\r\nspace : x",
        b"HTTP/1.1 200 OK\r\nx: a\x00b",
        b"HTTP/1.1 200 OK\r\nx: a\rb",
        b"HTTP/1.1 200 OK\r\n: x",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0x10",
        b"HTTP/1.1 200 OK\r\ncontent-length: +1",
        b"HTTP/1.1 200 OK\r\ncontent-length:",
    ],
)
def test_what_is_no_head(block: bytes) -> None:
    with pytest.raises(HeadError) as raised:
        parse_head(block, "GET")
    assert "\n" not in str(raised.value)


INTERIM = st.lists(
    st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n"]), max_size=3
)


@given(INTERIM, CUTS, st.binary(max_size=30))
def test_a_head_is_the_same_under_any_cut(interim: list[bytes], at: list[int], body: bytes) -> None:
    wire = b"".join(interim) + OK + b"content-length: 5\r\n\r\n"
    parser, found, rest = HeadParser("POST"), None, b""
    for piece in [*cut(wire, at), body]:
        if found is None:
            found = parser.feed(piece)
        else:
            rest += piece
    assert found is not None
    assert found[0] == Head(200, ((b"content-length", b"5"),), "length", 5)
    assert found[1] + rest == body


def test_a_head_has_a_limit_that_interim_ones_share() -> None:
    with pytest.raises(HeadError, match="larger"):
        HeadParser("GET").feed(OK + b"x: " + b"y" * MAX_HEAD_BYTES)
    with pytest.raises(HeadError, match="larger"):
        HeadParser("GET").feed(b"HTTP/1.1 100 Continue\r\n\r\n" * 4000)
    with pytest.raises(HeadError, match="nobody asked"):
        HeadParser("GET").feed(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")


@pytest.mark.parametrize("garbage", [b"SSH-2.0", b"\x15\x03\x01", b"HTTP/2", b"\r\nHTTP/1.1 200", b"http/1.1 200"])
def test_something_else_is_known_by_its_first_bytes(garbage: bytes) -> None:
    with pytest.raises(HeadError, match="begins with"):
        HeadParser("GET").feed(garbage)
    parser = HeadParser("GET")
    assert parser.feed(b"HTT") is None
    assert parser.started


@given(chunked_bodies(), CUTS)
def test_a_connection_gives_the_same_body_under_any_cut(body: tuple[bytes, bytes], at: list[int]) -> None:
    wanted, wire = body
    buffer = bytearray(1 << 16)
    connection = Connection("GET", buffer, iter(range(10_000)).__next__)
    for piece in cut(OK + b"transfer-encoding: chunked\r\n\r\n" + wire + b"HTTP/1.1 200 OK\r\n\r\n", at):
        space = connection.get_buffer(-1)
        space[: len(piece)] = piece
        connection.buffer_updated(len(piece))
    taken: list[tuple[bytes, int]] = []
    connection.eof_received()

    def take(piece: bytes, at_us: int) -> bool:
        taken.append((piece, at_us))
        return True

    with pytest.raises(StopIteration):  # nothing is waited for: it is all there
        connection.push_to(take).send(None)
    assert b"".join(piece for piece, _ in taken) == wanted
    assert [stamp for _, stamp in taken] == sorted(stamp for _, stamp in taken)
