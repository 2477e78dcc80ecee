"""The requests of a conversation's transcripts, one after another."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from infermaxx_tui.core.blocks import Stretch
from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.scenario import Sessions
from infermaxx_tui.core.transcript import Message, Request, Session
from infermaxx_tui.runner.context import Prepared


class Trace(msgspec.Struct, frozen=True):
    """A request of a trace without text."""

    stretch: Stretch
    prompt_tokens: int


class Step(msgspec.Struct, frozen=True):
    """One request of the chained transcripts, with its ids where they were made beforehand."""

    request: Request
    messages: tuple[Message, ...]
    tools: str
    delta_ids: tuple[int, ...] | None
    """Exact ids of `messages` behind a closed turn; None where they must be rendered."""
    reply_ids: tuple[int, ...] | None
    transcript: int
    number: int
    """Which request of its transcript it is, from 0."""
    opens: str = ""
    """Why the prompt begins anew here, in the middle of a transcript; else empty."""
    reply_tokens: int | None = None
    """How long the recorded reply was; None if nobody knows."""
    trace: Trace | None = None
    """What stands in the place of messages where the transcript has none."""

    def forced_tokens(self, sessions: Sessions) -> int | None:
        """The length that the reply is forced to; None if it is free."""
        if self.reply_tokens is None or (sessions.output == "natural" and self.trace is None):
            return None
        return max(1, self.reply_tokens)

    def pause_s(self, sessions: Sessions, joined: bool) -> float | None:
        """Seconds before this request: what a person and what the tools took, each cut to what the scenario allows.

        `joined`: the request waited for a subagent, whose run the tools' delay was. None without any pause.
        """
        match sessions.think_time:
            case "none":
                return None
            case "recorded":
                most = sessions.max_think_s if sessions.max_tool_s is None else sessions.max_tool_s
                tools_s = 0.0 if joined else min(self.request.tool_delay_s, most)
                return min(self.request.think_s, sessions.max_think_s) + tools_s
            case seconds:
                return float(seconds)


def steps(prepared: Prepared, plan: ConversationPlan) -> Iterator[Step]:
    """The requests of the chain; a later transcript's system prompt and tools are left out.

    Where a transcript's context was rewritten, the prompt begins anew with what it was rewritten to, behind the system
    prompt that the transcript began with.
    """
    for place, index in enumerate(plan.chain):
        session = prepared.transcripts[index]
        number = 0
        for which, window in enumerate(session.windows):
            for request in window.requests:
                opens = window.reason if which and request is window.requests[0] else ""
                step = _step(prepared, index, number, request, opens or "")
                if opens:
                    step = msgspec.structs.replace(step, messages=_whole_prompt(session, request))
                elif number == 0 and place:
                    step = msgspec.structs.replace(step, messages=_unled(request.delta))
                yield step
                number += 1


def _step(prepared: Prepared, index: int, number: int, request: Request, opens: str) -> Step:
    session = prepared.transcripts[index]
    exact = prepared.tokenised[index].requests[number] if prepared.tokenised else None
    rendered_anew = number == 0 or bool(opens)
    reply_tokens = request.usage.output_tokens
    if exact is not None:
        reply_tokens = max(1, len(exact.reply_ids) - prepared.end_tokens)
    return Step(
        request=request,
        messages=request.delta,
        tools=session.tools,
        delta_ids=exact.delta_ids if exact is not None and not rendered_anew else None,
        reply_ids=exact.reply_ids if exact is not None else None,
        transcript=index,
        number=number,
        opens=opens,
        reply_tokens=reply_tokens,
        trace=_trace(prepared, index, number, request),
    )


def _trace(prepared: Prepared, index: int, number: int, request: Request) -> Trace | None:
    if not prepared.traces:
        return None
    window = 0
    for one in prepared.transcripts[index].windows:
        if number < len(one.requests):
            break
        number -= len(one.requests)
        window += 1
    return Trace(prepared.traces[index][window], request.usage.prompt_tokens or 0)


def _unled(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.role != "system")


def _whole_prompt(session: Session, request: Request) -> tuple[Message, ...]:
    """A rewritten context, which keeps the system prompt even if the recording does not repeat it."""
    if any(message.role == "system" for message in request.delta):
        return request.delta
    first = session.windows[0].requests[0].delta if session.windows[0].requests else ()
    return (*(message for message in first if message.role == "system"), *request.delta)
