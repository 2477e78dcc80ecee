"""The rows of an experiment's results: JSON, one a line, each whole by itself and none ever changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

import msgspec

from infermaxx_tui.core.experiment.file import Claim, Matrix
from infermaxx_tui.core.experiment.forecast import Forecast
from infermaxx_tui.core.experiment.levers import Settings
from infermaxx_tui.core.measures import Measure
from infermaxx_tui.core.model_facts import ModelFacts
from infermaxx_tui.core.reached import RegimeReached
from infermaxx_tui.core.startup_log import StartupFacts
from infermaxx_tui.core.verdict import QualityPhase

SCHEMA = 1
Outcome = Literal["judged", "boot_failed", "refused", "died", "gated", "interrupted"]
"""`judged`: the run has a verdict, whatever it is. `boot_failed`: the server did not come up. `refused`: the run was
not begun. `died`: the runner is gone without a last line. `gated`: a condition of the arm did not hold, so it was not
measured, and the step is done again when the experiment goes on. `interrupted`: somebody asked to stop."""


class Row(msgspec.Struct, frozen=True, kw_only=True, tag_field="row"):
    """A line of rows.jsonl."""

    schema: int = SCHEMA
    at_ms: int
    """Wall time at which it was written."""


class Registered(Row, frozen=True, kw_only=True, tag="registered"):
    """The first line: what was wanted and claimed before the first start."""

    experiment: str
    program: str
    question: str
    file: str
    """The whole text of the experiment file."""
    file_sha256: str
    """Of the file, of what was set over it, and of the scenario."""
    scenario_sha256: str = ""
    """Of the text of the scenario that every arm plays; empty in rows that were written without it."""
    arms: tuple[Settings, ...]
    order: tuple[tuple[str, int], ...]
    """Arm and boot of each step."""
    margin: float
    matrix: Matrix | None = None
    peaks_tokens: tuple[int, ...] = ()
    """Of real sessions, largest request each: what a pool is held against."""
    peaks_names: tuple[str, ...] = ()
    """Whose they are, in the same order; empty in rows that were written without them."""
    peaks_by: str = ""
    """By which tokenizer they were counted."""
    claims: tuple[Claim, ...] = ()
    claims_sha256: str = ""


class Began(Row, frozen=True, kw_only=True, tag="began"):
    """A step was begun: by this an experiment that died finds the runner that outlived it."""

    experiment: str
    arm: str
    boot: int
    pid: int
    run: str | None = None
    """The run folder's name, once there is one."""


class ArmRow(Row, frozen=True, kw_only=True, tag="arm"):
    """One start of one arm: what it was, and what came of it."""

    experiment: str
    arm: str
    boot: int
    place: int
    """Which step of the order it was."""
    began_ms: int
    outcome: Outcome
    reason: str | None = None
    """Why there is no verdict, or what is to be known about it."""
    settings: Settings
    run: str | None = None
    """The run folder's name; None if none began."""
    server_log: str | None = None
    """The name of the log of a start that failed, beside rows.jsonl."""
    verdict: str | None = None
    checks: dict[str, str] = {}
    """Outcome of each check by name."""
    unjudged: tuple[str, ...] = ()
    """Required checks that could not say."""
    simulated: bool = False
    regime: RegimeReached | None = None
    startup: StartupFacts | None = None
    measures: tuple[Measure, ...] = ()
    quality: tuple[QualityPhase, ...] = ()
    answers: dict[str, str] = {}
    """Marks and answers of the tasks with one right answer, by phase and task."""
    texts: dict[str, tuple[str, ...]] = {}
    """Hashes of whole replies to prompts that were sent alone and more than once, by prompt."""
    texts_cut: tuple[str, ...] = ()
    """Those of these prompts of which a reply was cut at its budget."""
    texts_blind: str | None = None
    """Why its texts are held against nobody's, e.g. that requests of others ran beside them; None if they may be."""
    speed_withheld: str | None = None
    facts: ModelFacts | None = None
    """Of the checkpoint, if it lies on this machine."""
    forecast: Forecast | None = None
    """What the arm should come to, reckoned before its start from the checkpoint and the command."""
    bandwidth_bytes_per_s: float | None = None
    """Of the memory of the server's card, all of its cards together; None where that is not known."""
    mean_length: float | None = None
    """Tokens that a step brought on the average with speculation; None without it."""
    boot_s: float | None = None
    """Seconds from the start of the runner to the first line of its run: what was asked of the server's parser, the
    server's start, and what the run looked at first. None where none began."""

    @property
    def hidden(self) -> str | None:
        """Why no speed of it is to be shown, also where it was judged by a program that still showed one."""
        babbles = self.checks.get("degeneration") == "fail"
        return self.speed_withheld or ("degeneration fails it" if babbles else None)


class Closed(Row, frozen=True, kw_only=True, tag="closed"):
    """All steps have a row, or somebody asked to stop."""

    experiment: str
    done: int
    planned: int
    reason: str | None = None


AnyRow = Registered | Began | ArmRow | Closed


def encode_row(row: AnyRow) -> bytes:
    """The line, with its newline."""
    return msgspec.json.encode(row) + b"\n"


def decode_rows(lines: Iterable[bytes]) -> tuple[AnyRow, ...]:
    """Rows of whole lines. A torn last line is left out; any other that cannot be read raises msgspec.DecodeError."""
    kept = [line for line in lines if line.endswith(b"\n")]
    return tuple(msgspec.json.decode(line, type=AnyRow) for line in kept)


def text_sha256(text: str) -> str:
    """Of a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def registered(rows: Iterable[AnyRow]) -> Registered | None:
    """The first line, if it is there."""
    return next((row for row in rows if isinstance(row, Registered)), None)


def arm_rows(rows: Iterable[AnyRow]) -> tuple[ArmRow, ...]:
    """The newest row of each start, in the order in which they were first written.

    A start that was interrupted and done again has two rows, and the later one counts.
    """
    newest: dict[tuple[str, int], ArmRow] = {}
    for row in rows:
        if isinstance(row, ArmRow):
            newest[(row.arm, row.boot)] = row
    return tuple(newest.values())


def pending(rows: Iterable[AnyRow], arm: str, boot: int) -> Began | None:
    """The last word of a step that was begun and has no row of its own since then; None if there is none."""
    last: Began | None = None
    for row in rows:
        match row:
            case Began() if (row.arm, row.boot) == (arm, boot):
                last = row
            case ArmRow() if (row.arm, row.boot) == (arm, boot):
                last = None
            case _:
                pass
    return last
