"""One conversation: play its transcript turn by turn, plant its tags at their depths, ask for them in side branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import anyio

from infermaxx_tui.core.events import SessionEnded, SessionStarted, TagPlanted
from infermaxx_tui.core.plan import AskPlan, ConversationPlan, Question, TagPlan, draw, reached
from infermaxx_tui.core.transcript import Message, Request
from infermaxx_tui.core.wording import recall_question, tag_line, tag_repeat, tag_statement
from infermaxx_tui.runner.context import Kept, RunContext
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.stream import Asked, Exchange, Streams

EndReason = Literal["finished", "window", "duration", "stopped", "failed", "server_lost", "exhausted"]

_MAX_FAILURES = 3
"""Failed turns in a row after which a conversation ends."""
_ATTEMPTS = 3
"""Requests for one turn while the server sheds load; each is in the log."""
_LEAST_DELTA_TOKENS = 24
"""Room below this is not filled with a stump of a turn."""
_TEXT_SAMPLE = 16
"""One main-line reply in so many keeps its full text."""


class ConversationOver(Exception):
    """The conversation cannot go on; `reason` is what SessionEnded says."""

    def __init__(self, reason: EndReason, detail: str = "") -> None:
        super().__init__(detail)
        self.reason: EndReason = reason
        self.detail = detail


class Step:
    """One request of the chained transcripts, with its ids where they were made beforehand."""

    __slots__ = ("delta_ids", "messages", "request", "reply_ids", "tools")

    def __init__(
        self,
        request: Request,
        messages: tuple[Message, ...],
        tools: str,
        delta_ids: tuple[int, ...] | None,
        reply_ids: tuple[int, ...] | None,
    ) -> None:
        self.request = request
        self.messages = messages
        self.tools = tools
        self.delta_ids = delta_ids
        self.reply_ids = reply_ids


class Conversation:
    """Plays one ConversationPlan against the server."""

    def __init__(self, run: RunContext, streams: Streams, plan: ConversationPlan, line: Line, meeting: Meeting) -> None:
        self._run = run
        self._streams = streams
        self._plan = plan
        self._line = line
        self._meeting = meeting
        self._met = False
        self._turn = 0
        self._failures = 0
        self._planted: dict[str, int] = {}
        self._asked = 0

    async def run(self) -> None:
        """Plays the conversation to its end, whatever that is; a failure stays in it."""
        plan, emit = self._plan, self._run.recorder.emit
        names = tuple(self._run.prepared.transcripts[i].id for i in plan.chain)
        emit(SessionStarted(session=plan.session, wave=plan.wave, transcripts=names, planned_recalls=plan.planned_recalls))
        reason: EndReason = "finished"
        detail = ""
        try:
            reason = await self._play()
            await self._ask_due(everything=True)
        except ConversationOver as over:
            reason, detail = over.reason, over.detail
        finally:
            if not self._met:
                self._meeting.leave()
        depth = self._line.depth_tokens
        emit(SessionEnded(session=plan.session, reason=reason, depth_tokens=depth, turns=self._turn, detail=detail))

    async def _play(self) -> EndReason:
        scenario = self._run.scenario
        for number, step in enumerate(self._steps()):
            self._stop_if_asked()
            messages, ids = step.messages, step.delta_ids
            if number == 0:
                self._begin(step)
            else:
                await self._think(step.request)
                upcoming = len(ids) if ids is not None else self._line.measure(messages)
                messages, ids = self._plant(messages, ids, upcoming)
                room = scenario.sessions.target_depth - self._line.depth_tokens
                if ids is None or len(ids) > room:
                    if room < _LEAST_DELTA_TOKENS:
                        return "finished"
                    messages, cut = self._line.fit(messages, room)
                    ids = ids if not cut else None
                self._line.add(messages, ids)
            await self._take_turn(step)
            await self._ask_due(everything=False)
            if reached(self._line.depth_tokens, scenario.sessions.target_depth):
                return "finished"
        return "exhausted"

    def _steps(self) -> Iterator[Step]:
        """The requests of the chain; a later transcript's system prompt and tools are left out."""
        for place, index in enumerate(self._plan.chain):
            session = self._run.prepared.transcripts[index]
            tokenised = self._run.prepared.tokenised[index] if self._run.prepared.tokenised else None
            for number, request in enumerate(session.requests):
                exact = tokenised.requests[number] if tokenised is not None else None
                messages, delta_ids = request.delta, exact.delta_ids if exact is not None else None
                if number == 0 or (exact is not None and exact.opens_window):
                    delta_ids = None
                    if place or number:
                        messages = tuple(m for m in messages if m.role != "system")
                yield Step(request, messages, session.tools, delta_ids, exact.reply_ids if exact else None)

    def _begin(self, step: Step) -> None:
        messages = step.messages
        for tag in self._plan.tags:
            if tag.how == "head":
                messages = _with_head(messages, tag)
                self._note_planted(tag, 0)
        room = self._run.scenario.sessions.target_depth
        messages, _ = self._line.fit(messages, room)
        self._line.begin(messages, step.tools)

    def _plant(
        self, messages: tuple[Message, ...], ids: tuple[int, ...] | None, upcoming: int
    ) -> tuple[tuple[Message, ...], tuple[int, ...] | None]:
        """Plants what is due before or inside the coming turn; the nearer side of the threshold wins."""
        for tag in self._plan.tags:
            depth = self._line.depth_tokens
            if tag.label in self._planted or depth < tag.depth_tokens - upcoming / 2:
                continue
            self._note_planted(tag, depth)
            if tag.how == "inline":
                messages, ids = _with_line(messages, tag), None
            else:
                self._line.tell(tag_statement(tag.label, tag.tag), tag_repeat(tag.label, tag.tag))
        return messages, ids

    def _note_planted(self, tag: TagPlan, depth_tokens: int) -> None:
        self._planted[tag.label] = depth_tokens
        how: Literal["exchange", "inline", "head"] = "exchange"
        if tag.how in ("inline", "head"):
            how = "inline" if tag.how == "inline" else "head"
        self._run.recorder.emit(
            TagPlanted(
                session=self._plan.session,
                label=tag.label,
                tag=tag.tag,
                how=how,
                depth_tokens=depth_tokens,
                turn=self._turn + 1,
            )
        )

    async def _take_turn(self, step: Step) -> None:
        self._turn += 1
        prompt = self._line.prompt()
        exchange = await self._send(prompt, "turn", self._room(prompt), None)
        ended = exchange.ended
        live = self._run.scenario.sessions.replies == "live"
        if ended.outcome == "ok":
            self._failures = 0
            if live:
                used = None
                if ended.prompt_tokens is not None and ended.completion_tokens is not None:
                    used = ended.prompt_tokens + ended.completion_tokens
                self._line.close(exchange.text, exchange.ids, used)
                return
        else:
            self._failed(exchange)
        self._line.close_with(step.request.reply, step.reply_ids)

    def _room(self, prompt: Prompt) -> int:
        """Reply budget of a main-line turn; ends the conversation where the window has none left."""
        budget, window = self._run.scenario.reply.max_tokens, self._run.prepared.regime.max_model_len
        if window is None or prompt.ids is None:
            return budget
        left = window - len(prompt.ids)
        if left < 1:
            raise ConversationOver("window", f"the next prompt of {len(prompt.ids)} tokens fills max_model_len={window}")
        return min(budget, left)

    def _failed(self, exchange: Exchange) -> None:
        """Counts a failed turn; ends the conversation where going on makes no sense."""
        ended = exchange.ended
        detail = f"{ended.outcome}: {ended.error or ''}"
        match ended.outcome:
            case "cancelled":
                self._stop_if_asked()
                raise ConversationOver("stopped", detail)
            case "refused_connection":
                raise ConversationOver("server_lost", detail)
            case "too_long":
                raise ConversationOver("window", detail)
            case "stalled" | "timeout":
                raise ConversationOver("failed", detail)
            case _:
                self._failures += 1
                if self._failures >= _MAX_FAILURES:
                    raise ConversationOver("failed", f"{self._failures} failed turns in a row, the last {detail}")

    async def _send(self, prompt: Prompt, kind: str, max_tokens: int, asked: Asked | None) -> Exchange:
        """One turn or question; while the server sheds load it is sent again, after the wait that the server names."""
        first: int | None = None
        for attempt in range(_ATTEMPTS):
            keep = kind != "turn" or draw(self._run.prepared.seed, "keep", self._plan.session, self._turn) % _TEXT_SAMPLE == 0
            exchange = await self._streams.send(
                prompt,
                session=self._plan.session,
                turn=self._turn,
                kind=kind,
                max_tokens=max_tokens,
                salt=self._salt(),
                asked=asked.again(first) if asked is not None and first is not None else asked,
                keep_text=keep,
            )
            first = first or exchange.ended.req
            if exchange.ended.outcome != "shed" or attempt == _ATTEMPTS - 1:
                break
            await self._pause(exchange.retry_after_s)
        return exchange

    def _salt(self) -> str | None:
        if self._run.scenario.sessions.cache_salt == "none":
            return None
        return f"{self._run.prepared.nonce}-{self._plan.session}"

    async def _ask_due(self, everything: bool) -> None:
        while self._asked < len(self._plan.asks):
            ask = self._plan.asks[self._asked]
            if not everything and (ask.meet or self._line.depth_tokens < ask.depth_tokens):
                return
            self._asked += 1
            if ask.meet:
                self._met = True
                await self._meeting.arrive()
            await self._ask_all(ask)

    async def _ask_all(self, ask: AskPlan) -> None:
        for question in ask.questions:
            self._stop_if_asked()
            if question.kind == "recall" and question.label not in self._planted:
                continue
            await self._ask(ask, question)

    async def _ask(self, ask: AskPlan, question: Question) -> None:
        told = None
        if question.kind == "tail":
            told = (tag_statement(question.label, question.tag), tag_repeat(question.label, question.tag))
        prompt = self._line.branch(recall_question(question.label), told)
        asked = Asked(
            label=question.label,
            tag=question.tag,
            asked_at=ask.fraction,
            planted_depth_tokens=self._planted.get(question.label),
            depth_tokens=self._line.depth_tokens,
        )
        exchange = await self._send(prompt, question.kind, self._run.scenario.canaries.max_tokens, asked)
        if question.kind == "recall":
            kept = Kept(prompt, self._plan.session, self._turn)
            self._run.load[self._plan.session] = kept
            if question.tag not in exchange.own_tags:
                self._run.kept[exchange.ended.req] = kept
        if exchange.ended.outcome not in ("ok", "protocol", "truncated", "shed"):
            self._failed(exchange)

    async def _think(self, request: Request) -> None:
        sessions = self._run.scenario.sessions
        match sessions.think_time:
            case "none":
                return
            case "recorded":
                await self._pause(min(request.think_s + request.tool_delay_s, sessions.max_think_s))
            case seconds:
                await self._pause(float(seconds))

    async def _pause(self, seconds: float) -> None:
        """Waits, but not past a wish to stop."""
        with anyio.move_on_after(seconds):
            await self._run.stopper.event.wait()
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        match self._run.stopper.by:
            case None:
                return
            case "duration":
                raise ConversationOver("duration")
            case "server_lost":
                raise ConversationOver("server_lost")
            case by:
                raise ConversationOver("stopped", by)


def _with_head(messages: tuple[Message, ...], tag: TagPlan) -> tuple[Message, ...]:
    """The messages with the tag at the end of the system prompt; one is made where there is none."""
    note = tag_line(tag.label, tag.tag)
    if messages and messages[0].role == "system":
        return (Message("system", f"{messages[0].content}\n\n{note}"), *messages[1:])
    return (Message("system", note), *messages)


def _with_line(messages: tuple[Message, ...], tag: TagPlan) -> tuple[Message, ...]:
    """The messages with the tag's line in the middle of the last tool result, else of the last message."""
    place = max((i for i, m in enumerate(messages) if m.role == "tool"), default=len(messages) - 1)
    lines = messages[place].content.split("\n")
    lines.insert(len(lines) // 2, tag_line(tag.label, tag.tag))
    changed = Message(
        messages[place].role,
        "\n".join(lines),
        tool_call_id=messages[place].tool_call_id,
        name=messages[place].name,
    )
    return (*messages[:place], changed, *messages[place + 1 :])
