"""Tasks that are reckoned: arithmetic, and quantities in another unit."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from infermaxx_tui.core.quality.task import Draw, Task, asking

_NUMBER: Final = "the number alone"
_PLACES: Final = 3
"""Decimals to which a quantity may be rounded; half a unit of the last one is the tolerance."""


def _remainder(draw: Draw) -> tuple[str, int]:
    whole, by = draw.number(100_000, 999_999), draw.number(101, 989)
    return f"What is the remainder when {whole} is divided by {by}?", whole % by


def _product(draw: Draw) -> tuple[str, int]:
    one, other = draw.number(102, 989), draw.number(12, 98)
    return f"What is {one} * {other}?", one * other


def _sum(draw: Draw) -> tuple[str, int]:
    one, other, less = (draw.number(1_001, 9_899) for _ in range(3))
    return f"What is {one} + {other} - {less}?", one + other - less


def _mixed(draw: Draw) -> tuple[str, int]:
    one, other, by, less = draw.number(21, 98), draw.number(21, 98), draw.number(3, 9), draw.number(11, 199)
    return f"What is ({one} + {other}) * {by} - {less}?", (one + other) * by - less


_ARITHMETIC: Final = (_remainder, _product, _sum, _mixed)


def arithmetic(draw: Draw, kind: int, name: str) -> Task:
    """A remainder, a product, a sum, or a term with brackets; whole numbers, compared exactly."""
    text, key = _ARITHMETIC[kind](draw)
    return Task(task=name, family="arithmetic", question=asking(text, _NUMBER), form="number", expected=str(key))


_METRES: Final = ("m", "metre", "metres", "meter", "meters")
_HOURS: Final = ("h", "hr", "hrs", "hour", "hours")
_KIB: Final = ("KiB", "kibibyte", "kibibytes")
_FAHRENHEIT: Final = ("°F", "F", "degrees Fahrenheit", "degree Fahrenheit", "degrees", "Fahrenheit")


def units(draw: Draw, kind: int, name: str) -> Task:
    """Kilometres to metres, minutes to hours, MiB to KiB, or Celsius to Fahrenheit.

    Factors are exact by definition of the units (1000, 60, 1024; F = C * 9/5 + 32), so the key is a fraction.
    """
    spelled: tuple[str, ...]
    match kind:
        case 0:
            tenths = draw.number(12, 987)
            text, key, spelled = f"{tenths / 10:.1f} kilometres in metres", Fraction(tenths, 10) * 1000, _METRES
        case 1:
            minutes = draw.number(5, 95) * 15
            text, key, spelled = f"{minutes} minutes in hours", Fraction(minutes, 60), _HOURS
        case 2:
            size = draw.number(3, 99)
            text, key, spelled = f"{size} MiB in KiB", Fraction(size * 1024), _KIB
        case _:
            celsius = draw.number(-30, 95)
            key, spelled = Fraction(celsius * 9, 5) + 32, _FAHRENHEIT
            text = f"{celsius} degrees Celsius in degrees Fahrenheit"
    return Task(
        task=name,
        family="units",
        question=asking(f"How much is {text}?", "the number, with or without its unit"),
        form="number",
        expected=_decimal(key),
        tolerance=0.5 / 10**_PLACES,
        units=spelled,
    )


def _decimal(key: Fraction) -> str:
    """The exact decimals, of which all keys here have at most two."""
    return f"{key.numerator / key.denominator:g}" if key.denominator > 1 else str(key.numerator)
