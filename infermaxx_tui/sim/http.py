"""What both fronts, the socket and the in-memory one, agree on: a request, a response, and how a connection breaks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Literal

import msgspec
import orjson

JSON = ("content-type", "application/json")
SSE = ("content-type", "text/event-stream; charset=utf-8")
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Cut(Exception):
    """The connection ends here: `eof` closes it in mid-body, `reset` sends a TCP reset."""

    def __init__(self, how: Literal["eof", "reset"]) -> None:
        super().__init__(how)
        self.how: Literal["eof", "reset"] = how


class Gone(Exception):
    """The server process is dead: nobody listens."""


class Request(msgspec.Struct, frozen=True):
    """One HTTP request; header names are lower case, the path has no query."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""


class Response(msgspec.Struct, frozen=True):
    """One HTTP response. With a stream, each item is one write, and a Cut may end it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    stream: AsyncGenerator[bytes, None] | None = None


class Refusal(Exception):
    """A request that is answered with an error instead of a reply."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def json_response(status: int, value: object, *headers: tuple[str, str]) -> Response:
    """A JSON answer."""
    return Response(status, (JSON, *headers), orjson.dumps(value))


def error_response(
    status: int, message: str, kind: str, param: str | None = None, *headers: tuple[str, str]
) -> Response:
    """An error in vLLM's shape (vllm-wire §2.4)."""
    body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return json_response(status, body, *headers)


def bad_request(message: str, param: str | None = None, value: object = None) -> Refusal:
    """A 400 as vLLM's own checks word it: the parameter and its value stand behind the message too."""
    if param is not None:
        shown = f", value={value}" if value is not None else ""
        message = f"{message} (parameter={param}{shown})"
    return Refusal(error_response(400, message, "BadRequestError", param))
