"""The endpoints of the embedded server, the same for sockets and for memory: a request in, a response out."""

from __future__ import annotations

import hmac

import msgspec

from infermaxx_tui.sim import bodies
from infermaxx_tui.sim.channels import Channels
from infermaxx_tui.sim.config import ENGINE_VERSION
from infermaxx_tui.sim.delivery import HTML_PAGE, Delivery, text_encoder
from infermaxx_tui.sim.detok import Detokeniser
from infermaxx_tui.sim.engine import Engine, Generation, Job
from infermaxx_tui.sim.http import (
    SSE,
    Gone,
    Refusal,
    Request,
    Response,
    bad_request,
    error_response,
    json_response,
)
from infermaxx_tui.sim.stats import metrics_text
from infermaxx_tui.sim.streaming import stream, whole
from infermaxx_tui.sim.wire import ChatWriter, CompletionWriter, Shape, Writer
from infermaxx_tui.vocabulary import VocabularyError

_COMPLETION_DEFAULT_TOKENS = 16
_RETRY_AFTER = ("retry-after", "1")
_BUSY = (
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
)
_ROUTES = {
    "/health": ("GET",),
    "/ping": ("GET", "POST"),
    "/version": ("GET",),
    "/metrics": ("GET",),
    "/load": ("GET",),
    "/v1/models": ("GET",),
    "/tokenize": ("POST",),
    "/detokenize": ("POST",),
    "/v1/completions": ("POST",),
    "/v1/chat/completions": ("POST",),
}


class App:
    """What answers requests. One App is one server, and both fronts take it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._requests = 0

    async def handle(self, request: Request) -> Response:
        """The response to a request. Raises Gone if the process is dead, Cut if it goes before there is a response."""
        if self.engine.dead:
            raise Gone
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return refusal.response

    async def _answer(self, request: Request) -> Response:
        if request.path.startswith("/v1") and not self._authorised(request):
            return json_response(401, {"error": "Unauthorized"})
        methods = _ROUTES.get(request.path)
        if methods is None:
            return json_response(404, {"detail": "Not Found"})
        if request.method not in methods:
            return json_response(405, {"detail": "Method Not Allowed"}, ("allow", ", ".join(methods)))
        match request.path:
            case "/health" | "/ping":
                return Response(200, ())
            case "/version":
                return json_response(200, {"version": ENGINE_VERSION})
            case "/load":
                return json_response(200, {"server_load": 0})
            case "/metrics":
                kind = ("content-type", "text/plain; version=1.0.0; charset=utf-8")
                return Response(200, (kind,), metrics_text(self.engine))
            case "/v1/models":
                return self._models()
            case "/tokenize":
                return self._tokenize(bodies.parse(request, bodies.TokenizeBody))
            case "/detokenize":
                detokenize = bodies.parse(request, bodies.DetokenizeBody)
                return json_response(200, {"prompt": self.engine.vocabulary.decode(detokenize.tokens)})
            case "/v1/completions":
                return await self._completion(request, bodies.parse(request, bodies.CompletionBody))
            case _:
                return await self._chat(request, bodies.parse(request, bodies.ChatBody))

    def _authorised(self, request: Request) -> bool:
        key = self.engine.config.api_key
        if key is None:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), key.encode())

    # Endpoints that generate nothing

    def _models(self) -> Response:
        config, created = self.engine.config, int(self.engine.wall())
        permission = {
            "id": "modelperm-0000000000000000",
            "object": "model_permission",
            "created": created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        card = {
            "id": config.model,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": config.model,
            "parent": None,
            "max_model_len": config.max_model_len,
            "permission": [permission],
        }
        return json_response(200, {"object": "list", "data": [card]})

    def _tokenize(self, body: bodies.TokenizeBody) -> Response:
        self._check_model(body.model)
        vocabulary = self.engine.vocabulary
        if body.messages is not None:
            ids = self._rendered(body.messages, body.tools, body.add_generation_prompt)
            if body.continue_final_message:
                ids = _reopened(ids, self.engine.tokens.end)
        elif body.prompt is not None:
            ids = vocabulary.encode_prompt(body.prompt)
        else:
            raise bad_request("Either prompt or messages must be provided.", "prompt")
        strings = [vocabulary.token(i) for i in ids] if body.return_token_strs else None
        window = self.engine.config.max_model_len
        answer = {"count": len(ids), "max_model_len": window, "tokens": list(ids), "token_strs": strings}
        return json_response(200, answer)

    def _check_model(self, model: str | None) -> None:
        served = self.engine.config.model
        if model is not None and model != served:
            message = f"The model `{model}` does not exist. Valid aliases: {served}."
            raise Refusal(error_response(404, message, "NotFoundError", "model"))

    def _rendered(
        self, messages: list[bodies.ChatMessage], tools: list[msgspec.Raw] | None, add_generation_prompt: bool
    ) -> tuple[int, ...]:
        try:
            return self.engine.vocabulary.render(
                bodies.messages_of(messages), bodies.tools_of(tools), add_generation_prompt
            )
        except VocabularyError as error:
            raise bad_request(str(error)) from None

    # Endpoints that generate

    async def _completion(self, request: Request, body: bodies.CompletionBody) -> Response:
        self._check_model(body.model)
        bodies.check_common(body)
        ids = self._prompt_ids(body.prompt)
        max_tokens = bodies.budget(
            body, body.max_tokens, len(ids), self.engine.config.max_model_len, _COMPLETION_DEFAULT_TOKENS
        )
        generation, detokeniser = self._generation(body, ids, max_tokens)
        writer = CompletionWriter(self._shape(request, body, "cmpl-"), generation, detokeniser)
        return await self._reply(body, generation, writer)

    async def _chat(self, request: Request, body: bodies.ChatBody) -> Response:
        self._check_model(body.model)
        bodies.check_common(body)
        if body.tool_choice not in (None, "none") and body.tools is None:
            raise bad_request("When using `tool_choice`, `tools` must be set.", "tool_choice")
        ids = list(self._rendered(body.messages, body.tools, body.add_generation_prompt))
        ids += self._closed_thinking(body)
        asked = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
        max_tokens = bodies.budget(body, asked, len(ids), self.engine.config.max_model_len, None)
        generation, detokeniser = self._generation(body, ids, max_tokens)
        channels = Channels(self.engine.tokens, detokeniser)
        writer = ChatWriter(self._shape(request, body, "chatcmpl-"), generation, channels, detokeniser)
        return await self._reply(body, generation, writer)

    def _closed_thinking(self, body: bodies.ChatBody) -> tuple[int, ...]:
        """An empty think block for a client that wants no thinking."""
        thinking = (body.chat_template_kwargs or {}).get("enable_thinking")
        if thinking is None or bytes(thinking) != b"false":
            return ()
        tokens, encode = self.engine.tokens, self.engine.vocabulary.encode
        return (tokens.think, *encode("\n\n"), tokens.unthink, *encode("\n\n"))

    def _prompt_ids(self, prompt: str | list[int] | None) -> list[int]:
        if prompt is None or prompt == "":
            raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        if isinstance(prompt, str):
            return list(self.engine.vocabulary.encode_prompt(prompt))
        if not prompt:
            raise bad_request("You must pass at least one prompt")
        if min(prompt) < 0 or max(prompt) >= self.engine.vocabulary.size:
            wrong = next(i for i in prompt if not 0 <= i < self.engine.vocabulary.size)
            raise bad_request(f"Token id {wrong} is out of vocabulary")
        return prompt

    def _generation(self, body: bodies.Common, ids: list[int], max_tokens: int) -> tuple[Generation, Detokeniser]:
        generation = self.engine.generate(Job(ids, max_tokens, body.cache_salt or "", body.ignore_eos))
        stops = bodies.stops_of(body)
        return generation, Detokeniser(self.engine.vocabulary, stops, keep_special=not body.skip_special_tokens)

    def _shape(self, request: Request, body: bodies.Common, prefix: str) -> Shape:
        self._requests += 1
        faults, options = self.engine.faults, body.stream_options or bodies.StreamOptions()
        given = request.headers.get("x-request-id") or body.request_id or f"{self._requests:016x}"
        cumulative = "usage-cumulative" in faults
        usage = bool(options.include_usage) and "no-usage" not in faults
        return Shape(
            request_id=prefix + given,
            created_s=int(self.engine.wall()),
            model=self.engine.config.model,
            token_ids=bool(body.return_token_ids),
            usage=usage,
            running_usage=cumulative or (usage and bool(options.continuous_usage_stats)),
            text=text_encoder(faults),
        )

    async def _reply(self, body: bodies.Common, generation: Generation, writer: Writer) -> Response:
        instead = self._instead(len(generation.job.ids))
        if instead is not None:
            return instead
        if body.stream:
            return Response(200, (SSE,), stream=stream(generation, writer, Delivery(self.engine.faults)))
        return await whole(generation, writer)

    def _instead(self, prompt_tokens: int) -> Response | None:
        """What a fault answers in place of a reply."""
        engine = self.engine
        if not engine.late:
            return None
        if "busy-503" in engine.faults:
            return error_response(503, _BUSY, "Service Unavailable", None, _RETRY_AFTER)
        if "shed-429" in engine.faults:
            return error_response(429, "Too many requests. Slow down.", "Too Many Requests", None, _RETRY_AFTER)
        if "too-long" in engine.faults:
            return bodies.too_long(prompt_tokens, max(1, prompt_tokens - 1)).response
        if engine.mischief.page_instead():
            return Response(200, (("content-type", "text/html; charset=utf-8"),), HTML_PAGE)
        return None


def _reopened(ids: tuple[int, ...], end: int) -> tuple[int, ...]:
    """The rendered conversation without the end of its last turn."""
    return ids[: len(ids) - 1 - ids[::-1].index(end)]
