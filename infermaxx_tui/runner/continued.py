"""What a runner has to know of the segments before its own."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.canary import RegistryBuilder
from infermaxx_tui.core.events import Resumed, TagIssued, TagsKnown


class Continued(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is taken up again."""

    event: Resumed
    """What is logged of it."""
    segment: int
    sessions: int
    """Conversations planned in all."""
    planned_recalls: int
    """Recalls planned in all."""
    last_req: int
    """The newest number of a request: numbers go on, so that each names one request of the whole log."""
    elapsed_s: float
    """How long the segments before took, without the gaps."""
    baseline_asked: bool
    """Whether the quality tasks were all asked before the first conversation; they are not asked again."""
    issued: tuple[TagIssued, ...]
    """Tags of conversations that are not played again, and decoys: the log has them already."""
    retired: TagsKnown
    """Tags that conversations had that are played again: one that comes back is stale."""

    def used_up(self, duration_s: float | None) -> bool:
        """Whether the segments before took all of the run's duration."""
        return duration_s is not None and self.elapsed_s >= duration_s

    def tell(self, registry: RegistryBuilder) -> None:
        """Makes the tags of the segments before known."""
        for issued in self.issued:
            registry.add_issued(issued)
        registry.add_known(self.retired)
