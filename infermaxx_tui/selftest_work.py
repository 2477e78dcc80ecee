"""What a selftest does with a log, however it came about: judge it, change it, and judge it again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from typing import Final

import msgspec

from infermaxx_tui import certificate
from infermaxx_tui.certificate import Certificate
from infermaxx_tui.core.histories.bases import BASES, strict
from infermaxx_tui.core.histories.edits import Lines
from infermaxx_tui.core.judges import Word
from infermaxx_tui.core.mutation_table import HARMLESS, MUTATIONS
from infermaxx_tui.core.mutations import Base, Mutation, control_outcomes, judged, mutated
from infermaxx_tui.core.pass_rules import PASS_RULES
from infermaxx_tui.selftest_rows import SelftestRow, as_wanted

MADE_UP: Final = "made-up "
"""Begins the names of runs that were never played, only written down."""


def _not_alone() -> None:
    """Makes a worker end at once by Ctrl-C, and when the process that wants its work has ended however it did."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def worker_pool(size: int, context: BaseContext | None = None) -> Iterator[ProcessPoolExecutor]:
    """Processes that play and judge. When the block is left by an exception, Ctrl-C above all, they end at once."""
    # what starts a process must not meet Ctrl-C, whose exception the hooks of a fork swallow
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        pool = ProcessPoolExecutor(size, context, _not_alone)
        pool.submit(abs, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with pool:
        try:
            yield pool
        except BaseException:
            # nothing is cancelled: an executor whose workers died trips over futures that are
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def missed(row: SelftestRow) -> str:
    """What people read of a row that is not as it must be."""
    unseen = " ".join(f"[{one.mutation}]" for one in row.mutations if not one.killed)
    unfound = f" controls did not find: {', '.join(row.finds_missed)}" if row.finds_missed else ""
    return f"{row.fault}: wanted {row.wanted}, got {row.got} {unseen}".rstrip() + unfound


def certify(earned: Certificate, narrate: Callable[[str], None]) -> None:
    """Keeps a certificate, and says where."""
    try:
        narrate(f"certificate: {certificate.keep(earned)}")
    except OSError as error:
        narrate(f"no certificate was written: {error.strerror or error}")


def made_up(name: str) -> bool:
    """Whether a row's run was never played, only written down."""
    return name.startswith(MADE_UP)


class Run(msgspec.Struct, frozen=True):
    """A log, and what it must earn."""

    wanted: Word
    check: str | None
    lines: Lines
    finds: tuple[str, ...] = ()
    """What its controls must find."""
    timed: bool = True
    """Whether its times are those of a clock of its own, so that limits on them can be demanded of it."""


def row_of(name: str, run: Run) -> SelftestRow:
    """What a log came to, and the changes to it that its kind of run can take."""
    got = judged(run.lines)
    base, lines = _changeable(name, run)
    changes = tuple(mutated(_changes(name, run), base, lines)) if base is not None else ()
    row = SelftestRow(name, run.wanted, run.check, got.word, got.failed, got.blind, True, len(run.lines), changes)
    missed = tuple(one for one in run.finds if one not in control_outcomes(run.lines))
    row = msgspec.structs.replace(row, finds_missed=missed)
    caught = as_wanted(row) and all(one.killed for one in changes)
    return msgspec.structs.replace(row, caught=caught)


def _changes(name: str, run: Run) -> dict[str, Mutation]:
    """A recorded run has its own gates and limits, so conditions that rest on those are tried on made-up ones only."""
    changes = {**MUTATIONS, **HARMLESS, **(PASS_RULES if made_up(name) else {})}
    return {key: one for key, one in changes.items() if run.timed or one.check not in ("timing", "drift")}


def base_of(name: str) -> Base:
    """The made-up run of a name."""
    return next(base for base in BASES if f"{MADE_UP}{base}" == name)


def _changeable(name: str, run: Run) -> tuple[Base | None, Lines]:
    """Which mutations a log can take, and the log under limits so strict that one event is enough."""
    on_time: dict[str, object] = {} if run.timed else _NO_TIMES
    match name:
        case "clean":
            return "healthy", strict(run.lines, **on_time)
        case "quality":
            return "tasks", strict(run.lines, min_recalls=15, max_quality_excluded=0.0, **on_time)
        case "slow-start" if run.timed:
            return "soak", run.lines
        case _ if made_up(name):
            return base_of(name), run.lines
        case _:
            return None, run.lines


_NO_TIMES: Final[dict[str, object]] = {"max_ttft_p99_ms": None, "max_gap_p99_ms": None, "min_overlap": 0.5}
"""What may not be demanded where real clocks run on a machine with other things to do."""
