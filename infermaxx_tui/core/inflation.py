"""Is the speed of a run too good? Babble is easy to draft, so a ruined model with speculation looks like a fast one.

A flag, never a failure: three things must come together (gpu-and-verdicts §2.7), each of which has honest causes alone.
Nothing is compared across depths, since time per token grows with depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from infermaxx_tui.core.drafting import MIN_DRAFTS

if TYPE_CHECKING:
    from infermaxx_tui.core.events import RequestEnded

FASTER: Final = 1.3
"""Times the control's speed at the same depth (gpu-and-verdicts §2.7)."""
NEAR_MAXIMUM: Final = 0.95
"""Share of drafted tokens accepted from which the mean accepted length nears k + 1."""
LESS_DIVERSE: Final = 0.9
"""Share of the control's distinct trigrams below which diversity falls."""
MIN_TOKENS: Final = 200
"""Tokens of a depth band, on each side, below which it is not compared."""
MIN_REPLIES: Final = 5
"""Replies, on each side, below which diversity is not compared."""
MIN_TRIGRAMS: Final = 14
"""Shorter replies say nothing about diversity: all of their trigrams differ."""


def distinct_trigrams(ids: Sequence[int]) -> float | None:
    """Share of a reply's trigrams of tokens that are different ones, from 0 to 1; None for a short reply."""
    n = len(ids) - 2
    if n < MIN_TRIGRAMS:
        return None
    return round(len(set(zip(ids, ids[1:], ids[2:], strict=False))) / n, 4)


def depth_band(depth_tokens: int) -> int:
    """Half octaves: within one, time per token hardly differs by depth."""
    return math.floor(2 * math.log2(max(depth_tokens, 1)))


class PaceSeen(msgspec.Struct, frozen=True):
    """The sums of a `Pace` at one moment."""

    bands: tuple[tuple[int, int, float], ...] = ()
    """Depth band, tokens, and the ms that they took."""
    replies: int = 0
    diversity: float = 0.0
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0


class Pace(msgspec.Struct):
    """Sums over the replies of one arm, or of one wave of conversations."""

    bands: dict[int, tuple[int, float]] = {}
    """By depth band: tokens, and the ms that they took."""
    replies: int = 0
    """Those whose diversity is known."""
    diversity: float = 0.0
    """Sum of their shares of distinct trigrams."""
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0

    def add(self, depth_tokens: int, tokens: int, decode_ms: float, distinct: float | None) -> None:
        """One reply: `tokens` came in `decode_ms` after its first chunk."""
        band = depth_band(depth_tokens)
        before, ms = self.bands.get(band, (0, 0.0))
        self.bands[band] = (before + tokens, ms + decode_ms)
        if distinct is not None:
            self.replies += 1
            self.diversity += distinct

    def seen(self) -> PaceSeen:
        """The sums so far."""
        bands = tuple((band, tokens, ms) for band, (tokens, ms) in sorted(self.bands.items()))
        return PaceSeen(bands, self.replies, self.diversity, self.drafts, self.draft_tokens, self.accepted_tokens)

    def take(self, event: RequestEnded) -> None:
        """A main-line turn; one without counts or times says nothing."""
        tokens = (event.completion_tokens or 0) - (event.first_chunk_tokens or 0)
        if event.outcome == "ok" and tokens > 0 and event.decode_ms and event.prompt_tokens is not None:
            self.add(event.prompt_tokens, tokens, event.decode_ms, event.distinct_trigrams)


class Inflation(msgspec.Struct, frozen=True, kw_only=True):
    """What the comparison gave; None where it could not be made."""

    faster: float | None
    """Times the control's speed at equal depth."""
    acceptance: float | None
    """Share of drafted tokens that were accepted; None without speculation."""
    diversity: float | None
    """Mean share of distinct trigrams, as a share of the control's."""
    against: str = "the first wave"
    """The control."""

    @property
    def suspicious(self) -> bool:
        """All three at once; what is not known accuses nobody."""
        return (
            self.faster is not None
            and self.faster > FASTER
            and self.acceptance is not None
            and self.acceptance >= NEAR_MAXIMUM
            and self.diversity is not None
            and self.diversity < LESS_DIVERSE
        )

    @property
    def said(self) -> str | None:
        """For people; None if nothing is suspicious."""
        if not self.suspicious:
            return None
        return (
            f"suspiciously fast: {self.faster:.2f} times {self.against} at equal depth, {self.acceptance:.0%} of drafts"
            f" accepted, {self.diversity:.0%} of its distinct trigrams; look at the replies before quoting speed"
        )


def _by_band(pace: Pace | PaceSeen) -> dict[int, tuple[int, float]]:
    """Tokens and ms of each depth band."""
    return pace.bands if isinstance(pace, Pace) else {band: (tokens, ms) for band, tokens, ms in pace.bands}


def worst(found: Sequence[Inflation]) -> Inflation | None:
    """The first that is suspicious, else the first; None if nothing was compared."""
    return next((one for one in found if one.suspicious), next(iter(found), None))


def inflation(now: Pace | PaceSeen, control: Pace | PaceSeen, against: str = "the first wave") -> Inflation:
    """An arm beside its control. Speeds are compared band by band: the ms that its tokens would have taken there."""
    expected_ms = actual_ms = 0.0
    before = _by_band(control)
    for band, (tokens, ms) in _by_band(now).items():
        control_tokens, control_ms = before.get(band, (0, 0.0))
        if min(tokens, control_tokens) >= MIN_TOKENS:
            expected_ms += tokens * control_ms / control_tokens
            actual_ms += ms
    enough = min(now.replies, control.replies) >= MIN_REPLIES and control.diversity > 0
    drafted = now.drafts >= MIN_DRAFTS and now.draft_tokens > 0
    return Inflation(
        faster=expected_ms / actual_ms if actual_ms > 0 else None,
        acceptance=now.accepted_tokens / now.draft_tokens if drafted else None,
        diversity=(now.diversity / now.replies) / (control.diversity / control.replies) if enough else None,
        against=against,
    )
