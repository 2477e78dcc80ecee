"""The transport over real sockets: every way a connection can go, by the name that httpx has for it."""

from __future__ import annotations

import asyncio
import errno
import gzip
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import httpx
import pytest
from peers import CHUNKED, Peer, Talk, talking

from infermaxx_tui.runner.client import describe
from infermaxx_tui.runner.http.connection import HELD_BYTES, READ_BYTES, NotHttpError, ServerDisconnectedError
from infermaxx_tui.runner.http.dial import Resolver, connected
from infermaxx_tui.runner.http.transport import PUSH, PushBody, Transport

T = TypeVar("T")
COUNTED = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"


def client_of(url: str, tls: ssl.SSLContext | None = None, seconds: float | None = 20.0) -> httpx.AsyncClient:
    """A client over the transport alone."""
    return httpx.AsyncClient(base_url=url, transport=Transport(tls), timeout=seconds, trust_env=False)


def got(talk: Talk, use: Callable[[httpx.AsyncClient], Awaitable[T]], host: str = "127.0.0.1") -> T:
    """What `use` makes of such a server."""

    async def main() -> T:
        async with talking(talk, host) as url, client_of(url) as client:
            return await use(client)

    return anyio.run(main)


async def get(client: httpx.AsyncClient) -> httpx.Response:
    """A whole answer."""
    return await client.get("/")


def failed(talk: Talk, kind: type[httpx.TransportError], cause: type[Exception] | None) -> httpx.TransportError:
    """The error that such a server makes."""
    with pytest.raises(kind) as raised:
        got(talk, get)
    if cause is not None:
        assert isinstance(raised.value.__cause__, cause)
    return raised.value


def answers(*pieces: bytes) -> Talk:
    """A server that answers with these bytes and ends."""

    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)

    return talk


async def pushed(client: httpx.AsyncClient, sink: Callable[[bytes, int], bool]) -> httpx.Response:
    """An answer whose body went to `sink`."""
    async with client.stream("POST", "/", content=b"x") as response:
        body = response.extensions[PUSH]
        assert isinstance(body, PushBody)
        await body.push_to(sink)
    return response


def test_an_answer_behind_interim_ones() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    response = got(answers(interim + COUNTED + b"whole"), get)
    assert (response.status_code, response.content) == (200, b"whole")
    assert response.headers["content-length"] == "5"


def test_what_comes_behind_the_end_is_left_out() -> None:
    assert got(answers(COUNTED + b"wholeHTTP/1.1 200 OK\r\n\r\n"), get).content == b"whole"
    assert got(answers(CHUNKED, b"5\r\nwhole\r\n0\r\n", b"trailer: x\r\n\r\ngarbage"), get).content == b"whole"


def test_an_answer_without_a_body() -> None:
    assert got(answers(b"HTTP/1.1 204 No Content\r\n\r\n"), get).content == b""


def test_a_compressed_answer_is_httpx_to_unpack() -> None:
    packed = gzip.compress(b"whole")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)
    assert got(answers(head, packed), get).content == b"whole"


@pytest.mark.parametrize(
    "pieces", [(COUNTED, b"whol"), (CHUNKED, b"5\r\nwhole\r\n"), (CHUNKED, b"5\r\nwh"), (COUNTED[:20],), ()]
)
def test_an_end_too_early(pieces: tuple[bytes, ...]) -> None:
    failed(answers(*pieces), httpx.RemoteProtocolError, ServerDisconnectedError)


def test_a_chunk_without_a_size() -> None:
    error = failed(answers(CHUNKED, b"5\r\nwhole\r\n", b"zz\r\n"), httpx.RemoteProtocolError, ValueError)
    assert "size" in str(error)


def test_a_reset() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, b"5\r\nwhole\r\n")
        peer.reset()

    async def read(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ReadError) as raised:
            await pushed(client, lambda piece, at_us: True)
        assert isinstance(raised.value.__cause__, ConnectionResetError)

    got(talk, read)


@pytest.mark.parametrize("head", [b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000])
def test_what_is_not_http_and_what_has_no_end(head: bytes) -> None:
    error = failed(answers(head), NotHttpError, ValueError)
    assert describe(error, answered=False)[0] == "protocol"


def test_a_refusal_says_so_whatever_other_addresses_the_host_has() -> None:
    async def main(host: str) -> httpx.ConnectError:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            async with client_of(f"http://{host}:{free.getsockname()[1]}") as client:
                with pytest.raises(httpx.ConnectError) as raised:
                    await client.get("/")
        return raised.value

    for host in ("127.0.0.1", "localhost"):
        error = anyio.run(main, host)
        assert isinstance(error.__cause__, OSError)
        assert error.__cause__.errno == errno.ECONNREFUSED


def test_the_first_address_that_answers_is_taken() -> None:
    async def main() -> tuple[str, int]:
        resolver = Resolver()
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with socket.socket() as taken:
            taken.bind(("127.0.0.2", 0))  # listens to nobody
            nobody = await resolver.addresses("127.0.0.2", taken.getsockname()[1])
            somebody = await resolver.addresses("localhost", port)
            assert await resolver.addresses("localhost", port) is somebody  # not asked again
            with await connected([*nobody, *somebody]) as found:
                where: tuple[str, int] = found.getpeername()[:2]
        server.close()
        assert where[1] == port
        return where

    assert anyio.run(main)[0] == "127.0.0.1"


def test_an_address_of_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert got(answers(COUNTED + b"whole"), get, "::1").content == b"whole"


async def silent(peer: Peer) -> None:
    """Takes the request and says nothing."""
    await peer.request()
    await peer.forever()


def test_a_head_and_a_body_that_do_not_come_in_time() -> None:
    async def main(talk: Talk) -> None:
        async with talking(talk) as url, client_of(url, seconds=0.05) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get("/")

    async def torn(peer: Peer) -> None:
        await peer.request()
        await peer.send(COUNTED, b"who")
        await peer.forever()

    anyio.run(main, silent)
    anyio.run(main, torn)


def test_whoever_is_cut_off_closes_the_connection() -> None:
    async def main(head: bytes) -> None:
        asked, gone = anyio.Event(), anyio.Event()

        async def talk(peer: Peer) -> None:
            await peer.request()
            await peer.send(head)
            asked.set()
            await peer.forever()
            gone.set()

        async with talking(talk) as url, client_of(url) as client, anyio.create_task_group() as group:
            group.start_soon(pushed, client, lambda piece, at_us: True)
            await asked.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(10):
            await gone.wait()

    anyio.run(main, b"")
    anyio.run(main, CHUNKED)


def test_whoever_wants_no_more_closes_the_connection() -> None:
    async def main() -> None:
        gone = anyio.Event()

        async def talk(peer: Peer) -> None:
            await peer.request()
            await peer.send(CHUNKED, b"5\r\nwhole\r\n")
            await peer.forever()
            gone.set()

        async with talking(talk) as url, client_of(url) as client:
            await pushed(client, lambda piece, at_us: False)
            with anyio.fail_after(10):
                await gone.wait()

    anyio.run(main)


def test_a_fault_of_who_takes_is_raised_where_it_waits() -> None:
    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await peer.chunks(b"one", last=False)
        await peer.forever()

    async def faulty(client: httpx.AsyncClient) -> None:
        with pytest.raises(ZeroDivisionError):
            await pushed(client, lambda piece, at_us: bool(1 // (len(piece) - 3)))

    got(talk, faulty)


def test_what_came_before_it_was_asked_for_keeps_the_moment_of_its_coming() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        taken: list[tuple[bytes, int]] = []
        async with client.stream("GET", "/") as response:
            body = response.extensions[PUSH]
            assert isinstance(body, PushBody)
            before_us = time.monotonic_ns() // 1000

            def take(piece: bytes, at_us: int) -> bool:
                taken.append((piece, at_us))
                return True

            await body.push_to(take)
        assert [piece for piece, _ in taken] == [b"whole"]
        assert taken[0][1] <= before_us

    got(answers(COUNTED + b"whole"), use)


def test_a_body_that_nobody_takes_is_not_read_without_end() -> None:
    total = 16 * HELD_BYTES

    async def talk(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        await peer.send(*[b"x" * 65536] * (total // 65536))

    async def use(client: httpx.AsyncClient) -> None:
        async with client.stream("GET", "/") as response:
            body = response.extensions[PUSH]
            assert isinstance(body, PushBody)
            connection = body._connection
            with anyio.fail_after(20):
                while not connection._paused:  # noqa: ASYNC110  # it tells nobody
                    await asyncio.sleep(0)
            assert connection._held_bytes <= HELD_BYTES + READ_BYTES
            assert sum([len(piece) async for piece in response.aiter_raw()]) == total

    got(talk, use)


def test_a_request_whose_body_comes_in_pieces() -> None:
    bodies: list[bytes] = []

    async def talk(peer: Peer) -> None:
        await peer.request()
        body = b""
        while size := int(await peer.line(), 16):
            body += await peer.exactly(size + 2)
        bodies.append(body)
        await peer.send(COUNTED, b"whole")

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"x" * 200_000):
            yield piece

    async def use(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/", content=pieces())

    assert got(talk, use).content == b"whole"
    assert bodies == [b"one\r\n" + b"x" * 200_000 + b"\r\n"]


def test_an_answer_that_comes_before_all_is_sent_does_not_stop_the_sending() -> None:
    sizes: list[int] = []

    async def talk(peer: Peer) -> None:
        await peer.send(CHUNKED)
        sizes.append(len(await peer.request()))
        await peer.chunks(b"whole")

    async def use(client: httpx.AsyncClient) -> httpx.Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(64):
                yield b"x" * 65536

        return await client.post("/", content=pieces(), headers={"content-length": str(64 * 65536)})

    assert got(talk, use).content == b"whole"
    assert sizes == [64 * 65536]


def test_a_header_that_would_end_its_line_is_not_sent() -> None:
    async def use(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.LocalProtocolError):
            await client.get("/", headers={"authorization": "Bearer abc\r\nx: y"})

    got(silent, use)


def test_what_is_no_url_of_http() -> None:
    async def main() -> None:
        async with httpx.AsyncClient(transport=Transport(), trust_env=False) as client:
            with pytest.raises(httpx.UnsupportedProtocol):
                await client.get("ftp://127.0.0.1/")

    anyio.run(main)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody signed but itself, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    words = [*command.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=place, check=True, capture_output=True)
    return place


def over_tls(certificate: Path, trusted: bool, talk: Talk) -> bytes:
    """The body of an answer over TLS."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    tls = ssl.create_default_context(cafile=str(certificate / "cert.pem")) if trusted else None
    taken: list[bytes] = []

    def take(piece: bytes, at_us: int) -> bool:
        taken.append(piece)
        return True

    async def main() -> None:
        async with talking(talk, tls=server) as url, client_of(url, tls) as client:
            await pushed(client, take)

    anyio.run(main)
    return b"".join(taken)


def test_tls(certificate: Path) -> None:
    wanted = [b"%d" % number * 5000 for number in range(200)]

    async def talk(peer: Peer) -> None:
        assert await peer.request() == b"x"
        await peer.send(CHUNKED)
        await peer.chunks(*wanted)

    assert over_tls(certificate, True, talk) == b"".join(wanted)
    with pytest.raises(httpx.ConnectError) as raised:
        over_tls(certificate, False, talk)
    assert isinstance(raised.value.__cause__, ssl.SSLCertVerificationError)
    outcome, text = describe(raised.value, answered=False)
    assert outcome == "truncated"
    assert "certificate" in text.lower()


def test_an_end_too_early_over_tls(certificate: Path) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        over_tls(certificate, True, answers(COUNTED, b"whol"))
