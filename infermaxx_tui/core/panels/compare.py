"""Two verdicts side by side; numbers whose regimes differ are refused, and the keys that differ are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, pad, settle
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, title, wrapped
from infermaxx_tui.core.panels.texts import number_text, word_piece
from infermaxx_tui.core.regime import Regime
from infermaxx_tui.core.verdict import Verdict

_LABEL: Final = 24
_DEMANDED: Final = ("sessions", "at_once")
"""What belongs to the regime beside the fields of core.regime.Regime."""
_FIGURES: Final[tuple[tuple[str, Callable[[Verdict], object]], ...]] = (
    ("duration_s", lambda verdict: verdict.regime.duration_s),
    ("depth_reached", lambda verdict: verdict.regime.depth_reached),
    ("admitted at once", lambda verdict: verdict.regime.concurrency_admitted_peak),
    ("generated tokens", lambda verdict: verdict.regime.generated_tokens),
    ("prompt tokens", lambda verdict: verdict.regime.prompt_tokens),
    ("cached tokens", lambda verdict: verdict.regime.cached_tokens),
    ("ttft p50 ms", lambda verdict: verdict.instrument.ttft_p50_ms),
    ("ttft p99 ms", lambda verdict: verdict.instrument.ttft_p99_ms),
    ("gap p50 ms", lambda verdict: verdict.instrument.gap_p50_ms),
    ("gap p99 ms", lambda verdict: verdict.instrument.gap_p99_ms),
    ("loop lag p99 ms", lambda verdict: verdict.instrument.loop_lag_p99_ms),
)


class Difference(msgspec.Struct, frozen=True):
    """How two regimes stand to one another."""

    levers: tuple[str, ...]
    """Keys whose values differ, or are known on one side only."""
    unknown: tuple[str, ...]
    """Keys that are known on neither side: nobody can say that they are the same."""


def difference(left: Verdict, right: Verdict) -> Difference:
    """The keys by which two regimes differ, and those of which nothing is known."""
    keys = [key for key in Regime.__struct_fields__ if key != "missing"]
    pairs = {key: (getattr(left.regime, key), getattr(right.regime, key)) for key in (*keys, *_DEMANDED)}
    return Difference(
        levers=tuple(key for key, (a, b) in pairs.items() if a != b),
        unknown=tuple(key for key, (a, b) in pairs.items() if a is None and b is None),
    )


def rows_compare(left: Verdict, right: Verdict, width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """Verdicts and checks side by side, the regime keys that differ, and the figures where they may be compared.

    Figures are refused where a key of the regime differs; more than one such key is CONFOUNDED.
    """
    table = _Table(width, glyphs)
    found = difference(left, right)
    rows = [
        table.pair("", (left.scenario or "?", "title"), (right.scenario or "?", "title")),
        table.pair("run", (left.run or "?", "dim"), (right.run or "?", "dim")),
        table.pair("verdict", word_piece(left.verdict, glyphs), word_piece(right.verdict, glyphs)),
        *_checks(left, right, table),
        Row(""),
        *_levers(left, right, found, table),
        Row(""),
        *_figures(left, right, found, table),
    ]
    return tuple(rows)


class _Table:
    """Three columns: what, the one, the other."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.width = width
        self.glyphs = glyphs
        self._label = min(_LABEL, width // 3)
        self._half = max((width - self._label - 2) // 2, 1)

    def pair(self, label: str, left: Piece, right: Piece) -> Row:
        """One line; texts may be hostile."""
        pieces: list[Piece] = [(pad(settle(label, self.glyphs), self._label, self.glyphs) + " ", "dim")]
        pieces += [
            (pad(settle(left[0], self.glyphs), self._half, self.glyphs) + " ", left[1]),
            (settle(right[0], self.glyphs), right[1]),
        ]
        return row(pieces, self.width, self.glyphs, key=label or None)

    def title(self, text: str, note: str = "") -> Row:
        """A heading."""
        return title(text, self.width, self.glyphs, note)

    def text(self, text: str, role: Role | None = None) -> tuple[Row, ...]:
        """A paragraph."""
        return wrapped(text, self.width, self.glyphs, "  ", role)


def _checks(left: Verdict, right: Verdict, table: _Table) -> list[Row]:
    """Outcomes alone: they are words, and hold for their own run whatever the other ran on."""
    one, other = ({check.name: check for check in verdict.checks} for verdict in (left, right))
    names = dict.fromkeys((*one, *other))
    return [table.pair(f"  {name}", _answer(one.get(name), table), _answer(other.get(name), table)) for name in names]


def _answer(check: Check | None, table: _Table) -> Piece:
    if check is None:
        return "not judged", "dim"
    match check.outcome:
        case "pass":
            return f"{table.glyphs.ok} pass", "ok"
        case "fail":
            return f"{table.glyphs.bad} FAIL" + (f" {check.cause.replace('_', ' ')}" if check.cause else ""), "bad"
        case "not_evaluable":
            return f"{table.glyphs.unsure} cannot say", "warn"


def _levers(left: Verdict, right: Verdict, found: Difference, table: _Table) -> list[Row]:
    rows = [table.title("regime", f"{len(found.levers)} keys differ" if found.levers else "no key differs")]
    for key in found.levers:
        a, b = getattr(left.regime, key), getattr(right.regime, key)
        rows.append(table.pair(f"  {key}", (number_text(a), None), (number_text(b), None)))
    if len(found.levers) > 1:
        rows += table.text("CONFOUNDED: more than one lever moved, so no difference has one cause", "bad")
    if found.unknown:
        rows += table.text(f"known on neither side: {', '.join(found.unknown)}", "dim")
    limits = [key for key in left.limits.__struct_fields__ if getattr(left.limits, key) != getattr(right.limits, key)]
    if limits:
        rows += table.text(f"judged by different limits: {', '.join(limits)}", "warn")
    return rows


def _figures(left: Verdict, right: Verdict, found: Difference, table: _Table) -> list[Row]:
    if found.levers:
        return [
            table.title("figures"),
            *table.text(f"refused: the regimes differ in {', '.join(found.levers)}", "warn"),
        ]
    rows = [table.title("figures", "same regime, as far as it is known")]
    for name, read in _FIGURES:
        rows.append(table.pair(f"  {name}", (number_text(read(left)), None), (number_text(read(right)), None)))
    one, other = ({check.name: check for check in verdict.checks} for verdict in (left, right))
    for name in dict.fromkeys((*one, *other)):
        a, b = one.get(name), other.get(name)
        if (a is not None and a.bound95 is not None) or (b is not None and b.bound95 is not None):
            rows.append(table.pair(f"  {name}, 95 % bound", _bound(a), _bound(b)))
    return rows


def _bound(check: Check | None) -> Piece:
    if check is None or check.bound95 is None:
        return "n/a", "dim"
    n = f"n {check.n_evaluated}" if check.n_planned is None else f"n {check.n_evaluated}/{check.n_planned}"
    return f"{check.bound95:.2%}, {n}", None
