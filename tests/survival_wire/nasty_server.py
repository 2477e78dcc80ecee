"""A server that sends the caller's key back wherever it can, in a thread of its own.

It is no vLLM: chat without ids. `where` says in what it repeats the key, one request for tokens after another; all else
is in order, so that a run goes on to its end.
"""

from __future__ import annotations

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

REPLIES = (
    "reply",
    "reply-in-pieces",
    "reasoning",
    "tool",
    "id",
    "finish",
    "stop-reason",
    "headers",
    "event-error",
    "named-error",
    "junk",
    "body-401",
    "body-403",
    "body-429",
    "body-500",
    "cut-500",
    "redirect",
    "not-http",
)
"""Where the answer to a request for tokens repeats the key."""
FACTS = ("model-name", "version", "metrics")
"""Where what the server says of itself repeats it."""
REFUSALS = ("models-401", "models-500", "models-junk")
"""Where a server that cannot be used repeats it."""


class NastyServer:
    """Serves on a port of its own."""

    def __init__(self, *where: str) -> None:
        assert set(where) <= {*REPLIES, *FACTS, *REFUSALS}, where
        self.where = where
        self.replies = itertools.cycle([place for place in where if place in REPLIES] or [""])
        self.bearers: set[str] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """The server's root."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> NastyServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(owner: NastyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        @property
        def key(self) -> str:
            bearer = self.headers.get("authorization", "")
            owner.bearers.add(bearer)
            return bearer.removeprefix("Bearer ")

        def do_GET(self) -> None:
            key, where = self.key, owner.where
            match self.path:
                case "/v1/models" if "models-401" in where or "models-500" in where:
                    self._json(int(where[0][-3:]), {"error": f"wrong key {key}"})
                case "/v1/models" if "models-junk" in where:
                    self._send(200, b"text/html", f"<html>{key}</html>".encode())
                case "/v1/models":
                    name = f"model-{key}" if "model-name" in where else "model"
                    self._json(200, {"object": "list", "data": [{"id": name, "object": "model"}]})
                case "/version" if "version" in where:
                    self._json(200, {"version": f"0.1-{key}"})
                case "/metrics" if "metrics" in where:
                    self._send(200, b"text/plain", f'# {key}\nvllm:num_requests_running{{k="{key}"}} {key}\n'.encode())
                case _:
                    self._json(404, {"error": {"message": f"no route for {key}"}})

        def do_POST(self) -> None:
            key = self.key
            self.rfile.read(int(self.headers.get("content-length", "0")))
            if self.path != "/v1/chat/completions":
                self._json(404, {"error": {"message": f"no route for {key}"}})
            else:
                self._answer(key, next(owner.replies))

        def _answer(self, key: str, where: str) -> None:
            if where.startswith("body-"):
                self._json(int(where[-3:]), {"error": {"message": f"the caller of Bearer {key} may not"}})
            elif where == "cut-500":  # so long that what is kept of it ends inside the key
                self._send(500, b"text/plain", b"x" * (400 - len(key) // 2) + key.encode() * 30)
            elif where == "redirect":
                self._send(307, b"text/plain", b"", ("location", f"{owner.url}/?k={key}"))
            elif where == "not-http":
                self.wfile.write(f"hello {key}\r\n\r\n".encode())
                self.close_connection = True
            else:
                self._stream(key, where)

        def _stream(self, key: str, where: str) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            if where == "headers":
                for name in ("x-request-id", "retry-after", "set-cookie", "server-timing"):
                    self.send_header(name, key)
            self.end_headers()
            name = f"chat-{key}" if where == "id" else "chat-1"
            deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"content": "The lot tag is none."}]
            match where:
                case "reply":
                    deltas.append({"content": f" Your key is {key}."})
                case "reply-in-pieces":
                    deltas += [{"content": letter} for letter in key]
                case "reasoning":
                    deltas.append({"reasoning": key})
                case "tool":
                    call = {"index": 0, "id": key, "function": {"name": key, "arguments": json.dumps({"key": key})}}
                    deltas.append({"tool_calls": [call]})
                case "event-error":
                    self.wfile.write(b"data: " + json.dumps({"error": {"message": f"key {key}"}}).encode() + b"\n\n")
                    return
                case "named-error":
                    self.wfile.write(f"event: error\ndata: {key}\n\n".encode())
                    return
                case "junk":
                    self.wfile.write(f"<html>{key}</html>\n".encode())
                    return
                case _:
                    pass
            finish = key if where == "finish" else "stop"
            stop = key if where == "stop-reason" else None
            ends: list[tuple[dict[str, Any], dict[str, Any]]] = [
                *((delta, {"finish_reason": None}) for delta in deltas),
                ({}, {"finish_reason": finish, "stop_reason": stop}),
            ]
            for delta, end in ends:
                event = {"id": name, "choices": [{"index": 0, "delta": delta, **end}]}
                self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            usage = {"prompt_tokens": 30, "completion_tokens": len(deltas) + 4}
            self.wfile.write(b"data: " + json.dumps({"id": name, "choices": [], "usage": usage}).encode() + b"\n\n")
            self.wfile.write(b"data: [DONE]\n\n")

        def _json(self, status: int, value: object) -> None:
            self._send(status, b"application/json", json.dumps(value).encode())

        def _send(self, status: int, kind: bytes, data: bytes, *fields: tuple[str, str]) -> None:
            self.send_response(status)
            self.send_header("content-type", kind.decode())
            self.send_header("content-length", str(len(data)))
            for name, value in fields:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Tests need no access log."""

    return Handler
