"""The two exact tests of the gate; both one-sided, since only a fall is a failure."""

from __future__ import annotations

import math
from typing import Final

ALPHA: Final = 0.05
"""Chance of a false alarm of a whole run; comparisons share it evenly (Bonferroni)."""


def fall_by_chance(fell: int, rose: int) -> float:
    """Chance that so many or more of the changed tasks fell if falling and rising were equally likely.

    McNemar 1947 in its exact form, the sign test: tasks that stayed right or stayed wrong say nothing of a change, and
    of the others the number that fell is binomial with 1/2. 1.0 where nothing changed.
    """
    n = fell + rose
    return math.ldexp(sum(math.comb(n, k) for k in range(fell, n + 1)), -n)


def below_by_chance(right: int, n: int, demanded: float) -> float:
    """Chance of so few right answers or fewer in `n` if the true share were `demanded`: the exact binomial test.

    Clopper and Pearson 1934 invert it for their bound. Raises ValueError for a share outside of [0, 1].
    """
    if not 0.0 <= demanded <= 1.0:
        raise ValueError(f"a share lies between 0 and 1, not at {demanded}")
    return min(math.fsum(math.comb(n, k) * demanded**k * (1.0 - demanded) ** (n - k) for k in range(right + 1)), 1.0)
