"""The subagents of one conversation: each starts when the reply that starts it is there, and runs beside its parent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from infermaxx_tui.core.plan import ConversationPlan, SubagentPlan
from infermaxx_tui.runner.dispatch import wanted_now


class Crew:
    """Starts subagents and knows which of them are over. `play` plays one to its end and never fails."""

    def __init__(
        self,
        plan: ConversationPlan,
        play: Callable[[SubagentPlan, Crew], Awaitable[None]],
        group: TaskGroup | None,
    ) -> None:
        self._plan = plan
        self._play = play
        self._group = group
        self._over: dict[int, anyio.Event] = {}

    async def replied(self, transcript: int, replies: int) -> None:
        """A transcript has so many replies: what the last of them started begins.

        Without a group to run it in it is played to its end here, as where one request runs at once.
        """
        for subagent in self._plan.subagents:
            due = (subagent.parent, subagent.after) == (transcript, replies)
            if not due or subagent.session in self._over:
                continue
            self._over[subagent.session] = anyio.Event()
            if self._group is None:
                await self._one(subagent)
            else:
                self._group.start_soon(self._one, subagent)

    async def _one(self, subagent: SubagentPlan) -> None:
        try:
            await self._play(subagent, self)
        finally:
            self._over[subagent.session].set()

    async def joined(self, transcript: int, replies: int) -> bool:
        """Waits for those that the next request of a transcript waits for; whether there were any."""
        waited = False
        for subagent in self._plan.subagents:
            if (subagent.parent, subagent.after) == (transcript, replies) and subagent.waits:
                over = self._over.get(subagent.session)
                if over is not None:
                    waited = True
                    await over.wait()
        if waited:
            wanted_now("meeting")
        return waited
