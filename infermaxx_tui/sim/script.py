"""A reply as the engine plays it: which tokens, how they end, and what goes wrong on the way."""

from __future__ import annotations

from typing import Literal

import msgspec

from infermaxx_tui.sim.speech import Spoken
from infermaxx_tui.vocabulary import Vocabulary

Finish = Literal["stop", "length"]
Trouble = Literal["error-done", "eof", "reset", "nan", "huge-event", "hang", "dies", "restarts"]
TROUBLE_AFTER = 4
"""Tokens that a reply brings before something happens to it."""


class Script(msgspec.Struct, frozen=True):
    """What a request will be answered with."""

    ids: tuple[int, ...]
    """Generated ids, the end-of-turn token included if the reply stops."""
    finish: Finish | None
    """What the server claims; None if it never says."""
    per_step: int = 1
    """Tokens of one event."""
    trouble: Trouble | None = None
    """What happens after `TROUBLE_AFTER` tokens."""


class Tokens:
    """The special ids that replies are made of."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.end = _needed(vocabulary, "<|im_end|>")
        self.think = _needed(vocabulary, "<think>")
        self.unthink = _needed(vocabulary, "</think>")
        self.call = _needed(vocabulary, "<tool_call>")
        self.uncall = _needed(vocabulary, "</tool_call>")

    def spell(self, spoken: Spoken) -> tuple[int, ...]:
        """The ids of a reply as the chat template would render it, without the end of turn."""
        encode = self._vocabulary.encode
        ids: tuple[int, ...] = ()
        content = spoken.content
        if spoken.reasoning:
            ids += (self.think, *encode(f"\n{spoken.reasoning}\n"), self.unthink)
            content = f"\n\n{content}" if content or spoken.tool else ""
        if not spoken.tool:
            return ids + encode(content)
        if spoken.content:
            content += "\n"
        ids += encode(content)
        for call in spoken.tool.split("\n"):
            ids += (self.call, *encode(f"\n{call}\n"), self.uncall)
        return ids

    def script(self, spoken: Spoken, max_tokens: int) -> Script:
        """The reply as far as `max_tokens` lets it go."""
        return self.capped((*self.spell(spoken), self.end), max_tokens)

    def capped(self, ids: tuple[int, ...], max_tokens: int) -> Script:
        """These ids, which end the turn, as far as `max_tokens` lets them go."""
        return Script(ids, "stop") if len(ids) <= max_tokens else Script(ids[:max_tokens], "length")


def _needed(vocabulary: Vocabulary, token: str) -> int:
    token_id = vocabulary.special_id(token)
    if token_id is None:
        raise ValueError(f"the vocabulary {vocabulary.name} has no {token}, and the embedded server cannot do without")
    return token_id
