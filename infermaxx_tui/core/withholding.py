"""Why the speed of a run is not to be shown: tokens that mean nothing are cheap, so all figures look better for it."""

from __future__ import annotations

from infermaxx_tui.core.inflation import Inflation
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Degenerate


def babble(seen: Degenerate, limits: Limits) -> str | None:
    """Why babble hides the speed: from the share of replies on at which degeneration fails (gpu-and-verdicts §2.7)."""
    found, n = seen.found.count, seen.replies
    if not found or found < limits.max_degenerate_share * n:
        return None
    return f"{found} of {n} replies degenerate"


def withheld_speed(quality: str | None, seen: Degenerate, inflation: Inflation | None, limits: Limits) -> str | None:
    """The first reason of all; None if the speed may be shown. `quality`: what the gate of the tasks says."""
    return quality or babble(seen, limits) or (inflation.said if inflation is not None else None)
