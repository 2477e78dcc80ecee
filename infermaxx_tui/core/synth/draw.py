"""Random numbers that are the same on each Python and each machine: a seed must mean one set of transcripts for ever.

Only integers and the four operations of IEEE 754 are used. A platform's own `log` and `exp` may differ in the last bit,
and one token more in one message would be another transcript.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_LN2 = 0.6931471805599453


class Draw:
    """A stream of random numbers; the same words give the same stream."""

    __slots__ = ("_state",)

    def __init__(self, *words: str | int) -> None:
        digest = hashlib.sha256("\x1f".join(map(str, words)).encode()).digest()
        self._state = int.from_bytes(digest[:8], "big")

    def bits(self) -> int:
        """64 random bits (SplitMix64: Steele, Lea, Flood 2014)."""
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        """A whole number from 0 to `limit` - 1; of no use where a bias of limit / 2**64 would matter."""
        return (self.bits() * limit) >> 64

    def between(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`, both included."""
        return least + self.below(most - least + 1)

    def share(self) -> float:
        """A number from 0 (included) to 1 (not included)."""
        return (self.bits() >> 11) / (1 << 53)

    def chance(self, share: float) -> bool:
        """True in `share` of all cases."""
        return self.share() < share

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[self.below(len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """`count` of the items, each at most once, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def normal(self) -> float:
        """A standard normal number (Marsaglia's polar method)."""
        while True:
            x, y = 2 * self.share() - 1, 2 * self.share() - 1
            square = x * x + y * y
            if 0 < square < 1:
                return x * math.sqrt(-2 * natural_log(square) / square)

    def lognormal(self, mu: float, sigma: float) -> float:
        """A lognormal number; `mu` and `sigma` are of its natural logarithm."""
        return exponential(mu + sigma * self.normal())


def natural_log(x: float) -> float:
    """ln x for x > 0, by the series of the inverse hyperbolic tangent; exact to about 1e-15."""
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2, exponent - 1
    ratio = (mantissa - 1) / (mantissa + 1)
    square, term, total = ratio * ratio, ratio, 0.0
    for odd in range(1, 40, 2):
        total += term / odd
        term *= square
    return 2 * total + exponent * _LN2


def exponential(x: float) -> float:
    """e to the power of x, by Taylor's series around the nearest power of two."""
    power = round(x / _LN2)
    rest = x - power * _LN2
    term = total = 1.0
    for n in range(1, 20):
        term = term * rest / n
        total += term
    return math.ldexp(total, power)
