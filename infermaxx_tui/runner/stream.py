"""One HTTP request from its first byte to its last: stamped at the socket, parsed, counted, written down."""

from __future__ import annotations

import hashlib
from typing import cast

import anyio
import httpx
import msgspec
import orjson

from infermaxx_tui.core import segments
from infermaxx_tui.core.canary import find_known
from infermaxx_tui.core.degeneration import find_reply
from infermaxx_tui.core.events import FirstToken, GapNoted, Outcome, RequestEnded, RequestKind, RequestStarted
from infermaxx_tui.core.events import ServerLost, TagAsked
from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.think import Think
from infermaxx_tui.core.wire import parse
from infermaxx_tui.runner.answer import body_of, byte_stream, read_refusal
from infermaxx_tui.runner.board import LiveStream
from infermaxx_tui.runner.client import describe
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.lines import Prompt

GAP_NOTED_MS = 2000.0
"""Silences between two tokens from here on are evidence and get an event of their own."""
_DRAIN_S = 0.5
"""How long a connection may stay open after `[DONE]`."""
_ERROR_CHARS = 500


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The question that a request carries."""

    label: str
    tag: str
    asked_at: float
    planted_depth_tokens: int | None
    depth_tokens: int
    again_of: int | None = None

    def again(self, first: int) -> Asked:
        """The same question once more, after request `first`."""
        return msgspec.structs.replace(self, again_of=first)


class Exchange(msgspec.Struct, frozen=True):
    """What came of one request."""

    ended: RequestEnded
    text: str
    ids: tuple[int, ...] | None
    """The reply's own ids; None if the server sent none."""
    retry_after_s: float
    own_tags: tuple[str, ...]
    """The asked tag, if it stands anywhere in the reply."""


class Totals:
    """Token counts of all requests so far, to be held against the server's own."""

    def __init__(self) -> None:
        self.generation = 0
        self.prompt = 0
        self.cut = 0
        """Requests that reached the server and ended before their counts came."""
        self.uncounted = 0

    def add(self, ended: RequestEnded) -> None:
        """Counts a request that is over."""
        if ended.outcome in ("shed", "too_long", "rejected", "refused_connection"):
            return
        if ended.outcome != "ok":
            self.cut += 1
        elif ended.prompt_tokens is None or ended.completion_tokens is None:
            self.uncounted += 1
        self.generation += ended.completion_tokens or 0
        self.prompt += ended.prompt_tokens or 0


class Streams:
    """Sends requests and follows their streams."""

    def __init__(self, run: RunContext) -> None:
        self.totals = Totals()
        self._run = run
        self._think = _think_of(run)

    async def send(
        self,
        prompt: Prompt,
        *,
        session: int,
        turn: int,
        kind: str,
        max_tokens: int,
        salt: str | None,
        asked: Asked | None,
        keep_text: bool,
    ) -> Exchange:
        """Sends one request and returns when it is over, however it ended; it is never sent again here."""
        run = self._run
        req, request_kind = run.new_req(), cast("RequestKind", kind)
        emit = run.recorder.emit
        size = None if prompt.ids is None else len(prompt.ids)
        emit(
            RequestStarted(
                req=req,
                session=session,
                turn=turn,
                kind=request_kind,
                prompt_tokens=size,
                max_tokens=max_tokens,
                salted=salt is not None,
            )
        )
        if asked is not None:
            emit(TagAsked(req=req, session=session, kind=request_kind, **msgspec.structs.asdict(asked)))
        live = LiveStream(req, session, kind, size or 0, run.recorder.clock.mono_us())
        work = _Work(run, live, prompt, self._think)
        run.board.open(live)
        try:
            await work.perform(body_of(prompt, run.prepared.model, run.scenario, max_tokens, salt))
        finally:
            run.board.close(live)
        ended = work.ended(turn, request_kind, max_tokens, keep_text)
        emit(ended)
        self.totals.add(ended)
        if ended.outcome == "refused_connection" and run.tokens_seen:
            emit(ServerLost(how="refused", session=session, req=req, detail=ended.error or "", reachable=False))
        said = "\n".join((work.reply.content, work.reply.reasoning, work.reply.tools.text))
        own = find_known(said, (asked.tag,)) if asked is not None and asked.tag else ()
        ids = tuple(work.reply.ids) or None
        return Exchange(ended, work.reply.content, ids, work.retry_after_s, own)


def _think_of(run: RunContext) -> Think | None:
    renderer = run.prepared.renderer
    if run.scenario.sessions.prompt == "chat" or renderer is None:
        return None
    ids = segments.think_ids(renderer)
    if ids is None:
        return None
    return Think(ids[0], ids[1], starts_inside=segments.generation_prefix_opens_think(renderer))


class _Work:
    """The mutable middle of one request."""

    def __init__(self, run: RunContext, live: LiveStream, prompt: Prompt, think: Think | None) -> None:
        self.reply = Reply(think=think)
        self.retry_after_s = 1.0
        self._run = run
        self._live = live
        self._prompt = prompt
        self._status: int | None = None
        self._refused: tuple[Outcome, str] | None = None
        self._broken: tuple[str, str] | None = None
        self._cancelled = False
        self._draining = False
        self._end_us = live.started_us

    async def perform(self, body: tuple[str, bytes]) -> None:
        """Sends the body and reads the answer to its end."""
        clock, parser = self._run.recorder.clock, SseParser()
        with self._live.scope:
            if self._run.closing:
                self._live.scope.cancel()
            try:
                await self._exchange(body, parser)
            except httpx.TransportError as error:
                self._broken = describe(error, answered=self._status is not None)
        self._end_us = clock.mono_us()
        self._cancelled = self._live.scope.cancelled_caught and not self._draining
        if self._draining and self._live.scope.cancelled_caught:
            self.reply.anomalies.add("open_after_done")
        self.reply.finish(parser, self._end_us)

    async def _exchange(self, body: tuple[str, bytes], parser: SseParser) -> None:
        path, content = body
        client = self._run.client
        headers = {"content-type": "application/json", "x-request-id": self.server_name}
        response = await client.send(client.build_request("POST", path, content=content, headers=headers), stream=True)
        try:
            self._status = response.status_code
            if response.status_code != 200:
                refusal = await read_refusal(response)
                self._refused, self.retry_after_s = (refusal.outcome, refusal.text), refusal.retry_after_s
            else:
                await self._read(response, parser)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    @property
    def server_name(self) -> str:
        """The id under which the server knows the request."""
        return f"imx-{self._run.prepared.nonce}-{self._live.req}"

    async def _read(self, response: httpx.Response, parser: SseParser) -> None:
        """The hot path: every streamed chunk of every stream passes through this loop."""
        mono_us, board, live = self._run.recorder.clock.mono_us, self._run.board, self._live
        feed, add = parser.feed, self.reply.add
        async for chunk in byte_stream(response):
            now_us = mono_us()
            for payload in feed(chunk):
                gap_us, tokens = add(parse(payload), now_us)
                board.events_parsed += 1
                if not tokens:
                    continue
                live.tokens += tokens
                live.depth_tokens += tokens
                live.last_token_us = now_us
                if gap_us is None:
                    self._note_first(now_us)
                else:
                    board.gap(gap_us / 1000, tokens)
                    if gap_us > GAP_NOTED_MS * 1000:
                        self._note_gap(gap_us / 1000)
            if self.reply.error is not None:
                return
            if self.reply.done and not self._draining:
                self._draining = True
                live.scope.deadline = anyio.current_time() + _DRAIN_S

    def _note_first(self, now_us: int) -> None:
        self._run.tokens_seen = True
        ttft_ms = (now_us - self._live.started_us) / 1000
        self._run.recorder.emit(FirstToken(req=self._live.req, session=self._live.session, ttft_ms=ttft_ms))

    def _note_gap(self, gap_ms: float) -> None:
        live = self._live
        self._run.recorder.emit(
            GapNoted(req=live.req, session=live.session, gap_ms=round(gap_ms, 3), at_token=self.reply.tokens)
        )

    def ended(self, turn: int, kind: RequestKind, max_tokens: int, keep_text: bool) -> RequestEnded:
        """The event that closes the request."""
        reply, live = self.reply, self._live
        outcome, error = self._outcome()
        content, reasoning, tools = reply.content, reply.reasoning, reply.tools.text
        usage = reply.usage
        prompt_tokens = usage.prompt_tokens if usage is not None else None
        if prompt_tokens is None:
            prompt_tokens = reply.prompt_ids_count
        keep = keep_text or outcome not in ("ok", "shed")
        hits = () if kind == "warmup" else self._run.registry.hits(live.session, content, reasoning, tools)
        if prompt_tokens is not None and self._prompt.ids is not None and prompt_tokens != len(self._prompt.ids):
            reply.anomalies.add("prompt_count_differs")
        joined = "\x00".join((content, reasoning, tools)).encode("utf-8", "replace")
        return RequestEnded(
            req=live.req,
            session=live.session,
            turn=turn,
            kind=kind,
            outcome=outcome,
            finish_reason=reply.finish_reason,
            stop_reason=None if reply.stop_reason is None else str(reply.stop_reason),
            status=self._status,
            error=None if error is None else error[:_ERROR_CHARS],
            max_tokens=max_tokens,
            prompt_tokens=prompt_tokens,
            completion_tokens=reply.completion_tokens,
            ids_received=len(reply.ids) or None,
            cached_tokens=usage.cached_tokens if usage is not None else None,
            reasoning_tokens=reply.reasoning_tokens,
            chunks=reply.chunks,
            ttft_ms=self._since(reply.first_token_us),
            first_visible_ms=self._since(reply.first_visible_us),
            decode_ms=self._decode_ms(),
            first_chunk_tokens=reply.first_chunk_tokens,
            total_ms=(self._end_us - live.started_us) / 1000,
            content_chars=len(content),
            reasoning_chars=len(reasoning),
            tool_chars=len(tools),
            text_sha256=hashlib.sha256(joined).hexdigest() if content or reasoning or tools else None,
            content=content if keep else None,
            reasoning=reasoning if keep else None,
            tool_args=tools if keep else None,
            degenerate=find_reply((content, reasoning), reply.anomalies, reply.ids),
            hits=hits,
            anomalies=tuple(sorted(reply.anomalies)),
            server_id=reply.server_id,
        )

    def _outcome(self) -> tuple[Outcome, str | None]:
        if self._live.stalled:
            return "stalled", f"no token for limits.stall_s={self._run.scenario.limits.stall_s:g} s"
        if self._cancelled:
            return "cancelled", "cancelled by us"
        if self._refused is not None:
            return self._refused
        if self._broken is not None and self._broken[0] != "truncated":
            return cast("Outcome", self._broken[0]), self._broken[1]
        ending = self.reply.outcome(self._broken[1] if self._broken is not None else None)
        return ending.outcome, ending.detail

    def _since(self, at_us: int | None) -> float | None:
        return None if at_us is None else (at_us - self._live.started_us) / 1000

    def _decode_ms(self) -> float | None:
        first, last = self.reply.first_token_us, self.reply.last_token_us
        return None if first is None or last is None else (last - first) / 1000
