"""Did a figure move between two arms? Three answers, and the third is that nobody can say from this.

Values of one start hang together: warm-up, memory layout and the room are the same. So where there are two starts or
more, each start counts once, by its median; with one start alone the repetitions stand in, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.stats import quantile, student

Outcome = Literal["up", "down", "no_movement", "unresolved", "single", "missing"]
"""`no_movement`: the whole interval lies within the margin. `unresolved`: it holds both no change and one beyond the
margin. `single`: one value a side, which has no spread to be held against."""


ONE_START: Final = "one start a side: what another start would change is in no interval"
"""Said once for an arm, and not beside each of its figures."""
_COSTS: Final = (1.0, 1.0, 1.346, 1.193, 1.434, 1.289, 1.473, 1.346, 1.495)
"""Variance of the median of 1, 2, 3 … normal values by that of their mean; pi / 2 for many."""


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of an arm beside the same figure of its control."""

    outcome: Outcome
    ratio: float | None = None
    """Of the middles, arm to control; None if the control's is 0."""
    low: float | None = None
    """Of the ratio, with 95 %; None where there is no spread to judge by."""
    high: float | None = None
    control: float | None = None
    arm: float | None = None
    boots: tuple[int, int] = (0, 0)
    """Starts that gave values, control and arm."""
    n: tuple[int, int] = (0, 0)
    """Values in all."""
    reason: str | None = None


def moved(control: Sequence[Sequence[float]], arm: Sequence[Sequence[float]], margin: float) -> Movement:
    """What the values of an arm's starts say beside the control's; `margin` is a share.

    Welch's interval on logarithms of the starts' medians (Welch 1947), so that the effect is a ratio, as wide as their
    median needs it, and never narrower than the one that the repetitions within the starts give; where a value is 0 or
    less only equality can be told from change.
    """
    left, right = [list(boot) for boot in control if boot], [list(boot) for boot in arm if boot]
    boots, n = (len(left), len(right)), (sum(map(len, left)), sum(map(len, right)))
    if not left or not right:
        side = "the control" if not left else "the arm"
        return Movement(outcome="missing", boots=boots, n=n, reason=f"{side} has no value")
    across = min(boots) > 1
    xs = [_middle(boot) for boot in left] if across else [value for boot in left for value in boot]
    ys = [_middle(boot) for boot in right] if across else [value for boot in right for value in boot]
    a, b = _middle(xs), _middle(ys)
    ratio = b / a if a else None
    whole = Movement(outcome="single", ratio=ratio, control=a, arm=b, boots=boots, n=n)
    replace = msgspec.structs.replace
    if min(len(xs), len(ys)) < 2:
        return whole
    one_boot = None if across else ONE_START
    if min(*xs, *ys) <= 0:
        same = len({*xs, *ys}) == 1
        outcome: Outcome = "no_movement" if same else "unresolved"
        return replace(whole, outcome=outcome, reason=None if same else "values of 0 have no ratio")
    low, high = _widest(
        _welch([[math.log(x) for x in xs]], [[math.log(y) for y in ys]]),
        _welch([[math.log(x) for x in boot] for boot in left], [[math.log(y) for y in boot] for boot in right]),
        math.log(b / a),
    )
    return replace(whole, outcome=_outcome(low, high, margin), low=math.exp(low), high=math.exp(high), reason=one_boot)


def composed(sides: Sequence[tuple[int, Sequence[Sequence[float]]]], margin: float) -> Movement:
    """The product of all sides' middles, those with -1 as divisors, and whether it is 1; starts count as in `moved`."""
    boots = [(sign, [list(boot) for boot in side if boot]) for sign, side in sides]
    whole = Movement(outcome="single")
    if any(not side for _, side in boots):
        return Movement(outcome="missing", reason="a side has no value")
    if any(value <= 0 for _, side in boots for boot in side for value in boot):
        return Movement(outcome="unresolved", reason="values of 0 have no ratio")
    across = min(len(side) for _, side in boots) > 1
    groups = [(sign, [[math.log(value) for value in boot] for boot in side]) for sign, side in boots]
    middles = [
        (sign, [_middle(boot) for boot in side] if across else [value for boot in side for value in boot])
        for sign, side in groups
    ]
    gap = sum(sign * _middle(values) for sign, values in middles)
    whole = msgspec.structs.replace(whole, ratio=math.exp(gap))
    if any(len(values) < 2 for _, values in middles):
        return whole
    low, high = _widest(
        _half([_error([values]) for _, values in middles]), _half([_error(side) for _, side in groups]), gap
    )
    return msgspec.structs.replace(
        whole,
        outcome=_outcome(low, high, margin),
        low=math.exp(low),
        high=math.exp(high),
        reason=None if across else ONE_START,
    )


def _middle(values: Sequence[float]) -> float:
    middle = quantile(values, 0.5)
    if middle is None:
        raise ValueError("no values")
    return middle


def _outcome(low: float, high: float, margin: float) -> Outcome:
    """Within the margin nothing moved, even if it surely did by less; beyond it, what surely did."""
    least, most = math.log1p(-margin), math.log1p(margin)
    if least <= low and high <= most:
        return "no_movement"
    if low > 0:
        return "up"
    if high < 0:
        return "down"
    return "unresolved"


def _welch(xs: Sequence[Sequence[float]], ys: Sequence[Sequence[float]]) -> float:
    """Half of the 95 % interval of the difference of middles; spread is taken within each group of a side alone."""
    return _half([_error(xs), _error(ys)])


def _half(errors: Sequence[tuple[float, int]]) -> float:
    """The same for a sum or difference of several middles, by their variances and degrees of freedom."""
    error = sum(variance for variance, _ in errors)
    if error <= 0:
        return 0.0
    freedom = error**2 / sum(variance**2 / f for variance, f in errors if f)
    return student(0.975, freedom) * math.sqrt(error)


def _error(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Variance of the middle of the groups' middles, and its degrees of freedom; 0 and 0 where no group has two."""
    n = sum(map(len, groups))
    freedom = n - len(groups)
    if not freedom:
        return 0.0, 0
    squares = sum((x - sum(group) / len(group)) ** 2 for group in groups for x in group)
    return _cost(len(groups)) * _cost(max(map(len, groups))) * squares / freedom / n, freedom


def _cost(n: int) -> float:
    """Variance of the middle of n values by that of their mean, as normal values have it."""
    return _COSTS[n - 1] if n <= len(_COSTS) else math.pi / 2


def _widest(across: float, within: float, gap: float) -> tuple[float, float]:
    """The interval of the larger error: starts whose middles agree by chance are no surer than their repetitions."""
    half = max(across, within)
    return gap - half, gap + half
