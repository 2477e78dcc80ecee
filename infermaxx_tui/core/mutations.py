"""Runs of which one thing was changed: whoever judges them as before cannot see that thing.

A mutation takes a log whose verdict is known and must bring about the verdict it names, by the check it names. One that
does not survives, and a survivor is a hole in the judges. That holds only if the log earned its own verdict before, so
`mutated` looks at that first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from infermaxx_tui.core.fold import Fold
from infermaxx_tui.core.histories.edits import Edit, Lines
from infermaxx_tui.core.judges import Word, judge_all, overall
from infermaxx_tui.core.judges.control_findings import findings
from infermaxx_tui.core.limits import Limits

Base = Literal[
    "healthy",
    "tasks",
    "demanding",
    "soak",
    "watched",
    "listed",
    "serial",
    "controlled",
    "single",
    "leak",
    "forgets",
    "cut",
    "lost",
    "babbles",
    "capped",
]
"""What a mutation starts from: core.histories.bases."""

EARNED: dict[Base, Word] = {
    "healthy": "PASS",
    "tasks": "PASS",
    "demanding": "PASS",
    "soak": "PASS",
    "watched": "PASS",
    "listed": "PASS",
    "serial": "PASS",
    "controlled": "PASS",
    "single": "PASS",
    "leak": "FAIL",
    "forgets": "FAIL",
    "cut": "FAIL",
    "lost": "FAIL",
    "babbles": "FAIL",
    "capped": "INCONCLUSIVE",
}
"""The verdict of each before anything is changed."""


class Mutation(msgspec.Struct, frozen=True):
    """One change, and what it must bring about."""

    base: Base
    wanted: Word
    check: str | None
    """Must fail where FAIL is wanted, and cannot say although it is required where INCONCLUSIVE is."""
    edit: Edit


class Judged(msgspec.Struct, frozen=True):
    """A verdict, and the checks that made it."""

    word: Word
    failed: tuple[str, ...]
    blind: tuple[str, ...]
    """Required checks that cannot say."""


class MutationRow(msgspec.Struct, frozen=True):
    """What became of one mutation."""

    mutation: str
    base: str
    wanted: str
    wanted_check: str | None
    got: str
    failed: tuple[str, ...]
    not_evaluable: tuple[str, ...]
    killed: bool
    """Whether the judges saw it."""


def judged(lines: Lines) -> Judged:
    """The verdict that these lines earn, by their own limits."""
    fold = Fold()
    for line in lines:
        fold.add(line)
    state = fold.snapshot()
    checks = judge_all(state, state.meta.limits if state.meta is not None else Limits())
    return Judged(
        overall(checks),
        tuple(check.name for check in checks if check.outcome == "fail"),
        tuple(check.name for check in checks if check.required and check.outcome == "not_evaluable"),
    )


def control_outcomes(lines: Lines) -> frozenset[str]:
    """What the controls of a run found, as `cache differs`."""
    fold = Fold()
    for line in lines:
        fold.add(line)
    return frozenset(f"{one.control} {one.outcome}" for one in findings(fold.snapshot()))


def is_killed(mutation: Mutation, got: Judged) -> bool:
    """Whether the verdict is the one wanted, by the check that was meant."""
    if got.word != mutation.wanted:
        return False
    match mutation.wanted:
        case "FAIL":
            return mutation.check in got.failed
        case "INCONCLUSIVE":
            return mutation.check in got.blind
        case "PASS":
            return True


def mutated(mutations: Mapping[str, Mutation], base: Base, lines: Lines) -> Iterable[MutationRow]:
    """A row for each mutation of this base. Nothing is killed if the base itself does not earn what it must."""
    chosen = {name: mutation for name, mutation in mutations.items() if mutation.base == base}
    sound = bool(chosen) and judged(lines).word == EARNED[base]
    for name, mutation in chosen.items():
        got = judged(mutation.edit(lines))
        yield MutationRow(
            name,
            base,
            mutation.wanted,
            mutation.check,
            got.word,
            got.failed,
            got.blind,
            sound and is_killed(mutation, got),
        )
