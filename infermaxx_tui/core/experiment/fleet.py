"""Many experiments as one table: a row an arm with what it ran on, so that no number stands without its regime."""

from __future__ import annotations

from collections.abc import Sequence

from infermaxx_tui.core.experiment.answer import Answer, ArmAnswer
from infermaxx_tui.core.experiment.cells import Cell, Table
from infermaxx_tui.core.experiment.curves import right_text
from infermaxx_tui.core.experiment.lines import regime_text, word_text
from infermaxx_tui.core.measures import Measure, number_text

_FIGURES = (
    ("decode.tokens_per_s", "decode, tokens/s"),
    ("ttft.cold_ms", "cold TTFT, ms"),
    ("ttft.repeat_ms", "repeat TTFT, ms"),
    ("aggregate.tokens_per_s", "together, tokens/s"),
    ("pool.tokens", "pool, tokens"),
)


def newest_of(named: Sequence[tuple[str, Answer]]) -> tuple[tuple[str, Answer], ...]:
    """Of each experiment the first one, that is the newest."""
    newest: dict[str, tuple[str, Answer]] = {}
    for name, found in named:
        newest.setdefault(found.registered.experiment, (name, found))
    return tuple(newest.values())


def fleet_table(named: Sequence[tuple[str, Answer]]) -> Table:
    """`named`: folder and results, newest first; of each experiment the first one counts.

    A figure that no arm was asked for has no column.
    """
    newest = newest_of(named)
    asked = {one.name for _, found in newest for arm in found.arms for one in arm.measures}
    figures = tuple((name, title) for name, title in _FIGURES if name in asked)
    head = ("experiment", "arm", "regime", "verdicts", "answers", *(title for _, title in figures), "when")
    rows = tuple(_row(name, found, arm, [one for one, _ in figures]) for name, found in newest for arm in found.arms)
    return Table(head, rows)


def _row(name: str, found: Answer, arm: ArmAnswer, figures: Sequence[str]) -> tuple[Cell, ...]:
    words = ", ".join(word_text(row) for row in arm.rows) or "not started"
    return (
        Cell(found.registered.experiment, "SIMULATED" if found.simulated else ""),
        Cell(arm.name, struck=arm.worthless),
        Cell(regime_text(arm)),
        Cell(words),
        Cell(right_text(arm)),
        *(_figure(arm, figure) for figure in figures),
        Cell(f"{name[:4]}-{name[4:6]}-{name[6:8]}"),
    )


def _figure(arm: ArmAnswer, name: str) -> Cell:
    """Every depth and number of streams that was measured, a speed never without them."""
    some = [one for one in arm.measures if one.name == name]
    if arm.withheld is not None and any(one.is_speed for one in some):
        return Cell("withheld", arm.withheld, struck=True)
    said = [_value(one) for one in sorted(some, key=lambda one: (one.depth_tokens or 0, one.streams or 0))]
    once = any(len(one.values) == 1 for one in some)
    return Cell("; ".join(said) or "n/a", badge="n 1" if once else "")


def _value(one: Measure) -> str:
    where = "" if one.depth_tokens is None else f" @{one.depth_tokens:,}"
    where += f" x{one.streams}" if one.streams not in (None, 1) else ""
    if one.median is None or one.spread is None:
        return f"n/a{where}"
    low, high = one.spread
    spread = f"{number_text(low)} to {number_text(high)}, n {len(one.values)}" if len(one.values) > 1 else ""
    inside = "; ".join(filter(None, (spread, one.note)))
    return f"{number_text(one.median)}{where}" + (f" ({inside})" if inside else "")
