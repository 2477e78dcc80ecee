"""What every source of GPU sensors can do, so that the sampler need not know which one it reads."""

from __future__ import annotations

from typing import Protocol

from infermaxx_tui.core.gpu import GpuProbe, GpuReading


class Source(Protocol):
    """Cards of one origin. All of it is called from one thread; none of it raises for what a card cannot do."""

    def probe(self, first: int) -> GpuProbe:
        """Starts it, and asks each card for each reading once. Cards are numbered from `first` on.

        Without a card, `error` says why in one line.
        """

    def read(self, slow: bool) -> tuple[GpuReading, ...]:
        """A reading of each card; `slow` asks for the costly ones too. A card that is gone says so in `lost`."""

    def changed(self) -> GpuProbe | None:
        """The probe anew if a card's sensors came to answer otherwise than they did; else None."""

    def close(self) -> None:
        """Lets go of whatever it holds."""
