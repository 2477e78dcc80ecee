"""Plays the controls: what is sent with nothing beside, before the conversations, after them and when all is over."""

from __future__ import annotations

import hashlib
from array import array
from typing import Final

import anyio

from infermaxx_tui.core.events import ControlAnswered, ControlAsked, MetricsRead, StageBegan, TagPlanted
from infermaxx_tui.core.events_controls import Arm, Stage
from infermaxx_tui.core.plan import CONTROL_SESSION, ConversationPlan, TagPlan, reached
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wording import recall_question
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.conversation import Conversation
from infermaxx_tui.runner.exchange import Exchange, Order, Sender
from infermaxx_tui.runner.growing import Growing
from infermaxx_tui.runner.insisting import insisted
from infermaxx_tui.runner.issuing import issue
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.meeting import Meeting
from infermaxx_tui.runner.sampling import hits, scrape
from infermaxx_tui.runner.steps import steps
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.volatile import Volatile
from infermaxx_tui.runner.wave import conversation_line, new_line

_NOBODY: Final = -1
_AFTER_TOKENS: Final = 64
_TRIVIAL: Final = (
    "Count from one to five.",
    "Name three colours.",
    "Write one short sentence about the sea.",
    "Which day comes after Monday?",
    "Say hello in French.",
)
"""What no sound model answers with babble."""


async def play_before(run: RunContext, streams: Streams) -> None:
    """All that comes before the waves, and the mark of where they begin."""
    wanted, plan = run.scenario.controls, run.prepared.plan.controls
    if not wanted.any:
        return
    _begin(run, "controls")
    for pair, one in enumerate(plan.prompts[: max(wanted.repeat, wanted.cache)]):
        if run.stopper.by is None:
            await _compare_prompt(run, streams, one, pair)
    if wanted.alike and run.prepared.plan.at_once > 1 and run.stopper.by is None:
        await _send_alike(run, streams, plan.prompts[0], wanted.alike)
    if plan.shared is not None and run.stopper.by is None:
        await _compare_prefix(run, streams, plan.shared)
    if plan.solo is not None and run.stopper.by is None:
        await _play_solo(run, streams, plan.solo, "solo_before")
    _begin(run, "waves")


async def play_after_load(run: RunContext, streams: Streams) -> None:
    """The same conversation alone once more; the end of the duration does not keep a run from it."""
    solo = run.prepared.plan.controls.solo
    if solo is not None and not run.stopper.hard:
        await _play_solo(run, streams, solo, "solo_after")
        _begin(run, "controls")


async def play_last(run: RunContext, streams: Streams) -> None:
    """Trivial prompts when nothing else is to be sent."""
    wanted = run.scenario.controls.after
    if not wanted or run.stopper.hard:
        return
    _begin(run, "after")
    for number in range(wanted):
        prompt = await run.render(_trivial, new_line(run), _TRIVIAL[number % len(_TRIVIAL)])
        if not await _Asking(run, streams, "after", number).send(prompt, _AFTER_TOKENS, None):
            return


def _begin(run: RunContext, stage: Stage, session: int | None = None) -> None:
    run.recorder.emit(StageBegan(stage=stage, session=session))


def _trivial(line: Line, text: str) -> Prompt:
    line.begin((Message("user", text),), "")
    return line.prompt()


# The same prompt twice, and from the cache


async def _compare_prompt(run: RunContext, streams: Streams, plan: ConversationPlan, pair: int) -> None:
    """Two salts make two prompts that are both uncached; the second salt once more makes one that is cached."""
    wanted, salt = run.scenario.controls, f"{run.prepared.nonce}-control-{pair}"
    prompt, _ = await run.render(_grow, run, plan, conversation_line(run))
    tokens = run.scenario.reply.max_tokens
    arms: list[tuple[Arm, str]] = [("cold", f"{salt}-a")] if pair < wanted.repeat else []
    arms += [("cold_again", f"{salt}-b")]
    arms += [("cached", f"{salt}-b")] if pair < wanted.cache else []
    for arm, own in arms:
        if run.stopper.by is not None or not await _Asking(run, streams, arm, pair).send(prompt, tokens, own):
            return


async def _send_alike(run: RunContext, streams: Streams, plan: ConversationPlan, count: int) -> None:
    """One prompt, many times at once, with one salt that is new."""
    prompt, _ = await run.render(_grow, run, plan, conversation_line(run))
    tokens, salt = run.scenario.reply.max_tokens, f"{run.prepared.nonce}-control-alike"

    async def one(pair: int) -> None:
        await _Asking(run, streams, "alike", pair).send(prompt, tokens, salt)

    async with anyio.create_task_group() as group:
        for pair in range(count):
            group.start_soon(one, pair)


async def _compare_prefix(run: RunContext, streams: Streams, plan: ConversationPlan) -> None:
    """Each question behind the same long prefix: first with it in the cache for all, then with a salt of its own."""
    issue(run, plan)
    line = conversation_line(run)
    _, planted = await run.render(_grow, run, plan, line)
    for event in planted:
        run.recorder.emit(event)
    questions = [await run.render(line.branch, recall_question(tag.label)) for tag in plan.tags]
    tokens, tags = run.scenario.canaries.max_tokens, plan.tags
    if not await _Asking(run, streams, "filler", 0, tags[0]).send(questions[0], tokens, None):
        return
    salt = f"{run.prepared.nonce}-control-prefix"
    for arm in ("shared", "salted"):
        for pair, (prompt, tag) in enumerate(zip(questions, tags, strict=True)):
            own = f"{salt}-{pair}" if arm == "salted" else None
            asking = _Asking(run, streams, "salted" if arm == "salted" else "shared", pair, tag)
            if run.stopper.by is not None or not await asking.send(prompt, tokens, own):
                return


def _grow(run: RunContext, plan: ConversationPlan, line: Line) -> tuple[Prompt, list[TagPlanted]]:
    """The prompt of the deepest turn with the recorded replies before it, and what was planted on the way."""
    sessions, renderer = run.scenario.sessions, run.prepared.renderer
    volatile = Volatile(sessions, f"{run.prepared.nonce}-control-{plan.place}")
    target = sessions.target_depth
    growing = Growing(line, plan, target, volatile, renderer)
    prompt, turn, depth = Prompt(), 0, 0
    for turn, step in enumerate(steps(run.prepared, plan), 1):
        if not growing.take(step, turn, turn == 1):
            break
        prompt = line.prompt()
        depth += line.measure(step.messages) or sum(len(message.content) for message in step.messages) // 4
        line.close_with(step.request.reply, step.reply_ids, depth if prompt.ids is None else None)
        depth += line.measure((step.request.reply,)) or len(step.request.reply.content) // 4
        if reached(line.depth_tokens, target):
            break
    growing.planting.tell_the_rest(turn + 1)
    return prompt, growing.planting.fresh()


class _Asking:
    """One request of a comparison."""

    def __init__(self, run: RunContext, streams: Streams, arm: Arm, pair: int, tag: TagPlan | None = None) -> None:
        self._run = run
        self._streams = streams
        self._arm = arm
        self._pair = pair
        self._tag = tag

    async def send(self, prompt: Prompt, max_tokens: int, salt: str | None) -> bool:
        """Sends it, again if it was shed or cut; False if it makes no sense to send more: nobody answers."""
        run = self._run
        window = run.prepared.regime.max_model_len
        room = max_tokens if window is None or prompt.ids is None else min(max_tokens, window - len(prompt.ids))
        order = Order(
            prompt=prompt,
            session=_NOBODY if self._tag is None else CONTROL_SESSION,
            turn=0,
            kind="control",
            max_tokens=max(room, 1),
            salt=salt,
            keep_text=True,
            announced=self._announced,
        )

        async def send() -> Exchange:
            before = await scrape(run)
            exchange = await self._streams.send(order)
            if exchange.ended.outcome not in ("shed", "cancelled"):
                await self._note(exchange, before)
            return exchange

        return await insisted(run, send)

    def _announced(self, req: int) -> ControlAsked:
        tag = self._tag
        label, text = ("", "") if tag is None else (tag.label, tag.tag)
        return ControlAsked(req=req, arm=self._arm, pair=self._pair, label=label, tag=text)

    async def _note(self, exchange: Exchange, before: MetricsRead) -> None:
        """What the reply's own event does not say. Servers that count cached tokens in usage may leave a 0 out."""
        ended = exchange.ended
        cached, by_usage = ended.cached_tokens, ended.cached_tokens is not None
        if cached is None and ended.outcome == "ok":
            cached = hits(before, await scrape(self._run))
        ids = None
        if exchange.ids is not None:
            ids = hashlib.sha256(array("q", exchange.ids).tobytes()).hexdigest()
        self._run.recorder.emit(
            ControlAnswered(
                req=ended.req,
                ids_sha256=ids,
                cached_tokens=cached,
                cached_by=None if cached is None else "usage" if by_usage else "metrics",
            )
        )


# One conversation alone


class _Persistent:
    """Sends a request again that was cut because the duration was over, for what it is part of goes on."""

    def __init__(self, run: RunContext, streams: Streams) -> None:
        self._run = run
        self._streams = streams

    async def send(self, order: Order) -> Exchange:
        """As `Streams.send`."""
        exchange = await self._streams.send(order)
        if exchange.ended.outcome == "cancelled" and not self._run.stopper.hard and not self._run.closing:
            exchange = await self._streams.send(order.again(exchange.ended.req))
        return exchange


async def _play_solo(run: RunContext, streams: Streams, plan: ConversationPlan, stage: Stage) -> None:
    """The same transcripts, tags and questions both times; a new salt each time, so that both begin uncached."""
    run.recorder.emit(await scrape(run))
    _begin(run, stage, plan.session)
    if stage == "solo_before":
        issue(run, plan)
    sender: Sender = _Persistent(run, streams)
    conversation = Conversation(run, sender, plan, conversation_line(run), Meeting(1))
    await conversation.run()
    run.recorder.emit(await scrape(run))
