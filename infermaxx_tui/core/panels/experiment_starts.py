"""The starts of an experiment as lines: what each came to, which one is going on, and which run belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from infermaxx_tui.core.experiment.lines import word_text
from infermaxx_tui.core.experiment.rows import AnyRow, ArmRow, Began, arm_rows, pending, registered
from infermaxx_tui.core.glyphs import UNICODE, Glyphs, settle
from infermaxx_tui.core.panels.row import Piece, Role, Row, row
from infermaxx_tui.core.panels.table import Column, chosen, head, line
from infermaxx_tui.core.panels.texts import NONE

StartState = Literal["judged", "not judged", "going on", "broken off", "to come"]


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one arm, by its place in the order that was fixed before the first one."""

    place: int
    arm: str
    boot: int
    state: StartState
    word: str = ""
    """Its verdict with the checks against it, or the outcome of a start without one."""
    failed: bool = False
    run: str | None = None
    reason: str | None = None
    server_log: str | None = None
    boot_s: float | None = None


def starts_of(rows: Sequence[AnyRow], going: bool) -> tuple[Start, ...]:
    """All starts that were planned; `going`: whether somebody conducts the experiment now."""
    first = registered(rows)
    done = {(one.arm, one.boot): one for one in arm_rows(rows)}
    order = () if first is None else first.order
    return tuple(
        _judged(place, one) if (one := done.get((arm, boot))) is not None else _open(place, arm, boot, rows, going)
        for place, (arm, boot) in enumerate(order)
    )


def _judged(place: int, one: ArmRow) -> Start:
    return Start(
        place=place,
        arm=one.arm,
        boot=one.boot,
        state="judged" if one.outcome == "judged" else "not judged",
        word=word_text(one).replace("_", " "),
        failed=one.verdict != "PASS",
        run=one.run,
        reason=one.reason,
        server_log=one.server_log,
        boot_s=one.boot_s,
    )


def _open(place: int, arm: str, boot: int, rows: Sequence[AnyRow], going: bool) -> Start:
    began: Began | None = pending(rows, arm, boot)
    if began is None:
        return Start(place=place, arm=arm, boot=boot, state="to come")
    word = "broken off" if not going else "running" if began.run is not None else "starting its server"
    return Start(place=place, arm=arm, boot=boot, state="going on" if going else "broken off", word=word, run=began.run)


def live(starts: Sequence[Start]) -> Start | None:
    """The start that is going on; None if none is."""
    return next((one for one in starts if one.state == "going on"), None)


_COLUMNS: Final = (
    Column("place", "step", 4, 5, right=True),
    Column("arm", "arm", 12, 0),
    Column("boot", "start", 5, 4, right=True),
    Column("word", "verdict", 14, 1, grow=10),
    Column("run", "run, or why there is none", 20, 2, grow=400),
)
_ROLES: Final[dict[StartState, Role]] = {
    "not judged": "warn",
    "going on": "accent",
    "broken off": "warn",
    "to come": "dim",
}


def rows_starts(starts: Sequence[Start], width: int, glyphs: Glyphs = UNICODE) -> tuple[Row, ...]:
    """A head line and a line for each start; `Row.key` is its place in the order, as a number."""
    sizes = chosen(_COLUMNS, width)
    lines = [row(line(sizes, _cells(one, glyphs), glyphs), width, glyphs, key=f"{one.place}") for one in starts]
    return (head(sizes, width, glyphs), *lines)


def _cells(one: Start, glyphs: Glyphs) -> dict[str, Piece]:
    word = settle(one.word or one.state, glyphs)
    role = _ROLES.get(one.state)
    if one.state == "judged":
        sign, role = _judgement(one, glyphs)
        word = f"{sign} {word}"
    said = [text for text in (one.run, one.reason) if text]
    return {
        "place": (f"{one.place + 1}", "dim"),
        "arm": (settle(one.arm, glyphs), "title"),
        "boot": (f"{one.boot + 1}", None),
        "word": (word, role),
        "run": (settle("; ".join(said) or NONE, glyphs), "dim"),
    }


def _judgement(one: Start, glyphs: Glyphs) -> tuple[str, Role]:
    if not one.failed:
        return glyphs.ok, "ok"
    return (glyphs.bad, "bad") if one.word.startswith("FAIL") else (glyphs.unsure, "warn")
