"""How far prompts went on with the ones before them, and what the server's cache gave of that."""

from __future__ import annotations

import msgspec

LEAST_PREFILL = 256
"""Tokens that had to be computed, below which a first token's time says nothing about the speed of prefill."""


class WorstMiss(msgspec.Struct, frozen=True):
    """The turn at which most had to be computed again although it had been sent before."""

    part: int
    seq: int
    session: int
    turn: int
    missed_tokens: int
    of_tokens: int
    """The previous prompt and reply together."""
    cached_tokens: int | None
    """What the server took from its cache for that turn; None if it does not say."""
    ttft_ms: float | None


class PrefixSeen(msgspec.Struct, frozen=True, kw_only=True):
    """Of the turns that followed another in the same context; those that began one anew are none of them."""

    turns: int = 0
    """Those whose ids the server sent, so that they could be compared with the last prompt and reply."""
    whole: int = 0
    """Those of them that began with all of it."""
    kept_tokens: int = 0
    """What they began with."""
    missed_tokens: int = 0
    """What came after the first token that differed."""
    worst: WorstMiss | None = None
    """None if nothing was ever missed."""
    told_turns: int = 0
    """Turns of which the server said what it had cached."""
    could_tokens: int = 0
    """What it could have taken from its cache for those, by their ids."""
    cached_tokens: int = 0
    """What it took."""
    prefill_tokens_per_s: float | None = None
    """Tokens that had to be computed by the time to the first token, with all that was going on beside; None if
    nothing large enough was seen."""
    missed_s: float | None = None
    """What computing the missed ones again took, at that speed."""

    @property
    def share(self) -> float | None:
        """Share of the last prompts and replies that was kept; None without a turn."""
        both = self.kept_tokens + self.missed_tokens
        return self.kept_tokens / both if both else None

    @property
    def said(self) -> str | None:
        """In one sentence for people; None without a turn."""
        if not self.turns:
            return None
        if self.worst is None:
            text = f"Each of {self.turns} turns began with all of the last prompt and reply"
        else:
            worst = self.worst
            cost = "" if self.missed_s is None else f", {self.missed_s:.3g} s of prefill as fast as it was seen"
            text = (
                f"{self.turns - self.whole} of {self.turns} turns did not begin with all of the last prompt and reply:"
                f" {self.missed_tokens} tokens missed{cost}, at worst {worst.missed_tokens} of {worst.of_tokens}"
                f" at session {worst.session} turn {worst.turn}"
            )
        if self.told_turns and self.could_tokens:
            text += f"; the server took {self.cached_tokens} tokens from its cache where {self.could_tokens} were there"
        return f"{text}."
