"""The requests of a conversation's transcripts, one after another."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.transcript import Message, Request
from infermaxx_tui.runner.context import Prepared


class Step(msgspec.Struct, frozen=True):
    """One request of the chained transcripts, with its ids where they were made beforehand."""

    request: Request
    messages: tuple[Message, ...]
    tools: str
    delta_ids: tuple[int, ...] | None
    """Exact ids of `messages` behind a closed turn; None where they must be rendered."""
    reply_ids: tuple[int, ...] | None

    @property
    def pause_s(self) -> float:
        """What a person and the tools took before this request."""
        return self.request.think_s + self.request.tool_delay_s


def steps(prepared: Prepared, plan: ConversationPlan) -> Iterator[Step]:
    """The requests of the chain; a later transcript's system prompt and tools are left out."""
    for place, index in enumerate(plan.chain):
        session = prepared.transcripts[index]
        tokenised = prepared.tokenised[index] if prepared.tokenised else None
        for number, request in enumerate(session.requests):
            exact = tokenised.requests[number] if tokenised is not None else None
            messages, delta_ids = request.delta, exact.delta_ids if exact is not None else None
            if number == 0 or (exact is not None and exact.opens_window):
                delta_ids = None
                if place or number:
                    messages = tuple(m for m in messages if m.role != "system")
            yield Step(request, messages, session.tools, delta_ids, exact.reply_ids if exact is not None else None)
