"""What speculation brought: accepted of drafted tokens over a whole run, and how much of the output that speaks for.

A share of few drafts is noise (three of three in an idle window are 100 %), and one that fired on a fifth of the
requests says nothing of the others: so it is a quotient of sums, it stands beside its coverage, or it has a reason.
"""

from __future__ import annotations

from typing import Final

MIN_DRAFTS: Final = 50
"""Drafts below which a share of accepted tokens is not quoted."""
MIN_COVERAGE: Final = 0.05
"""Share of the generated tokens below which the drafted ones do not speak for the run."""


def coverage(drafts: int | None, accepted: int | None, generated: int | None) -> float | None:
    """Share of the generated tokens that came out of drafted steps, from 0 to 1; None where it is not counted.

    A drafted step brings what was accepted and one token of its own. A server counts what was accepted before a reply's
    end cuts some of it off, so the sum may exceed what was generated.
    """
    if drafts is None or accepted is None or not generated:
        return None
    return min((drafts + accepted) / generated, 1.0)


def few(drafts: int | None) -> bool:
    """Whether so many drafts are too few to quote a share of."""
    return drafts is None or drafts < MIN_DRAFTS


def why_not(
    readings: int, drafts: int | None, drafted: int | None, accepted: int | None, covered: float | None
) -> str | None:
    """Why no acceptance can be quoted; None if it can."""
    if not readings:
        return "the server's counters were not read"
    if drafts is None or drafted is None or accepted is None:
        return "the server counts no drafts"
    if not drafted:
        return "nothing was drafted"
    if few(drafts):
        return f"{drafts} drafts are too few: {MIN_DRAFTS} are needed"
    if covered is None:
        return "how much of the output was drafted is not counted"
    if covered < MIN_COVERAGE:
        return f"drafts gave {100 * covered:.2g} % of the generated tokens: too little to speak for the run"
    return None
