"""Two levers, four arms: what they do together beyond what each does alone.

A lever that is good alone may ruin the answers beside another one, and be fastest when it does (note A: 18, 18, 17 and
0 of 24 tasks). So the four values stand side by side, and the interaction is reckoned and not felt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from infermaxx_tui.core.experiment.beside import by_boot
from infermaxx_tui.core.experiment.cells import Cell, Table
from infermaxx_tui.core.experiment.file import Matrix
from infermaxx_tui.core.experiment.moved import ONE_START, Movement, composed
from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.measures import Measure, number_text


class Interaction(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the four arms."""

    measure: Measure
    """Its name, unit, depth and streams, without values."""
    none: float | None
    a: float | None
    b: float | None
    both: float | None
    expected: float | None
    """With both, if neither knew of the other: by factors for a speed, by differences for a share or a count."""
    movement: Movement | None
    """Of what came to what was expected, with its interval; None for differences, and where a value is missing."""
    surplus: float | None
    """What came beyond what was expected; None for factors."""
    reason: str | None
    """Why a value is missing."""


def interactions(matrix: Matrix, rows: Mapping[str, Sequence[ArmRow]], margin: float) -> tuple[Interaction, ...]:
    """Each figure that any of the four arms has and that can be better or worse, in order.

    One that neither the control nor both of the other arms have (what is drafted without drafting) composes nothing,
    and a share that speaks for a part alone stands where that part is named.
    """
    arms = [tuple(rows.get(name, ())) for name in (matrix.none, matrix.a, matrix.b, matrix.both)]
    shares = {one.key for some in arms for row in some for one in row.measures if one.counts}
    seen: dict[tuple[str, int | None, int | None], Measure] = {}
    for some in arms:
        for row in some:
            for one in row.measures:
                if one.better == "neither" or one.key in shares:
                    continue
                seen.setdefault(one.key, msgspec.structs.replace(one, values=(), reason=None, note=None))
    found = (_interaction(one, arms, margin) for one in seen.values())
    return tuple(one for one in found if one.none is not None or (one.a is not None and one.b is not None))


def _interaction(measure: Measure, arms: Sequence[Sequence[ArmRow]], margin: float) -> Interaction:
    found = [_middle(measure, rows) for rows in arms]
    none, a, b, both = (value for value, _ in found)
    by_factors = measure.is_speed or measure.unit in ("tokens", "GiB", "MiB", "W")
    expected = surplus = None
    movement: Movement | None = None
    if none is not None and a is not None and b is not None:
        if not by_factors:
            expected = a + b - none
        elif none:
            expected = a * b / none
    if expected is not None and both is not None:
        surplus = None if by_factors else both - expected
        if by_factors and expected:
            signs = zip((1, -1, -1, 1), arms, strict=True)
            movement = composed([(sign, by_boot(some, measure.key)) for sign, some in signs], margin)
    return Interaction(
        measure=measure,
        none=none,
        a=a,
        b=b,
        both=both,
        expected=expected,
        movement=movement,
        surplus=surplus,
        reason=next((why for _, why in found if why is not None), None),
    )


def _middle(measure: Measure, rows: Sequence[ArmRow]) -> tuple[float | None, str | None]:
    """The median over all starts, or None and why; the speed of a start whose gate failed is no speed."""
    values: list[float] = []
    for row in rows:
        if measure.is_speed and row.hidden is not None:
            return None, f"withheld in {row.arm}: {row.hidden}"
        values += [value for one in row.measures if one.key == measure.key for value in one.values]
    if not values:
        name = rows[0].arm if rows else "an arm"
        return None, f"{name} has no value"
    pooled = msgspec.structs.replace(measure, values=tuple(values))
    return pooled.median, None


def matrix_lines(found: Sequence[Interaction]) -> Iterator[str]:
    """A line a figure: the four values, and what the two levers do together beyond each alone."""
    yield "matrix: none, A, B, A + B; what both should give if neither knew of the other"
    for one in found:
        values = ", ".join(
            "n/a" if value is None else number_text(value) for value in (one.none, one.a, one.b, one.both)
        )
        yield f"  {_name(one)}: {values} {one.measure.unit}; {_together(one)}"


def matrix_table(found: Sequence[Interaction], matrix: Matrix) -> Table:
    """The same as a table, a row a figure, under the names that the arms have."""
    names = (matrix.none, matrix.a, matrix.b, matrix.both)
    return Table(
        ("figure", *names, "together, beside what each does alone"),
        tuple(
            (
                Cell(_name(one), one.measure.unit),
                *(Cell("n/a" if value is None else number_text(value)) for value in (one.none, one.a, one.b, one.both)),
                Cell(_together(one)),
            )
            for one in found
        ),
    )


def _name(one: Interaction) -> str:
    depth, streams = one.measure.depth_tokens, one.measure.streams
    name = one.measure.name + ("" if depth is None else f" at {depth:,} tokens")
    return name + ("" if streams in (None, 1) else f", {streams} at once")


def _together(one: Interaction) -> str:
    if one.expected is None or one.both is None:
        return f"interaction not known: {one.reason or 'a value is missing'}"
    expected = f"expected {number_text(one.expected)}"
    if one.surplus is not None:
        return f"no interaction: {expected}, and came" if not one.surplus else f"{expected}, came {one.surplus:+.4g}"
    if one.movement is None or one.movement.ratio is None:
        return expected
    return f"{expected}; {_how_far(one.movement)}"


def _how_far(one: Movement) -> str:
    """What came beside what was expected, or that nobody can say."""
    came = f"came x {one.ratio:.3g}"
    if one.low is None or one.high is None:
        return f"{came} (one value an arm, which has no spread)"
    bounds = f"{one.low:.3g} to {one.high:.3g} at 95 %"
    bounds += "; one start an arm" if one.reason == ONE_START else ""
    match one.outcome:
        case "no_movement":
            return f"no interaction ({bounds})"
        case "unresolved":
            return f"not resolved: {came} ({bounds})"
        case _:
            return f"{came} ({bounds})"
