"""One conversation: play its transcript turn by turn, plant its tags at their depths, ask for them in side branches."""

from __future__ import annotations

from typing import cast

from infermaxx_tui.core.classify import FOREIGN, MISSES, classify
from infermaxx_tui.core.events import RequestEnded, RequestKind, SessionEnded, SessionStarted
from infermaxx_tui.core.plan import AskPlan, ConversationPlan, Question, draw, reached
from infermaxx_tui.core.replaying import salted
from infermaxx_tui.core.segments import TokenizerError
from infermaxx_tui.core.wording import recall_question, tag_repeat, tag_statement
from infermaxx_tui.runner.context import RenderingCut, RunContext
from infermaxx_tui.runner.crew import Crew
from infermaxx_tui.runner.exchange import Asked, Exchange, Order, Sender
from infermaxx_tui.runner.growing import Growing
from infermaxx_tui.runner.keep import Kept
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.over import ENDS, ConversationOver, EndReason
from infermaxx_tui.runner.prefix import PrefixWatch
from infermaxx_tui.runner.quality_tasks import Announced
from infermaxx_tui.runner.steps import Step, steps
from infermaxx_tui.runner.volatile import Volatile

_MAX_FAILURES = 3
"""Failed turns in a row after which a conversation ends."""
_ATTEMPTS = 3
"""Requests for one turn while the server sheds load; each is in the log."""
_JITTER = 0.25
"""Share by which a wait that the server asked for may be longer, so that not all come back at once."""
_TEXT_SAMPLE = 16
"""One main-line reply in so many keeps its full text."""


class Conversation:
    """Plays one ConversationPlan against the server."""

    def __init__(
        self,
        run: RunContext,
        streams: Sender,
        plan: ConversationPlan,
        line: Line,
        meeting: Meeting,
        crew: Crew | None = None,
    ) -> None:
        sessions, key = run.scenario.sessions, f"{run.prepared.nonce}-{plan.session}"
        self._run = run
        self._streams = streams
        self._plan = plan
        self._line = line
        self._meeting = meeting
        self._met = False
        self._turn = 0
        self._failures = 0
        self._asked = 0
        self._target = sessions.target_depth if plan.target_tokens is None else plan.target_tokens
        self._live = sessions.replies == "live"
        self._crew = crew
        self._volatile = Volatile(sessions, key)
        self._growing = Growing(line, plan, self._target, self._volatile, run.prepared.renderer)
        self._planting = self._growing.planting
        self._prefix = PrefixWatch(replies_stay=self._live)
        self._salt = key if salted(sessions, run.prepared.plan) else None
        if plan.solo:
            self._salt = f"{run.prepared.nonce}-solo-{run.new_salt()}"

    async def run(self) -> None:
        """Plays the conversation to its end, whatever that is; a failure stays in it."""
        plan, emit = self._plan, self._run.recorder.emit
        emit(
            SessionStarted(
                session=plan.session,
                wave=plan.wave,
                transcripts=tuple(self._run.prepared.transcripts[i].id for i in plan.chain),
                planned_recalls=plan.planned_recalls,
                parent=plan.parent,
            )
        )
        reason: EndReason = "failed"
        detail = "a fault of this program; see runner.log"
        try:
            played = await self._play()
            await self._run.render(self._planting.tell_the_rest, self._turn + 1)
            self._note_planted()
            await self._ask_due(everything=True)
            await self._ask_quality()
            reason, detail = played, ""
        except ConversationOver as over:
            reason, detail = over.reason, over.detail
        except RenderingCut:
            reason, detail = "stopped", self._run.stopper.by or ""
        except TokenizerError as error:
            detail = f"cannot render: {error}"
        finally:
            if not self._met:
                self._meeting.leave()
            depth = self._line.depth_tokens
            emit(SessionEnded(session=plan.session, reason=reason, depth_tokens=depth, turns=self._turn, detail=detail))

    async def _play(self) -> EndReason:
        for number, step in enumerate(steps(self._run.prepared, self._plan)):
            self._stop_if_asked()
            if number:
                await self._think(step)
            goes_on = await self._run.render(self._growing.take, step, self._turn + 1, number == 0)
            self._note_planted()
            if not goes_on:
                return "finished"
            await self._take_turn(step)
            if self._crew is not None:
                await self._crew.replied(step.transcript, step.number + 1)
            await self._ask_due(everything=False)
            if reached(self._line.depth_tokens, self._target):
                return "finished"
        return "exhausted"

    def _note_planted(self) -> None:
        for planted in self._planting.fresh():
            self._run.recorder.emit(planted)

    async def _take_turn(self, step: Step) -> None:
        self._turn += 1
        if step.opens:
            self._prefix.begin_anew()
        scenario = self._run.scenario
        budget = step.forced_tokens(scenario.sessions) or scenario.reply.max_tokens
        exchange = await self._send(self._sealed(self._line.prompt()), "turn", budget, None, step)
        ended = exchange.ended
        if ended.outcome != "ok":
            self._failed(exchange)
        else:
            self._failures = 0
            self._growing.longest_reply = max(self._growing.longest_reply, ended.completion_tokens or 0)
            if self._live:
                used = None
                if ended.prompt_tokens is not None and ended.completion_tokens is not None:
                    used = ended.prompt_tokens + ended.completion_tokens
                stopped = ended.finish_reason == "stop"
                await self._run.render(self._line.close, exchange.text, exchange.ids, used, stopped)
                return
        await self._run.render(self._line.close_with, step.request.reply, step.reply_ids, ended.prompt_tokens)

    def _room(self, prompt: Prompt, budget: int) -> int:
        """The reply budget, or what the window leaves of it; ends the conversation where that is nothing."""
        window = self._run.prepared.regime.max_model_len
        if window is None or prompt.ids is None:
            return budget
        left = window - len(prompt.ids)
        if left < 1:
            raise ConversationOver("window", f"a prompt of {len(prompt.ids)} tokens fills max_model_len={window}")
        return min(budget, left)

    def _failed(self, exchange: Exchange) -> None:
        """Counts a failed turn; ends the conversation where going on makes no sense."""
        ended = exchange.ended
        detail = f"{ended.outcome}: {ended.error or ''}"
        reason = ENDS.get(ended.outcome)
        if reason is not None:
            if ended.outcome == "cancelled":
                self._stop_if_asked()
            raise ConversationOver(reason, detail)
        self._failures += 1
        if self._failures >= _MAX_FAILURES:
            raise ConversationOver("failed", f"{self._failures} failed turns in a row, the last {detail}")

    def _sealed(self, prompt: Prompt) -> Prompt:
        """The prompt as it goes out now, with what changes at its head."""
        return self._volatile.stamped(prompt, self._run.recorder.clock.wall_ms())

    async def _send(
        self,
        prompt: Prompt,
        kind: RequestKind,
        budget: int,
        asked: Asked | None,
        step: Step | None = None,
        announced: Announced | None = None,
    ) -> Exchange:
        """One turn or question; while the server sheds load it is sent again, after the wait that the server names."""
        seed, session = self._run.prepared.seed, self._plan.session
        order = Order(
            prompt=prompt,
            session=session,
            turn=self._turn,
            kind=kind,
            max_tokens=self._room(prompt, budget),
            forced=step is not None and step.forced_tokens(self._run.scenario.sessions) is not None,
            opens=step.opens if step is not None else "",
            salt=self._salt,
            asked=asked,
            keep_text=kind != "turn" or draw(seed, "keep", session, self._turn) % _TEXT_SAMPLE == 0,
            prefix=self._prefix,
            announced=announced,
        )
        exchange = await self._streams.send(order)
        first = exchange.ended.req
        for attempt in range(1, _ATTEMPTS):
            if exchange.ended.outcome != "shed":
                break
            jitter = _JITTER * draw(seed, "shed", session, self._turn, attempt) / 2**64
            await self._pause(exchange.retry_after_s * (1 + jitter))
            exchange = await self._streams.send(order.again(first))
        return exchange

    async def _ask_due(self, everything: bool) -> None:
        while self._asked < len(self._plan.asks):
            ask = self._plan.asks[self._asked]
            if not everything and (ask.meet or self._line.depth_tokens < ask.depth_tokens or not self._planted(ask)):
                return
            self._asked += 1
            if ask.meet:
                self._met = True
                await self._meeting.arrive()
            await self._ask_all(ask)

    async def _ask_quality(self) -> None:
        """Its share of the quality tasks, at full depth and beside the others, as side branches."""
        quality, plan, depth = self._run.quality, self._plan, self._line.depth_tokens
        for task in quality.share(plan, self._meeting.parties):
            self._stop_if_asked()
            prompt = self._sealed(await self._run.render(self._line.branch, task.question))
            announced = quality.announcing(task, "during", depth, plan.session, plan.wave)
            exchange = await self._send(prompt, "quality", quality.max_tokens, None, announced=announced)
            kept = Kept.of(prompt, plan.session, self._turn, self._salt)
            quality.answered(task, exchange, plan.wave, depth, kept)
            self._after_question(exchange)

    def _planted(self, ask: AskPlan) -> bool:
        """Whether all that is asked there was planted: a large turn may leap over a tag's place and the question's."""
        return all(q.kind != "recall" or q.label in self._planting.depths for q in ask.questions)

    async def _ask_all(self, ask: AskPlan) -> None:
        for question in ask.questions:
            self._stop_if_asked()
            if question.kind == "recall" and question.label not in self._planting.depths:
                continue
            await self._ask(ask, question)

    async def _ask(self, ask: AskPlan, question: Question) -> None:
        told = None
        if question.kind == "tail":
            told = (tag_statement(question.label, question.tag), tag_repeat(question.label, question.tag))
        prompt = self._sealed(await self._run.render(self._line.branch, recall_question(question.label), told))
        asked = Asked(
            label=question.label,
            tag=question.tag,
            asked_at=ask.fraction,
            planted_depth_tokens=self._planting.depths.get(question.label),
            depth_tokens=self._line.depth_tokens,
        )
        kind = cast("RequestKind", question.kind)
        exchange = await self._send(prompt, kind, self._run.scenario.canaries.max_tokens, asked)
        if kind == "recall":
            kept = Kept.of(prompt, self._plan.session, self._turn, self._salt)
            self._run.keep.asked(kept)
            if question.tag not in exchange.own_tags and self._may_be_miss(question, exchange.ended):
                self._run.keep.missed(exchange.ended.req, kept)
        self._after_question(exchange)

    def _after_question(self, exchange: Exchange) -> None:
        """A question that failed is one question less, unless the conversation cannot go on."""
        if exchange.ended.outcome not in ("ok", "protocol", "truncated", "shed"):
            self._failed(exchange)

    def _may_be_miss(self, question: Question, ended: RequestEnded) -> bool:
        """Whether a fold may count the reply as a miss: only those are asked again."""
        window, registry = self._run.prepared.regime.max_model_len, self._run.registry.registry
        asked = recall_question(question.label)
        reply = classify(question.tag, self._plan.session, ended, registry, asked, window)
        return reply.cls in MISSES or reply.cls in FOREIGN

    async def _think(self, step: Step) -> None:
        """The pause before a request; a subagent that it waits for takes the place of the tools' delay."""
        joined = self._crew is not None and await self._crew.joined(step.transcript, step.number)
        self._stop_if_asked()
        seconds = step.pause_s(self._run.scenario.sessions, joined)
        if seconds is not None:
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        """Waits, but not past a wish to stop."""
        if await self._run.stopped_within(seconds):
            self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        match self._run.stopper.by:
            case None:
                return
            case "duration" if self._plan.solo:
                return
            case "duration":
                raise ConversationOver("duration")
            case "server_lost":
                raise ConversationOver("server_lost")
            case by:
                raise ConversationOver("stopped", by)
