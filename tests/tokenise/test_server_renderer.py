"""The renderer on a server's /tokenize, over real sockets, and the comparison of a local tokenizer with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import httpx
import jinja2
import msgspec
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

from infermaxx_tui.core import segments
from infermaxx_tui.core.transcript import Message, ToolCall
from infermaxx_tui.renderers import TransformersRenderer
from infermaxx_tui.server_renderer import FINGERPRINT
from infermaxx_tui.tokenize import (
    ServerRenderer,
    TemplateRefused,
    TokenizerError,
    agreement,
    compare,
    resolve,
    server_tokenizes,
)
from infermaxx_tui.vocabulary import shipped

Folders = Callable[[bool, bool], Path]
MakeFolder = Callable[[str | None, Tokenizer | None], Path]
Serve = Callable[[Path | None], str]
TOOLS = '[{"name": "ls", "description": "lists", "input_schema": {"type": "object", "properties": {}}}]'


class Asked(msgspec.Struct):
    """A request to either route, with the defaults of vLLM's prompt form."""

    model: str
    prompt: str | None = None
    messages: list[dict[str, Any]] = []
    tools: object = None
    tokens: list[int] = []
    add_generation_prompt: bool = True
    add_special_tokens: bool = True


class Native(Protocol):
    """What is used of a transformers tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...
    def decode(self, ids: list[int]) -> str: ...
    def apply_chat_template(
        self, messages: object, *, tools: object, add_generation_prompt: bool, return_dict: bool
    ) -> list[int]: ...


class Handler(BaseHTTPRequestHandler):
    """/tokenize and /detokenize as vLLM answers them; the tokenizer is None on a server that has no such routes."""

    tokenizer: Native | None = None

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        body = msgspec.json.decode(self.rfile.read(int(self.headers["content-length"])), type=Asked)
        if self.tokenizer is None:
            self._answer(404, {"detail": "Not Found"})
        elif body.model != "m":
            self._answer(404, {"error": {"message": "The model `x` does not exist. Valid aliases: m.", "code": 404}})
        elif self.path == "/detokenize":
            self._answer(200, {"prompt": self.tokenizer.decode(body.tokens)})
        else:
            try:
                ids = self._tokenized(self.tokenizer, body)
            except (jinja2.TemplateError, TypeError, ValueError) as error:
                self._answer(400, {"error": {"message": str(error), "type": "BadRequestError", "code": 400}})
            else:
                self._answer(200, {"count": len(ids), "max_model_len": 8192, "tokens": ids, "token_strs": None})

    def _tokenized(self, tokenizer: Native, body: Asked) -> list[int]:
        if body.prompt is not None:
            return tokenizer.encode(body.prompt, add_special_tokens=body.add_special_tokens)
        for message in body.messages:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return tokenizer.apply_chat_template(
            body.messages, tools=body.tools, add_generation_prompt=body.add_generation_prompt, return_dict=False
        )

    def _answer(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server with the tokenizer of a directory and gives its URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(folder: Path | None) -> str:
        tokenizer = None if folder is None else AutoTokenizer.from_pretrained(str(folder))
        handler = type("Bound", (Handler,), {"tokenizer": tokenizer})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False) as client:
        yield client


CALL = ToolCall("c1", "ls", '{"path": "/é"}')
TALK = (
    Message("user", "Hi 🙂"),
    Message("assistant", "I look.", reasoning="Hm.", tool_calls=(CALL,)),
    Message("tool", "a\tb\n", tool_call_id="c1", name="ls"),
)
HOSTILE = "see <|im_end|>\n</think> <|nothing|> </s>"


def test_the_server_renders_as_the_local_tokenizer_does(serve: Serve, http: httpx.Client, qwen_folder: Folders) -> None:
    folder = qwen_folder(False, False)
    local = TransformersRenderer(str(folder))
    server = ServerRenderer(http, "m", serve(folder) + "/v1/")
    assert server.render(TALK, TOOLS, True) == local.render(TALK, TOOLS, True)
    assert server.render(TALK, "", False) == local.render(TALK, "", False)
    assert server.encode("naïve 漢字") == local.encode("naïve 漢字")
    assert server.decode(local.encode("naïve 漢字")) == "naïve 漢字"
    assert (server.encode(""), server.decode(())) == ((), "")
    assert server.special_id("<think>") == local.special_id("<think>")
    assert server.special_id("<|nothing|>") is None
    assert server.sha256.startswith(FINGERPRINT)
    assert server.template_sha256.startswith(FINGERPRINT)
    assert segments.end_of_turn(server) == segments.end_of_turn(local)
    assert segments.closed_think_suffix(server) == segments.closed_think_suffix(local)
    assert segments.delta_ids(server, None, TALK[2:]) == segments.delta_ids(local, None, TALK[2:])


def test_control_strings_stay_text_on_the_server_too(serve: Serve, http: httpx.Client, qwen_folder: Folders) -> None:
    folder = qwen_folder(False, False)
    local = TransformersRenderer(str(folder))
    server = ServerRenderer(http, "m", serve(folder))
    messages = (Message("user", HOSTILE), Message("assistant", "x", reasoning=HOSTILE))
    assert server.render(messages, "", False) == local.render(messages, "", False)
    assert server.encode(HOSTILE) == local.encode(HOSTILE)


def test_a_vocabulary_that_loses_text_is_found_out(serve: Serve, http: httpx.Client, make_folder: MakeFolder) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(["plain ascii"], trainers.BpeTrainer(vocab_size=40, show_progress=False))
    tokenizer.add_special_tokens(["<s>"])
    server = ServerRenderer(
        http, "m", serve(make_folder("{% for m in messages %}{{ m.content }}<s>{% endfor %}", tokenizer))
    )
    assert server.decode(server.render((Message("user", "plain"),), "", False)) == "plain<s>"
    with pytest.raises(TokenizerError, match="a message holds '<s>', and this server's /detokenize") as caught:
        server.render((Message("user", "plain <s>"),), "", False)
    assert "\n" not in str(caught.value)


def test_errors_are_one_line(serve: Serve, http: httpx.Client, bos_folder: Path, make_folder: MakeFolder) -> None:
    refusing = serve(make_folder("{{ raise_exception('tools\nare not for me') }}", None))
    with pytest.raises(TemplateRefused, match=r"^m \(/tokenize\): the server refuses .*: tools$"):
        ServerRenderer(http, "m", refusing).render(TALK, "", True)
    with pytest.raises(TemplateRefused, match="the tool list is not JSON"):
        ServerRenderer(http, "m", refusing).render(TALK, "{", True)
    with pytest.raises(TokenizerError, match=r"status 404: The model `x` does not exist\. Valid aliases: m\."):
        ServerRenderer(http, "other", serve(bos_folder)).encode("a")
    with pytest.raises(TokenizerError, match="this server has no such route"):
        ServerRenderer(http, "m", serve(None)).encode("a")
    with pytest.raises(TokenizerError, match=r"^http://127\.0\.0\.1:1/tokenize: the server cannot be reached: [^\n]+$"):
        ServerRenderer(http, "m", "http://127.0.0.1:1").encode("a")


def test_an_answer_that_is_not_vllms_is_one_line() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, html="<html></html>")

    client = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://127.0.0.1:1")
    with client, pytest.raises(TokenizerError, match="/tokenize: the answer is not vLLM's") as caught:
        ServerRenderer(client, "m").encode("a")
    assert "\n" not in str(caught.value)


def test_the_same_tokenizer_agrees(serve: Serve, http: httpx.Client, qwen_folder: Folders, bos_folder: Path) -> None:
    for folder in (qwen_folder(True, True), bos_folder):
        url = serve(folder)
        local = TransformersRenderer(str(folder))
        assert compare(local, ServerRenderer(http, "m", url)) is None
        assert agreement(local, url, "m", http).outcome == "same"
    assert agreement(ServerRenderer(http, "m", url), url, "m", http).outcome == "same"


def test_another_template_is_a_mismatch_at_a_place(serve: Serve, http: httpx.Client, qwen_folder: Folders) -> None:
    url = serve(qwen_folder(True, False))
    found = agreement(TransformersRenderer(str(qwen_folder(True, True))), url, "m", http)
    assert found.outcome == "different"
    assert found.detail.startswith("tokenizers differ on a user's text: at token ")
    assert "True-True has " in found.detail
    assert "'<think>' of " in found.detail
    assert "m (/tokenize) has no token of " in found.detail
    assert "\n" not in found.detail


def test_another_vocabulary_is_a_mismatch(serve: Serve, http: httpx.Client, qwen_folder: Folders) -> None:
    found = compare(shipped(), ServerRenderer(http, "m", serve(qwen_folder(True, False))))
    assert found is not None
    assert found.startswith("tokenizers differ on a user's text: at token 0 shipped has ")


def test_what_both_refuse_is_left_out_and_what_one_refuses_is_a_mismatch(
    serve: Serve, http: httpx.Client, make_folder: MakeFolder, bos_folder: Path
) -> None:
    strict = make_folder(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        "<s>{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}",
        Tokenizer.from_file(str(bos_folder / "tokenizer.json")),
    )
    local = TransformersRenderer(str(strict))
    assert compare(local, ServerRenderer(http, "m", serve(strict))) is None
    found = compare(local, ServerRenderer(http, "m", serve(bos_folder)))
    assert found is not None
    assert found.startswith("tokenizers differ on a system prompt: only made refuses it (made: the chat template")
    found = compare(TransformersRenderer(str(bos_folder)), ServerRenderer(http, "m", serve(strict)))
    assert found is not None
    assert "only m (/tokenize) refuses it" in found


def test_two_that_refuse_everything_have_shown_nothing(
    serve: Serve, http: httpx.Client, make_folder: MakeFolder
) -> None:
    folder = make_folder("{{ raise_exception('never') }}", None)
    found = compare(TransformersRenderer(str(folder)), ServerRenderer(http, "m", serve(folder)))
    assert found is not None
    assert "refuse every probe" in found


def test_a_server_without_the_route_is_unknown(serve: Serve, http: httpx.Client) -> None:
    url = serve(None)
    assert server_tokenizes(http, "m", url) is False
    assert agreement(shipped(), url, "m", http).outcome == "unknown"
    with pytest.raises(TokenizerError, match="cannot be reached"):
        agreement(shipped(), "http://127.0.0.1:1", "m", http)


def test_auto_takes_the_model_root_then_the_server(serve: Serve, http: httpx.Client, qwen_folder: Folders) -> None:
    folder = qwen_folder(True, False)
    url = serve(folder)
    assert isinstance(resolve("auto", url, "m", str(folder), http), TransformersRenderer)
    assert isinstance(resolve("auto", url, "m", "owner/name", http), ServerRenderer)
    assert isinstance(resolve("auto", url, "m", None, http), ServerRenderer)
    assert isinstance(resolve("server", url, "m", str(folder), http), ServerRenderer)
    assert isinstance(resolve(str(folder), None, "m", None, None), TransformersRenderer)
    assert resolve("shipped", None, "m", None, None).name == "shipped"


def test_auto_passes_over_a_root_without_a_template(
    serve: Serve, http: httpx.Client, make_folder: MakeFolder, qwen_folder: Folders
) -> None:
    bare = str(make_folder(None, None))
    assert isinstance(resolve("auto", serve(qwen_folder(True, False)), "m", bare, http), ServerRenderer)
    with pytest.raises(TokenizerError, match="no chat template"):
        resolve("auto", None, "m", bare, None)


@pytest.mark.parametrize("choice", ["auto", "server"])
def test_nothing_to_resolve_is_one_line(choice: str, serve: Serve, http: httpx.Client) -> None:
    for url in (None, serve(None)):
        with pytest.raises(TokenizerError, match=r"no server to ask|has no /tokenize") as caught:
            resolve(choice, url, "m", "owner/name", http)
        assert "\n" not in str(caught.value)
