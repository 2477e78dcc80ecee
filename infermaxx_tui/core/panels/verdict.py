"""The verdict for reading: each check with what it rests on, evidence to jump to, scope, regime, limits, instrument."""

from __future__ import annotations

from typing import Final

import msgspec

from infermaxx_tui.core.calibration import error_text
from infermaxx_tui.core.display import one_line
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, cells, pad, settle
from infermaxx_tui.core.judges.check import AnswerOutcome, Check, Evidence, by_reason, figures_text
from infermaxx_tui.core.panels.row import Piece, Role, Row, row, title, wrapped
from infermaxx_tui.core.panels.texts import number_text, word_piece
from infermaxx_tui.core.predictions import Result, scored_text
from infermaxx_tui.core.state import RunState
from infermaxx_tui.core.verdict import Verdict

_NAME: Final = 28
_WORDS: Final[dict[AnswerOutcome, str]] = {"pass": "pass", "fail": "FAIL", "not_evaluable": "cannot say"}
_RESULTS: Final[dict[Result, Role]] = {
    "HIT": "ok",
    "MISS": "warn",
    "REFUTED": "bad",
    "UNTESTED": "dim",
    "NO MOVEMENT": "warn",
}
_ROLES: Final[dict[AnswerOutcome, Role]] = {"pass": "ok", "fail": "bad", "not_evaluable": "warn"}


def rows_verdict(
    verdict: Verdict, width: int, glyphs: Glyphs = UNICODE, state: RunState | None = None
) -> tuple[Row, ...]:
    """All lines of the verdict screen: the word, checks with their evidence, scope, regime, limits, instrument.

    `Row.key` is the check's name on a check's lines; `Row.ref` and `Row.session` are set on evidence lines, so that
    Enter can jump to the event in time. With the `state` of a run that goes on, the word is marked `so far`.
    """
    rows: list[Row] = [_head(verdict, state, width, glyphs)]
    for check in verdict.checks:
        rows += _check(check, width, glyphs)
    rows += _predictions(verdict, width, glyphs)
    rows += [Row(""), title("scope", width, glyphs), *wrapped(verdict.scope, width, glyphs, "  ")]
    rows += [Row(""), title("regime", width, glyphs), *_regime(verdict, width, glyphs)]
    limits = msgspec.structs.asdict(verdict.limits)
    rows += [Row(""), title("limits", width, glyphs, "what was demanded"), *_values(limits, {}, width, glyphs)]
    rows += [Row(""), title("instrument", width, glyphs, "how well the client could see")]
    return (*rows, *_instrument(verdict, width, glyphs))


def _instrument(verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    seen = verdict.instrument
    missing = {**seen.missing, "calibration": seen.calibration_reason or ""}
    values = msgspec.structs.asdict(seen)
    for key in ("missing", "calibration_reason"):
        del values[key]
    if seen.calibration is not None:
        bars = [error_text(bar) for bar in seen.calibration.bars]
        load = seen.calibration.load_per_core
        busy = "" if load is None or load <= 1.0 else f", on a busy host (load {load:g} a core)"
        values["calibration"] = f"{len(bars)} loads, by infermaxx {seen.calibration.version}{busy}"
        rows = _values(values, missing, width, glyphs)
        return rows + [one for bar in bars for one in wrapped(bar, width, glyphs, "    ", "dim")]
    return _values(values, missing, width, glyphs)


def _predictions(verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    if not verdict.predictions:
        return []
    note = f"hashed before the first request: {(verdict.predictions_sha256 or 'none')[:12]}"
    rows = [Row(""), title("predictions", width, glyphs, note)]
    for one in verdict.predictions:
        given_up = one.retracted is not None or one.origin == "post_hoc"
        text = f"{one.result:<11} {scored_text(one)}"
        rows += wrapped(text, width, glyphs, "  ", "dim" if given_up else _RESULTS[one.result])
    return rows


def _head(verdict: Verdict, state: RunState | None, width: int, glyphs: Glyphs) -> Row:
    pieces: list[Piece] = [word_piece(verdict.verdict, glyphs)]
    marks = (("SIMULATED", verdict.simulated), ("post hoc", verdict.post_hoc))
    pieces += [(f"  {mark}", "warn") for mark, on in marks if on]
    if state is not None and state.ended is None:
        pieces.append(("  so far", "warn"))
    ended = f"ended: {verdict.ended}" if verdict.ended is not None else "the log has no last line"
    names = [verdict.scenario or "unknown scenario", verdict.run or "", ended]
    pieces += [("  " + settle(name, glyphs), "dim") for name in names if name]
    return row(pieces, width, glyphs)


def _check(check: Check, width: int, glyphs: Glyphs) -> list[Row]:
    sign = {"pass": glyphs.ok, "fail": glyphs.bad, "not_evaluable": glyphs.unsure}[check.outcome]
    word = f"{sign} {pad(_WORDS[check.outcome], 10, glyphs)}"
    name, figures = settle(check.name, glyphs), figures_text(check)
    pieces: list[Piece] = [(pad(name, 13, glyphs), "title"), (f" {word} ", _ROLES[check.outcome])]
    if not check.required:
        pieces.append(("not required  ", "dim"))
    fits = sum(cells(text) for text, _ in pieces) + cells(figures) <= width
    rows = [row([*pieces, (figures, None)] if fits else pieces, width, glyphs, key=check.name)]
    if not fits:
        rows += _keyed(check, wrapped(figures, width, glyphs, "    "))
    if check.excluded:
        rows += _keyed(check, wrapped(f"left out: {by_reason(check.excluded)}", width, glyphs, "    ", "dim"))
    if check.advice:
        rows += _keyed(check, wrapped(check.advice, width, glyphs, "    "))
    return rows + [_witness(check, one, width, glyphs) for one in check.evidence]


def _keyed(check: Check, rows: tuple[Row, ...]) -> list[Row]:
    return [msgspec.structs.replace(one, key=check.name) for one in rows]


def _witness(check: Check, one: Evidence, width: int, glyphs: Glyphs) -> Row:
    """One line, so that each witness is one place to stand on."""
    who = "" if one.session is None else f"session {one.session} turn {'?' if one.turn is None else one.turn}  "
    facts = [one.what]
    if one.label:
        facts.append(f'"{one.label}"')
    if one.tag:
        facts.append(f"tag {one.tag}" + ("" if one.owner is None else f" of session {one.owner}"))
    if one.channel:
        facts.append(f"in its {one.channel}")
    if one.planted_depth_tokens is not None:
        facts.append(f"planted at {one.planted_depth_tokens}")
    if one.depth_tokens is not None:
        facts.append(f"asked at {one.depth_tokens}")
    if one.overlapped is not None:
        facts.append("beside others" if one.overlapped else "alone")
    if one.question:
        facts.append(f"asked: {one_line(one.question, 60)}")
    if one.expected:
        facts.append(f"expected: {one.expected}")
    if one.said:
        facts.append(f"said: {one.said}")
    bad = check.outcome == "fail"
    pieces: list[Piece] = [
        (f"    {glyphs.bad if bad else glyphs.event} {one.event[0]}:{one.event[1]}  ", "bad" if bad else "dim"),
        (settle(who, glyphs) + ("  " if who else ""), None),
        (settle(", ".join(facts), glyphs), None),
    ]
    return row(pieces, width, glyphs, ref=one.event, session=one.session, key=check.name)


def _regime(verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    values = msgspec.structs.asdict(verdict.regime)
    missing = values.pop("missing")
    extra = {key: why for key, why in missing.items() if values.get(key) is not None or key not in values}
    rows = _values(values, missing, width, glyphs)
    for key, why in extra.items():
        rows += wrapped(f"{key}: {why}", width, glyphs, "  ", "dim")
    return rows


def _values(values: dict[str, object], missing: dict[str, str], width: int, glyphs: Glyphs) -> list[Row]:
    """A line for each value; what is missing says why."""
    rows: list[Row] = []
    for key, value in values.items():
        name = f"  {pad(settle(key, glyphs), min(_NAME, max(width // 2, 8)), glyphs)} "
        if value is None:
            why = missing.get(key)
            rows.append(
                row([(name, "dim"), ("n/a" + (f": {settle(why, glyphs)}" if why else ""), "dim")], width, glyphs)
            )
        elif isinstance(value, dict):
            said = ", ".join(f"{name} {number_text(n)}" for name, n in value.items()) or "none"
            rows.append(row([(name, "dim"), (settle(said, glyphs), None)], width, glyphs))
        else:
            rows.append(row([(name, "dim"), (settle(number_text(value), glyphs), None)], width, glyphs))
    return rows
