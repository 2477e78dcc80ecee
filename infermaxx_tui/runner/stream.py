"""One HTTP request from its first byte to its last: stamped at the socket, parsed, counted, written down."""

from __future__ import annotations

import asyncio
from typing import Final

import anyio
import msgspec

from infermaxx_tui.core import segments
from infermaxx_tui.core.canary import find_known
from infermaxx_tui.core.events import FirstToken, GapNoted, RequestEnded, RequestStarted, ServerLost, TagAsked
from infermaxx_tui.core.lumps import OddRead, Reads
from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.think import Think
from infermaxx_tui.runner import dispatch
from infermaxx_tui.runner.answer import body_of, pour, read_refusal, request_of
from infermaxx_tui.runner.board import LiveStream
from infermaxx_tui.runner.client import TRANSPORT_ERRORS, describe
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Exchange, Order, Totals
from infermaxx_tui.runner.http.transport import ON_SENT
from infermaxx_tui.runner.summary import Wire, summarise

GAP_NOTED_MS: Final = 2000.0
"""Silences between two tokens of more than this are evidence and get an event of their own."""
_GAP_NOTED_US: Final = round(GAP_NOTED_MS * 1000)
_DRAIN_S: Final = 0.5
"""How long a connection may stay open after `[DONE]`."""
_CLOSE_S: Final = 1.0
"""How long giving a connection back may take: a server may have stopped reading our request."""
_CUT: Final = "cut by us: the run was ending"
_RUNAWAY_FACTOR: Final = 2
_RUNAWAY_TOKENS: Final = 1024
"""A reply of more than twice max_tokens and this has no end: it is cut, so that it cannot fill the memory."""


class Streams:
    """Sends requests and follows their streams."""

    def __init__(self, run: RunContext) -> None:
        self.totals = Totals()
        self._run = run
        self._think = _think_of(run)

    async def send(self, order: Order) -> Exchange:
        """Sends one request and returns when it is over, however it ended; it is never sent again here.

        Once the run is closing nothing is sent, and nothing logged.
        """
        run, emit = self._run, self._run.recorder.emit
        if run.closing:
            ended = RequestEnded(
                req=0, session=order.session, turn=order.turn, kind=order.kind, outcome="cancelled", error=_CUT
            )
            return Exchange(ended, "", None, 0.0, ())
        req = run.new_req()
        self._announce(req, order)
        live = LiveStream(req, order.session, order.kind, order.prompt.known_tokens, run.recorder.clock.mono_us())
        stream = _Stream(run, live, order, self.think_for(order))
        await stream.perform()
        dispatch.wanted(stream.wire.ended_us, "turn")
        reply = stream.reply
        ended = summarise(req, order, stream.wire, reply, stream.reads, run.registry)
        emit(ended)
        self.totals.add(ended)
        if order.prefix is not None and order.kind == "turn":
            order.prefix.turn_over(reply.prompt_ids, reply.ids if ended.outcome == "ok" else None)
        if breaks_off(ended) and run.tokens_seen:
            run.doubt, run.doubt_us = ended, stream.wire.ended_us
        if ended.outcome == "refused_connection" and run.tokens_seen:
            detail = ended.error or ""
            emit(ServerLost(how="refused", session=order.session, req=req, detail=detail, reachable=False))
        said = "\n".join((reply.content, reply.reasoning, reply.tools.text))
        asked = order.asked
        own = find_known(said, (asked.tag,)) if asked is not None and asked.tag else ()
        return Exchange(ended, reply.content, tuple(reply.ids) or None, stream.retry_after_s, own)

    def _announce(self, req: int, order: Order) -> None:
        emit, prompt = self._run.recorder.emit, order.prompt
        emit(
            RequestStarted(
                req=req,
                session=order.session,
                turn=order.turn,
                kind=order.kind,
                prompt_tokens=None if prompt.ids is None else len(prompt.ids),
                max_tokens=order.max_tokens,
                salted=order.salt is not None,
                opens=order.opens,
            )
        )
        if order.announced is not None:
            emit(order.announced(req))
        if order.asked is not None:
            asked = msgspec.structs.asdict(order.asked)
            emit(TagAsked(req=req, session=order.session, kind=order.kind, **asked))

    def think_for(self, order: Order) -> Think | None:
        """How thinking is told from the answer; a prompt that closed the think block is not answered inside one."""
        think = self._think
        if think is None or not order.prompt.no_thinking:
            return think
        return msgspec.structs.replace(think, starts_inside=False)


def breaks_off(ended: RequestEnded) -> bool:
    """Whether a request ended as it does when the server, or the engine behind it, goes away."""
    match ended.outcome:
        case "protocol" | "truncated":
            return True
        case "rejected":
            return ended.status is not None and ended.status >= 500
        case _:
            return False


def _think_of(run: RunContext) -> Think | None:
    renderer = run.prepared.renderer
    if run.scenario.sessions.prompt == "chat" or renderer is None:
        return None
    ids = segments.think_ids(renderer)
    if ids is None:
        return None
    return Think(ids[0], ids[1], starts_inside=segments.generation_prefix_opens_think(renderer))


class _Stream:
    """The mutable middle of one request."""

    def __init__(self, run: RunContext, live: LiveStream, order: Order, think: Think | None) -> None:
        self.reply = Reply(think=think, keep_prompt_ids=True)
        self.wire = Wire(started_us=live.started_us, ended_us=live.started_us)
        self.reads = Reads()
        self.retry_after_s = 1.0
        self._run = run
        self._live = live
        self._order = order
        self._draining = False
        self._told = False
        self._parser = SseParser()
        self._board = run.board
        self._note_plain = self.reads.plain_us.append
        self._most = _RUNAWAY_FACTOR * order.max_tokens + _RUNAWAY_TOKENS

    async def perform(self) -> None:
        """Sends the request and reads the answer to its end, whatever that is."""
        run, live, wire = self._run, self._live, self.wire
        if run.closing:
            wire.cancelled = _CUT
            return
        run.board.open(live)
        try:
            with live.scope:
                try:
                    await self._exchange()
                except TRANSPORT_ERRORS as error:
                    wire.broken = describe(error, answered=wire.status is not None)
        finally:
            run.board.close(live)
            wire.ended_us = run.recorder.clock.mono_us()
        if live.scope.cancelled_caught:
            if live.stalled:
                wire.stall_s = run.scenario.limits.stall_s
            elif self._draining:
                self.reply.anomalies.add("open_after_done")
            else:
                wire.cancelled = _CUT
        self.reply.finish(self._parser, wire.ended_us)

    async def _exchange(self) -> None:
        run, order = self._run, self._order
        path, content = body_of(
            order.prompt, run.prepared.model, run.scenario, order.max_tokens, order.salt, order.forced
        )
        request = request_of(run.client, path, content, f"imx-{run.prepared.nonce}-{self._live.req}")
        request.extensions[ON_SENT] = self._sent
        response = await run.client.send(request, stream=True)
        if not self._told:
            self._sent(None, self.wire.started_us, False)
        try:
            self.wire.status = response.status_code
            if response.status_code != 200:
                refusal = await read_refusal(response)
                self.wire.refused, self.retry_after_s = (refusal.outcome, refusal.text), refusal.retry_after_s
            else:
                await pour(response, self._take, run.recorder.clock.mono_us)
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await response.aclose()

    def _sent(self, connect_us: int | None, at_us: int, reused: bool) -> None:
        """The first bytes went out; called by a transport that knows when."""
        self._told = True
        self._run.board.sends.sent(dispatch.current(), at_us, connect_us, reused)

    def _take(self, piece: bytes, at_us: int) -> bool:
        """The hot path: every read of every stream passes through here. False: no more is to be read."""
        payloads = self._parser.feed(piece)
        board, live, reply = self._board, self._live, self.reply
        events = len(payloads)
        board.events_parsed += events
        if events == 1:
            self._note_plain(at_us)
        else:
            board.odd_read(events)
            self.reads.note_odd(OddRead(at_us, events, len(piece), self._parser.inside))
        for payload in payloads:
            gap_us, tokens = reply.take(payload, at_us)
            if not tokens:
                if reply.error is not None:
                    break  # what stands behind it in the same read is not read either
                continue
            live.tokens += tokens
            live.depth_tokens += tokens
            live.last_token_us = at_us
            if gap_us is None:
                self._note_first(at_us)
                continue
            if tokens == 1:
                board.single_gaps_us.append(gap_us)
            else:
                board.gap(gap_us, tokens)
            if gap_us > _GAP_NOTED_US:
                self._note_gap(gap_us)
        if reply.error is None and not reply.done and reply.tokens <= self._most:
            return True
        return self._goes_on()

    def _goes_on(self) -> bool:
        """Whether a reply that is over, or that does not come to an end, is read on."""
        reply = self.reply
        if reply.error is not None:
            return False
        if reply.done and not self._draining:
            self._draining = True
            self._live.scope.deadline = asyncio.get_running_loop().time() + _DRAIN_S
        if reply.tokens > self._most:
            reply.error = f"{reply.tokens} tokens came for max_tokens={self._order.max_tokens}, and no end"
        return reply.error is None

    def _note_first(self, now_us: int) -> None:
        live, reply, run = self._live, self.reply, self._run
        if reply.prompt_ids_count is not None:
            live.depth_tokens = reply.prompt_ids_count + reply.tokens
        run.tokens_seen, run.doubt = True, None
        ttft_ms = (now_us - live.started_us) / 1000
        run.recorder.emit(FirstToken(req=live.req, session=live.session, ttft_ms=ttft_ms))
        if self._order.on_first is not None:
            self._order.on_first()

    def _note_gap(self, gap_us: int) -> None:
        live = self._live
        self._run.recorder.emit(
            GapNoted(req=live.req, session=live.session, gap_ms=gap_us / 1000, at_token=self.reply.tokens)
        )
