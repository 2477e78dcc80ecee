"""How a conversation's prompt grows by one request of its transcript, with the tags that fall due on the way."""

from __future__ import annotations

from infermaxx_tui.core.plan import ConversationPlan
from infermaxx_tui.core.render import Renderer
from infermaxx_tui.runner.lines import Line
from infermaxx_tui.runner.planting import LINE_TOKENS, Planting, takes_lines, with_lines
from infermaxx_tui.runner.steps import Step, Trace
from infermaxx_tui.runner.trace_line import TraceLine
from infermaxx_tui.runner.volatile import Volatile

_LEAST_DELTA_TOKENS = 24
"""Room below this is not filled with a stump of a turn."""


class Growing:
    """One conversation's line and what is put into it before each turn. Renders, so it is called beside the loop."""

    def __init__(
        self, line: Line, plan: ConversationPlan, target: int, volatile: Volatile, renderer: Renderer | None
    ) -> None:
        self.planting = Planting(line, plan.session, plan.tags, target)
        self._line = line
        self._target = target
        self._volatile = volatile
        self._renderer = renderer
        self.longest_reply = 0
        """Tokens of the longest reply so far."""

    def take(self, step: Step, turn: int, first: bool) -> bool:
        """Adds the request; False if there is no room left for any of it.

        Where the context was rewritten the line begins anew, and what was planted is planted again in its place.
        """
        if step.opens:
            self.planting.forget()
        if step.trace is not None:
            return self._fill(step.trace, turn, anew=first or bool(step.opens))
        if first or step.opens:
            self._begin(step, turn)
            return True
        return self._continue(step, turn)

    def _begin(self, step: Step, turn: int) -> None:
        messages = self._volatile.led(step.messages)
        messages, _ = self._line.fit(self.planting.with_head(messages), self._target)
        self._volatile.begin(self._renderer, messages, step.tools)
        self._line.begin(messages, step.tools)
        self.planting.began(turn)

    def _continue(self, step: Step, turn: int) -> bool:
        """Adds the step's messages and what is to be planted with them."""
        messages, ids = step.messages, step.delta_ids
        upcoming = len(ids) if ids is not None else self._line.measure(messages)
        due = self.planting.due(upcoming, self.longest_reply)
        inline = [tag for tag in due if tag.how == "inline" and takes_lines(messages)]
        self.planting.tell([tag for tag in due if tag.how == "exchange"], turn)
        room = self._target - self._line.depth_tokens - LINE_TOKENS * len(inline)
        if ids is None or len(ids) > room:
            if room < _LEAST_DELTA_TOKENS:
                return False
            messages, cut = self._line.fit(messages, room)
            ids = None if cut else ids
        if inline:
            messages, ids = with_lines(messages, inline), None
        self._line.add(messages, ids)
        self.planting.inlined(inline, turn)
        return True

    def _fill(self, trace: Trace, turn: int, anew: bool) -> bool:
        """Adds made text up to the recorded length; tags stand before it."""
        if not isinstance(self._line, TraceLine):
            raise TypeError("a trace without text needs a line that makes it")
        prompt_tokens = min(trace.prompt_tokens, self._target)
        if not anew:
            upcoming = max(0, prompt_tokens - self._line.depth_tokens)
            self.planting.tell(self.planting.due(upcoming, self.longest_reply), turn)
            if self._target - self._line.depth_tokens < _LEAST_DELTA_TOKENS:
                return False
        self._line.fill(trace.stretch, prompt_tokens, anew)
        return True
