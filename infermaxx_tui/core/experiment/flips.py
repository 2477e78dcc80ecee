"""Answers that change between two arms: each task beside itself, and beside how often it changes from start to start.

A share of right answers can stay the same while half of the answers are others (answer flips; note A quotes
arXiv 2606.09864).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.stats import wilson


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of whole answers to the same task under the same conditions; capped and missing ones make no pair."""

    pairs: int
    flipped: int
    """Pairs whose answers differ."""
    to_wrong: int
    to_right: int
    interval: tuple[float, float] | None
    """Of the share flipped, with 95 % (Wilson 1927), as if pairs were independent; None without pairs."""
    noise_pairs: int
    """Pairs of two starts of the control."""
    noise_flipped: int
    reason: str | None = None


def flips(control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> Flips:
    """Start by start: the n-th of the arm beside the n-th of the control."""
    left, right = {row.boot: row.answers for row in control}, {row.boot: row.answers for row in arm}
    pairs = [pair for boot in left if boot in right for pair in _pairs(left[boot], right[boot])]
    boots = sorted(left)
    noise = [pair for a, b in pairwise(boots) for pair in _pairs(left[a], left[b])]
    changed = [(a, b) for a, b in pairs if a != b]
    return Flips(
        pairs=len(pairs),
        flipped=len(changed),
        to_wrong=sum(a.startswith("right") and b.startswith("wrong") for a, b in changed),
        to_right=sum(a.startswith("wrong") and b.startswith("right") for a, b in changed),
        interval=wilson(len(changed), len(pairs)),
        noise_pairs=len(noise),
        noise_flipped=sum(a != b for a, b in noise),
        reason=None if pairs else "no task was answered whole by both",
    )


def _pairs(left: dict[str, str], right: dict[str, str]) -> list[tuple[str, str]]:
    both = [(left[key], right[key]) for key in left if key in right]
    return [(a, b) for a, b in both if _whole(a) and _whole(b)]


def _whole(said: str) -> bool:
    return said.startswith(("right", "wrong"))
