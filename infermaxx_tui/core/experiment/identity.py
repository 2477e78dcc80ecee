"""Is what an arm says the same text as what its control says? Only asked where the control says the same as itself.

Whole texts are compared, by their hash, of prompts that were sent alone at temperature 0. Under batching nobody may ask
that: the sums are taken in another order there (gpu-and-verdicts §2.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from infermaxx_tui.core.experiment.rows import ArmRow
from infermaxx_tui.core.server_seen import ServerSeen

REPRODUCED: Final = "identity.reproduced"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts by what became of them."""

    asked: int
    """Planned, or answered by anybody."""
    prompts: int
    """Answered at least twice by both."""
    control_same: int
    """Of which the control gave one text alone, in all of its starts and repetitions: off against off."""
    arm_same: int
    """Of which the arm gave one text alone."""
    same: int
    """Of which both gave one text alone, and the same one."""
    different: int
    """Of which both gave one text alone, and not the same one."""
    cut: int
    """Of which a reply was cut at its budget: what would have come after that is compared by nobody."""
    starts: tuple[int, int]
    """That answered any, control and arm."""
    blind: int = 0
    """Starts that are left out, of both."""
    reason: str | None = None
    """Why nothing can be said; None if something can."""


def blind_texts(server: ServerSeen, own: bool) -> str | None:
    """Why the texts of a run are held against nobody's: requests of others ran beside them, or may have.

    `own`: the server was started for the run, so that nobody else knows of it. None if they may be compared.
    """
    if server.foreign is not None:
        return f"others used the server: {server.foreign}"
    if not own and not server.readings:
        return "nobody knows whether others used the server: its counters were not read"
    return None


def identity(control: Sequence[ArmRow], arm: Sequence[ArmRow]) -> Identity | None:
    """None where no prompts were asked for this, or one of the two has no start.

    A start beside whose prompts others may have been served is left out: nothing was alone there.
    """
    planned = max((_planned(row) for row in (*control, *arm)), default=0)
    asked = max(planned, len({key for row in (*control, *arm) for key in row.texts}))
    if not asked or not control or not arm:
        return None
    reasons = {(row.arm, row.boot): row.texts_blind for row in (*control, *arm) if row.texts_blind is not None}
    control, arm = _seeing(control), _seeing(arm)
    left, right = _texts(control), _texts(arm)
    both = sorted(left.keys() & right.keys())
    stable = [key for key in both if len(left[key]) == 1]
    pairs = [(left[key], right[key]) for key in stable if len(right[key]) == 1]
    same = sum(a == b for a, b in pairs)
    return Identity(
        asked=asked,
        prompts=len(both),
        control_same=len(stable),
        arm_same=sum(len(right[key]) == 1 for key in both),
        same=same,
        different=len(pairs) - same,
        cut=len({key for row in (*control, *arm) for key in row.texts_cut} & set(both)),
        starts=(_starts(control), _starts(arm)),
        blind=len(reasons),
        reason=_why_not(len(both), len(stable), next(iter(reasons.values()), None)),
    )


def _seeing(rows: Sequence[ArmRow]) -> list[ArmRow]:
    return [row for row in rows if row.texts_blind is None]


def _why_not(both: int, stable: int, blind: str | None) -> str | None:
    if not both:
        return blind or "no prompt was answered whole at least twice by both"
    return None if stable else "the control does not repeat itself: nothing can be held against it"


def _planned(row: ArmRow) -> int:
    return sum(one.planned for one in row.measures if one.name == REPRODUCED)


def _starts(rows: Sequence[ArmRow]) -> int:
    return sum(bool(row.texts) for row in rows)


def _texts(rows: Sequence[ArmRow]) -> dict[str, set[str]]:
    """Different texts by prompt, of prompts that were answered at least twice."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for key, some in row.texts.items():
            found.setdefault(key, []).extend(some)
    return {key: set(some) for key, some in found.items() if len(some) > 1}


def identity_text(one: Identity, alone: bool) -> str:
    """In one line; `alone`: it is a control, which has itself alone beside it."""
    if not one.prompts:
        return f"whole texts of {one.asked} prompts: not compared: {one.reason}"
    said = f"off against off: {one.control_same} of {one.prompts} prompts give one text"
    how = f"whole texts, by hash; {_starts_text(one.starts[0])}" + ("" if alone else f" against {one.starts[1]}")
    if one.cut:
        how += f"; {one.cut} cut at their budget, the same only so far"
    if one.asked > one.prompts:
        how += f"; {one.asked - one.prompts} of {one.asked} not answered whole twice by both"
    if one.blind:
        how += f"; {one.blind} {'starts' if one.blind > 1 else 'start'} left out, where others may have run beside"
    if alone:
        return f"{said} in all repetitions ({how})"
    if one.reason is not None:
        return f"{said}; {one.reason} ({how})"
    return (
        f"{said}; this arm repeats itself in {one.arm_same} of {one.prompts}; against the control"
        f" {one.same} are the same text and {one.different} another ({how})"
    )


def _starts_text(starts: int) -> str:
    return f"{starts} starts" if starts > 1 else "one start, so what another start changes is not known"
