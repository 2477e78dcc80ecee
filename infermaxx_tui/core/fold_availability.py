"""Was the server there, once it had spoken? What a time-out alone cannot say is kept apart from what is certain."""

from __future__ import annotations

import msgspec

from infermaxx_tui.core.events import RequestEnded, ServerLost
from infermaxx_tui.core.evidence import Loss, Ref
from infermaxx_tui.core.fold_delivery import Tally, finding

KEPT = 20
"""Losses that are kept of each sort."""


class Availability(msgspec.Struct):
    """Evidence that the server was away; of constant size."""

    first_token: Ref | None = None
    stalled: Tally = msgspec.field(default_factory=Tally)
    refused: Tally = msgspec.field(default_factory=Tally)
    timed_out: Tally = msgspec.field(default_factory=Tally)
    _losses: dict[tuple[str, bool | None, bool], list[Loss]] = {}

    def lost(self, at: Ref, event: ServerLost) -> bool:
        """Keeps a piece of evidence; says whether it is certain that the server went away after it had spoken."""
        spoke = self.first_token is not None
        kept = self._losses.setdefault((event.how, event.reachable, spoke), [])
        if len(kept) < KEPT:
            kept.append(
                Loss(
                    at=at,
                    how=event.how,
                    session=event.session,
                    req=event.req,
                    detail=event.detail,
                    reachable=event.reachable,
                    after_first_token=spoke,
                )
            )
        gone = event.how in ("refused", "pid_dead", "restarted")
        return spoke and (gone or (event.how == "unhealthy" and event.reachable is True))

    def ended(self, at: Ref, event: RequestEnded) -> None:
        """Counts a request that the server did not answer after it had spoken."""
        if self.first_token is None:
            return
        match event.outcome:
            case "stalled":
                self.stalled.add(finding(at, event, "no token for the stall limit"))
            case "refused_connection":
                self.refused.add(finding(at, event, "connection refused"))
            case "timeout":
                self.timed_out.add(finding(at, event, "timed out"))
            case _:
                pass

    def losses(self) -> tuple[Loss, ...]:
        """What is kept, in the order of the log."""
        return tuple(sorted((loss for kept in self._losses.values() for loss in kept), key=lambda loss: loss.at))
