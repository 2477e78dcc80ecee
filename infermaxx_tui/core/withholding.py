"""Why the speed of a run is not to be shown: tokens that mean nothing are cheap, so all figures look better for it."""

from __future__ import annotations

from infermaxx_tui.core.inflation import Inflation
from infermaxx_tui.core.limits import Limits
from infermaxx_tui.core.state import Degenerate


def babble(seen: Degenerate, limits: Limits) -> str | None:
    """Why a run fails by degeneration, which hides its speed too (gpu-and-verdicts §2.7); None if it does not.

    By the share of all replies, by those to recall questions, or by those to the trivial prompts after the run.
    """
    found, n, most = seen.found.count, seen.replies, limits.max_degenerate_recalls
    if found and found >= limits.max_degenerate_share * n:
        return f"{found} of {n} replies degenerate"
    if seen.recalls > most:
        return f"{seen.recalls} recall replies degenerate"
    if seen.after > most:
        return f"{seen.after} replies to trivial prompts after the run degenerate"
    return None


def withheld_speed(quality: str | None, seen: Degenerate, inflation: Inflation | None, limits: Limits) -> str | None:
    """The first reason of all; None if the speed may be shown. `quality`: what the gate of the tasks says."""
    return quality or babble(seen, limits) or (inflation.said if inflation is not None else None)
