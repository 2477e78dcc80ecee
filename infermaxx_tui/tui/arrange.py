"""Which panels a run screen has room for, and where each stands: a matter of sizes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

Panel = Literal["streams", "axis", "machine", "verdict", "feed"]
PANELS: Final[tuple[Panel, ...]] = ("streams", "axis", "machine", "verdict", "feed")
"""In the order of the digit keys."""

TINY_WIDTH: Final = 40
TINY_HEIGHT: Final = 8
"""At this size or below it there is a status line and nothing else."""
NARROW: Final = 80
"""Narrower than this, one panel at a time."""
WIDE: Final = 120
"""From here on two columns."""
SHORT: Final = 24
"""Lower than this, the chart goes first, then the sensors."""
_SIDE: Final = (40, 60)
"""Narrowest and widest second column."""
_LEAST: Final[Mapping[Panel, int]] = {"streams": 4, "axis": 5, "machine": 5, "verdict": 4, "feed": 4}
_FAIR: Final[Mapping[Panel, int]] = {"streams": 12, "axis": 8, "machine": 10, "verdict": 8, "feed": 5}
_TALL_ORDER: Final[tuple[Panel, ...]] = ("streams", "axis", "feed", "machine", "verdict")
_SHORT_ORDER: Final[tuple[Panel, ...]] = ("streams", "feed", "machine", "verdict", "axis")


class Box(msgspec.Struct, frozen=True):
    """A place on the screen, in cells from the upper left corner of the panels."""

    x: int
    y: int
    width: int
    height: int


def summary_lines(width: int, height: int) -> int:
    """Lines of the summary above the panels: 0 where a status line stands alone."""
    if tiny(width, height):
        return 0
    return 4 if height >= 20 else 2 if height >= 12 else 1


def tiny(width: int, height: int) -> bool:
    """Whether there is room for a status line alone."""
    return width <= TINY_WIDTH or height <= TINY_HEIGHT


def shares(height: int, wanted: Sequence[int], least: int = 3) -> tuple[int, ...]:
    """Lines for lists one below the other: a fair part each, and what one does not want goes to the others, the first
    ones first. One for which less than `least` is left gets none, the last ones first; all lines are given."""
    kept = max(min(len(wanted), height // least), 1)
    wants = wanted[:kept]
    lines = [min(want, height // kept) for want in wants]
    for at, want in enumerate(wants):
        lines[at] += min(want - lines[at], height - sum(lines))
    lines[0] += height - sum(lines)
    return (*lines, *(0,) * (len(wanted) - kept))


def arrange(
    width: int, height: int, wanted: Mapping[Panel, int], shown: Panel, alone: bool = False, screen_height: int = SHORT
) -> dict[Panel, Box]:
    """Where panels go in an area of this size. `wanted` says how many lines would show all of each; `shown` is always
    there, and alone if asked for or if the area is narrow. The order from top to bottom is that of the digit keys."""
    if alone or width < NARROW:
        return {shown: Box(0, 0, width, height)}
    if width < WIDE:
        return _stack(PANELS, 0, width, height, wanted, shown, screen_height)
    side = min(max(width * 2 // 5, _SIDE[0]), _SIDE[1])
    left = _stack(("streams", "axis", "feed"), 0, width - side - 1, height, wanted, shown, screen_height)
    right = _stack(("machine", "verdict"), width - side, side, height, wanted, shown, screen_height)
    return left | right


def _stack(
    panels: Sequence[Panel],
    x: int,
    width: int,
    height: int,
    wanted: Mapping[Panel, int],
    shown: Panel,
    screen_height: int,
) -> dict[Panel, Box]:
    """One column: panels by rank, while there is room for the next beside a fair part of those before it; then more
    lines for each, up to what it wants."""
    order = [panel for panel in (_TALL_ORDER if screen_height >= SHORT else _SHORT_ORDER) if panel in panels]
    if shown in order:
        order.remove(shown)
        order.insert(0, shown)
    lines: dict[Panel, int] = {}
    taken = 0
    for panel in order:
        if taken + _LEAST[panel] <= height or not lines:
            lines[panel] = min(_LEAST[panel], height)
            taken += max(min(wanted.get(panel, 0), _FAIR[panel]), lines[panel])
    spare = height - sum(lines.values())
    for panel in sorted(lines, key=_TALL_ORDER.index):
        more = min(max(wanted.get(panel, 0) - lines[panel], 0), spare)
        lines[panel] += more
        spare -= more
    last = max(lines, key=PANELS.index)
    lines[last] += spare
    boxes: dict[Panel, Box] = {}
    y = 0
    for panel in sorted(lines, key=PANELS.index):
        boxes[panel] = Box(x, y, width, lines[panel])
        y += lines[panel]
    return boxes
