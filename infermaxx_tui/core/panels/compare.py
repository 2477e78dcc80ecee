"""Verdicts side by side; numbers whose regimes differ are refused, and the keys that differ are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from infermaxx_tui.core.comparison import Difference, differences
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, pad, settle
from infermaxx_tui.core.judges.check import Check
from infermaxx_tui.core.pairs import pairs_said, suspicions
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, title, wrapped
from infermaxx_tui.core.panels.texts import number_text, word_piece
from infermaxx_tui.core.panels.withheld import WITHHELD
from infermaxx_tui.core.verdict import Verdict

_LABEL: Final = 24
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
_SPEEDS: Final = ("ttft", "gap")
"""What the names of figures of speed begin with."""


def rows_compare(left: Verdict, right: Verdict, width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """Two verdicts side by side, as `rows_compare_all`."""
    return rows_compare_all((left, right), width, glyphs)


def rows_compare_all(verdicts: Sequence[Verdict], width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """Verdicts and checks side by side, the regime keys that differ, and the figures where they may be compared.

    Figures are refused where a key of the regime differs; more than one lever is CONFOUNDED.
    """
    table = _Table(width, glyphs, len(verdicts))
    found = differences(verdicts)
    rows = [
        table.line("", [(verdict.scenario or "?", "title") for verdict in verdicts]),
        table.line("run", [(verdict.run or "?", "dim") for verdict in verdicts]),
        table.line("verdict", [word_piece(verdict.verdict, glyphs) for verdict in verdicts]),
        *_checks(verdicts, table),
        Row(""),
        *_levers(verdicts, found, table),
        *_together(verdicts, table),
        Row(""),
        *_figures(verdicts, found, table),
    ]
    return tuple(rows)


def comparison_lines(verdicts: Sequence[Verdict], width: int) -> list[str]:
    """The same as plain text."""
    return [one.text.rstrip() for one in rows_compare_all(verdicts, width)]


class _Table:
    """A label, and a column for each verdict."""

    def __init__(self, width: int, glyphs: Glyphs, columns: int) -> None:
        self.width = width
        self.glyphs = glyphs
        self._label = min(_LABEL, width // 3)
        self._column = max((width - self._label - columns) // max(columns, 1), 1)

    def line(self, label: str, values: Sequence[Piece]) -> Row:
        """One line; texts may be hostile."""
        pieces: list[Piece] = [(pad(settle(label, self.glyphs), self._label, self.glyphs) + " ", "dim")]
        pieces += [
            (pad(settle(text, self.glyphs), self._column, self.glyphs) + " ", role) for text, role in values[:-1]
        ]
        pieces += [(settle(text, self.glyphs), role) for text, role in values[-1:]]
        return row(pieces, self.width, self.glyphs, key=label or None)

    def title(self, text: str, note: str = "") -> Row:
        """A heading."""
        return title(text, self.width, self.glyphs, note)

    def text(self, text: str, role: Role | None = None) -> tuple[Row, ...]:
        """A paragraph."""
        return wrapped(text, self.width, self.glyphs, "  ", role)


def _by_name(verdicts: Sequence[Verdict]) -> list[dict[str, Check]]:
    return [{check.name: check for check in verdict.checks} for verdict in verdicts]


def _checks(verdicts: Sequence[Verdict], table: _Table) -> list[Row]:
    """Outcomes alone: they are words, and hold for their own run whatever the others ran on."""
    checks = _by_name(verdicts)
    names = dict.fromkeys(name for one in checks for name in one)
    return [table.line(f"  {name}", [_answer(one.get(name), table) for one in checks]) for name in names]


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


def _levers(verdicts: Sequence[Verdict], found: Difference, table: _Table) -> list[Row]:
    keys = found.keys
    rows = [table.title("regime", f"{len(keys)} keys differ" if keys else "no key differs")]
    rows += [
        table.line(f"  {key}", [(number_text(getattr(one.regime, key)), None) for one in verdicts]) for key in keys
    ]
    if found.confounded:
        rows += table.text("CONFOUNDED: more than one lever moved, so no difference has one cause", "bad")
    if found.levers and found.follows:
        rows += table.text(f"moved with them, no levers of their own: {', '.join(found.follows)}", "dim")
    if found.unknown:
        rows += table.text(f"known on {_NEITHER[len(verdicts) == 2]} side: {', '.join(found.unknown)}", "dim")
    limits = [
        key for key in verdicts[0].limits.__struct_fields__ if len({getattr(v.limits, key) for v in verdicts}) > 1
    ]
    if limits:
        rows += table.text(f"judged by different limits: {', '.join(limits)}", "warn")
    return rows


def _together(verdicts: Sequence[Verdict], table: _Table) -> list[Row]:
    """What one run says of another one, if one is a control of the other."""
    said = pairs_said(verdicts)
    if not said:
        return []
    return [Row(""), table.title("together"), *(one for line in said for one in table.text(line))]


_NEITHER: Final = {True: "neither", False: "no"}


def _figures(verdicts: Sequence[Verdict], found: Difference, table: _Table) -> list[Row]:
    if found.keys:
        refused = f"refused: the regimes differ in {', '.join(found.keys)}"
        return [table.title("figures"), *table.text(refused, "warn")]
    rows = [table.title("figures", "same regime, as far as it is known")]
    flagged = suspicions(verdicts)
    for name, read in _FIGURES:
        figures = [_figure(name, read(verdict), verdict, n in flagged) for n, verdict in enumerate(verdicts)]
        rows.append(table.line(f"  {name}", figures))
    checks = _by_name(verdicts)
    for name in dict.fromkeys(name for one in checks for name in one):
        named = [one.get(name) for one in checks]
        if any(check is not None and check.bound95 is not None for check in named):
            rows.append(table.line(f"  {name}, 95 % bound", [_bound(check) for check in named]))
    return rows


def _figure(name: str, value: object, verdict: Verdict, flagged: bool) -> Piece:
    """A value; a speed of a run that failed its quality gate, or that is too good to be true, is withheld."""
    if (flagged or verdict.speed_withheld is not None) and name.startswith(_SPEEDS):
        return WITHHELD, "bad"
    if verdict.forced_lengths and name.startswith(_SPEEDS) and value is not None:
        return f"{number_text(value)} (forced lengths)", "warn"
    return number_text(value), None


def _bound(check: Check | None) -> Piece:
    if check is None or check.bound95 is None:
        return "n/a", "dim"
    n = f"n {check.n_evaluated}" if check.n_planned is None else f"n {check.n_evaluated}/{check.n_planned}"
    return f"{check.bound95:.2%}, {n}", None
