"""A verdict in lines for people: the word first, then what each check saw, then what the run shows and does not."""

from __future__ import annotations

import textwrap

from infermaxx_tui.core.arms import TITLE, separated
from infermaxx_tui.core.display import harmless, one_line
from infermaxx_tui.core.gpu_verdict import sensor_lines
from infermaxx_tui.core.judges.check import Check, Evidence, figures_text
from infermaxx_tui.core.predictions import scored_text
from infermaxx_tui.core.verdict import Verdict

MIN_WIDTH = 40
WITNESSES = 3
"""Pieces of evidence that are printed for a check that failed."""
_MARK = {"pass": "pass", "fail": "FAIL", "not_evaluable": "cannot say"}


def verdict_lines(verdict: Verdict, width: int = 100) -> tuple[str, ...]:
    """Lines of at most `width` characters (40 at the least) without any character that could steer a terminal."""
    width = max(width, MIN_WIDTH)
    marks = [mark for mark, on in (("simulated", verdict.simulated), ("post hoc", verdict.post_hoc)) if on]
    head = verdict.verdict + (f" ({', '.join(marks)})" if marks else "")
    names = (one_line(name, width) for name in (verdict.scenario or "unknown scenario", verdict.run or "") if name)
    lines = ["  ".join([head, *names])[:width].rstrip()]
    for check in verdict.checks:
        lines += _check_lines(check, width)
    for said in sensor_lines(verdict.sensors):
        lines += _wrapped(said, width, "")
    lines += _predictions(verdict, width)
    lines += _arms(verdict, width)
    lines += _wrapped(verdict.scope, width, "")
    return tuple(lines)


def _predictions(verdict: Verdict, width: int) -> list[str]:
    if not verdict.predictions:
        return []
    lines = [f"predictions, hashed before the first request: {(verdict.predictions_sha256 or 'none')[:12]}"]
    for one in verdict.predictions:
        lines += _wrapped(f"{one.result:<11} {scored_text(one)}", width, "  ")
    return lines


def _arms(verdict: Verdict, width: int) -> list[str]:
    said = separated(verdict)
    return [TITLE[:width], *(line for one in said for line in _wrapped(one, width, "  "))] if said else []


def _check_lines(check: Check, width: int) -> list[str]:
    outcome = _MARK[check.outcome] + ("" if check.required else ", not required")
    lines = [f"{check.name:<13} {outcome:<10} {figures_text(check, '95 % bound')}"[:width].rstrip()]
    if check.advice:
        lines += _wrapped(check.advice, width, "  ")
    if check.outcome == "fail":
        lines += [f"  {one_line(_witness(one), width - 2)}" for one in check.evidence[:WITNESSES]]
    return lines


def _witness(one: Evidence) -> str:
    place = f"event {one.event[0]}:{one.event[1]}"
    who = "" if one.session is None else f" session {one.session} turn {'?' if one.turn is None else one.turn}"
    about = f" ({one.label})" if one.label else f" ({one.tag})" if one.tag else ""
    expected = f", expected: {one.expected}" if one.expected else ""
    return f"{place}{who}: {one.what}{about}{expected}" + (f", said: {one.said}" if one.said else "")


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(harmless(text), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
