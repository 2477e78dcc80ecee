"""Adds up how far each turn's prompt went on with the one before it."""

from __future__ import annotations

from dataclasses import dataclass

from infermaxx_tui.core.events import RequestEnded
from infermaxx_tui.core.evidence import Ref
from infermaxx_tui.core.prefix_seen import LEAST_PREFILL, PrefixSeen, WorstMiss


@dataclass(slots=True)
class Prefixes:
    """Sums over main-line turns; of constant size."""

    turns: int = 0
    whole: int = 0
    kept: int = 0
    missed: int = 0
    worst: WorstMiss | None = None
    told: int = 0
    could: int = 0
    cached: int = 0
    prefilled: int = 0
    prefill_ms: float = 0.0

    def ended(self, at: Ref, event: RequestEnded) -> None:
        """A turn is over."""
        self._prefill(event)
        kept, missed = event.prefix_tokens, event.prefix_missed
        if kept is None or missed is None:
            return
        self.turns += 1
        self.whole += missed == 0
        self.kept += kept
        self.missed += missed
        if event.cached_tokens is not None:
            self.told += 1
            self.could += kept
            self.cached += event.cached_tokens
        if missed > (0 if self.worst is None else self.worst.missed_tokens):
            self.worst = WorstMiss(
                *at, event.session, event.turn, missed, kept + missed, event.cached_tokens, event.ttft_ms
            )

    def _prefill(self, event: RequestEnded) -> None:
        if event.prompt_tokens is None or event.cached_tokens is None or event.ttft_ms is None:
            return
        computed = event.prompt_tokens - event.cached_tokens
        if computed >= LEAST_PREFILL:
            self.prefilled += computed
            self.prefill_ms += event.ttft_ms

    def seen(self) -> PrefixSeen:
        """What was added up so far."""
        rate = self.prefilled * 1000 / self.prefill_ms if self.prefill_ms > 0 else None
        return PrefixSeen(
            turns=self.turns,
            whole=self.whole,
            kept_tokens=self.kept,
            missed_tokens=self.missed,
            worst=self.worst,
            told_turns=self.told,
            could_tokens=self.could,
            cached_tokens=self.cached,
            prefill_tokens_per_s=rate,
            missed_s=None if rate is None or not self.turns else self.missed / rate,
        )
