"""Tries the abilities that a scenario asks for, before the run's first reading of the server's counters.

Bodies are made here and not of the conversations' prompts, since what is tried is what a client of the chat endpoint
gets: the parsed array, the image part, the switch of the template.
"""

from __future__ import annotations

import base64
from typing import Final

import anyio
import msgspec
import orjson

from infermaxx_tui.core.abilities import TOOLS, Ability, Call
from infermaxx_tui.core.events import AbilityAnswered
from infermaxx_tui.core.reply import Reply
from infermaxx_tui.core.sse import SseParser
from infermaxx_tui.core.trials import Trial, trials
from infermaxx_tui.core.wire_odd import one_line
from infermaxx_tui.picture import picture
from infermaxx_tui.runner.answer import error_text
from infermaxx_tui.runner.client import TRANSPORT_ERRORS
from infermaxx_tui.runner.context import RunContext

_TIMEOUT_S: Final = 600.0
_KEPT: Final = 16_000
"""Characters of each end of a text that are kept: an answer stands at the end of it."""
_TOOLS: Final = orjson.Fragment(TOOLS)


async def try_abilities(run: RunContext) -> None:
    """Every question of every ability, one group after another; ends early when the run is asked to stop."""
    abilities = run.scenario.abilities
    for group in trials(abilities, run.prepared.seed):
        if run.stopper.by is not None:
            return
        async with anyio.create_task_group() as tasks:
            for trial in group:
                tasks.start_soon(_try, run, trial, abilities[trial.ability])


class _Came(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, however it was sent."""

    finish_reason: str | None = None
    content: str = ""
    reasoning: str = ""
    reasoning_tokens: int | None = None
    calls: tuple[Call, ...] = ()
    completion_tokens: int | None = None
    error: str | None = None


async def _try(run: RunContext, trial: Trial, ability: Ability) -> None:
    clock = run.recorder.clock
    began_us = clock.mono_us()
    status, came = await _send(run, trial, ability)
    run.recorder.emit(
        AbilityAnswered(
            ability=trial.ability,
            kind=trial.kind,
            case=trial.case,
            rep=trial.rep,
            place=trial.place,
            question=trial.question,
            expected=trial.expected,
            answer=trial.answer,
            status=status,
            error=came.error,
            finish_reason=came.finish_reason,
            content=_ends(came.content),
            reasoning=_ends(came.reasoning),
            reasoning_chars=len(came.reasoning),
            reasoning_tokens=came.reasoning_tokens,
            calls=came.calls,
            completion_tokens=came.completion_tokens,
            max_tokens=ability.max_tokens,
            total_ms=(clock.mono_us() - began_us) / 1000,
        )
    )


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _KEPT else f"{text[:_KEPT]}\n…\n{text[-_KEPT:]}"


async def _send(run: RunContext, trial: Trial, ability: Ability) -> tuple[int | None, _Came]:
    head = {"content-type": "application/json", "x-request-id": f"imx-{run.prepared.nonce}-ability"}
    body = _body(run, trial, ability)
    try:
        answer = await run.client.post("/v1/chat/completions", content=body, headers=head, timeout=_TIMEOUT_S)
    except TRANSPORT_ERRORS as error:
        return None, _Came(error=one_line(f"{type(error).__name__}: {error}")[:300])
    if answer.status_code != 200:
        return answer.status_code, _Came(error=one_line(error_text(answer.content))[:300])
    return 200, _streamed(answer.content) if trial.stream else _whole(answer.content)


def _body(run: RunContext, trial: Trial, ability: Ability) -> bytes:
    body: dict[str, object] = {
        "model": run.prepared.model,
        "messages": _messages(run, trial),
        "max_tokens": ability.max_tokens,
        "temperature": 0.0,
        "seed": run.scenario.seed,
    }
    if trial.kind == "tools":
        body |= {"tools": _TOOLS, "tool_choice": ability.choice}
    if trial.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": trial.thinking}
    if trial.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return orjson.dumps(body)


def _messages(run: RunContext, trial: Trial) -> list[dict[str, object]]:
    said: list[dict[str, object]] = []
    for number, turn in enumerate(trial.before):
        call = {"id": f"call{number}", "type": "function", "function": msgspec.to_builtins(turn.call)}
        said += [
            {"role": "user", "content": turn.question},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call{number}", "content": turn.result},
            {"role": "assistant", "content": "I have looked that up."},
        ]
    content: object = trial.question
    if trial.kind == "vision":
        image = base64.b64encode(picture(trial.answer)).decode("ascii")
        content = [
            {"type": "text", "text": trial.question},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
        ]
    return [*said, {"role": "user", "content": content}]


def _streamed(data: bytes) -> _Came:
    reply, parser = Reply(think=None), SseParser()
    for payload in parser.feed(data):
        reply.take(payload, 0)
    reply.finish(parser, 0)
    ended = reply.outcome(None)
    return _Came(
        finish_reason=reply.finish_reason,
        content=reply.content,
        reasoning=reply.reasoning,
        reasoning_tokens=reply.reasoning_tokens,
        calls=tuple(Call(call.name, call.arguments) for call in reply.tools.calls),
        completion_tokens=reply.completion_tokens,
        error=None if ended.outcome == "ok" else f"{ended.outcome}: {ended.detail or 'no reason given'}",
    )


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    completion_tokens: int | None = None
    completion_tokens_details: _Details | None = None


class _Body(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


def _whole(data: bytes) -> _Came:
    try:
        body = msgspec.json.decode(data, type=_Body)
    except msgspec.DecodeError as error:
        return _Came(error=one_line(f"not a chat completion: {error}")[:300])
    if not body.choices:
        return _Came(error="a chat completion without a choice")
    choice, usage = body.choices[0], body.usage
    details = usage.completion_tokens_details if usage is not None else None
    message = choice.message
    return _Came(
        finish_reason=choice.finish_reason,
        content=message.content or "",
        reasoning=message.reasoning or message.reasoning_content or "",
        reasoning_tokens=details.reasoning_tokens if details is not None else None,
        calls=tuple(Call(c.function.name, c.function.arguments or "") for c in message.tool_calls or ()),
        completion_tokens=usage.completion_tokens if usage is not None else None,
    )
