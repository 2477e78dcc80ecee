"""The lists of the home screen: runs and scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast, get_args

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, settle
from infermaxx_tui.core.judges import Word
from infermaxx_tui.core.panels.row import Piece, Role, Row, row
from infermaxx_tui.core.panels.table import Column, chosen, head, line
from infermaxx_tui.core.panels.texts import NONE, word_piece
from infermaxx_tui.core.rows import tokens_text


class RunLine(msgspec.Struct, frozen=True):
    """One run of the list; runlist.RunRow has the same facts."""

    run: str
    when: str
    scenario: str
    state: str
    verdict: str | None
    read: bool


class ScenarioLine(msgspec.Struct, frozen=True):
    """One scenario of the list."""

    name: str
    proves: str
    """The file's first comment lines."""
    sessions: int | None
    at_once: int | None
    target_depth: int | None
    recalls: int | None
    duration: str | None
    problem: str | None = None
    """Why it cannot be read."""


_RUNS: Final = (
    Column("mark", "", 1, 0),
    Column("when", "when", 16, 2, grow=3),
    Column("scenario", "scenario", 14, 0, grow=12),
    Column("state", "state", 9, 3),
    Column("verdict", "verdict", 14, 1),
    Column("run", "run", 34, 4, grow=40),
)
_SCENARIOS: Final = (
    Column("name", "scenario", 16, 0),
    Column("sessions", "sessions", 11, 2, right=True),
    Column("depth", "tokens", 6, 3, right=True),
    Column("recalls", "recalls", 7, 4, right=True),
    Column("time", "time", 6, 5, right=True),
    Column("proves", "what it proves", 20, 1, grow=400),
)
_MINUTES: Final = 16
"""Characters of a time without its seconds."""
_SECONDS_FROM: Final = 70
_STATES: Final[dict[str, Role]] = {"running": "accent", "starting": "accent", "died": "bad", "no rights": "warn"}


def rows_runs(runs: Sequence[RunLine], width: int, glyphs: Glyphs = UNICODE, match: str = "") -> tuple[Row, ...]:
    """A head line, then a line for each run, in the order given; unread verdicts are marked.

    `Row.key` is the run's id. `match` keeps lines whose facts contain it (case ignored).
    """
    sizes = chosen(_RUNS, width)
    lines = tuple(
        _run(one, sizes, width, glyphs) for one in runs if _has(match, one.run, one.scenario, one.state, one.verdict)
    )
    if not lines:
        said = f"no run matches {settle(match, glyphs)}" if match else "no runs yet: start one from the scenarios"
        lines = (row([(said, "dim")], width, glyphs),)
    return (head(sizes, width, glyphs), *lines)


def _has(match: str, *texts: str | None) -> bool:
    wanted = match.casefold()
    return any(wanted in text.casefold() for text in texts if text is not None)


def _run(one: RunLine, sizes: Sequence[tuple[Column, int]], width: int, glyphs: Glyphs) -> Row:
    unread = one.verdict is not None and not one.read
    known = one.verdict in get_args(Word)
    verdict: Piece = (settle(one.verdict or NONE, glyphs), "dim")
    if known:
        verdict = word_piece(cast("Word", one.verdict), glyphs)
    cell: dict[str, Piece] = {
        "mark": (glyphs.unread if unread else "", "accent"),
        "when": (settle(one.when, glyphs)[: _MINUTES if width < _SECONDS_FROM else None], None),
        "scenario": (settle(one.scenario, glyphs), "title" if unread else None),
        "state": (settle(one.state, glyphs), _STATES.get(one.state)),
        "verdict": verdict,
        "run": (settle(one.run, glyphs), "dim"),
    }
    return row(line(sizes, cell, glyphs), width, glyphs, key=one.run)


def rows_scenarios(
    scenarios: Sequence[ScenarioLine], width: int, glyphs: Glyphs = UNICODE, match: str = ""
) -> tuple[Row, ...]:
    """A head line, then a line for each scenario: what it proves, sessions, tokens, time. `Row.key` is its name."""
    sizes = chosen(_SCENARIOS, width)
    lines = tuple(_scenario(one, sizes, width, glyphs) for one in scenarios if _has(match, one.name, one.proves))
    if not lines:
        said = f"no scenario matches {settle(match, glyphs)}" if match else "no scenarios were found"
        lines = (row([(said, "dim")], width, glyphs),)
    return (head(sizes, width, glyphs), *lines)


def _scenario(one: ScenarioLine, sizes: Sequence[tuple[Column, int]], width: int, glyphs: Glyphs) -> Row:
    at_once = one.at_once if one.at_once is not None else one.sessions
    sessions = (
        NONE
        if one.sessions is None
        else f"{one.sessions}"
        if one.sessions == at_once
        else f"{one.sessions}, {at_once} up"
    )
    cell: dict[str, Piece] = {
        "name": (settle(one.name, glyphs), "title"),
        "sessions": (sessions, None),
        "depth": (NONE if one.target_depth is None else tokens_text(one.target_depth), None),
        "recalls": (NONE if one.recalls is None else f"{one.recalls}", None),
        "time": (settle(one.duration or NONE, glyphs), None),
        "proves": (settle(one.problem or one.proves, glyphs), "bad" if one.problem else "dim"),
    }
    if one.problem:
        cell["proves"] = (f"{glyphs.bad} {cell['proves'][0]}", "bad")
    return row(line(sizes, cell, glyphs), width, glyphs, key=one.name)
