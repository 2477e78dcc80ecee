"""HTTP/1.1 on bytes, as much as an inference server needs, because the faults must reach below what libraries allow."""

from __future__ import annotations

from infermaxx_tui.sim.http import REASONS, Request

_MAX_HEAD_BYTES = 64 * 1024
_MAX_BODY_BYTES = 256 * 1024 * 1024


class BadRequestError(Exception):
    """The bytes are no HTTP request that this server takes; the connection must close."""


class RequestParser:
    """Requests from a connection's bytes, one after another."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._expected = False

    def feed(self, data: bytes) -> None:
        """Takes what came in."""
        self._buffer += data

    def take_expectation(self) -> bool:
        """Whether the client waits for `100 Continue`; true once for each request that asks."""
        asked, self._expected = self._expected, False
        return asked

    def next(self) -> Request | None:
        """The next complete request, None if more bytes are needed. Raises BadRequestError."""
        if self._head is None and not self._read_head():
            return None
        if self._head is None:
            return None
        method, path, headers = self._head
        chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        body = self._chunks() if chunked else self._sized(headers.get("content-length", "0"))
        if body is None:
            return None
        self._head = None
        return Request(method, path, headers, body)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise BadRequestError("the head is too long")
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").lstrip("\r\n").split("\r\n")
        del self._buffer[: end + 4]
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise BadRequestError(f"not an HTTP/1 request: {lines[0][:80]!r}")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadRequestError(f"not a header: {line[:80]!r}")
            headers[name.strip().lower()] = value.strip()
        headers[":version"] = parts[2]
        self._head = (parts[0], parts[1].partition("?")[0], headers)
        self._expected = headers.get("expect", "").lower() == "100-continue"
        return True

    def _sized(self, length: str) -> bytes | None:
        if not length.isdigit() or int(length) > _MAX_BODY_BYTES:
            raise BadRequestError(f"content-length: {length[:20]!r}")
        size = int(length)
        if len(self._buffer) < size:
            return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return body

    def _chunks(self) -> bytes | None:
        """The body of a chunked request; nothing is taken from the buffer until it is whole."""
        out = bytearray()
        at = 0
        while True:
            line_end = self._buffer.find(b"\r\n", at)
            if line_end < 0:
                return None
            try:
                size = int(bytes(self._buffer[at:line_end]).partition(b";")[0], 16)
            except ValueError:
                raise BadRequestError("not a chunk size") from None
            start, end = line_end + 2, line_end + 2 + size
            if len(out) + size > _MAX_BODY_BYTES:
                raise BadRequestError("the body is too long")
            if len(self._buffer) < end + 2:
                return None
            if size == 0:
                del self._buffer[: end + 2]
                return bytes(out)
            out += self._buffer[start:end]
            at = end + 2


def head_bytes(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The head of a response."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk_bytes(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
