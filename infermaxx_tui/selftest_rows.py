"""What a selftest came to: a row for each run, the sums that matter, and the certificate that they earn."""

from __future__ import annotations

import msgspec

from infermaxx_tui import __version__, certificate
from infermaxx_tui.certificate import Certificate
from infermaxx_tui.core.mutation_table import HARMLESS
from infermaxx_tui.core.mutations import MutationRow

_SUMS = (("FAIL", "sick servers failed"), ("INCONCLUSIVE", "blind runs refused"), ("PASS", "healthy runs passed"))


class SelftestRow(msgspec.Struct, frozen=True):
    """One run, what it must earn, and what it earned."""

    fault: str
    wanted: str
    wanted_check: str | None
    got: str
    failed: tuple[str, ...]
    """Checks that failed."""
    not_evaluable: tuple[str, ...]
    """Required checks that could not say."""
    caught: bool
    """Whether it earned that, by the check that was meant, and no change made to it went unseen."""
    events: int
    mutations: tuple[MutationRow, ...] = ()
    """What became of the changes that were made to its log."""
    busy: bool = False
    """Whether this host had no room to measure its times, so that it proves nothing either way."""
    finds_missed: tuple[str, ...] = ()
    """What its controls had to find and did not."""


def certified(rows: tuple[SelftestRow, ...], took_s: float, *, over_sockets: bool = False) -> Certificate:
    """The certificate that these rows earn."""
    changes = [one for row in rows for one in row.mutations]
    harmless = [one for one in changes if one.mutation in HARMLESS]
    must_flip = [one for one in changes if one.mutation not in HARMLESS]
    planted = [row for row in rows if row.wanted != "PASS" and not row.busy]
    clean = [row for row in rows if row.wanted == "PASS" and not row.busy]
    earned = Certificate(
        version=__version__,
        core_sha256=certificate.core_sha256(),
        at=certificate.now_utc(),
        took_s=round(took_s, 1),
        planted=len(planted),
        caught=sum(as_wanted(row) for row in planted),
        clean=len(clean) + len(harmless),
        false_alarms=sum(not as_wanted(row) for row in clean) + sum(not one.killed for one in harmless),
        mutations=len(must_flip),
        killed=sum(one.killed for one in must_flip),
        survivors=tuple(f"{one.mutation} ({one.base})" for one in must_flip if not one.killed),
    )
    return certificate.over_sockets(earned) if over_sockets else earned


def proved(rows: tuple[SelftestRow, ...]) -> bool:
    """Whether every run that could be measured here came out as it must."""
    return all(row.caught or row.busy for row in rows)


def as_wanted(row: SelftestRow) -> bool:
    """Whether the run itself earned what it must, whatever became of the changes to it."""
    failed = (row.wanted_check,) if row.wanted_check is not None else ()
    return not row.finds_missed and row.got == row.wanted and row.failed == failed


def selftest_json(rows: tuple[SelftestRow, ...]) -> str:
    """A JSON array of the rows."""
    return msgspec.json.encode(rows).decode()


def selftest_lines(rows: tuple[SelftestRow, ...]) -> tuple[str, ...]:
    """The table for people, with the sums that matter: caught of planted, false alarms of clean, mutations killed."""
    lines = [f"{'run':18} {'must earn':26} {'earned':26} {'cannot say':34} {'changes seen':13} ok"]
    for row in rows:
        wanted = f"{row.wanted} {row.wanted_check or ''}".strip()
        got = f"{row.got} {' '.join(row.failed)}".strip()
        blind, caught = " ".join(row.not_evaluable) or "-", "yes" if row.caught else "busy" if row.busy else "NO"
        seen = f"{sum(one.killed for one in row.mutations)} of {len(row.mutations)}" if row.mutations else "-"
        lines.append(f"{row.fault:18} {wanted:26} {got:26} {blind:34} {seen:13} {caught}")
    lines += _mutation_lines([one for row in rows for one in row.mutations])
    for word, title in _SUMS:
        of_kind = [row for row in rows if row.wanted == word and not row.busy]
        lines.append(f"{title}: {sum(map(as_wanted, of_kind))} of {len(of_kind)}")
    lines += [f"not proved here: {row.fault}: this host was too busy to measure its times" for row in rows if row.busy]
    sums = certified(rows, 0.0)
    lines += [
        f"caught: {sums.caught} of {sums.planted} planted",
        f"false alarms: {sums.false_alarms} of {sums.clean} clean",
    ]
    lines.append(f"mutations killed: {sums.killed} of {sums.mutations}")
    lines += [f"survived: {name}" for name in sums.survivors]
    return tuple(lines)


def _mutation_lines(changes: list[MutationRow]) -> list[str]:
    """The mutation table: how many changes each check had to see, and how many it saw."""
    if not changes:
        return []
    lines = [f"{'changes that must show in':26} {'as FAIL':12} {'as INCONCLUSIVE':17}"]
    for check in dict.fromkeys(one.wanted_check for one in changes if one.wanted_check is not None):
        cells = [_killed(changes, check, word) for word in ("FAIL", "INCONCLUSIVE")]
        lines.append(f"{check:26} {cells[0]:12} {cells[1]}")
    repairs = [one for one in changes if one.wanted == "PASS" and one.mutation not in HARMLESS]
    harmless = [one for one in changes if one.mutation in HARMLESS]
    for title, some in (("nothing, the fault removed", repairs), ("nothing, being harmless", harmless)):
        if some:
            lines.append(f"{title:26} {sum(one.killed for one in some)} of {len(some)} as PASS")
    return lines


def _killed(changes: list[MutationRow], check: str, word: str) -> str:
    some = [one for one in changes if one.wanted_check == check and one.wanted == word]
    return f"{sum(one.killed for one in some)} of {len(some)}" if some else "-"
