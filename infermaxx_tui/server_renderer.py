"""The server's own tokenizer and chat template, through its /tokenize, as a `core.render.Renderer`.

Nobody can be more right about what the server sees. It costs a request for each text, and since the vocabulary itself
stays with the server, its identity is a fingerprint of probes and no id goes into a cache on disk.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import TypeVar

import httpx
import msgspec

from infermaxx_tui.core.chatform import chat_messages, chat_tools, found_in, hide, hide_all, plain_pieces, stand_ins
from infermaxx_tui.core.transcript import Message, ToolCall
from infermaxx_tui.core.turns import TemplateRefused, TokenizerError
from infermaxx_tui.renderers import one_line

PROBE_TEXT = "Straße, naïve café, e\u0301, 漢字かな, 🙂👩‍💻, x = 0x1F;\n\tif (a != b) {\r\n}\n\n\n  1234567.89 don't"
"""Plain text with what tokenizers treat differently: composed and decomposed letters, CJK, emoji, digits, blanks."""

FINGERPRINT = "probe:"
"""How the hashes of a server's renderer begin: they cover answers to probes, not the vocabulary."""

_CONTROL = re.compile(
    r"<\|[^<>|\s]{1,48}\|>|<｜[^<>｜\s]{1,48}｜>|\[/?[A-Z][A-Z_]{2,24}\]"
    r"|</?(?:s|bos|eos|pad|unk|think|tools?|tool_calls?|tool_response|(?:start|end)_of_turn|turn|seed:think)>"
)
"""Strings that may be control tokens of a vocabulary that is not known; each is asked for before it counts as one."""


class _Tokens(msgspec.Struct, frozen=True):
    tokens: tuple[int, ...]


class _Text(msgspec.Struct, frozen=True):
    prompt: str


_Answer = TypeVar("_Answer", _Tokens, _Text)


class _Inner(msgspec.Struct, frozen=True):
    message: str = ""


class _Failure(msgspec.Struct, frozen=True):
    error: _Inner | str = ""


def server_tokenizes(client: httpx.Client, model: str, url: str = "") -> bool:
    """Whether the server has vLLM's /tokenize; False where there is no such route, or one that reads no `prompt`.

    Raises TokenizerError if it cannot be reached or answers with another error.
    """
    try:
        return bool(ServerRenderer(client, model, url).encode("a"))
    except _NoRoute:
        return False


class ServerRenderer:
    """Renders on the server. `url` is its root, with or without /v1; empty if the client has a base URL.

    All methods raise TokenizerError if the server cannot be reached or has no /tokenize.
    """

    def __init__(self, client: httpx.Client, model: str, url: str = "") -> None:
        self._client = client
        self._model = model
        self._root = url.rstrip("/").removesuffix("/v1")
        self._ids: dict[str, int | None] = {}

    @property
    def name(self) -> str:
        """The model and the route."""
        return f"{self._model} (/tokenize)"

    @functools.cached_property
    def sha256(self) -> str:
        """Fingerprint: hash of the ids of a fixed text."""
        return _fingerprint((self.encode(PROBE_TEXT),))

    @functools.cached_property
    def template_sha256(self) -> str:
        """Fingerprint: hash of the ids of two fixed conversations; one that the template refuses counts as empty."""
        call = Message("assistant", "d", reasoning="r", tool_calls=(ToolCall("call00001", "look", '{"a": 1}'),))
        result = Message("tool", "d", tool_call_id="call00001", name="look")
        rendered: list[tuple[int, ...]] = []
        for messages in ((Message("user", "d"),), (Message("system", "d"), Message("user", "d"), call, result)):
            try:
                rendered.append(self.render(messages, "", True))
            except TemplateRefused:
                rendered.append(())
        return _fingerprint(tuple(rendered))

    def render(self, messages: tuple[Message, ...], tools: str, add_generation_prompt: bool) -> tuple[int, ...]:
        """Ids of the rendered conversation; `tools` is JSON text or empty. Raises TemplateRefused."""
        try:
            asked, listed = chat_messages(messages, arguments_as_text=True), chat_tools(tools)
        except ValueError as error:
            raise TemplateRefused(f"{self.name}: {error}") from None
        said = [asked, listed]
        hidden = stand_ins(self._control_strings(said), said)
        body: dict[str, object] = {
            "messages": hide_all(asked, hidden),
            "add_generation_prompt": add_generation_prompt,
        }
        if listed:
            body["tools"] = hide_all(listed, hidden)
        ids = self._tokenize(body)
        return self._without_stand_ins(ids, hidden) if hidden else ids

    def _without_stand_ins(self, ids: tuple[int, ...], hidden: Mapping[str, str]) -> tuple[int, ...]:
        """The rendering with the stand-ins turned back into plain text, by way of the rendered text."""
        text = self.decode(ids)
        exact = self._native(text) == ids and all(self.decode(self._native(char)) == char for char in hidden.values())
        if not exact:
            raise TokenizerError(
                f"{self.name}: a message holds {next(iter(hidden))!r}, and this server's /detokenize does not give back"
                " what it was given; set transcripts.tokenizer to the model's directory"
            )
        return self._encode_pieces(plain_pieces(text, hidden))

    def _control_strings(self, value: object) -> tuple[str, ...]:
        return tuple(token for token in found_in(value, _CONTROL) if self.special_id(token) is not None)

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; control-token strings inside it stay plain text."""
        hidden = stand_ins(self._control_strings(text), text)
        return self._encode_pieces(plain_pieces(hide(text, hidden), hidden))

    def _encode_pieces(self, pieces: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(token_id for piece in pieces for token_id in self._native(piece))

    def _native(self, text: str) -> tuple[int, ...]:
        return self._tokenize({"prompt": text, "add_special_tokens": False})

    def decode(self, ids: tuple[int, ...]) -> str:
        """Text of ids, special tokens included."""
        return self._read("/detokenize", self._post("/detokenize", {"tokens": list(ids)}), _Text).prompt if ids else ""

    def special_id(self, token: str) -> int | None:
        """The one id that the string has by itself, None if it takes several."""
        if token not in self._ids:
            ids = self._native(token)
            self._ids[token] = ids[0] if len(ids) == 1 else None
        return self._ids[token]

    def _tokenize(self, body: dict[str, object]) -> tuple[int, ...]:
        return self._read("/tokenize", self._post("/tokenize", body), _Tokens).tokens

    def _send(self, where: str, content: bytes) -> httpx.Response:
        """Asks once more where the connection broke: it may have been an idle one that was just being closed at the
        other end, and asking twice changes nothing."""
        headers = {"content-type": "application/json"}
        try:
            return self._client.post(where, content=content, headers=headers)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            return self._client.post(where, content=content, headers=headers)

    def _post(self, route: str, body: dict[str, object]) -> bytes:
        where = f"{self._root}{route}"
        content = json.dumps({"model": self._model, **body}, ensure_ascii=False).encode()
        try:
            answer = self._send(where, content)
        except httpx.HTTPError as error:
            raise TokenizerError(f"{where}: the server cannot be reached: {one_line(error)}") from None
        if answer.status_code == httpx.codes.OK:
            return answer.content
        said = _failure_text(answer.content)
        if answer.status_code in _NO_SUCH_ROUTE and "model" not in said.lower():
            raise _NoRoute(
                f"{where}: this server has no such route; set transcripts.tokenizer to the model's directory"
            )
        if answer.status_code == httpx.codes.BAD_REQUEST and "messages" in body:
            raise TemplateRefused(f"{self.name}: the server refuses to render this conversation: {one_line(said)}")
        raise TokenizerError(f"{where}: status {answer.status_code}: {one_line(said) if said else 'no reason given'}")

    def _read(self, route: str, body: bytes, kind: type[_Answer]) -> _Answer:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise TokenizerError(f"{self._root}{route}: the answer is not vLLM's: {one_line(error)}") from None


_NO_SUCH_ROUTE = (httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED, httpx.codes.NOT_IMPLEMENTED)
"""Also what vLLM answers for a model that it does not serve, but then it names the model."""


class _NoRoute(TokenizerError):
    """The server does not know the route."""


def _failure_text(body: bytes) -> str:
    """What an OpenAI-style error body says, empty for any other body."""
    try:
        error = msgspec.json.decode(body, type=_Failure).error
    except msgspec.DecodeError:
        return ""
    return error if isinstance(error, str) else error.message


def _fingerprint(rendered: tuple[tuple[int, ...], ...]) -> str:
    return FINGERPRINT + hashlib.sha256(json.dumps(rendered).encode()).hexdigest()
