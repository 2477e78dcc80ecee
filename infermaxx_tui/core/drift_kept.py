"""Sums over blocks of time that grow with the run, so that a soak of days takes no more room than one of an hour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from infermaxx_tui.core.drift import Series
from infermaxx_tui.core.drift_fit import Block, merged, sample
from infermaxx_tui.core.evidence import Ref

BLOCKS: Final = 64
"""Blocks of a stretch; when they are full, neighbours are joined and each is twice as long."""
STRETCHES: Final = 32
"""Stretches kept of a quantity, the newest."""
FIRST_BLOCK_US: Final = 250_000
_COVARIATES: Final[dict[str, tuple[str, ...]]] = {
    "decode": ("depth in 1,000 tokens", "other streams"),
    "ttft": ("1,000 uncached tokens", "other requests"),
}
_US_PER_HOUR: Final = 3.6e9


@dataclass(slots=True)
class Stretch:
    """One quantity from one start of the server to the next."""

    origin_us: int
    newest_us: int
    width_us: int = FIRST_BLOCK_US
    blocks: dict[int, Block] = field(default_factory=dict)
    """By number since the origin; those without a sample are not there."""

    def add(self, us: int, weight: float, covariates: tuple[float, ...], value: float) -> None:
        """One sample."""
        since = us - self.origin_us
        if us > self.newest_us:
            self.newest_us = us
        while since >= BLOCKS * self.width_us:
            self._join_neighbours()
        place = since // self.width_us if since > 0 else 0
        block = sample(weight, since / _US_PER_HOUR, covariates, value)
        before = self.blocks.get(place)
        self.blocks[place] = block if before is None else merged(before, block)

    def _join_neighbours(self) -> None:
        joined: dict[int, Block] = {}
        for place, block in self.blocks.items():
            before = joined.get(place // 2)
            joined[place // 2] = block if before is None else merged(before, block)
        self.blocks = joined
        self.width_us *= 2


@dataclass(slots=True)
class Quantity:
    """All that is kept of one quantity."""

    n: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    broken: bool = True
    """The next sample begins a stretch."""
    excluded: dict[str, int] = field(default_factory=dict)
    at: Ref | None = None

    def add(self, at: Ref, us: int, weight: float, covariates: tuple[float, ...], value: float) -> None:
        """One sample."""
        if self.broken:
            self.stretches.append(Stretch(us, us))
            del self.stretches[:-STRETCHES]
            self.broken = False
        self.n += 1
        self.at = at
        self.stretches[-1].add(us, weight, covariates, value)

    def leave_out(self, reason: str) -> None:
        """A sample that is not counted."""
        self.excluded[reason] = self.excluded.get(reason, 0) + 1

    def seen(self, name: str) -> Series:
        """What a judge looks at."""
        return Series(
            name=name,
            covariates=_COVARIATES.get(name, ()),
            n=self.n,
            hours=sum(one.newest_us - one.origin_us for one in self.stretches) / _US_PER_HOUR,
            stretches=tuple(
                tuple(block for _, block in sorted(one.blocks.items())) for one in self.stretches if one.blocks
            ),
            excluded=dict(sorted(self.excluded.items())),
            at=self.at,
        )
