"""Where the panels of an experiment stand: a matter of sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from infermaxx_tui.tui.arrange import WIDE, Box

ExperimentPanel = Literal["arms", "starts", "answer", "curves"]
EXPERIMENT_PANELS: Final[tuple[ExperimentPanel, ...]] = ("arms", "starts", "answer", "curves")
"""In the order of the digit keys."""
_NARROW: Final = 60
_SHORT: Final = 12
"""Smaller than this, one panel at a time."""
_ARMS: Final = 6
"""Lines that the arms get in any case: title, head, and something to read."""
_STARTS: Final = 4
_SIDE: Final = 60


def places(
    width: int, height: int, wanted: Mapping[ExperimentPanel, int], shown: ExperimentPanel, alone: bool = False
) -> dict[ExperimentPanel, Box]:
    """`wanted` says how many lines would show all of each; `shown` is always there.

    From top to bottom arms, starts, answer; the curves take the answer's place when they are chosen, and where it is
    wide they stand beside it, below the starts.
    """
    if alone or width < _NARROW or height < _SHORT:
        return {shown: Box(0, 0, width, height)}
    arms = min(wanted.get("arms", 0), max(height * 2 // 5, _ARMS))
    rest = height - arms
    boxes: dict[ExperimentPanel, Box] = {"arms": Box(0, 0, width, arms)}
    if width < WIDE:
        starts = min(wanted.get("starts", 0), max(rest * 2 // 5, _STARTS))
        boxes["starts"] = Box(0, arms, width, starts)
        boxes["curves" if shown == "curves" else "answer"] = Box(0, arms + starts, width, rest - starts)
        return boxes
    side = max(width * 2 // 5, _SIDE)
    starts = min(wanted.get("starts", 0), max(rest // 3, _STARTS))
    boxes["starts"] = Box(width - side, arms, side, starts)
    boxes["answer"] = Box(0, arms, width - side - 1, rest)
    boxes["curves"] = Box(width - side, arms + starts, side, rest - starts)
    return boxes
