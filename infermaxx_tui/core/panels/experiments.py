"""The list of experiments on the home screen: those that were conducted, and the files that come with the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.glyphs import UNICODE, Glyphs, settle
from infermaxx_tui.core.panels.row import Piece, Role, Row, row
from infermaxx_tui.core.panels.table import Column, chosen, head, line
from infermaxx_tui.core.panels.texts import NONE

ExperimentPhase = Literal["going on", "finished", "broken off", "unreadable"]
"""`broken off`: steps are left and nobody conducts it."""


class ExperimentLine(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment that was conducted."""

    id: str
    when: str
    """Local time, `YYYY-mm-dd HH:MM`."""
    name: str
    state: ExperimentPhase
    done: int = 0
    planned: int = 0
    words: tuple[str, ...] = ()
    """Verdict or outcome of each start that has a row."""
    question: str = ""
    problem: str | None = None
    """Why it cannot be read."""


class FileLine(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment file that can be conducted, from a shell."""

    name: str
    command: str
    """What to type."""
    question: str = ""
    starts: int | None = None
    problem: str | None = None


_COLUMNS: Final = (
    Column("when", "when", 16, 4),
    Column("name", "experiment", 16, 0, grow=14),
    Column("state", "state", 10, 3),
    Column("starts", "starts", 6, 5, right=True),
    Column("came", "what it came to", 22, 1, grow=400),
)
_ROLES: Final[dict[ExperimentPhase, Role]] = {"going on": "accent", "broken off": "warn", "unreadable": "bad"}
_FIRST: Final = ("FAIL", "INCONCLUSIVE")


def rows_experiments(
    found: Sequence[ExperimentLine],
    files: Sequence[FileLine],
    width: int,
    glyphs: Glyphs = UNICODE,
    match: str = "",
) -> tuple[Row, ...]:
    """A head line, the experiments in the order given, then the files with what to type.

    `Row.key` is an experiment's id, or a file's command. `match` keeps lines whose facts hold it (case ignored).
    """
    sizes = chosen(_COLUMNS, width)
    wanted = match.casefold()
    lines = [
        row(line(sizes, _conducted(one, glyphs), glyphs), width, glyphs, key=one.id)
        for one in found
        if any(wanted in text.casefold() for text in (one.id, one.state, one.question, *one.words))
    ]
    if not lines:
        said = f"no experiment matches {settle(match, glyphs)}" if match else "no experiments yet: type one of these"
        lines = [row([(said, "dim")], width, glyphs)]
    lines += [
        _file(one, width, glyphs)
        for one in files
        if any(wanted in text.casefold() for text in (one.command, one.question))
    ]
    return (head(sizes, width, glyphs), *lines)


def _conducted(one: ExperimentLine, glyphs: Glyphs) -> dict[str, Piece]:
    came: Piece = (settle(tally(one.words), glyphs), "bad" if "FAIL" in one.words else None)
    if one.problem is not None:
        came = (f"{glyphs.bad} {settle(one.problem, glyphs)}", "bad")
    return {
        "when": (settle(one.when, glyphs), None),
        "name": (settle(one.name, glyphs), "title"),
        "state": (one.state, _ROLES.get(one.state)),
        "starts": (NONE if not one.planned else f"{one.done}/{one.planned}", None),
        "came": came,
    }


def _file(one: FileLine, width: int, glyphs: Glyphs) -> Row:
    """Over all columns, so that what is to be typed is not cut where there is room for it."""
    pieces: list[Piece] = [("type  ", "dim"), (settle(one.command, glyphs), None)]
    if one.problem is not None:
        pieces.append((f"  {glyphs.bad} {settle(one.problem, glyphs)}", "bad"))
    else:
        starts = "" if one.starts is None else f"{one.starts} starts: "
        pieces.append((f"  {starts}{settle(one.question, glyphs)}", "dim"))
    return row(pieces, width, glyphs, key=one.command)


def tally(words: Sequence[str]) -> str:
    """`1 FAIL, 1 boot failed, 3 PASS`: the gravest first, since a narrow list cuts the end."""
    others = sorted(set(words) - {*_FIRST, "PASS"})
    counts = {word: words.count(word) for word in (*_FIRST, *others, "PASS")}
    return ", ".join(f"{n} {word.replace('_', ' ')}" for word, n in counts.items() if n) or "nothing yet"
