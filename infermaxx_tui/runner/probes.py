"""What is tried on a server before a run: small requests by whose effect a condition is known before hours are spent.

They stand in no count of the run: the server's counters are read for the first time after them.
"""

from __future__ import annotations

import hashlib
from typing import Final

import anyio
import msgspec
import orjson

from infermaxx_tui.core.gates import Probe, Thought
from infermaxx_tui.core.gates_card import Worked
from infermaxx_tui.core.gpu_card import above_rest
from infermaxx_tui.core.gpu_summary import CardSummary
from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.transcript import Message
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.core.wording import recall_question
from infermaxx_tui.runner.answer import body_of
from infermaxx_tui.runner.client import TRANSPORT_ERRORS
from infermaxx_tui.runner.context import RunContext
from infermaxx_tui.runner.exchange import Order
from infermaxx_tui.runner.lines import Line, Prompt
from infermaxx_tui.runner.sampling import scrape
from infermaxx_tui.runner.stream import Streams
from infermaxx_tui.runner.wave import new_line

POLL_S: Final = 0.05
_BLOCKS: Final = 3
_TIMEOUT_S: Final = 120.0
_THOUGHT_TOKENS: Final = 64
"""A model that thinks begins with it."""
_WORK_TOKENS: Final = 64
_LEAST_ROUNDS: Final = 2
"""The first may look at the time before."""
_WORK_ROUNDS: Final = 3
"""Rounds of the sensors in which a card may show that it works; power is a mean over the last second."""


async def repeat_a_prompt(run: RunContext) -> Probe:
    """Sends one prompt twice, for a token each, and sees what the server took from its cache the second time."""
    block = run.prepared.regime.block_size or 128
    body = _body(run, "repeated", _BLOCKS * block, 1)
    tokens, why = await _ask(run, body)
    if why:
        return Probe(None, None, why)
    before = await scrape(run)
    _, why = await _ask(run, body)
    after = await scrape(run)
    if why or before.prefix_hits is None or after.prefix_hits is None:
        return Probe(tokens, None, why or after.error or before.error or "the server does not count prefix hits")
    return Probe(tokens, round(after.prefix_hits - before.prefix_hits))


async def let_it_think(run: RunContext, streams: Streams) -> Thought:
    """Asks one question as the run will, and sees whether the reply reasons."""
    prompt = await run.render(_question, run, new_line(run))
    order = Order(prompt=prompt, session=-1, turn=0, kind="warmup", max_tokens=_THOUGHT_TOKENS)
    path, body = body_of(prompt, run.prepared.model, run.scenario, _THOUGHT_TOKENS, None)
    content, why = await _post(run, path, body)
    if content is None:
        return Thought(None, why)
    reply, parser = Reply(think=streams.think_for(order)), SseParser()
    for payload in parser.feed(content):
        reply.take(payload, 0)
    reply.finish(parser, 0)
    if reply.reasoning.strip() or reply.reasoning_tokens:
        return Thought(True)
    if reply.outcome(None).outcome != "ok":
        return Thought(None, f"the probe's reply is not whole: {reply.outcome(None).detail or 'no reason given'}")
    return Thought(False)


def _question(run: RunContext, line: Line) -> Prompt:
    """A turn if no reply may reason, else a recall question of a label that nobody planted."""
    asked = recall_question("paper lantern")
    if run.scenario.gates.thinking == "off":
        line.begin((Message("user", asked),), "")
        return line.prompt()
    line.begin((Message("user", "Please answer the next question in one sentence."),), "")
    line.close_with(Message("assistant", "I will."))
    return line.branch(asked)


async def let_it_work(run: RunContext) -> Worked:
    """Has the server generate for a few rounds of the sensors, and sees whether a card does more than at rest."""
    cards = _cards(run)
    if not cards:
        return Worked(0, 0, "no card of the server was read")
    first = max(card.readings for card in cards)
    worked = 0
    limit_s = (_WORK_ROUNDS + 2) * run.scenario.sensors.interval_s
    failed: list[str] = []
    enough = anyio.Event()
    async with anyio.create_task_group() as load:
        load.start_soon(_generate, run, enough, failed)
        seen = first
        with anyio.move_on_after(limit_s):
            while seen < first + _WORK_ROUNDS and not worked and not failed and run.stopper.by is None:
                await anyio.sleep(POLL_S)
                cards = _cards(run)
                now = max(card.readings for card in cards)
                worked += now > seen and any(_works(card) for card in cards)
                seen = max(seen, now)
        enough.set()
    read = max(card.readings for card in _cards(run)) - first
    if worked:
        return Worked(read, worked)
    few = f"{read or 'no'} round of the sensors came meanwhile" if read < _LEAST_ROUNDS else ""
    return Worked(read, 0, failed[0] if failed else few)


def _cards(run: RunContext) -> list[CardSummary]:
    return [card for card in run.recorder.fold.snapshot().gpus.of_server if card.readings]


def _works(card: CardSummary) -> bool:
    return card.last is not None and above_rest(card.last, card.quiet_busy, card.quiet_w)


async def _generate(run: RunContext, enough: anyio.Event, failed: list[str]) -> None:
    """One request after another; none is cut, for what a server still does of it would be counted to the run."""
    number = 0
    while not failed and not enough.is_set():
        number += 1
        _, why = await _ask(run, _body(run, f"work {number}", 32, _WORK_TOKENS))
        if why:
            failed.append(why)


def _body(run: RunContext, name: str, tokens: int, max_tokens: int) -> bytes:
    """A prompt of about so many tokens that no other run sent; by ids, of which every vocabulary has the first ones."""
    drawn = hashlib.shake_128(f"probe {name} {run.prepared.nonce}".encode()).digest(tokens)
    by_ids = run.scenario.sessions.prompt == "tokens"
    prompt: str | list[int] = [100 + byte for byte in drawn] if by_ids else " ".join(f"{byte:02x}" for byte in drawn)
    body = {"model": run.prepared.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0.0}
    return orjson.dumps(body | ({"ignore_eos": True} if max_tokens > 1 else {}))


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


async def _ask(run: RunContext, body: bytes) -> tuple[int | None, str]:
    """Tokens of the prompt as the server counts, and why it did not answer."""
    content, why = await _post(run, "/v1/completions", body)
    if content is None:
        return None, why
    try:
        usage = msgspec.json.decode(content, type=_Body).usage
    except msgspec.DecodeError:
        return None, "the probe's answer is not that of an OpenAI-compatible server"
    return (usage.prompt_tokens if usage is not None else None), ""


async def _post(run: RunContext, path: str, body: bytes) -> tuple[bytes | None, str]:
    """What came with status 200; else None and why."""
    head = {"content-type": "application/json", "x-request-id": f"imx-{run.prepared.nonce}-probe"}
    try:
        answer = await run.client.post(path, content=body, headers=head, timeout=_TIMEOUT_S)
    except TRANSPORT_ERRORS as error:
        return None, one_line(f"the probe got no answer: {type(error).__name__}: {error}")[:200]
    if answer.status_code != 200:
        return None, f"the probe was answered with {answer.status_code}"
    return answer.content, ""
