"""An OpenAI-compatible server that is no vLLM: no /version, no /metrics, no /tokenize, no token ids in its replies.

It answers recall questions honestly from the prompt that it was sent.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from infermaxx_tui.core.wording import QUESTION, STATEMENT
from infermaxx_tui.vocabulary import shipped

MODELS = ("plain-large", "plain-small")
_FILLER = "I have read it and go on with the next step of the task."


class PlainServer:
    """Serves on a port of its own in a thread. `key` is the bearer token that it wants for completions."""

    def __init__(self, models: tuple[str, ...] = MODELS[:1], key: str | None = None, status: int = 200) -> None:
        self.models = models
        self.key = key
        self.status = status
        """What completions answer; an error repeats the caller's key, as some servers do."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        """The server's root."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> PlainServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(owner: PlainServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                cards = [{"id": name, "object": "model", "owned_by": "nobody"} for name in owner.models]
                self._json(200, {"object": "list", "data": cards})
            else:
                self._json(404, {"error": {"message": f"no route {self.path}", "code": 404}})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", "0")))
            body = json.loads(raw)
            owner.requests.append((self.path, body))
            bearer = self.headers.get("authorization", "")
            if owner.key is not None and bearer != f"Bearer {owner.key}":
                self._json(401, {"error": {"message": "no"}})
            elif self.path not in ("/v1/chat/completions", "/v1/completions"):
                self._json(404, {"error": {"message": f"no route {self.path}", "code": 404}})
            elif owner.status != 200:
                self._json(owner.status, {"error": {"message": f"cannot serve the caller of {bearer}"}})
            else:
                self._stream(body)

        def _json(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, body: dict[str, Any]) -> None:
            chat = "messages" in body
            text = _answer(_prompt_text(body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            words = text.split(" ")
            for place, word in enumerate(words):
                piece = word if place == 0 else f" {word}"
                self._event({"choices": [{"index": 0, **({"delta": {"content": piece}} if chat else {"text": piece})}]})
            self._event(
                {"choices": [{"index": 0, "finish_reason": "stop", **({"delta": {}} if chat else {"text": ""})}]}
            )
            prompt_tokens = (
                len(body["prompt"]) if isinstance(body.get("prompt"), list) else len(_prompt_text(body)) // 4
            )
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(words)}
            self._event({"choices": [], "usage": usage})
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _event(self, value: dict[str, Any]) -> None:
            self._chunk(b"data: " + json.dumps({"id": "plain-1", **value}).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

        def log_message(self, format: str, *args: object) -> None:
            """Tests need no access log."""

    return Handler


def _prompt_text(body: dict[str, Any]) -> str:
    if "messages" in body:
        return "\n".join(str(message.get("content") or "") for message in body["messages"])
    prompt = body["prompt"]
    return prompt if isinstance(prompt, str) else shipped().decode(prompt)


def _answer(prompt: str) -> str:
    """The tag that was stated for the label that is asked last; a filler if nothing is asked at the end."""
    asked = list(QUESTION.finditer(prompt))
    if not asked or prompt.rfind("?") > asked[-1].end() or len(prompt) - asked[-1].end() > 80:
        return _FILLER
    label = asked[-1].group(1)
    stated = {match.group(1): match.group(2) for match in STATEMENT.finditer(prompt)}
    return f"The lot tag is {stated[label]}." if label in stated else "I was not told any."
