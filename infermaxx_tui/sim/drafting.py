"""Speculation as the embedded server plays it: a fixed round of steps, so that what it counts can be reckoned.

As in vLLM 0.32 the first token of a reply comes from its prompt and is not drafted, a drafted step brings what was
accepted and one token more, and what was accepted is counted before the reply's end cuts some of it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Final, NamedTuple

from infermaxx_tui.sim.script import Script

DRAFT_TOKENS: Final = 3
"""Tokens of each draft."""
ROUND: Final = ((3,), (2,), (), (0,), (1,))
"""Accepted tokens of the draft of each step, over and over; empty: nothing was drafted for that step."""


class Step(NamedTuple):
    """One event of a reply."""

    tokens: int
    """At most so many; the reply may end before."""
    drafts: tuple[int, ...]
    """Accepted tokens of each draft in it."""


def steps_of(script: Script, drafting: bool) -> Iterator[Step]:
    """The events of a reply. One that comes fast by itself is babble, of which every draft is accepted."""
    if script.per_step > 1 or not drafting:
        easy = script.per_step // (DRAFT_TOKENS + 1) if drafting else 0
        for _ in range(0, len(script.ids), script.per_step):
            yield Step(script.per_step, (DRAFT_TOKENS,) * easy)
        return
    rounds = cycle(ROUND)
    step, came = Step(1, ()), 0
    while came < len(script.ids):
        yield step
        came += step.tokens
        drafts = next(rounds)
        step = Step(1 + sum(drafts), drafts)


class Drafted:
    """What a server process counts of it."""

    def __init__(self) -> None:
        self.drafts = 0
        self.accepted_at = [0] * DRAFT_TOKENS
        """By place in the draft."""

    @property
    def draft_tokens(self) -> int:
        """Tokens that were guessed."""
        return DRAFT_TOKENS * self.drafts

    @property
    def accepted_tokens(self) -> int:
        """Those of them that were right."""
        return sum(self.accepted_at)

    def count(self, drafts: tuple[int, ...]) -> None:
        """The drafts of one step, by how much of each was accepted."""
        self.drafts += len(drafts)
        for accepted in drafts:
            for place in range(accepted):
                self.accepted_at[place] += 1
